//! ThreadProtocol: converting a history of 10 000 mixed messages, and parsing, validating and writing its thread.
//!
//! Throughput is in bytes of the history for conversions and of the document for the rest.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic and print")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::de::IgnoredAny;
use turntree::core::json::canonical::CanonicalForm;
use turntree::core::limits::Limits;
use turntree::thread_protocol::Thread;
use turntree::thread_protocol::convert::pydantic_ai::{
    ImportOptions, ViewOptions, from_pydantic_ai_json, read_history,
};

const WORDS: &str =
    "The forecast for Tokyo says \\\"rain\\\" until noon, then clouds over Shinjuku – 18 °C.\\n";

fn response_tail(out: &mut String, index: usize, reason: &str) {
    let _ = write!(
        out,
        r#"],"usage":{{"input_tokens":{},"cache_write_tokens":0,"cache_write_1h_tokens":0,"cache_read_tokens":0,"output_tokens":{},"output_reasoning_tokens":0,"input_audio_tokens":0,"cache_audio_read_tokens":0,"output_audio_tokens":0,"audio_seconds":0.0,"details":{{}},"cost":"0.0012300"}},"model_name":"claude-sonnet-4-5","model_id":"anthropic:claude-sonnet-4-5","timestamp":"2026-11-21T00:58:43.{:06}Z","kind":"response","provider_name":"anthropic","provider_url":"https://api.anthropic.com","canonical_system":null,"provider_details":{{"finish_reason":"{reason}"}},"provider_response_id":"msg_{index:024}","finish_reason":"{reason}","run_id":"01a1fb9c-db0f-7144-b6da-{index:012}","conversation_id":"01a1fb9c-db0f-7144-b6da-7516afe48c6b","metadata":null,"workspace_ref":null,"history_digest":null,"failed_attempts":null,"state":"complete"}}"#,
        index * 3 + 100,
        index + 50,
        index
    );
}

fn request_tail(out: &mut String, index: usize) {
    let _ = write!(
        out,
        r#"],"timestamp":"2026-11-21T00:58:43.{index:06}Z","instructions":"Answer in one sentence.","kind":"request","run_id":"01a1fb9c-db0f-7144-b6da-{index:012}","conversation_id":"01a1fb9c-db0f-7144-b6da-7516afe48c6b","metadata":null,"state":"complete"}}"#
    );
}

/// A history in the layout of Pydantic AI 2.68: prompt, thinking with text and two calls, two returns, text.
fn history(messages: usize) -> String {
    let mut out = String::from("[");
    let text = WORDS.repeat(10);
    for index in 0..messages / 4 {
        if index > 0 {
            out.push(',');
        }
        let _ = write!(
            out,
            r#"{{"parts":[{{"content":"{text}","timestamp":"2026-11-21T00:58:42.{index:06}Z","part_kind":"user-prompt"}}"#
        );
        request_tail(&mut out, index);
        let _ = write!(
            out,
            r#",{{"parts":[{{"content":"{text}","id":null,"signature":"{}","provider_name":"anthropic","provider_details":null,"part_kind":"thinking"}},{{"content":"{text}","id":null,"provider_name":null,"provider_details":null,"citations":null,"part_kind":"text"}}"#,
            "EqQBCgIYAhIM".repeat(12)
        );
        for call in 0..2 {
            let _ = write!(
                out,
                r#",{{"tool_name":"get_weather","args":{{"city":"Tokyo","days":{call},"units":"celsius"}},"tool_call_id":"toolu_{index}_{call}","tool_kind":null,"id":null,"provider_name":null,"provider_details":null,"part_kind":"tool-call"}}"#
            );
        }
        response_tail(&mut out, index, "tool_call");
        out.push_str(r#",{"parts":["#);
        for call in 0..2 {
            let _ = write!(
                out,
                r#"{}{{"tool_name":"get_weather","content":{{"days":[{}],"source":"station {index}"}},"tool_call_id":"toolu_{index}_{call}","tool_kind":null,"metadata":null,"timestamp":"2026-11-21T00:58:44.{index:06}Z","outcome":"success","retry":null,"part_kind":"tool-return","content_file_digests":[]}}"#,
                if call == 0 { "" } else { "," },
                [r#"{"day":"2026-11-22","temperature":18.5,"conditions":"partly cloudy","humidity":65}"#; 12]
                    .join(",")
            );
        }
        request_tail(&mut out, index);
        let _ = write!(
            out,
            r#",{{"parts":[{{"content":"{text}","id":null,"provider_name":null,"provider_details":null,"citations":null,"part_kind":"text"}}"#
        );
        response_tail(&mut out, index, "stop");
    }
    out.push(']');
    out
}

fn bytes(text: &[u8]) -> Throughput {
    Throughput::Bytes(u64::try_from(text.len()).unwrap_or_default())
}

fn conversions(criterion: &mut Criterion) {
    let history = history(10_000);
    let options = ImportOptions::default();
    let thread = from_pydantic_ai_json(history.as_bytes(), &options).unwrap();
    let document = thread.to_json();
    println!("history {} bytes, document {} bytes", history.len(), document.len());
    assert_eq!(thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap(), history.as_bytes());

    let mut group = criterion.benchmark_group("thread_protocol");
    group.sample_size(20).throughput(bytes(history.as_bytes()));
    group.bench_function("history_json_to_document_json", |bencher| {
        bencher.iter(|| from_pydantic_ai_json(black_box(history.as_bytes()), &options).unwrap().to_json());
    });
    group.bench_function("document_json_to_history_json", |bencher| {
        bencher.iter(|| {
            let thread = Thread::from_json(black_box(&document), &Limits::default()).unwrap();
            thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap()
        });
    });
    group.bench_function("history_json_to_thread", |bencher| {
        bencher.iter(|| from_pydantic_ai_json(black_box(history.as_bytes()), &options).unwrap());
    });
    group.bench_function("thread_to_history_json", |bencher| {
        bencher.iter(|| black_box(&thread).to_pydantic_ai_json(&ViewOptions::default()).unwrap());
    });
    // The lower bound: parsing the same bytes as JSON and discarding the values.
    group.bench_function("history_is_json", |bencher| {
        bencher.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(history.as_bytes())).unwrap());
    });
    group.bench_function("read_history", |bencher| {
        bencher.iter(|| read_history(black_box(&history), &Limits::default()).unwrap());
    });
    group.bench_function("thread_to_messages", |bencher| {
        bencher.iter(|| black_box(&thread).to_messages(&ViewOptions::default()).unwrap());
    });
    group.throughput(bytes(&document));
    group.bench_function("document_is_json", |bencher| {
        bencher.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(&document)).unwrap());
    });
    group.bench_function("parse", |bencher| {
        bencher.iter(|| Thread::from_json(black_box(&document), &Limits::default()).unwrap());
    });
    group.bench_function("validate", |bencher| bencher.iter(|| black_box(&thread).validate()));
    group.bench_function("write", |bencher| bencher.iter(|| black_box(&thread).to_json()));
    group.bench_function("canonical", |bencher| {
        bencher.iter(|| black_box(&thread).canonical_json(CanonicalForm::Exact))
    });
    group.finish();
}

criterion_group!(benches, conversions);
criterion_main!(benches);

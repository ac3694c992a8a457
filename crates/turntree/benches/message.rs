//! Speed of parsing, validating, comparing, cloning and writing a thread of one megabyte. Compare the figures with
//! `scan`, which only skips the bytes.

#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use turntree::core::json::{RawJson, parse};
use turntree::core::limits::Limits;
use turntree::core::time::Timestamp;
use turntree::message::fold::Fold;
use turntree::message::{Message, StreamEvent, Thread};

const SIZE: usize = 1024 * 1024;

const WORDS: &str = "The weather in Kyōto is mild today, with a light breeze from the west and \\\"scattered\\\" clouds; \
                     tomorrow it will rain.\\n";

/// A tool round: a question, reasoning with two calls, their results, a response.
fn round(place: usize) -> String {
    let stamp = r#""timestamp":"2024-01-15T10:30:00.123Z""#;
    let long = WORDS.repeat(1 + place % 5);
    let rows = (0..place % 7).fold(String::new(), |mut rows, row| {
        let _ = write!(rows, r#"{{"hour":{row},"celsius":{row}.5,"wind":"W","rain":[0,0.25,{row}]}},"#);
        rows
    });
    format!(
        r#"{{"id":"3f2b1c4e-0000-4000-8000-{place:012}","type":"user","content":[{{"type":"text","text":"{WORDS}"}}],{stamp}}},
{{"id":"msg_{place:020}","type":"assistant","content":[{{"type":"reasoning","text":"{WORDS}"}},{{"type":"text","text":"Let me look."}}],"metadata":{{"openai":{{"model":"gpt-5","finish_reason":"tool_calls","service_tier":"default"}}}},{stamp},"toolCalls":[{{"toolCallId":"call_{place}a","toolName":"weather","arguments":{{"city":"Kyōto","days":{place}}}}},{{"toolCallId":"call_{place}b","toolName":"news","arguments":{{"topic":"rain","limit":3}}}}]}},
{{"id":"3f2b1c4e-0001-4000-8000-{place:012}","type":"tool_result","content":[],{stamp},"results":[{{"toolCallId":"call_{place}a","result":{{"rows":[{rows}{{}}],"source":"{WORDS}"}},"isError":false}},{{"toolCallId":"call_{place}b","result":"{WORDS}","isError":false}}]}},
{{"id":"msg_{place:019}b","type":"assistant","content":[{{"type":"text","text":"{long}"}}],"metadata":{{"openai":{{"model":"gpt-5","finish_reason":"stop"}}}},{stamp},"toolCalls":[]}}"#
    )
}

fn thread_json() -> String {
    let mut text = r#"{"id":"3f2b1c4e-1111-4000-8000-000000000000","messages":["#.to_owned();
    for place in 0.. {
        text.push_str(&round(place));
        if text.len() > SIZE {
            break;
        }
        text.push(',');
    }
    text + r#"],"createdAt":"2024-01-15T10:30:00.000Z","updatedAt":"2024-01-15T10:31:00.000Z"}"#
}

/// The same thread with the tag of every object after its other members.
fn tags_last(text: &str) -> String {
    text.replace(r#"{"type":"text","text":"#, r#"{"text":"#)
        .replace(r#"{"type":"reasoning","text":"#, r#"{"text":"#)
        .replace(r#""}],"#, r#"","type":"text"}],"#)
        .replace(r#""},{"text""#, r#"","type":"reasoning"},{"text""#)
}

fn throughput(bytes: usize) -> Throughput {
    Throughput::Bytes(u64::try_from(bytes).unwrap_or_default())
}

fn documents(criterion: &mut Criterion) {
    let limits = Limits::default();
    let written = thread_json();
    let thread: Thread = parse(&written, &limits).unwrap();
    // The form that turntree writes, without line feeds between messages.
    let text = serde_json::to_string(&thread).unwrap();
    let last = tags_last(&text);
    assert_ne!(last, text);
    assert_eq!(parse::<Thread>(&last, &limits).unwrap(), thread);
    let mut group = criterion.benchmark_group("message");
    group.throughput(throughput(text.len()));
    group.bench_function("scan", |bencher| {
        bencher.iter(|| serde_json::from_str::<serde::de::IgnoredAny>(black_box(&text)).unwrap());
    });
    group.bench_function("limits", |bencher| bencher.iter(|| limits.check(black_box(&text))));
    group.bench_function("parse a thread", |bencher| {
        bencher.iter(|| parse::<Thread>(black_box(&text), &limits).unwrap());
    });
    group.bench_function("parse a thread, tags last", |bencher| {
        bencher.iter(|| parse::<Thread>(black_box(&last), &limits).unwrap());
    });
    group.bench_function("parse a tree", |bencher| {
        bencher.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&text)).unwrap());
    });
    group.bench_function("write a thread", |bencher| {
        bencher.iter(|| serde_json::to_string(black_box(&thread)).unwrap().len());
    });
    group.bench_function("compare threads", |bencher| {
        let copy = parse::<Thread>(&text, &limits).unwrap();
        bencher.iter(|| black_box(&thread) == black_box(&copy));
    });
    group.finish();
}

fn raw_values(criterion: &mut Criterion) {
    let one = RawJson::from_text(thread_json()).unwrap();
    let spaced = RawJson::from_text(one.get().replace(',', ", ")).unwrap();
    let moved = one.get().replace(r#""hour":1,"celsius":1.5"#, r#""celsius":1.5,"hour":1"#);
    let moved = RawJson::from_text(moved).unwrap();
    assert_ne!(one.get(), moved.get());
    let mut group = criterion.benchmark_group("raw equality");
    group.throughput(throughput(one.get().len()));
    for (name, other) in [("same text", one.clone()), ("other spacing", spaced), ("other order", moved)] {
        group.bench_function(name, |bencher| bencher.iter(|| black_box(&one) == black_box(&other)));
    }
    group.finish();
}

fn histories(criterion: &mut Criterion) {
    let history = parse::<Thread>(&thread_json(), &Limits::default()).unwrap().messages;
    let mut group = criterion.benchmark_group("history");
    group.bench_function("clone", |bencher| bencher.iter(|| black_box(&history).clone()));
    group.bench_function("clone and append", |bencher| {
        let message = history.last().cloned();
        bencher.iter(|| {
            let mut branch = black_box(&history).clone();
            branch.extend(message.clone());
            branch
        });
    });
    group.finish();
}

fn small_values(criterion: &mut Criterion) {
    let event = r#"{"type":"text_delta","index":0,"delta":{"text":" token"}}"#;
    let message = r#"{"id":"m1","type":"user","content":[{"type":"text","text":"hi"}],"timestamp":"2024-01-15T10:30:00.000Z"}"#;
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("small");
    group.bench_function("parse an event", |bencher| {
        bencher.iter(|| parse::<StreamEvent>(black_box(event), &limits).unwrap());
    });
    group.bench_function("parse a message", |bencher| {
        bencher.iter(|| parse::<Message>(black_box(message), &limits).unwrap());
    });
    let time = Timestamp::from_microseconds(1_705_314_600_123_000);
    group.bench_function("write a time", |bencher| bencher.iter(|| black_box(&time).to_string()));
    group.bench_function("parse a time", |bencher| {
        bencher.iter(|| black_box("2024-01-15T10:30:00.123Z").parse::<Timestamp>());
    });
    let events: Vec<StreamEvent> = (0..500).map(|_| StreamEvent::text(0, " token")).collect();
    group.bench_function("fold 500 deltas", |bencher| {
        bencher.iter(|| {
            let mut fold = Fold::default();
            for event in black_box(&events) {
                fold.push(event);
            }
            fold.finish()
        });
    });
    group.finish();
}

criterion_group!(benches, documents, raw_values, histories, small_values);
criterion_main!(benches);

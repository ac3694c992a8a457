//! Chat Completions without sockets: each rule of UPP-1.2 §19.3, request in and wire out, wire in and answer out.

use std::fmt::Write as _;
use std::sync::Arc;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use turntree::core::ids::CountingIds;
use turntree::message::{ContentBlock, Delta};
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::chat::{ChatDialect, ChatOptions, Replay};
use turntree::upp::dialects::common::{VendorError, code_of_status};
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::providers::openai_compatible::openai_compatible;
use turntree::upp::{ErrorCode, StopReason, System};

use crate::support::dialect::{
    decoded, encoded, frames, hello, member, message_json, raw, request, shown, streamed, with_params,
    with_structure, with_system, with_tools,
};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/data/upp/chat/", $name))
    };
}

fn openai() -> ChatDialect {
    openai_chat().with_ids(Arc::new(CountingIds::default()))
}

fn host() -> ChatDialect {
    openai_compatible("http://localhost:8000/v1").with_ids(Arc::new(CountingIds::default()))
}

#[test]
fn a_plain_request_is_model_and_messages() {
    assert_snapshot!(encoded(&openai(), &hello(), false), @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}]}"#);
}

#[test]
fn parameters_pass_unchanged_and_own_members_win() {
    let params = r#"{"temperature":0.70,"seed":12345678901234567890,"model":"x","messages":[],"stream":true,"logit_bias":{"5":-1e2}}"#;

    let whole = encoded(&openai(), &with_params(hello(), params), false);
    let streamed = encoded(&openai(), &with_params(hello(), r#"{"stream_options":{"x":1},"top_p":1}"#), true);

    assert_snapshot!(whole, @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"temperature":0.70,"seed":12345678901234567890,"logit_bias":{"5":-1e2}}"#);
    assert_snapshot!(streamed, @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"x":1,"include_usage":true},"top_p":1}"#);
}

#[test]
fn system_comes_first_and_its_blocks_are_joined() {
    let text = with_system(hello(), System::Text("Be brief.".into()));
    let blocks = with_system(
        hello(),
        System::Blocks(raw(r#"[{"type":"text","text":"a","cache_control":{}},{"text":"b"}]"#)),
    );
    let wrong = with_system(hello(), System::Blocks(raw(r#"[{"type":"image"}]"#)));

    assert_snapshot!(member(&openai(), &text, "messages"), @r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]"#);
    assert_snapshot!(member(&openai(), &blocks, "messages"), @r#"[{"role":"system","content":"a\n\nb"},{"role":"user","content":"Hello"}]"#);
    assert_eq!(openai().encode("m", &wrong, false).unwrap_err().code, ErrorCode::InvalidRequest);
}

#[test]
fn users_send_text_images_and_documents_as_parts() {
    let request = request(json!([{"type": "user", "content": [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "mimeType": "image/png"},
        {"type": "image", "source": {"type": "bytes", "data": "aGk="}, "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "data": "aGk"}, "mimeType": "image/gif"},
        {"type": "document", "source": {"type": "base64", "data": "JVBERg=="}, "mimeType": "application/pdf", "title": "a.pdf"},
        {"type": "document", "source": {"type": "base64", "data": "JVBERg=="}, "mimeType": "application/pdf"}
    ]}]));

    let parts = member(&openai(), &request, "messages").replace("},{", "},\n{");

    assert_snapshot!(parts, @r#"
    [{"role":"user","content":[{"type":"text","text":"Look:"},
    {"type":"image_url","image_url":{"url":"https://x/y.png"}},
    {"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
    {"type":"image_url","image_url":{"url":"data:image/gif;base64,aGk"}},
    {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},
    {"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,JVBERg=="}}]}]
    "#);
}

#[test]
fn a_compatible_host_also_gets_sound_film_and_other_documents() {
    let request = request(json!([{"type": "user", "content": [
        {"type": "audio", "data": "aGk=", "mimeType": "audio/mpeg"},
        {"type": "video", "data": "aGk=", "mimeType": "video/mp4"},
        {"type": "document", "source": {"type": "text", "data": "one\n\"two\""}, "mimeType": "text/plain", "title": "notes"},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}, "mimeType": "application/pdf"}
    ]}]));

    let parts = member(&host(), &request, "messages").replace("},{", "},\n{");

    assert_snapshot!(parts, @r#"
    [{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},
    {"type":"video_url","video_url":{"url":"data:video/mp4;base64,aGk="}},
    {"type":"text","text":"[Document: notes]\none\n\"two\""},
    {"type":"file","file":{"file_url":"https://x/y.pdf"}}]}]
    "#);
}

#[test]
fn content_the_wire_cannot_take_is_named_with_its_place() {
    let binary = json!({"type": "binary", "data": "aGk=", "mimeType": "x/y"});
    let text_document =
        json!({"type": "document", "source": {"type": "text", "data": "x"}, "mimeType": "text/plain"});
    let linked = json!({"type": "document", "source": {"type": "url", "url": "https://x"}, "mimeType": "application/pdf"});
    let word = json!({"type": "document", "source": {"type": "base64", "data": "eA=="}, "mimeType": "application/msword"});
    let audio = json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"});
    let hologram = json!({"type": "hologram", "beam": 1});

    for block in [binary, text_document, linked, word, audio, hologram] {
        let kind = block["type"].as_str().unwrap().to_owned();
        let request = request(json!([
            {"type": "user", "content": "hi"},
            {"type": "user", "id": "u2", "content": [{"type": "text", "text": "see"}, block]}
        ]));
        let error = openai().encode("m", &request, false).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(
            error.message.contains("messages[1] (id u2), content[1]") && error.message.contains(&kind),
            "{error}"
        );
    }
}

#[test]
fn assistants_are_replayed_with_text_and_calls_but_without_reasoning() {
    let request = request(json!([
        {"type": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}]},
        {"type": "assistant", "content": [], "toolCalls": [{"toolCallId": "c1", "toolName": "weather", "arguments": {"city": "Oslo"}}]},
        {"type": "tool_result", "results": [{"toolCallId": "c1", "result": "sun \"and\" rain"}, {"toolCallId": "c2", "result": {"t": 1.5}}, {"toolCallId": "c3", "result": null, "isError": true}]},
        {"type": "assistant", "content": [{"type": "reasoning", "text": "hm"}]}
    ]));
    let thinking = ChatDialect::new(ChatOptions {
        reasoning: Replay::Member("reasoning_content"),
        ..ChatOptions::new("thinker", "http://x")
    });

    assert_snapshot!(member(&openai(), &request, "messages").replace("},{\"role", "},\n{\"role"), @r#"
    [{"role":"assistant","content":"One. Two."},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"sun \"and\" rain"},
    {"role":"tool","tool_call_id":"c2","content":"{\"t\":1.5}"},
    {"role":"tool","tool_call_id":"c3","content":"null"},
    {"role":"assistant","content":""}]
    "#);
    assert!(
        member(&thinking, &request, "messages")
            .contains(r#"{"role":"assistant","content":"One. Two.","reasoning_content":"hm"}"#)
    );
}

#[test]
fn tool_schemas_are_opaque_and_strict_comes_from_metadata() {
    let tools = r##"[
        {"name":"a","description":"A.","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"anyOf":[{"minimum":1.0}]}}}},
        {"name":"b","description":"B.","parameters":{"type":"object"},"metadata":{"openai":{"strict":true},"other":{"strict":false}}}
    ]"##;

    let tools = member(&openai(), &with_params(with_tools(hello(), tools), r#"{"tools":[1]}"#), "tools");

    assert_snapshot!(tools, @r##"[{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"anyOf":[{"minimum":1.0}]}}}}},{"type":"function","function":{"name":"b","description":"B.","parameters":{"type":"object"},"strict":true}}]"##);
}

#[test]
fn a_structure_is_asked_for_by_its_schema() {
    let open = with_structure(
        hello(),
        r#"{"type":"object","description":"A city.","properties":{"name":{"type":"string"}},"additionalProperties":true}"#,
    );
    let closed = with_structure(hello(), r#"{"type":"object"}"#);
    let wrong = with_structure(hello(), "[]");

    assert_snapshot!(member(&openai(), &open, "response_format"), @r#"{"type":"json_schema","json_schema":{"name":"json_response","description":"A city.","schema":{"type":"object","description":"A city.","properties":{"name":{"type":"string"}},"additionalProperties":true},"strict":true}}"#);
    assert_snapshot!(member(&openai(), &closed, "response_format"), @r#"{"type":"json_schema","json_schema":{"name":"json_response","schema":{"type":"object","additionalProperties":false},"strict":true}}"#);
    assert_eq!(openai().encode("m", &wrong, false).unwrap_err().code, ErrorCode::InvalidRequest);
}

#[test]
fn an_answer_carries_ids_usage_and_the_vendors_facts() {
    let response = decoded(&openai(), fixture!("text.json"), &hello()).unwrap();

    assert_snapshot!(message_json(&response), @r#"{"id":"chatcmpl-1","type":"assistant","content":[{"type":"text","text":"It is \"sunny\" in Tōkyō ☀."}],"metadata":{"openai":{"model":"gpt-4o-mini-2024-07-18","finish_reason":"stop","system_fingerprint":"fp_1","service_tier":"default"}},"timestamp":"2026-01-01T00:00:00.000Z"}"#);
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(response.data, None);
    let usage = response.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (12, 8, 20));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens, usage.cycles), (4, 0, None));
}

#[test]
fn a_streamed_answer_equals_the_whole_one() {
    let schema = r#"{"type":"object"}"#;
    for (stream, whole) in [
        (fixture!("text.sse"), fixture!("text.json")),
        (fixture!("parallel_tools.sse"), fixture!("parallel_tools.json")),
        (fixture!("reasoning.sse"), fixture!("reasoning.json")),
        (fixture!("refusal.sse"), fixture!("refusal.json")),
        (fixture!("structured.sse"), fixture!("structured.json")),
        (fixture!("no_ids.sse"), fixture!("no_ids.json")),
    ] {
        for request in [hello(), with_structure(hello(), schema)] {
            let (_, end) = streamed(&openai(), frames(stream), &request);
            assert_eq!(end.unwrap(), decoded(&openai(), whole, &request).unwrap());
        }
    }
}

#[test]
fn text_streams_under_index_0() {
    let (events, _) = streamed(&openai(), frames(fixture!("text.sse")), &hello());

    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    text_delta 0 {"text":"It is \"sun"}
    text_delta 0 {"text":"ny\" in Tōk"}
    text_delta 0 {"text":"yō ☀."}
    message_stop 0 {}
    "#);
}

#[test]
fn parallel_calls_have_blocks_of_their_own_and_a_bare_call_still_shows() {
    let (events, _) = streamed(&openai(), frames(fixture!("parallel_tools.sse")), &hello());

    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    tool_call_delta 1 {"toolCallId":"call_a","toolName":"weather","argumentsJson":"{\"city\": \"Pa"}
    tool_call_delta 1 {"toolCallId":"call_a","toolName":"weather","argumentsJson":"ris\"}"}
    tool_call_delta 2 {"toolCallId":"call_b","toolName":"weather","argumentsJson":"{\"city\":\"Oslo\",\"days\":2.50}"}
    tool_call_delta 3 {"toolCallId":"call_c","toolName":"now","argumentsJson":"{}"}
    message_stop 0 {}
    "#);
}

#[test]
fn reasoning_text_and_calls_never_share_an_index() {
    let (events, end) = streamed(&openai(), frames(fixture!("reasoning.sse")), &hello());

    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    reasoning_delta 1 {"text":"The user "}
    reasoning_delta 1 {"text":"greets."}
    text_delta 0 {"text":"Hel"}
    text_delta 0 {"text":"lo!"}
    tool_call_delta 2 {"toolCallId":"call_a","toolName":"wave","argumentsJson":"{}"}
    message_stop 0 {}
    "#);
    let response = end.unwrap();
    assert_eq!(
        response.message.content(),
        [ContentBlock::reasoning("The user greets."), ContentBlock::text("Hello!")]
    );
    assert_eq!((response.stop_reason, response.usage.total_tokens), (StopReason::ToolUse, 14));
}

#[test]
fn a_structured_stream_repeats_text_as_object_and_parses_data_once_whole() {
    let request = with_structure(hello(), r#"{"type":"object"}"#);

    let (events, end) = streamed(&openai(), frames(fixture!("structured.sse")), &request);
    let (_, unasked) = streamed(&openai(), frames(fixture!("structured.sse")), &hello());

    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    text_delta 0 {"text":"{\"city\":"}
    object_delta 0 {"text":"{\"city\":"}
    text_delta 0 {"text":"\"Oslo\",\"t\":1.50}"}
    object_delta 0 {"text":"\"Oslo\",\"t\":1.50}"}
    message_stop 0 {}
    "#);
    assert_eq!(end.unwrap().data.unwrap().get(), r#"{"city":"Oslo","t":1.50}"#);
    assert_eq!(unasked.unwrap().data, None);
}

#[test]
fn a_refusal_is_a_text_of_its_own_and_stops_for_the_filter() {
    let (events, end) = streamed(&openai(), frames(fixture!("refusal.sse")), &hello());

    let response = end.unwrap();

    assert!(shown(&events).contains(r#"text_delta 1 {"text":"I can"}"#));
    assert_eq!(response.message.text(), "I cannot.");
    assert_eq!((response.stop_reason, response.data), (StopReason::ContentFilter, None));
}

#[test]
fn reasons_to_stop_are_said_in_our_words() {
    let reasons = [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("content_filter", StopReason::ContentFilter),
        ("of_tomorrow", StopReason::EndTurn),
    ];
    for (reason, ours) in reasons {
        let whole = json!({"choices": [{"message": {"content": "x"}, "finish_reason": reason}]}).to_string();
        let piece =
            json!({"id": "1", "choices": [{"delta": {"content": "x"}, "finish_reason": reason}]}).to_string();

        let whole = decoded(&openai(), &whole, &hello()).unwrap();
        let (_, end) = streamed(&openai(), [piece.as_str()], &hello());

        assert_eq!((whole.stop_reason, end.unwrap().stop_reason), (ours, ours), "{reason}");
    }
}

/// The calls that come of these pieces, as `id name arguments`.
fn calls(pieces: &[serde_json::Value]) -> String {
    let mut chunks: Vec<String> = pieces
        .iter()
        .map(|piece| json!({"id": "1", "choices": [{"delta": {"tool_calls": [piece]}}]}).to_string())
        .collect();
    chunks.push(json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string());
    let (events, end) = streamed(&openai(), chunks.iter().map(String::as_str), &hello());
    let mut shown = String::new();
    for call in end.unwrap().message.tool_calls() {
        writeln!(shown, "{} {} {}", call.tool_call_id, call.tool_name, call.arguments).unwrap();
    }
    let mut indices: Vec<u32> = events
        .iter()
        .filter(|event| matches!(event.delta, Delta::ToolCall(_)))
        .map(|event| event.index)
        .collect();
    indices.sort_unstable();
    indices.dedup();
    assert!(indices.iter().copied().eq(1..=u32::try_from(indices.len()).unwrap()), "{indices:?}");
    shown
}

#[test]
fn calls_are_told_apart_however_hosts_number_them() {
    let same_index = calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}),
        json!({"index": 0, "id": "b", "function": {"name": "f", "arguments": "{\"x\":"}}),
        json!({"index": 0, "function": {"arguments": "2}"}}),
    ]);
    let ids_only = calls(&[
        json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
        json!({"id": "b", "function": {"name": "g", "arguments": "{}"}}),
        json!({"id": "a", "function": {"arguments": "1}"}}),
    ]);
    let nothing = calls(&[
        json!({"function": {"name": "f", "arguments": ""}}),
        json!({"function": {"name": "g", "arguments": "{\"x\":"}}),
        json!({"function": {"arguments": "1}"}}),
    ]);
    let late_name = calls(&[
        json!({"index": 0, "id": "a", "function": {"arguments": "{\"x\""}}),
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}),
    ]);
    let changing_ids = calls(&[
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}),
        json!({"index": 0, "id": "z", "function": {"arguments": ":1}"}}),
    ]);

    assert_eq!(same_index, "a f {\"x\":1}\nb f {\"x\":2}\n");
    assert_eq!(ids_only, "a f {\"x\":1}\nb g {}\n");
    assert_snapshot!(nothing, @r#"
    call_00000000-0000-4000-8000-000000000002 f {}
    call_00000000-0000-4000-8000-000000000001 g {"x":1}
    "#);
    assert_eq!(late_name, "a f {\"x\":1}\n");
    assert_eq!(changing_ids, "a f {\"x\":1}\n");
}

#[test]
fn escapes_in_arguments_are_read_as_json_has_them() {
    let arguments = "{\"a\\/b\":\"\\u00e9 \u{1f600} \\\\ \\n\t\r\u{8}\u{c}/\"}";
    // As few hosts write it: every letter as a number, and `/` escaped.
    let numbers: Vec<_> = arguments.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let numbers = numbers.concat();
    let usual = serde_json::to_string(arguments).unwrap();
    for written in [usual.replace('/', "\\/"), usual, format!("\"{numbers}\"")] {
        let chunk = format!(
            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"id\":\"a\",\"function\":{{\"name\":\"f\",\"arguments\":{written}}}}}]}}}}]}}"
        );
        let (events, _) = streamed(&openai(), [chunk.as_str()], &hello());
        let told = events.iter().find_map(|event| match &event.delta {
            Delta::ToolCall(call) => Some(call.arguments_json.as_str()),
            _ => None,
        });
        assert_eq!(told, Some(arguments), "{written}");
    }
}

#[test]
fn half_a_surrogate_pair_in_arguments_is_an_error() {
    let chunk = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"x\ud83d"}}]}}]}"#;

    let (_, end) = streamed(&openai(), [chunk], &hello());

    assert!(end.unwrap_err().to_string().contains("the arguments of a tool call are neither"));
}

#[test]
fn arguments_that_are_no_object_become_an_empty_one() {
    for arguments in ["not json", "[1]", "\"text\"", "{\"cut\":"] {
        let piece = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}});
        assert_eq!(calls(&[piece]), "a f {}\n");
    }
}

#[test]
fn usage_is_0_where_hosts_are_silent_and_groq_keeps_it_elsewhere() {
    let silent = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    let strange = r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3.0,"completion_tokens":null,"total_tokens":"9"}}"#;
    let groq = [
        r#"{"id":"1","choices":[{"delta":{"content":"x"}}]}"#,
        r#"{"id":"1","choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}}"#,
    ];

    let silent = decoded(&openai(), silent, &hello()).unwrap();
    let strange = decoded(&openai(), strange, &hello()).unwrap().usage;
    let (_, groq) = streamed(&openai(), groq, &hello());

    assert_eq!((silent.usage.total_tokens, silent.message.id.len()), (0, 36));
    assert_eq!((strange.input_tokens, strange.output_tokens, strange.total_tokens), (3, 0, 9));
    assert_eq!(groq.unwrap().usage.total_tokens, 7);
}

#[test]
fn parts_of_an_answer_give_text_and_thinking() {
    let body = r#"{"choices":[{"finish_reason":"length","message":{"content":[
        {"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"},{"type":"image_url"},7]}}]}"#;

    let response = decoded(&host(), body, &hello()).unwrap();

    assert_eq!(response.message.content(), [ContentBlock::reasoning("hm"), ContentBlock::text("yes")]);
    assert_eq!(response.stop_reason, StopReason::MaxTokens);
}

#[test]
fn only_the_first_choice_counts() {
    let whole =
        r#"{"choices":[{"index":1,"message":{"content":"no"}},{"index":0,"message":{"content":"yes"}}]}"#;
    let stream = [
        r#"{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}]}"#,
    ];

    assert_eq!(decoded(&openai(), whole, &hello()).unwrap().message.text(), "yes");
    assert_eq!(streamed(&openai(), stream, &hello()).1.unwrap().message.text(), "yes");
}

#[test]
fn answers_that_are_none_are_typed_errors() {
    let code = |body: &str| decoded(&openai(), body, &hello()).unwrap_err().code;

    for body in ["", "  ", "<html>", "{", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":[{}]}"#, "7", "null"]
    {
        assert_eq!(code(body), ErrorCode::InvalidResponse, "{body}");
    }
    assert_eq!(code(r#"{"error":{"code":429,"message":"slow"}}"#), ErrorCode::RateLimited);
    assert_eq!(code(r#"{"error":"boom","choices":[]}"#), ErrorCode::ProviderError);
}

#[test]
fn a_stream_without_a_finish_reason_is_no_answer() {
    let text: Vec<&str> = frames(fixture!("text.sse")).take(4).collect();

    let (events, end) = streamed(&openai(), text, &hello());

    assert_eq!(events.len(), 4);
    assert_eq!(end.unwrap_err().code, ErrorCode::InvalidResponse);
    assert_eq!(streamed(&openai(), [], &hello()).1.unwrap_err().code, ErrorCode::InvalidResponse);
}

#[test]
fn frames_that_are_cut_are_errors_and_noise_is_not() {
    let noise = ["ping", "", r#"{"id":"1","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#];
    let cut = [r#"{"id":"1","choices":[{"del"#];

    assert_eq!(streamed(&openai(), noise, &hello()).1.unwrap().message.text(), "x");
    assert_eq!(streamed(&openai(), cut, &hello()).1.unwrap_err().code, ErrorCode::InvalidResponse);
}

#[test]
fn errors_inside_a_stream_have_the_code_of_their_type() {
    for (error, code) in [
        (r#"{"message":"m","type":"rate_limit_error"}"#, ErrorCode::RateLimited),
        (
            r#"{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}"#,
            ErrorCode::ContextLengthExceeded,
        ),
        (
            r#"{"message":"This model's maximum context length is 5 tokens","type":"invalid_request_error"}"#,
            ErrorCode::ContextLengthExceeded,
        ),
        (r#"{"message":"m","code":"insufficient_quota"}"#, ErrorCode::QuotaExceeded),
        (r#"{"message":"m","code":401}"#, ErrorCode::AuthenticationFailed),
        (r#"{"message":"m","type":"server_error"}"#, ErrorCode::ProviderError),
        (r#"{"message":"m","type":"nobody_knows"}"#, ErrorCode::ProviderError),
        (r#""m""#, ErrorCode::ProviderError),
    ] {
        let frame = format!(r#"{{"error":{error}}}"#);
        let failure = streamed(&openai(), [frame.as_str()], &hello()).1.unwrap_err();
        assert_eq!(failure.code, code, "{error}");
        assert!(!failure.message.contains('{'), "{failure}");
    }
}

#[test]
fn error_bodies_are_read_in_every_shape() {
    for (body, message) in [
        (r#"{"error":{"message":"a","type":"x"}}"#, "a"),
        (r#"{"message":"b"}"#, "b"),
        (r#"{"error":{"error":{"message":"c"}}}"#, "c"),
        (r#"{"detail":"d"}"#, "d"),
        (r#"{"detail":[{"loc":["body"],"msg":"e1"},{"msg":"e2"}]}"#, "e1; e2"),
        (r#"{"error":"f"}"#, "f"),
        (r#"[{"error":{"code":400,"message":"g","status":"INVALID_ARGUMENT"}}]"#, "g"),
        ("plain words", "plain words"),
        ("<html><body>Bad gateway</body></html>", "HTTP 400: Bad Request"),
        ("", "HTTP 400: Bad Request"),
        (&"x".repeat(200), "HTTP 400: Bad Request"),
        (&r#"{"error":"#.repeat(50_000), "HTTP 400: Bad Request"),
    ] {
        assert_eq!(VendorError::of_status(400, body), (ErrorCode::InvalidRequest, message.to_owned()));
    }
}

#[test]
fn every_status_has_its_code() {
    use ErrorCode::*;
    for (status, code) in [
        (400, InvalidRequest),
        (401, AuthenticationFailed),
        (402, QuotaExceeded),
        (403, AuthenticationFailed),
        (404, ModelNotFound),
        (408, Timeout),
        (409, InvalidRequest),
        (413, ContextLengthExceeded),
        (418, ProviderError),
        (422, InvalidRequest),
        (429, RateLimited),
        (451, ContentFiltered),
        (500, ProviderError),
        (502, ProviderError),
        (503, ProviderError),
        (504, ProviderError),
        (529, ProviderError),
    ] {
        assert_eq!(code_of_status(status), code);
        assert_eq!(VendorError::of_status(status, "{}").0, code);
    }
    for (status, body, code) in [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, ContextLengthExceeded),
        (400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#, ContextLengthExceeded),
        (400, r#"{"error":{"code":"content_filter","message":"m"}}"#, ContentFiltered),
        (403, r#"{"error":{"message":"You exceeded your current quota"}}"#, QuotaExceeded),
        (429, r#"{"error":{"type":"insufficient_quota","message":"m"}}"#, QuotaExceeded),
        (429, r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"m"}}"#, RateLimited),
        (500, r#"{"error":{"type":"rate_limit_error","message":"m"}}"#, ProviderError),
        (404, r#"{"error":{"type":"invalid_request_error","message":"m"}}"#, ModelNotFound),
    ] {
        assert_eq!(VendorError::of_status(status, body).0, code, "{body}");
    }
}

#[test]
fn nesting_does_not_break_the_reader() {
    let deep = "[".repeat(100_000);
    for body in [
        format!(r#"{{"choices":[{{"message":{{"content":{deep}"#),
        format!(r#"{{"choices":[{{"message":{{"content":[{{"thinking":{deep}"#),
        format!(
            r#"{{"choices":[{{"message":{{"content":"x","tool_calls":[{{"function":{{"name":"f","arguments":{deep}"#
        ),
        format!(r#"{{"usage":{deep}"#),
    ] {
        assert_eq!(decoded(&openai(), &body, &hello()).unwrap_err().code, ErrorCode::InvalidResponse);
    }
    let closed = format!(
        r#"{{"choices":[{{"message":{{"content":[{{"thinking":{deep}{}}}]}}}}]}}"#,
        "]".repeat(100_000)
    );
    let _ = decoded(&openai(), &closed, &hello());
}

/// A text in pieces, cut after every so many characters.
fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut characters = text.chars();
    let mut pieces: Vec<String> =
        sizes.iter().map(|size| characters.by_ref().take(*size).collect()).collect();
    pieces.push(characters.collect());
    pieces
}

proptest! {
    #[test]
    fn an_answer_does_not_depend_on_how_it_is_cut(
        text in "\\PC{1,40}",
        argument in "\\PC{0,20}",
        sizes in proptest::collection::vec(0..9_usize, 0..8),
    ) {
        let arguments = json!({"x": argument}).to_string();
        let whole = json!({"id": "1", "choices": [{"message": {"content": text, "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": arguments}}
        ]}, "finish_reason": "tool_calls"}]}).to_string();
        let mut chunks: Vec<String> = cut(&text, &sizes)
            .iter()
            .map(|piece| json!({"id": "1", "choices": [{"delta": {"content": piece}}]}).to_string())
            .collect();
        chunks.extend(cut(&arguments, &sizes).iter().enumerate().map(|(place, piece)| {
            let function = if place == 0 { json!({"name": "f", "arguments": piece}) } else { json!({"arguments": piece}) };
            json!({"id": "1", "choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": function}]}}]}).to_string()
        }));
        chunks.push(json!({"choices": [{"finish_reason": "tool_calls"}]}).to_string());

        let (events, end) = streamed(&openai(), chunks.iter().map(String::as_str), &hello());

        let mut fold = turntree::message::fold::Fold::default();
        for event in &events {
            fold.push(event);
        }
        let response = end.unwrap();
        prop_assert_eq!(&fold.finish().content[..], response.message.content());
        prop_assert_eq!(response, decoded(&openai(), &whole, &hello()).unwrap());
    }

    #[test]
    fn no_frame_makes_a_decoder_panic(
        start in 0..700_usize,
        length in 0..60_usize,
        noise in "[\\[\\]{}\":,a0\\\\-]{0,12}",
    ) {
        for body in [fixture!("parallel_tools.json"), fixture!("reasoning.json"), fixture!("text.json")] {
            let kept: Vec<char> = body.chars().collect();
            let start = start.min(kept.len());
            let end = (start + length).min(kept.len());
            let broken: String = kept[..start].iter().collect::<String>() + &noise + &kept[end..].iter().collect::<String>();
            let _ = decoded(&openai(), &broken, &hello());
            let _ = streamed(&openai(), [broken.as_str(), noise.as_str()], &hello());
        }
    }
}

//! The dialect of Ollama, without sockets. UPP-1.2 §19.5.

use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::json;
use turntree::core::ids::CountingIds;
use turntree::message::TokenUsage;
use turntree::upp::dialect::{Dialect, Framing};
use turntree::upp::providers::ollama::{OllamaDialect, ollama};
use turntree::upp::{ErrorCode, StopReason, System};

use crate::support::dialect::{
    decoded, encoded, hello, member, message_json, raw, request, shown, streamed, with_params,
    with_structure, with_system, with_tools,
};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/data/upp/ollama/", $name))
    };
}

fn dialect() -> OllamaDialect {
    ollama().with_ids(Arc::new(CountingIds::default()))
}

#[test]
fn a_request_always_contains_the_stream_flag() {
    assert_snapshot!(encoded(&dialect(), &hello(), false), @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"stream":false}"#);
    assert_snapshot!(encoded(&dialect(), &hello(), true), @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"stream":true}"#);
    assert_eq!(dialect().framing(), Framing::Lines);
}

#[test]
fn parameters_become_options_except_request_members() {
    let params = r#"{"temperature":0.50,"keep_alive":"5m","think":true,"options":{"num_ctx":4096},"seed":1,"model":"x","tools":[1],"format":"json"}"#;

    assert_snapshot!(encoded(&dialect(), &with_params(hello(), params), false), @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"stream":false,"options":{"num_ctx":4096,"temperature":0.50,"seed":1},"keep_alive":"5m","think":true,"format":"json"}"#);
}

#[test]
fn messages_encode_to_the_wire_format() {
    let request = with_system(
        request(json!([
            {"type": "user", "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image", "source": {"type": "bytes", "data": "aGk="}, "mimeType": "image/png"}
            ]},
            {"type": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "<think>secret</think>\nOne."}, {"type": "text", "text": "Two."}],
             "toolCalls": [{"toolCallId": "call_foreign_7", "toolName": "get_weather", "arguments": {"days": 2.5}}]},
            {"type": "tool_result", "results": [{"toolCallId": "call_foreign_7", "result": {"t": 1}}, {"toolCallId": "lost", "result": "x"}]}
        ])),
        System::Text("Be brief.".into()),
    );

    assert_snapshot!(member(&dialect(), &request, "messages").replace("},{\"role", "},\n{\"role"), @r#"
    [{"role":"system","content":"Be brief."},
    {"role":"user","content":"Look:","images":["aGk="]},
    {"role":"assistant","content":"One.\nTwo.","tool_calls":[{"function":{"name":"get_weather","arguments":{"days":2.5}}}]},
    {"role":"tool","tool_name":"get_weather","content":"{\"t\":1}"},
    {"role":"tool","tool_name":"lost","content":"x"}]
    "#);
}

#[test]
fn tools_and_structure_are_passed_unchanged() {
    let tools = r#"[{"name":"a","description":"A.","parameters":{"type":"object","$defs":{}},"metadata":{"ollama":{"strict":true}}}]"#;
    let request = with_structure(with_tools(hello(), tools), r#"{"type":"object","properties":{}}"#);

    assert_snapshot!(member(&dialect(), &request, "tools"), @r#"[{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object","$defs":{}}}}]"#);
    assert_snapshot!(member(&dialect(), &request, "format"), @r#"{"type":"object","properties":{}}"#);
}

#[test]
fn system_blocks_are_joined() {
    let blocks = with_system(hello(), System::Blocks(raw(r#"[{"type":"text","text":"a"},{"text":"b"}]"#)));
    let wrong = with_system(hello(), System::Blocks(raw(r#"[{"type":"text"}]"#)));

    assert_snapshot!(member(&dialect(), &blocks, "messages"), @r#"[{"role":"system","content":"a\n\nb"},{"role":"user","content":"Hello"}]"#);
    assert_eq!(dialect().encode("m", &wrong, false).unwrap_err().code, ErrorCode::InvalidRequest);
}

#[test]
fn unsupported_media_are_refused_with_their_position() {
    for block in [
        json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}),
        json!({"type": "video", "data": "aGk=", "mimeType": "video/mp4"}),
        json!({"type": "document", "source": {"type": "text", "data": "x"}, "mimeType": "text/plain"}),
        json!({"type": "document", "source": {"type": "base64", "data": "eA=="}, "mimeType": "application/pdf"}),
        json!({"type": "binary", "data": "aGk=", "mimeType": "x/y"}),
        json!({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "mimeType": "image/png"}),
        json!({"type": "hologram", "beam": 1}),
    ] {
        let kind = block["type"].as_str().unwrap().to_owned();
        let request = request(json!([{"type": "user", "content": [{"type": "text", "text": "x"}, block]}]));

        let error = dialect().encode("m", &request, true).unwrap_err();

        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains("messages[0] (id m0), content[1]"), "{error}");
        assert!(error.message.contains(&kind), "{error}");
    }
}

#[test]
fn done_reasons_map_to_stop_reasons_and_missing_usage_is_zero() {
    for (reason, expected) in
        [("stop", StopReason::EndTurn), ("length", StopReason::MaxTokens), ("load", StopReason::EndTurn)]
    {
        let body =
            json!({"message": {"role": "assistant", "content": "x"}, "done": true, "done_reason": reason});
        let body = body.to_string();

        let whole = decoded(&dialect(), &body, &hello()).unwrap();
        let (_, end) = streamed(&dialect(), [body.as_str()], &hello());

        assert_eq!((whole.stop_reason, end.unwrap().stop_reason), (expected, expected), "{reason}");
        assert_eq!(whole.usage, TokenUsage::default());
    }
}

#[test]
fn a_response_contains_thinking_usage_and_durations() {
    let response = decoded(&dialect(), fixture!("text.json"), &hello()).unwrap();

    assert_snapshot!(message_json(&response), @r#"{"id":"00000000-0000-4000-8000-000000000001","type":"assistant","content":[{"type":"reasoning","text":"Hmm."},{"type":"text","text":"Hellö"}],"metadata":{"ollama":{"model":"llama3.2","created_at":"2026-01-01T00:00:00.5Z","done_reason":"stop","total_duration":900,"load_duration":100,"prompt_eval_duration":200,"eval_duration":600,"thinking":"Hmm."}},"timestamp":"2026-01-01T00:00:00.000Z"}"#);
    let usage = response.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (26, 11, 37));
    assert_eq!(response.stop_reason, StopReason::EndTurn);
}

#[test]
fn a_stream_has_unique_block_indexes_and_complete_calls() {
    let (text, _) = streamed(&dialect(), fixture!("text.ndjson").lines(), &hello());
    let (tools, end) = streamed(&dialect(), fixture!("tools.ndjson").lines(), &hello());

    assert_snapshot!(shown(&text), @r#"
    message_start 0 {}
    reasoning_delta 1 {"text":"Hm"}
    reasoning_delta 1 {"text":"m."}
    text_delta 0 {"text":"Hel"}
    text_delta 0 {"text":"lö"}
    message_stop 0 {}
    "#);
    assert_snapshot!(shown(&tools), @r#"
    message_start 0 {}
    tool_call_delta 1 {"toolCallId":"call_00000000-0000-4000-8000-000000000001","toolName":"weather","argumentsJson":"{\"city\":\"Paris\",\"days\":2.5}"}
    tool_call_delta 2 {"toolCallId":"call_own","toolName":"now","argumentsJson":"{}"}
    message_stop 0 {}
    "#);
    assert_eq!(end.unwrap().stop_reason, StopReason::ToolUse);
}

#[test]
fn a_streamed_response_equals_the_complete_one() {
    for (stream, whole) in
        [(fixture!("text.ndjson"), fixture!("text.json")), (fixture!("tools.ndjson"), fixture!("tools.json"))]
    {
        let mut streamed = streamed(&dialect(), stream.lines(), &hello()).1.unwrap();
        let whole = decoded(&dialect(), whole, &hello()).unwrap();
        // Ids are minted by one source there and by two here.
        Arc::make_mut(&mut streamed.message).id.clone_from(&whole.message.id);
        assert_eq!(streamed, whole);
    }
}

#[test]
fn call_ids_are_unique_in_a_conversation() {
    let dialect = ollama();
    let ids = |_| {
        let (_, end) = streamed(&dialect, fixture!("tools.ndjson").lines(), &hello());
        end.unwrap().message.tool_calls()[0].tool_call_id.clone()
    };

    let seen: std::collections::HashSet<String> = (0..10).map(ids).collect();

    assert_eq!(seen.len(), 10);
}

#[test]
fn error_lines_invalid_lines_and_truncated_streams_have_error_codes() {
    let error = streamed(&dialect(), [r#"{"error":"model runner has stopped"}"#], &hello()).1.unwrap_err();
    let bad = streamed(&dialect(), ["not json"], &hello()).1.unwrap_err();
    let cut = streamed(&dialect(), fixture!("text.ndjson").lines().take(4), &hello()).1.unwrap_err();
    let whole = decoded(&dialect(), r#"{"error":"boom"}"#, &hello()).unwrap_err();
    let empty = decoded(&dialect(), "{}", &hello()).unwrap_err();

    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ProviderError, "model runner has stopped"));
    assert_eq!((bad.code, cut.code), (ErrorCode::InvalidResponse, ErrorCode::InvalidResponse));
    assert_eq!((whole.code, empty.code), (ErrorCode::ProviderError, ErrorCode::InvalidResponse));
}

//! How response bodies and stream chunks become messages, tool calls, usage and stop reasons.

use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use turntree::message::{ContentBlock, Delta};
use turntree::upp::StopReason;

use super::{host, openai};
use crate::support::dialect::{decoded, frames, hello, message_json, shown, streamed, with_structure};

#[test]
fn a_response_contains_id_usage_and_vendor_metadata() {
    let response = decoded(&openai(), fixture!("text.json"), &hello()).unwrap();

    assert_snapshot!(message_json(&response), @r#"{"id":"chatcmpl-1","type":"assistant","content":[{"type":"text","text":"It is \"sunny\" in Tōkyō ☀."}],"metadata":{"openai":{"model":"gpt-4o-mini-2024-07-18","finish_reason":"stop","system_fingerprint":"fp_1","service_tier":"default"}},"timestamp":"2026-01-01T00:00:00.000Z"}"#);
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(response.data, None);
    let usage = response.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (12, 8, 20));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens, usage.cycles), (4, 0, None));
}

#[test]
fn a_streamed_response_equals_the_complete_one() {
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
fn text_deltas_have_index_0() {
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
fn parallel_calls_have_separate_indexes_and_a_call_without_arguments_has_an_event() {
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
fn reasoning_text_and_calls_have_different_indexes() {
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
fn a_structured_stream_has_object_deltas_and_parsed_data() {
    let request = with_structure(hello(), r#"{"type":"object"}"#);

    let (events, end) = streamed(&openai(), frames(fixture!("structured.sse")), &request);
    let (_, unstructured) = streamed(&openai(), frames(fixture!("structured.sse")), &hello());

    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    text_delta 0 {"text":"{\"city\":"}
    object_delta 0 {"text":"{\"city\":"}
    text_delta 0 {"text":"\"Oslo\",\"t\":1.50}"}
    object_delta 0 {"text":"\"Oslo\",\"t\":1.50}"}
    message_stop 0 {}
    "#);
    assert_eq!(end.unwrap().data.unwrap().get(), r#"{"city":"Oslo","t":1.50}"#);
    assert_eq!(unstructured.unwrap().data, None);
}

#[test]
fn a_refusal_is_a_separate_text_with_the_content_filter_stop_reason() {
    let (events, end) = streamed(&openai(), frames(fixture!("refusal.sse")), &hello());

    let response = end.unwrap();

    assert!(shown(&events).contains(r#"text_delta 1 {"text":"I can"}"#));
    assert_eq!(response.message.text(), "I cannot.");
    assert_eq!((response.stop_reason, response.data), (StopReason::ContentFilter, None));
}

#[test]
fn finish_reasons_map_to_stop_reasons() {
    let reasons = [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("tool_calls", StopReason::ToolUse),
        ("content_filter", StopReason::ContentFilter),
        ("unknown_reason", StopReason::EndTurn),
    ];
    for (reason, expected) in reasons {
        let whole = json!({"choices": [{"message": {"content": "x"}, "finish_reason": reason}]}).to_string();
        let piece =
            json!({"id": "1", "choices": [{"delta": {"content": "x"}, "finish_reason": reason}]}).to_string();

        let whole = decoded(&openai(), &whole, &hello()).unwrap();
        let (_, end) = streamed(&openai(), [piece.as_str()], &hello());

        assert_eq!((whole.stop_reason, end.unwrap().stop_reason), (expected, expected), "{reason}");
    }
}

/// The calls assembled from these deltas, as `id name arguments`.
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
fn parallel_calls_are_separated_by_index_or_id() {
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
fn escapes_in_arguments_are_decoded() {
    let arguments = "{\"a\\/b\":\"\\u00e9 \u{1f600} \\\\ \\n\t\r\u{8}\u{c}/\"}";
    // Unusual spellings: every character as a Unicode escape, and `/` escaped.
    let numbers: Vec<_> = arguments.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let numbers = numbers.concat();
    let usual = serde_json::to_string(arguments).unwrap();
    for written in [usual.replace('/', "\\/"), usual, format!("\"{numbers}\"")] {
        let chunk = format!(
            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"id\":\"a\",\"function\":{{\"name\":\"f\",\"arguments\":{written}}}}}]}}}}]}}"
        );
        let (events, _) = streamed(&openai(), [chunk.as_str()], &hello());
        let streamed_arguments = events.iter().find_map(|event| match &event.delta {
            Delta::ToolCall(call) => Some(call.arguments_json.as_str()),
            _ => None,
        });
        assert_eq!(streamed_arguments, Some(arguments), "{written}");
    }
}

#[test]
fn a_lone_surrogate_in_arguments_is_an_error() {
    let chunk = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"x\ud83d"}}]}}]}"#;

    let (_, end) = streamed(&openai(), [chunk], &hello());

    assert!(end.unwrap_err().to_string().contains("the arguments of a tool call are neither"));
}

#[test]
fn arguments_that_are_not_an_object_become_an_empty_object() {
    for arguments in ["not json", "[1]", "\"text\"", "{\"cut\":"] {
        let piece = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}});
        assert_eq!(calls(&[piece]), "a f {}\n");
    }
}

#[test]
fn missing_usage_is_zero_and_the_usage_of_groq_is_read_from_its_own_member() {
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
fn content_parts_become_text_and_reasoning() {
    let body = r#"{"choices":[{"finish_reason":"length","message":{"content":[
        {"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"},{"type":"image_url"},7]}}]}"#;

    let response = decoded(&host(), body, &hello()).unwrap();

    assert_eq!(response.message.content(), [ContentBlock::reasoning("hm"), ContentBlock::text("yes")]);
    assert_eq!(response.stop_reason, StopReason::MaxTokens);
}

#[test]
fn only_the_first_choice_is_decoded() {
    let whole =
        r#"{"choices":[{"index":1,"message":{"content":"no"}},{"index":0,"message":{"content":"yes"}}]}"#;
    let stream = [
        r#"{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}]}"#,
    ];

    assert_eq!(decoded(&openai(), whole, &hello()).unwrap().message.text(), "yes");
    assert_eq!(streamed(&openai(), stream, &hello()).1.unwrap().message.text(), "yes");
}

/// Splits a text into pieces of these lengths.
fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut characters = text.chars();
    let mut pieces: Vec<String> =
        sizes.iter().map(|size| characters.by_ref().take(*size).collect()).collect();
    pieces.push(characters.collect());
    pieces
}

proptest! {
    #[test]
    fn a_streamed_response_is_independent_of_chunking(
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
}

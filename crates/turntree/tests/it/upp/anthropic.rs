//! The Messages dialect of Anthropic. UPP-1.2 §19.1.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;
use turntree::core::message::ContentBlock;
use turntree::core::secret::Secret;
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::messages::{MessagesDialect, MessagesOptions, STRUCTURED_OUTPUTS_BETA};
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::{ModelRequest, ProviderConfig};

use crate::support::dialect::{hello, message_json};
use crate::support::fixtures::{
    assert_truncated_frames_do_not_panic, call_over_sockets, cases, data_lines, decode_and_compare,
    encode_and_compare, errors_and_compare, exchanges, header, stream, with_sources,
};

fn make(options: &Value) -> Box<dyn Dialect> {
    let betas = options["betas"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Box::new(MessagesDialect::new(MessagesOptions::ANTHROPIC).with_betas(betas))
}

#[test]
fn requests_encode_to_the_wire_format() {
    encode_and_compare("anthropic/requests.json", make);
}

#[test]
fn responses_decode_to_messages_complete_and_streamed() {
    decode_and_compare("anthropic/answers.json", make);
}

#[test]
fn error_bodies_map_to_error_codes() {
    errors_and_compare("anthropic/errors.json", make);
}

#[test]
fn headers_contain_key_version_and_betas() {
    let wire = MessagesDialect::new(MessagesOptions::ANTHROPIC)
        .with_betas(["a, b", "c"])
        .with_api_version("2030-01-01");

    let headers = wire.endpoint().headers(Some(&Secret::from("sk-1")));

    let shown: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.expose())).collect();
    assert_eq!(
        shown,
        [("x-api-key", "sk-1"), ("anthropic-version", "2030-01-01"), ("anthropic-beta", "a,b,c")]
    );
}

#[test]
fn truncated_frames_are_errors() {
    assert_truncated_frames_do_not_panic("anthropic/answers.json", make);
}

#[tokio::test]
async fn a_configured_header_replaces_the_betas() {
    let answers = cases("anthropic/answers.json");
    let case = answers.iter().find(|case| case["name"] == "structure by the vendor").unwrap();

    let (requests, response) = call_over_sockets(
        |config| Arc::new(anthropic(&["files-api-2025-04-14"], config)),
        |server| {
            let config =
                ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-ant-0123456789");
            let beta = Some(Secret::from(STRUCTURED_OUTPUTS_BETA));
            ProviderConfig {
                headers: vec![("Anthropic-Beta".to_owned(), beta)],
                api_version: Some("2030-01-01".to_owned()),
                ..config
            }
        },
        case,
    )
    .await;

    assert_eq!(response.data.unwrap().get(), r#"{"x":2}"#);
    for request in &requests {
        assert!(request.head.starts_with("POST /v1/messages HTTP/1.1"), "{}", request.head);
        assert_eq!(header(request, "x-api-key"), ["sk-ant-0123456789"]);
        assert_eq!(header(request, "anthropic-version"), ["2030-01-01"]);
        assert_eq!(header(request, "anthropic-beta"), [STRUCTURED_OUTPUTS_BETA]);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["output_format"]["type"], "json_schema");
    }
}

fn naive_text(blocks: &[Value]) -> String {
    let texts =
        blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    texts.collect()
}

fn naive_calls(blocks: &[Value]) -> Vec<(String, String, Value)> {
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    calls
        .map(|call| {
            let text = |key: &str| call[key].as_str().unwrap().to_owned();
            (text("id"), text("name"), call["input"].clone())
        })
        .collect()
}

/// The message of a stream, assembled from JSON trees.
fn naive_message(frames: &[Value]) -> Value {
    let mut message = Value::Null;
    let mut json: std::collections::BTreeMap<u64, String> = std::collections::BTreeMap::new();
    for frame in frames {
        let index = frame["index"].as_u64().unwrap_or_default();
        match frame["type"].as_str().unwrap() {
            "message_start" => message = frame["message"].clone(),
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(frame["content_block"].clone());
            }
            "content_block_delta" => {
                let block = &mut message["content"][usize::try_from(index).unwrap()];
                for key in ["text", "thinking", "signature"] {
                    if let Some(text) = frame["delta"][key].as_str() {
                        block[key] = (block[key].as_str().unwrap().to_owned() + text).into();
                    }
                }
                if frame["delta"]["type"] == "citations_delta" {
                    block["citations"].as_array_mut().unwrap().push(frame["delta"]["citation"].clone());
                }
                if let Some(piece) = frame["delta"]["partial_json"].as_str() {
                    json.entry(index).or_default().push_str(piece);
                }
            }
            "message_delta" => {
                message["stop_reason"] = frame["delta"]["stop_reason"].clone();
                for (key, value) in frame["usage"].as_object().unwrap() {
                    message["usage"][key] = value.clone();
                }
            }
            _ => {}
        }
    }
    for (index, text) in json.into_iter().filter(|(_, text)| !text.is_empty()) {
        message["content"][usize::try_from(index).unwrap()]["input"] = serde_json::from_str(&text).unwrap();
    }
    message
}

#[test]
fn recorded_responses_match_a_naive_reader() {
    let Some(exchanges) = exchanges("anthropic.messages") else { return };
    let (wire, request) = (MessagesDialect::new(MessagesOptions::ANTHROPIC), ModelRequest::default());
    let (mut whole, mut streamed, mut unchanged) = (0, 0, 0);
    for (name, exchange) in exchanges.iter().filter(|(_, exchange)| exchange["response"]["status"] == 200) {
        let body = &exchange["response"]["body"];
        let (message, response) = if exchange["format"] == "sse" {
            streamed += 1;
            let frames = data_lines(body.as_str().unwrap());
            let trees: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
            (naive_message(&trees), stream(&wire, &request, &frames).1)
        } else {
            whole += 1;
            (body.clone(), with_sources(|sources| wire.decode(&body.to_string(), &request, sources)))
        };
        let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let blocks = message["content"].as_array().unwrap();
        assert_eq!(
            response.message.text().replace("\n\n", ""),
            naive_text(blocks).replace("\n\n", ""),
            "{name}"
        );
        let is_result =
            |block: &&Value| block["type"].as_str().unwrap().contains("code_execution_tool_result");
        let is_run = |block: &&ContentBlock| matches!(block, ContentBlock::CodeExecution(_));
        assert_eq!(
            response.message.content().iter().filter(is_run).count(),
            blocks.iter().filter(is_result).count(),
            "{name}"
        );
        let calls = response.message.tool_calls().iter();
        let calls: Vec<_> = calls
            .map(|call| {
                (
                    call.tool_call_id.clone(),
                    call.tool_name.clone(),
                    call.arguments.to::<serde_json::Value>().unwrap(),
                )
            })
            .collect();
        assert_eq!(calls, naive_calls(blocks), "{name}");
        let count = |key: &str| message["usage"][key].as_u64().unwrap_or_default();
        let usage = &response.usage;
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (count("input_tokens"), count("output_tokens"))
        );
        assert_eq!(usage.cache_read_tokens, count("cache_read_input_tokens"), "{name}");
        assert_eq!(usage.cache_write_tokens, count("cache_creation_input_tokens"), "{name}");
        assert_eq!(response.message.id, message["id"], "{name}");
        unchanged += usize::from(round_trips(&wire, name, blocks, &response));
    }
    println!("{whole} whole, {streamed} streamed, {unchanged} encoded to the same blocks");
    assert!(whole > 0 && streamed > 0);
}

fn block_is_direct(caller: &Value) -> bool {
    caller["type"] == "direct"
}

/// Checks that a decoded response encodes to the blocks of the vendor.
fn round_trips(
    wire: &MessagesDialect,
    name: &str,
    blocks: &[Value],
    response: &turntree::upp::ModelResponse,
) -> bool {
    let messages = std::iter::once(std::sync::Arc::clone(&response.message)).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let sent: Value = {
        let model = crate::support::dialect::answering_model(&response.message);
        serde_json::from_slice(&wire.encode(&model, &request, false).unwrap()).unwrap()
    };
    let normalized = |block: &Value| {
        let mut block = block.clone();
        block.as_object_mut().unwrap().retain(|key, value| match key.as_str() {
            "citations" => value.as_array().is_some_and(|citations| !citations.is_empty()),
            "caller" => !block_is_direct(value),
            _ => true,
        });
        block
    };
    let expected: Vec<Value> = blocks.iter().filter(|block| block["text"] != "").map(normalized).collect();
    let empty = Vec::new();
    let sent: Vec<Value> =
        sent["messages"][0]["content"].as_array().unwrap_or(&empty).iter().map(normalized).collect();
    assert_eq!(sent, expected, "{name}");
    true
}

/// Frames with deltas of a block, valid and unusual.
const DELTA_FRAMES: [&str; 8] = [
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel\nlo"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"why"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"strange_delta","text":"s","more":[1,{}]}}"#,
    r#"{"delta":{"text":"t","type":"text_delta"},"index":9,"type":"content_block_delta"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
];

proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

    /// An unknown member makes the decoder read the frame in two passes.
    #[test]
    fn reading_a_frame_in_one_pass_or_in_two_gives_the_same_events(
        frames in prop::collection::vec((0..DELTA_FRAMES.len(), 1..110_usize, prop::option::of(b' '..=b'~')), 1..12),
    ) {
        const EVENT: Option<&str> = Some("content_block_delta");
        let dialect = MessagesDialect::new(MessagesOptions::ANTHROPIC);
        let request = hello();
        let (mut one, mut two) = (dialect.stream_decoder(&request), dialect.stream_decoder(&request));
        let (mut events_of_one, mut events_of_two) = (Vec::new(), Vec::new());
        for block in [
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c","name":"n","input":{}}}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"strange","text":"x"}}"#,
        ] {
            one.frame(None, block, &mut events_of_one).unwrap();
            two.frame(None, block, &mut events_of_two).unwrap();
        }

        for (place, at, byte) in frames {
            let mut frame = DELTA_FRAMES[place].as_bytes().to_vec();
            if let (Some(byte), Some(old)) = (byte, frame.get_mut(at)) {
                *old = byte;
            }
            let frame = String::from_utf8(frame).unwrap();
            let strange = frame.replacen('{', r#"{"unknown":0,"#, 1);
            let of_one = one.frame(EVENT, &frame, &mut events_of_one).map_err(|error| error.code);
            let of_two = two.frame(EVENT, &strange, &mut events_of_two).map_err(|error| error.code);
            prop_assert_eq!(of_one, of_two, "{}", frame);
            prop_assert_eq!(&events_of_one, &events_of_two, "{}", frame);
        }

        let stop = r#"{"type":"message_stop"}"#;
        one.frame(None, stop, &mut events_of_one).unwrap();
        two.frame(None, stop, &mut events_of_two).unwrap();
        let answer = with_sources(|sources| one.finish(sources, &mut events_of_one)).unwrap();
        let other = with_sources(|sources| two.finish(sources, &mut events_of_two)).unwrap();
        prop_assert_eq!(message_json(&answer), message_json(&other));
    }
}

//! The Responses dialect, of OpenAI and of other hosts. UPP-1.2 §19.2.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree::core::secret::Secret;
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::responses::{Documents, ResponsesDialect, ResponsesOptions};
use turntree::upp::providers::deepseek::deepseek_responses;
use turntree::upp::providers::openai::openai;
use turntree::upp::{Endpoint, ModelRequest, ModelResponse, ProviderConfig};

use crate::support::fixtures::{
    assert_truncated_frames_do_not_panic, call_over_sockets, cases, data_lines, decode_and_compare,
    encode_and_compare, errors_and_compare, exchanges, header, stream, with_sources,
};

fn make(options: &Value) -> Box<dyn Dialect> {
    let mut vendor = ResponsesOptions::OPENAI;
    if options["vendor"] == "clone" {
        vendor = ResponsesOptions {
            endpoint: Endpoint { provider: "clone".into(), ..vendor.endpoint },
            documents: Documents::Any,
            image_detail: Some("auto"),
            native_tools: false,
            joins_texts: true,
            items_need_ids: true,
            reasoning_needs_content: true,
            metadata_members: &["citations"],
            ..vendor
        };
    }
    Box::new(ResponsesDialect::new(vendor))
}

#[test]
fn requests_encode_to_the_wire_format() {
    encode_and_compare("responses/requests.json", make);
}

#[test]
fn responses_decode_to_messages_complete_and_streamed() {
    decode_and_compare("responses/answers.json", make);
}

#[test]
fn error_bodies_map_to_error_codes() {
    errors_and_compare("responses/errors.json", make);
}

#[test]
fn the_key_is_sent_as_a_bearer_token() {
    let headers =
        ResponsesDialect::new(ResponsesOptions::OPENAI).endpoint().headers(Some(&Secret::from("sk-1")));

    let shown: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.expose())).collect();
    assert_eq!(shown, [("authorization", "Bearer sk-1")]);
}

#[test]
fn truncated_frames_are_errors() {
    assert_truncated_frames_do_not_panic("responses/answers.json", make);
}

#[tokio::test]
async fn calls_use_the_responses_path_and_a_bearer_token() {
    let answers = cases("responses/answers.json");

    let (requests, response) = call_over_sockets(
        |_| Arc::new(openai()),
        |server| ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789"),
        &answers[1],
    )
    .await;

    assert_eq!(response.message.tool_calls().len(), 2);
    for request in &requests {
        assert!(request.head.starts_with("POST /v1/responses HTTP/1.1"), "{}", request.head);
        assert_eq!(header(request, "authorization"), ["Bearer sk-0123456789"]);
    }
}

#[test]
fn recorded_error_bodies_map_to_error_codes() {
    for folder in ["openai.responses", "deepseek.responses"] {
        let Some(exchanges) = exchanges(folder) else { return };
        for (name, exchange) in exchanges.iter().filter(|(_, exchange)| exchange["response"]["status"] != 200)
        {
            let status = exchange["response"]["status"].as_u64().unwrap();
            let body = &exchange["response"]["body"];
            let error = openai().error_of_body(u16::try_from(status).unwrap(), &body.to_string());
            let (code, message) = error.unwrap();
            let is_about_model = body["error"]["code"] == "model_not_found";
            let expected = if is_about_model { "MODEL_NOT_FOUND" } else { "INVALID_REQUEST" };
            assert_eq!(code.as_str(), expected, "{name}");
            assert_eq!(message, body["error"]["message"].as_str().unwrap(), "{name}");
        }
    }
}

fn parts<'a>(answer: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    answer["output"].as_array().into_iter().flatten().filter(move |item| item["type"] == kind)
}

fn naive_texts(answer: &Value) -> Vec<&str> {
    let content = parts(answer, "message").flat_map(|item| item["content"].as_array().unwrap());
    content.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty()).collect()
}

fn naive_calls(answer: &Value) -> Vec<(String, String, Value)> {
    parts(answer, "function_call")
        .map(|call| {
            let text = |key: &str| call[key].as_str().unwrap().to_owned();
            (text("call_id"), text("name"), serde_json::from_str(&text("arguments")).unwrap_or(json!({})))
        })
        .collect()
}

/// The texts of a stream, by item and part.
fn naive_stream_texts(frames: &[Value]) -> Vec<String> {
    let mut texts = std::collections::BTreeMap::<(u64, u64), String>::new();
    for frame in frames.iter().filter(|frame| frame["type"] == "response.output_text.delta") {
        let key = (frame["output_index"].as_u64().unwrap(), frame["content_index"].as_u64().unwrap());
        texts.entry(key).or_default().push_str(frame["delta"].as_str().unwrap());
    }
    texts.into_values().collect()
}

fn compare(name: &str, answer: &Value, response: &ModelResponse) {
    let texts = response.message.content().iter().filter_map(|block| block.as_text());
    assert_eq!(texts.collect::<Vec<_>>(), naive_texts(answer), "{name}");
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
    assert_eq!(calls, naive_calls(answer), "{name}");
    let (usage, recorded_usage) = (&response.usage, &answer["usage"]);
    let count = |key: &str| recorded_usage[key].as_u64().unwrap_or_default();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (count("input_tokens"), count("output_tokens"), count("total_tokens")),
        "{name}"
    );
    let cached = recorded_usage["input_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
    assert_eq!(usage.cache_read_tokens, cached, "{name}");
    assert_eq!(response.message.id, answer["id"], "{name}");
}

/// Checks that a decoded response encodes to the items of the vendor, except members that the vendor does not read.
fn assert_round_trips(wire: &ResponsesDialect, name: &str, answer: &Value, response: &ModelResponse) {
    let messages = std::iter::once(std::sync::Arc::clone(&response.message)).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let sent: Value = {
        let model = crate::support::dialect::answering_model(&response.message);
        serde_json::from_slice(&wire.encode(&model, &request, false).unwrap()).unwrap()
    };
    let normalized = |item: &Value| {
        let mut item = item.clone();
        match item["type"].as_str().unwrap() {
            "message" => {
                let texts: Vec<Value> =
                    item["content"].as_array().unwrap().iter().map(|part| part["text"].clone()).collect();
                item = json!({"message": texts});
            }
            "function_call" => {
                item.as_object_mut().unwrap().remove("status");
            }
            "reasoning" => {
                item.as_object_mut()
                    .unwrap()
                    .retain(|key, value| key != "status" && !value.is_null() && *value != json!([]));
            }
            _ => {}
        }
        item
    };
    let expected = answer["output"].as_array().unwrap().iter().map(normalized);
    let expected: Vec<Value> = expected.filter(|item| item["message"] != json!([""])).collect();
    let empty = Vec::new();
    let sent: Vec<Value> = sent["input"].as_array().unwrap_or(&empty).iter().map(normalized).collect();
    assert_eq!(sent, expected, "{name}");
}

#[test]
fn recorded_responses_match_a_naive_reader() {
    let request = ModelRequest::default();
    let (mut whole, mut streamed) = (0, 0);
    for folder in ["openai.responses", "azure.responses", "deepseek.responses"] {
        let Some(exchanges) = exchanges(folder) else { return };
        let wire = if folder == "deepseek.responses" { deepseek_responses() } else { openai() };
        for (name, exchange) in exchanges.iter().filter(|(_, exchange)| exchange["response"]["status"] == 200)
        {
            let path = exchange["request"]["path"].as_str().unwrap();
            let body = &exchange["response"]["body"];
            if path.ends_with("/input_tokens") || body["object"] == "response.compaction" {
                continue;
            }
            let (answer, response) = if exchange["format"] == "sse" {
                streamed += 1;
                let frames = data_lines(body.as_str().unwrap());
                let trees: Vec<Value> =
                    frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
                let answer =
                    trees.iter().rfind(|frame| frame["response"].is_object()).unwrap()["response"].clone();
                if trees[0]["sequence_number"] == 0 {
                    assert_eq!(naive_stream_texts(&trees), naive_texts(&answer), "{name}");
                }
                (answer, stream(&wire, &request, &frames).1)
            } else {
                whole += 1;
                (body.clone(), with_sources(|sources| wire.decode(&body.to_string(), &request, sources)))
            };
            let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            compare(name, &answer, &response);
            assert_round_trips(&wire, name, &answer, &response);
        }
    }
    println!("{whole} whole, {streamed} streamed, each encoded to the same items");
    assert!(whole > 0 && streamed > 0);
}

//! The Responses wire, as OpenAI speaks it and as others do. UPP-1.2 §19.2.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree::core::secret::Secret;
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::responses::{Documents, ResponsesDialect, ResponsesOptions};
use turntree::upp::providers::deepseek::deepseek_responses;
use turntree::upp::providers::openai::openai;
use turntree::upp::{Endpoint, ModelRequest, ModelResponse, ProviderConfig};

use crate::support::fixtures::{
    call_over_sockets, cases, data_lines, decode_and_compare, encode_and_compare, errors_and_compare,
    exchanges, header, stream, survives_cut_frames, with_sources,
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
fn requests_become_the_wire() {
    encode_and_compare("responses/requests.json", make);
}

#[test]
fn answers_become_messages_whole_and_streamed() {
    decode_and_compare("responses/answers.json", make);
}

#[test]
fn errors_become_codes() {
    errors_and_compare("responses/errors.json", make);
}

#[test]
fn the_key_is_a_bearer() {
    let headers =
        ResponsesDialect::new(ResponsesOptions::OPENAI).endpoint().headers(Some(&Secret::from("sk-1")));

    let shown: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.expose())).collect();
    assert_eq!(shown, [("authorization", "Bearer sk-1")]);
}

#[test]
fn cut_frames_are_no_answer() {
    survives_cut_frames("responses/answers.json", make);
}

#[tokio::test]
async fn a_call_goes_to_responses_with_a_bearer() {
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
fn recorded_refusals_have_the_code_of_their_kind() {
    for folder in ["openai.responses", "deepseek.responses"] {
        let Some(exchanges) = exchanges(folder) else { return };
        for (name, exchange) in exchanges.iter().filter(|(_, exchange)| exchange["response"]["status"] != 200)
        {
            let status = exchange["response"]["status"].as_u64().unwrap();
            let body = &exchange["response"]["body"];
            let told = openai().error_of_body(u16::try_from(status).unwrap(), &body.to_string());
            let (code, message) = told.unwrap();
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

/// What the pieces of a stream say, item by item and part by part.
fn naive_pieces(frames: &[Value]) -> Vec<String> {
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
    let (usage, told) = (&response.usage, &answer["usage"]);
    let count = |key: &str| told[key].as_u64().unwrap_or_default();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (count("input_tokens"), count("output_tokens"), count("total_tokens")),
        "{name}"
    );
    let cached = told["input_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
    assert_eq!(usage.cache_read_tokens, cached, "{name}");
    assert_eq!(response.message.id, answer["id"], "{name}");
}

/// What the vendor said is what it is told it said, but for what it does not read back.
fn goes_back_as_it_came(wire: &ResponsesDialect, name: &str, answer: &Value, response: &ModelResponse) {
    let messages = std::iter::once(std::sync::Arc::clone(&response.message)).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let sent: Value = {
        let model = crate::support::dialect::answered(&response.message);
        serde_json::from_slice(&wire.encode(&model, &request, false).unwrap()).unwrap()
    };
    let lean = |item: &Value| {
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
    let said = answer["output"].as_array().unwrap().iter().map(lean);
    let said: Vec<Value> = said.filter(|item| item["message"] != json!([""])).collect();
    let empty = Vec::new();
    let sent: Vec<Value> = sent["input"].as_array().unwrap_or(&empty).iter().map(lean).collect();
    assert_eq!(sent, said, "{name}");
}

#[test]
fn recorded_answers_read_as_a_naive_reader_does() {
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
                    assert_eq!(naive_pieces(&trees), naive_texts(&answer), "{name}");
                }
                (answer, stream(&wire, &request, &frames).1)
            } else {
                whole += 1;
                (body.clone(), with_sources(|sources| wire.decode(&body.to_string(), &request, sources)))
            };
            let response = response.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            compare(name, &answer, &response);
            goes_back_as_it_came(&wire, name, &answer, &response);
        }
    }
    println!("{whole} whole, {streamed} streamed, each sent back item for item");
    assert!(whole > 0 && streamed > 0);
}

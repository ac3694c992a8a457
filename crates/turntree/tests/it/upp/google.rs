//! The generateContent dialect of Google. UPP-1.2 §19.4.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use turntree::core::ids::CountingIds;
use turntree::core::secret::Secret;
use turntree::message::{ContentBlock, Delta};
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::gemini::{GeminiDialect, GeminiOptions};
use turntree::upp::http_model::HttpModel;
use turntree::upp::providers::google::google;
use turntree::upp::{Model as _, ModelEvent, ModelRequest, ModelResponse, ProviderConfig};

use crate::support::fixtures::{
    assert_truncated_frames_do_not_panic, cases, data_lines, decode_and_compare, encode_and_compare,
    errors_and_compare, exchanges, frames_of, header, request_of, stream, with_sources,
};
use crate::support::server::{Server, chunk, event_stream, json as json_body, last_chunk};

fn wire() -> GeminiDialect {
    GeminiDialect::new(GeminiOptions::GOOGLE).with_ids(Arc::new(CountingIds::default()))
}

fn make(_options: &Value) -> Box<dyn Dialect> {
    Box::new(wire())
}

#[test]
fn requests_encode_to_the_wire_format() {
    encode_and_compare("google/requests.json", make);
}

#[test]
fn requests_depend_on_the_generation_of_the_model() {
    for case in cases("google/models.json") {
        let (name, model) = (&case["name"], case["model"].as_str().unwrap());

        let body = wire().encode(model, &request_of(&case), false);

        match (body, case["error"].as_str()) {
            (Ok(body), None) => {
                assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), case["wire"], "{name}");
            }
            (Err(error), Some(words)) => assert!(error.message.contains(words), "{name}: {error}"),
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn responses_decode_to_messages_complete_and_streamed() {
    decode_and_compare("google/answers.json", make);
}

#[test]
fn error_bodies_map_to_error_codes() {
    errors_and_compare("google/errors.json", make);
}

#[test]
fn truncated_frames_are_errors() {
    assert_truncated_frames_do_not_panic("google/answers.json", make);
}

/// The parts that a decoded message encodes to.
fn encoded_parts(wire: &GeminiDialect, response: &ModelResponse) -> Vec<Value> {
    let messages = std::iter::once(Arc::clone(&response.message)).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let sent: Value = {
        let model = crate::support::dialect::answering_model(&response.message);
        serde_json::from_slice(&wire.encode(&model, &request, false).unwrap()).unwrap()
    };
    assert_eq!(sent["contents"][0]["role"], "model");
    sent["contents"][0]["parts"].as_array().unwrap().clone()
}

/// The parts that should be encoded again: only signed thoughts, no empty texts, adjacent unsigned texts joined.
fn expected_parts(parts: &[Value]) -> Vec<Value> {
    let mut expected: Vec<Value> = Vec::new();
    for part in parts {
        let mut part = part.clone();
        let is_signed = part.get("thoughtSignature").is_some();
        let is_text = part.get("text").is_some();
        if let Some(call) = part.get_mut("functionCall") {
            if call["args"].is_null() {
                call["args"] = json!({});
            }
            call.as_object_mut().unwrap().remove("id");
        }
        if part == json!({}) || (is_text && part["text"] == "" && !is_signed) {
            continue;
        }
        let joins_last = is_text
            && expected.last().is_some_and(|last| {
                last.get("text").is_some()
                    && last["thought"] == part["thought"]
                    && last.get("thoughtSignature").is_none()
            });
        match expected.last_mut() {
            Some(last) if joins_last => {
                let text = last["text"].as_str().unwrap().to_owned() + part["text"].as_str().unwrap();
                part["text"] = text.into();
                *last = part;
            }
            _ => expected.push(part),
        }
    }
    expected.retain(|part| part["thought"] != true || part.get("thoughtSignature").is_some());
    if expected.is_empty() {
        expected.push(json!({"text": ""}));
    }
    expected
}

fn without_ids(parts: Vec<Value>) -> Vec<Value> {
    parts
        .into_iter()
        .map(|mut part| {
            if let Some(call) = part.get_mut("functionCall") {
                call.as_object_mut().unwrap().remove("id");
            }
            part
        })
        .collect()
}

#[test]
fn decoded_responses_encode_to_the_same_parts() {
    for case in cases("google/answers.json") {
        let Some(parts) = case["body"]["candidates"][0]["content"]["parts"].as_array() else { continue };
        let is_tool_answer = case["response"]["metadata"]["google"].get("jsonResponseId").is_some();
        if is_tool_answer || case["name"] == "only the first candidate is the answer" {
            continue;
        }
        let (wire, request) = (wire(), request_of(&case["request"]));
        let body = case["body"].to_string();

        let response = with_sources(|sources| wire.decode(&body, &request, sources)).unwrap();

        assert_eq!(without_ids(encoded_parts(&wire, &response)), expected_parts(parts), "{}", case["name"]);
    }
}

#[test]
fn calls_without_an_id_get_unique_ids_that_are_sent_with_the_call() {
    let part = json!({"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"});
    let body = json!({"candidates": [{"content": {"parts": [part, part]}, "finishReason": "STOP"}]});
    let (wire, request) = (wire(), ModelRequest::default());

    let whole = with_sources(|sources| wire.decode(&body.to_string(), &request, sources)).unwrap();
    let (events, streamed) = stream(&wire, &request, &[body.to_string()]);

    let streamed = streamed.unwrap();
    let ids: std::collections::BTreeSet<&str> = [&whole, &streamed]
        .iter()
        .flat_map(|response| response.message.tool_calls())
        .map(|call| call.tool_call_id.as_str())
        .collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    let event_ids = events.iter().filter_map(|event| match &event.delta {
        Delta::ToolCall(call) => Some(&*call.tool_call_id),
        _ => None,
    });
    let calls = streamed.message.tool_calls().iter().map(|call| call.tool_call_id.as_str());
    assert!(event_ids.eq(calls));
    let sent = encoded_parts(&wire, &streamed);
    assert_eq!(sent[0]["functionCall"]["id"], streamed.message.tool_calls()[0].tool_call_id);
    assert_eq!((&sent[0]["thoughtSignature"], &sent[1]["thoughtSignature"]), (&json!("s"), &json!("s")));
}

#[test]
fn paths_contain_model_and_method_and_preserve_collections() {
    let wire = google(&ProviderConfig::default());
    assert_eq!(wire.endpoint().base_url, "https://generativelanguage.googleapis.com/v1beta");
    assert_eq!(wire.path("gemini-x", false), "/models/gemini-x:generateContent");
    assert_eq!(wire.path("gemini-x", true), "/models/gemini-x:streamGenerateContent?alt=sse");
    assert_eq!(wire.path("tunedModels/t", false), "/tunedModels/t:generateContent");
    let config = ProviderConfig { api_version: Some("v1".to_owned()), ..ProviderConfig::default() };
    assert_eq!(google(&config).endpoint().base_url, "https://generativelanguage.googleapis.com/v1");
    let headers = wire.endpoint().headers(Some(&Secret::from("k")));
    assert_eq!(headers.len(), 1);
    assert_eq!((headers[0].0, headers[0].1.expose()), ("x-goog-api-key", "k"));
}

#[tokio::test]
async fn calls_and_streams_work_over_sockets() {
    let answers = cases("google/answers.json");
    let case = answers.iter().find(|case| case["name"] == "structured output").unwrap();
    let events: Vec<String> = frames_of(case).iter().map(|frame| format!("data: {frame}\r\n\r\n")).collect();
    let streamed = vec![event_stream(), chunk(&events.concat()), last_chunk()];
    let server = Server::start([json_body(&case["body"].to_string()), streamed]).await;
    let config = ProviderConfig::default().with_base_url(server.url("/v1beta")).with_key("AIza-0123456789");
    let model = HttpModel::new(Arc::new(google(&config)), "gemini-x", config);

    let whole = model.complete(request_of(&case["request"])).await.unwrap();
    let items: Vec<_> = model.stream(request_of(&case["request"])).collect().await;

    assert_eq!(whole.data.unwrap().get(), r#"{"n":1.50}"#);
    let Some(Ok(ModelEvent::Done(streamed))) = items.into_iter().last() else { panic!("no answer") };
    assert_eq!(streamed.message.content(), whole.message.content());
    assert_eq!((streamed.usage, streamed.stop_reason), (whole.usage, whole.stop_reason));
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().filter_map(|request| request.head.lines().next()).collect();
    assert_eq!(
        lines,
        [
            "POST /v1beta/models/gemini-x:generateContent HTTP/1.1",
            "POST /v1beta/models/gemini-x:streamGenerateContent?alt=sse HTTP/1.1"
        ]
    );
    assert_eq!(header(&requests[0], "x-goog-api-key"), ["AIza-0123456789"]);
}

/// The parts of a response, complete or streamed, from JSON trees.
fn naive_parts(frames: &[Value]) -> Vec<Value> {
    let parts = frames.iter().filter_map(|frame| frame["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

fn check_recorded(wire: &GeminiDialect, name: &str, frames: &[Value], response: &ModelResponse) {
    let parts = naive_parts(frames);
    let words = |is_thought: bool| -> String {
        let parts = parts.iter().filter(|part| (part["thought"] == true) == is_thought);
        parts.filter_map(|part| part["text"].as_str()).collect()
    };
    let texts: Vec<&str> = response.message.content().iter().filter_map(ContentBlock::as_text).collect();
    assert_eq!(texts.concat(), words(false), "{name}");
    let outputs = response.message.content().iter().filter_map(|block| match block {
        ContentBlock::CodeExecution(block) => block.output.as_deref(),
        _ => None,
    });
    let recorded_outputs =
        parts.iter().map(|part| &part["codeExecutionResult"]).filter(|ran| ran.is_object());
    let recorded_outputs = recorded_outputs.map(|ran| ran["output"].as_str().unwrap_or_default());
    assert_eq!(outputs.collect::<Vec<_>>(), recorded_outputs.collect::<Vec<_>>(), "{name}");
    let thoughts = response.message.content().iter().filter_map(|block| match block {
        ContentBlock::Reasoning(block) => Some(block.text.as_str()),
        _ => None,
    });
    assert_eq!(thoughts.collect::<String>(), words(true), "{name}");
    let media = response.message.content().iter().filter(|block| matches!(block, ContentBlock::Image(_)));
    assert_eq!(
        media.count(),
        parts.iter().filter(|part| part["inlineData"].is_object() && part["thought"] != true).count(),
        "{name}"
    );
    let recorded_calls: Vec<&Value> =
        parts.iter().map(|part| &part["functionCall"]).filter(|call| call.is_object()).collect();
    let calls = response.message.tool_calls();
    assert_eq!(calls.len(), recorded_calls.len(), "{name}");
    for (call, recorded_call) in calls.iter().zip(recorded_calls) {
        assert_eq!(
            (&*call.tool_name, call.arguments.to::<Value>().unwrap()),
            (recorded_call["name"].as_str().unwrap(), recorded_call["args"].clone())
        );
        assert!(recorded_call["id"].as_str().is_none_or(|id| id == call.tool_call_id), "{name}");
    }
    let counts = frames.iter().rev().map(|frame| &frame["usageMetadata"]).find(|counts| counts.is_object());
    let count = |key: &str| counts.and_then(|counts| counts[key].as_u64()).unwrap_or_default();
    let usage = &response.usage;
    assert_eq!(usage.input_tokens, count("promptTokenCount") + count("toolUsePromptTokenCount"), "{name}");
    assert_eq!(usage.output_tokens, count("candidatesTokenCount") + count("thoughtsTokenCount"), "{name}");
    assert_eq!(usage.total_tokens, count("totalTokenCount"), "{name}");
    assert_eq!(usage.total_tokens, usage.input_tokens + usage.output_tokens, "{name}");
    assert_eq!(usage.cache_read_tokens, count("cachedContentTokenCount"), "{name}");
    assert_eq!(without_ids(encoded_parts(wire, response)), expected_parts(&parts), "{name}");
}

#[test]
fn recorded_responses_match_a_naive_reader() {
    let folders = ["google.generate_content", "google.generate_content.vertex"];
    let Some(recorded) = folders.into_iter().map(exchanges).collect::<Option<Vec<_>>>() else { return };
    let (wire, request) = (wire(), ModelRequest::default());
    let (mut whole, mut streamed, mut refused, mut cuts) = (0, 0, 0, 0);
    for (name, exchange) in recorded.iter().flatten() {
        let body = &exchange["response"]["body"];
        let status = exchange["response"]["status"].as_u64().unwrap();
        if status != 200 {
            refused += 1;
            let (code, message) =
                wire.error_of_body(u16::try_from(status).unwrap(), &body.to_string()).unwrap();
            assert_eq!((status, code.as_str()), (404, "MODEL_NOT_FOUND"), "{name}: {message}");
            assert_eq!(message, body["error"]["message"].as_str().unwrap(), "{name}");
        } else if exchange["format"] == "sse" {
            streamed += 1;
            let frames = data_lines(body.as_str().unwrap());
            let trees: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
            let response =
                stream(&wire, &request, &frames).1.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            check_recorded(&wire, name, &trees, &response);
            for length in 0..frames.len() {
                cuts += 1;
                let error = stream(&wire, &request, &frames[..length]).1.unwrap_err();
                assert_eq!(error.code.as_str(), "INVALID_RESPONSE", "{name}");
            }
        } else {
            whole += 1;
            let text = body.to_string();
            let response = with_sources(|sources| wire.decode(&text, &request, sources))
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            check_recorded(&wire, name, std::slice::from_ref(body), &response);
            let mut twin = stream(&wire, &request, &[text]).1.unwrap();
            if !response.message.tool_calls().iter().any(|call| call.tool_call_id.starts_with("call_")) {
                twin.message = Arc::new(turntree::message::Message {
                    id: response.message.id.clone(),
                    ..(*twin.message).clone()
                });
                assert_eq!(twin, response, "{name}");
            }
        }
    }
    println!("{whole} whole, {streamed} streamed, {cuts} cut, {refused} refused");
    assert!(whole > 0 && streamed > 0);
}

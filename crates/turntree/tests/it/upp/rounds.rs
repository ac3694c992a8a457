//! Several rounds with one dialect: each response becomes part of the next request. UPP-1.2 §10.5, §19.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree::core::ids::CountingIds;
use turntree::message::{Message, StreamEvent};
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::gemini::{GeminiDialect, GeminiOptions};
use turntree::upp::providers::ollama::ollama;
use turntree::upp::providers::xai::xai_messages;
use turntree::upp::{ModelRequest, ModelResponse, ProviderConfig};

use crate::support::fixtures::{assert_unique_indexes, cases, frames_of, request_of, stream, with_sources};

fn dialect(vendor: &str) -> Box<dyn Dialect> {
    match vendor {
        "google" => {
            Box::new(GeminiDialect::new(GeminiOptions::GOOGLE).with_ids(Arc::new(CountingIds::default())))
        }
        "ollama" => Box::new(ollama()),
        "xai_messages" => Box::new(xai_messages(&ProviderConfig::default())),
        other => panic!("unknown vendor {other}"),
    }
}

/// A message with the results of the tool calls, in call order.
fn results(answer: &Message, values: &Value) -> Arc<Message> {
    let values = values.as_array().unwrap();
    assert_eq!(answer.tool_calls().len(), values.len());
    let results = answer
        .tool_calls()
        .iter()
        .zip(values)
        .map(|(call, value)| json!({"toolCallId": call.tool_call_id, "result": value}));
    let message = json!({"id": "r", "type": "tool_result", "timestamp": "2024-01-15T10:30:00Z",
        "results": results.collect::<Vec<_>>()});
    Arc::new(serde_json::from_value(message).unwrap())
}

fn answer(
    dialect: &dyn Dialect,
    request: &ModelRequest,
    round: &Value,
    is_streamed: bool,
) -> (Vec<StreamEvent>, ModelResponse) {
    if is_streamed {
        let (events, end) = stream(dialect, request, &frames_of(round));
        return (events, end.unwrap());
    }
    (
        Vec::new(),
        with_sources(|sources| dialect.decode(&round["body"].to_string(), request, sources)).unwrap(),
    )
}

#[test]
fn a_tool_round_is_followed_by_structured_output() {
    for (case, is_streamed) in
        cases("rounds.json").into_iter().flat_map(|case| [(case.clone(), false), (case, true)])
    {
        let (name, model) = (&case["name"], case["model"].as_str().unwrap());
        let dialect = dialect(case["vendor"].as_str().unwrap());
        let mut request = request_of(&case);
        let mut messages: Vec<Arc<Message>> = request.messages.iter().cloned().collect();

        for round in case["rounds"].as_array().unwrap() {
            request.messages = messages.iter().cloned().collect();
            let body = dialect.encode(model, &request, false).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), round["wire"], "{name}");

            let (events, response) = answer(&*dialect, &request, round, is_streamed);

            assert_unique_indexes(name, &events);
            assert_eq!(response.stop_reason.as_str(), round["stopReason"], "{name}");
            assert_eq!(
                response.data.map(|data| data.to::<Value>().unwrap()),
                round.get("data").cloned(),
                "{name}"
            );
            messages.push(Arc::clone(&response.message));
            if let Some(values) = round.get("results") {
                messages.push(results(&response.message, values));
            } else {
                assert!(response.message.tool_calls().is_empty(), "{name}");
            }
        }
        let kinds = messages.iter().map(|message| serde_json::to_value(&**message).unwrap()["type"].clone());
        let kinds: Vec<Value> = kinds.collect();
        assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant"], "{name}");
    }
}

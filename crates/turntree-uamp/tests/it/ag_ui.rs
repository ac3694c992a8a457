//! AG-UI: requests, and the events of runs.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use turntree_agents::{Agent, AgentOptions, Tool};
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::ToolDefinition;
use turntree_server::TestClient;
use turntree_uamp::agent::{RustHost, ServedAgent};
use turntree_uamp::session::{AgentOutput, ToolOutcome};
use turntree_uamp::types::{ErrorCode, ErrorDetails, ToolCall};
use turntree_uamp::wires::ag_ui::events::Events;
use turntree_upp::providers::scripted::{Reply, Scripted};

use crate::service::{served, service_of};

/// The events of a body of server-sent events.
pub(crate) fn events_of(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn input(messages: &Value) -> Value {
    json!({
        "threadId": "t1", "runId": "r1", "state": {}, "messages": messages, "tools": [], "context": [],
        "forwardedProps": {},
    })
}

fn user(text: &str) -> Value {
    json!({ "id": "m1", "role": "user", "content": text })
}

#[tokio::test]
async fn a_run_begins_streams_its_text_as_one_message_and_finishes() {
    let client = TestClient::new(service_of([served("a", &["hello you"])]));
    let response = client.post("/ag-ui", &input(&json!([user("hi")]))).await.unwrap();
    assert_eq!((response.status.as_u16(), response.header("content-type")), (200, Some("text/event-stream")));

    let events = events_of(&response.text());

    assert_eq!(events[0], json!({ "type": "RUN_STARTED", "threadId": "t1", "runId": "r1" }));
    assert_eq!(events.last().unwrap(), &json!({ "type": "RUN_FINISHED", "threadId": "t1", "runId": "r1" }));
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "hello you");
    let list = types(&events);
    assert_eq!(list.iter().filter(|kind| **kind == "TEXT_MESSAGE_START").count(), 1);
    assert_eq!(list.iter().filter(|kind| **kind == "TEXT_MESSAGE_END").count(), 1);
}

#[tokio::test]
async fn a_run_ends_with_the_calls_of_the_front_ends_tools_and_the_next_run_has_their_results() {
    let arguments = RawJson::from_text(r#"{"x":1}"#.to_owned()).unwrap();
    let model = Arc::new(Scripted::new(vec![Reply::tool_call("locate", arguments), Reply::from("Rome")]));
    let options = AgentOptions { model: Some(model), name: Some("a".into()), ..AgentOptions::default() };
    let agent = ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost));
    let client = TestClient::new(service_of([agent]));
    let mut body = input(&json!([user("where")]));
    body["tools"] = json!([{ "name": "locate", "description": "", "parameters": { "type": "object", "properties": {} } }]);
    let events = events_of(&client.post("/ag-ui", &body).await.unwrap().text());
    let call = events.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    let arguments: String = events
        .iter()
        .filter(|event| event["type"] == "TOOL_CALL_ARGS")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!((call["toolCallName"].as_str(), arguments.as_str()), (Some("locate"), r#"{"x":1}"#));
    assert_eq!(types(&events).last(), Some(&"RUN_FINISHED"));

    body["messages"] = json!([
        user("where"),
        { "id": "m2", "role": "assistant", "toolCalls": [
            { "id": call["toolCallId"], "type": "function",
              "function": { "name": "locate", "arguments": "{\"x\":1}" } },
        ] },
        { "id": "m3", "role": "tool", "toolCallId": call["toolCallId"], "content": "Rome" },
    ]);
    let events = events_of(&client.post("/ag-ui", &body).await.unwrap().text());
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "Rome");
}

#[tokio::test]
async fn tools_of_the_server_show_their_calls_and_results() {
    let definition = ToolDefinition {
        name: "add".to_owned(),
        description: String::new(),
        parameters: RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap(),
        metadata: None,
        extra: Extra::new(),
    };
    let tool = Tool::new(definition).with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let replies = vec![Reply::tool_call("add", RawJson::empty_object()), Reply::from("seven")];
    let options = AgentOptions {
        model: Some(Arc::new(Scripted::new(replies))),
        tools: vec![tool],
        ..AgentOptions::default()
    };
    let agent = ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost));
    let client = TestClient::new(service_of([agent]));
    let events = events_of(&client.post("/ag-ui", &input(&json!([user("3+4")]))).await.unwrap().text());
    let list: Vec<&str> = types(&events)
        .into_iter()
        .filter(|kind| !kind.starts_with("STEP") && *kind != "CUSTOM" && *kind != "TOOL_CALL_ARGS")
        .collect();
    assert_eq!(
        list[..4],
        ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"],
        "{events:?}"
    );
    assert!(events.iter().any(|event| event["type"] == "TOOL_CALL_RESULT" && event["content"] == "\"7\""));
}

#[tokio::test]
async fn a_failed_run_ends_with_an_error_and_bad_requests_are_refused() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let response = client.post("/ag-ui", &input(&json!([user("hi")]))).await.unwrap();
    assert_eq!(types(&events_of(&response.text())).last(), Some(&"RUN_ERROR"));

    for body in [
        json!([]),
        json!({}),
        input(&json!([])),
        input(&json!([{ "role": "user", "content": [
            { "type": "image", "source": { "type": "url", "value": "file:///etc/passwd" } },
        ] }])),
    ] {
        let response = client.post("/ag-ui", &body).await.unwrap();
        assert_eq!(response.status.as_u16(), 400, "{body}");
        assert_eq!(response.json()["error"]["code"], "invalid_event");
    }
}

#[tokio::test]
async fn a_request_that_is_nested_too_deeply_is_refused() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let body = |parameters: &str, state: &str| {
        let tool = format!(r#"{{"name":"f","description":"d","parameters":{{"enum":{parameters}}}}}"#);
        let messages = json!([user("hi")]);
        let text = format!(
            r#"{{"threadId":"t","runId":"r","state":{state},"messages":{messages},"tools":[{tool}],"context":[],"forwardedProps":{{}}}}"#
        );
        RawJson::from_text(text).unwrap()
    };
    for (parameters, state) in [(&*deep(125), "{}"), ("[]", &*deep(128)), (&*deep(100_000), "{}")] {
        let response = client.post("/ag-ui", &body(parameters, state)).await.unwrap();

        assert_eq!(response.status.as_u16(), 400);
        assert!(response.text().contains("nested deeper than 128 levels"), "{}", response.text());
    }
    let accepted = client.post("/ag-ui", &body(&deep(120), &deep(120))).await.unwrap();
    assert_eq!(accepted.status.as_u16(), 200);
}

fn output() -> impl Strategy<Value = AgentOutput> {
    let call = |id: u8, arguments: &str| ToolCall {
        id: format!("c{}", id % 3),
        name: "f".to_owned(),
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    };
    prop_oneof![
        "[a-z]{0,3}".prop_map(AgentOutput::Text),
        "[a-z]{0,3}".prop_map(AgentOutput::Thinking),
        any::<u8>().prop_map(move |id| AgentOutput::ToolCallFragment(call(id, "{}"))),
        any::<u8>().prop_map(move |id| AgentOutput::ClientToolCall(call(id, "{}"))),
        any::<u8>().prop_map(|id| AgentOutput::ServerToolResult(ToolOutcome {
            call_id: format!("c{}", id % 3),
            result: "1".to_owned(),
            is_error: false
        })),
        Just(AgentOutput::AwaitingClient),
        Just(AgentOutput::Done),
        Just(AgentOutput::Failed(Box::new(ErrorDetails::new(ErrorCode::Timeout, "slow")))),
    ]
}

proptest! {
    #[test]
    fn what_begins_ends_before_something_else_begins_and_the_run_ends_once(
        outputs in proptest::collection::vec(output(), 0..30)
    ) {
        let mut machine = Events::new("t".into(), "r".into(), Arc::new(RandomIds));
        let mut events = machine.start();
        for output in outputs {
            events.extend(machine.push(output));
        }
        events.extend(machine.end());
        let mut open: Option<String> = None;
        let mut ends = 0;
        for event in &events {
            let kind = event["type"].as_str().unwrap();
            prop_assert_eq!(ends, 0, "an event after the end");
            if let Some(name) = kind.strip_suffix("_START") {
                if name != "REASONING" {
                    prop_assert!(open.replace(name.to_owned()).is_none());
                }
            } else if let Some(name) = kind.strip_suffix("_END") {
                if name != "REASONING" {
                    prop_assert_eq!(open.take(), Some(name.to_owned()));
                }
            } else if matches!(kind, "RUN_FINISHED" | "RUN_ERROR") {
                ends += 1;
                prop_assert!(open.is_none());
            }
        }
        prop_assert_eq!(ends, 1);
    }
}

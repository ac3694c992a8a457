//! The state of a client, without a connection.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::ids::RandomIds;
use turntree_uamp::client::{ClientCore, ClientError, Output, ResponseInput, SessionKey};
use turntree_uamp::session::ToolOutcome;

fn client() -> ClientCore {
    ClientCore::new(None, Arc::new(RandomIds))
}

fn input(text: &str) -> ResponseInput {
    ResponseInput { text: text.to_owned(), ..ResponseInput::default() }
}

/// The events that are sent, as JSON.
fn sent(outputs: &[Output]) -> Vec<Value> {
    let events = outputs.iter().filter_map(|output| match output {
        Output::Send(event) => Some(serde_json::from_str(&event.to_json()).unwrap()),
        _ => None,
    });
    events.collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn created(id: &str, resumed: bool) -> String {
    json!({ "type": "session.created", "event_id": "e", "uamp_version": "1.0", "session_id": id, "resumed": resumed,
            "session": { "id": id, "status": "active" } })
    .to_string()
}

fn event(id: &str, seq: u64, kind: &str, members: &Value) -> String {
    let mut event = json!({ "type": kind, "event_id": "e", "session_id": id, "seq": seq });
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event.to_string()
}

/// A connected client with one open session.
fn opened() -> (ClientCore, SessionKey) {
    let mut core = client();
    assert!(core.on_connected().is_empty());
    let (key, outputs) = core.open(Some("helper".to_owned()));
    let create = &sent(&outputs)[0];
    assert_eq!(create["agent"], "helper");
    assert_eq!(create["uamp_version"], "1.0");
    let outputs = core.on_text(&created("s1", false));
    assert!(matches!(&outputs[..], [Output::Opened(opened, _)] if *opened == key));
    (core, key)
}

/// The same with a response that has begun.
fn running() -> (ClientCore, SessionKey) {
    let (mut core, key) = opened();
    let outputs = core.run(key, input("hello")).unwrap();
    assert_eq!(kinds(&sent(&outputs)), ["input.text", "response.create"]);
    core.on_text(&event("s1", 1, "response.created", &json!({ "response_id": "r1" })));
    (core, key)
}

fn delta(seq: u64, text: &str) -> String {
    event(
        "s1",
        seq,
        "response.delta",
        &json!({ "response_id": "r1", "delta": { "type": "text", "text": text } }),
    )
}

#[test]
fn sessions_are_opened_one_after_the_other() {
    let mut core = client();
    let (first, outputs) = core.open(None);
    assert!(outputs.is_empty(), "there is no connection");
    let (second, _) = core.open(None);
    assert_eq!(kinds(&sent(&core.on_connected())), ["session.create"]);

    let outputs = core.on_text(&created("a", false));
    assert!(matches!(outputs[0], Output::Opened(key, _) if key == first));
    assert_eq!(kinds(&sent(&outputs)), ["session.create"]);
    let outputs = core.on_text(&created("b", false));
    assert!(matches!(outputs[0], Output::Opened(key, _) if key == second));

    let outputs = core.run(second, input("x")).unwrap();
    assert!(sent(&outputs).iter().all(|event| event["session_id"] == "b"));
}

#[test]
fn a_session_that_is_refused_fails_and_the_next_one_is_opened() {
    let mut core = client();
    core.on_connected();
    let (first, _) = core.open(Some("nobody".to_owned()));
    core.open(None);
    let refusal = json!({ "type": "session.error", "event_id": "e", "error": { "code": "agent_not_found", "message": "no" } });
    let outputs = core.on_text(&refusal.to_string());
    assert!(
        matches!(&outputs[0], Output::Failed(key, error) if *key == first && error.code() == "agent_not_found")
    );
    assert_eq!(kinds(&sent(&outputs)), ["session.create"]);
}

#[test]
fn a_response_ends_once_and_then_the_session_is_free() {
    let (mut core, key) = running();
    assert_eq!(core.run(key, input("again")), Err(ClientError::Busy));
    assert!(matches!(&core.on_text(&delta(2, "hi"))[..], [Output::Event(..)]));
    let done =
        json!({ "response_id": "r1", "response": { "id": "r1", "status": "completed", "output": [] } });
    let outputs = core.on_text(&event("s1", 3, "response.done", &done));
    assert!(matches!(&outputs[..], [Output::Event(..), Output::Ended(ended)] if *ended == key));
    assert!(core.on_text(&event("s1", 4, "response.done", &done)).is_empty());
    assert!(core.run(key, input("again")).is_ok());
}

#[test]
fn after_a_lost_connection_nothing_is_missing_or_repeated() {
    let (mut core, key) = running();
    core.on_text(&delta(2, "a"));
    core.on_disconnected();
    assert!(sent(&core.cancel(key)).is_empty(), "there is no connection");

    let create = &sent(&core.on_connected())[0];
    assert_eq!(
        create["session"]["extensions"]["uamp"]["resume"],
        json!({ "session_id": "s1", "after_seq": 2 })
    );
    let outputs = core.on_text(&created("s1", true));
    let ping = sent(&outputs).into_iter().find(|event| event["type"] == "ping").unwrap();
    assert!(core.on_text(&delta(2, "a")).is_empty());
    assert!(matches!(&core.on_text(&delta(3, "b"))[..], [Output::Event(..)]));
    // What the server may not have is sent when the client has all that the server has sent.
    let pong = json!({ "type": "pong", "event_id": "p", "reply_to": ping["event_id"] });
    let events = sent(&core.on_text(&pong.to_string()));
    assert_eq!(kinds(&events), ["response.cancel"]);
    assert_eq!(events[0]["response_id"], "r1");
}

#[test]
fn a_request_that_the_server_does_not_have_is_sent_again_with_its_ids() {
    let (mut core, key) = opened();
    let first = sent(&core.run(key, input("hello")).unwrap());
    core.on_disconnected();
    core.on_connected();
    let outputs = core.on_text(&created("s1", true));
    let ping = sent(&outputs).into_iter().find(|event| event["type"] == "ping").unwrap();
    let pong = json!({ "type": "pong", "event_id": "p", "reply_to": ping["event_id"] });
    assert_eq!(sent(&core.on_text(&pong.to_string())), first);
}

#[test]
fn a_request_whose_response_began_while_the_client_was_away_is_not_sent_again() {
    let (mut core, key) = opened();
    core.run(key, input("hello")).unwrap();
    core.on_disconnected();
    core.on_connected();
    let outputs = core.on_text(&created("s1", true));
    let ping = sent(&outputs).into_iter().find(|event| event["type"] == "ping").unwrap();
    core.on_text(&event("s1", 1, "response.created", &json!({ "response_id": "r1" })));
    let pong = json!({ "type": "pong", "event_id": "p", "reply_to": ping["event_id"] });
    assert!(core.on_text(&pong.to_string()).is_empty());
}

#[test]
fn a_response_that_the_server_has_lost_fails_and_the_session_goes_on() {
    let (mut core, key) = running();
    core.on_disconnected();
    core.on_connected();
    let outputs = core.on_text(&created("s1", false));
    assert!(
        outputs.iter().any(
            |output| matches!(output, Output::Failed(failed, ClientError::Lost { .. }) if *failed == key)
        )
    );
    assert_eq!(kinds(&sent(&core.run(key, input("again")).unwrap())), ["input.text", "response.create"]);
}

#[test]
fn a_session_that_the_server_no_longer_has_fails() {
    let (mut core, key) = running();
    core.on_disconnected();
    core.on_connected();
    let error = json!({ "type": "session.error", "event_id": "e", "error": { "code": "session_not_found", "message": "gone" } });
    let outputs = core.on_text(&error.to_string());
    assert!(
        matches!(&outputs[..], [Output::Failed(failed, error)] if *failed == key && error.code() == "session_lost")
    );
    assert_eq!(core.run(key, input("again")), Err(ClientError::Closed));
}

#[test]
fn results_of_tools_are_sent_and_repeated_after_a_lost_connection() {
    let (mut core, key) = running();
    let outcome = ToolOutcome { call_id: "c1".to_owned(), result: "3".to_owned(), is_error: false };
    let first = sent(&core.resolve(key, outcome));
    assert_eq!((&first[0]["type"], &first[0]["call_id"]), (&"tool.result".into(), &"c1".into()));
    core.on_disconnected();
    core.on_connected();
    let outputs = core.on_text(&created("s1", true));
    let ping = sent(&outputs).into_iter().find(|event| event["type"] == "ping").unwrap();
    let pong = json!({ "type": "pong", "event_id": "p", "reply_to": ping["event_id"] });
    assert_eq!(sent(&core.on_text(&pong.to_string())), first);
    // The server had it: its complaint is not an error of the response.
    let unknown = json!({ "error": { "code": "unknown_call_id", "message": "no" } });
    assert!(core.on_text(&event("s1", 9, "response.error", &unknown)).is_empty());
}

#[test]
fn an_error_of_the_response_ends_it() {
    let (mut core, key) = running();
    let error = json!({ "response_id": "r1", "error": { "code": "generation_error", "message": "the model failed" } });
    let outputs = core.on_text(&event("s1", 2, "response.error", &error));
    assert!(matches!(&outputs[..], [Output::Event(..), Output::Failed(failed, error)]
        if *failed == key && error.to_string() == "the model failed"));
}

#[test]
fn a_server_cannot_break_the_client() {
    let (mut core, _) = running();
    for text in [
        "",
        "[]",
        "{}",
        "null",
        "{\"type\":3}",
        "{\"type\":\"pong\"}",
        "{\"type\":\"session.created\"}",
        "\u{0}",
    ] {
        core.on_text(text);
    }
    core.on_text(&created("s9", true));
    core.on_text(&event("s9", 1, "response.done", &json!({})));
    assert!(matches!(&core.on_text(&delta(2, "still here"))[..], [Output::Event(..)]));
}

#[test]
fn all_sessions_fail_when_the_connection_is_given_up() {
    let (mut core, key) = running();
    let outputs = core.on_given_up(&ClientError::Closed);
    assert!(matches!(&outputs[..], [Output::Failed(failed, _)] if *failed == key));
    assert!(!core.has_sessions());
}

#[test]
fn a_session_that_another_server_takes_over_goes_on_without_the_response() {
    let (mut core, key) = running();
    core.on_disconnected();
    core.on_connected();
    let mut taken: Value = serde_json::from_str(&created("s1", true)).unwrap();
    taken["seq"] = 2.into();
    let outputs = core.on_text(&taken.to_string());
    let is_lost = |output: &Output| matches!(output, Output::Failed(failed, ClientError::Lost { .. }) if *failed == key);
    assert!(outputs.iter().any(is_lost));
    core.run(key, input("again")).unwrap();
    assert!(core.on_text(&event("s1", 2, "capabilities", &json!({ "capabilities": {} }))).is_empty());
    let begun = core.on_text(&event("s1", 3, "response.created", &json!({ "response_id": "r2" })));
    assert!(matches!(&begun[..], [Output::Event(..)]));
}

#[test]
fn a_session_whose_events_the_server_has_dropped_fails() {
    let (mut core, key) = running();
    core.on_disconnected();
    core.on_connected();
    core.on_text(&created("s1", true));
    let error = json!({ "type": "session.error", "event_id": "e", "session_id": "s1",
        "error": { "code": "session_not_found", "message": "gone" } });
    let outputs = core.on_text(&error.to_string());
    assert!(
        matches!(&outputs[..], [Output::Failed(failed, error)] if *failed == key && error.code() == "session_lost")
    );
}

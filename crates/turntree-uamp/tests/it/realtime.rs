//! The Realtime protocol.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::ids::RandomIds;
use turntree_core::message::StreamEvent;
use turntree_core::message::event::{DataDelta, Delta};
use turntree_core::message::media::Binary;
use turntree_core::time::SystemClock;
use turntree_server::websocket::Message;
use turntree_server::{Connection, Service, WebSocket, WebSocketUpgrade};
use turntree_uamp::agent::ServedAgent;
use turntree_uamp::wires::realtime::core::{Core, Effect};
use turntree_uamp::wires::realtime::names::Generation;
use turntree_upp::Capabilities;
use turntree_upp::providers::scripted::{Reply, Scripted};

use crate::openai::{agent_with, arguments, scripted};
use crate::service::service_of;

/// Opens a connection in process.
async fn connect(agent: ServedAgent, beta: bool) -> WebSocket {
    let (upgrade, answer) = WebSocketUpgrade::new(Vec::new());
    let mut request = http::Request::builder().uri("/v1/realtime?model=weather");
    if beta {
        request = request.header("OpenAI-Beta", "realtime=v1");
    }
    let request = request.body(()).unwrap();
    let service = Service::new(service_of([agent]));
    tokio::spawn(async move { service.websocket(request, Connection::default(), upgrade).await });
    match answer.await.unwrap() {
        turntree_server::websocket::Handshake::Accepted(socket) => socket,
        turntree_server::websocket::Handshake::Rejected(response) => panic!("{}", response.status()),
    }
}

async fn send(socket: &WebSocket, event: Value) {
    socket.send(Message::Text(event.to_string())).await.unwrap();
}

async fn receive(socket: &mut WebSocket) -> Value {
    match socket.receive().await {
        Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The events until one of this type.
async fn until(socket: &mut WebSocket, kind: &str) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let event = receive(socket).await;
        assert!(event["event_id"].is_string(), "{event}");
        let is_last = event["type"] == kind;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    kinds.dedup();
    kinds
}

fn text_item(text: &str) -> Value {
    let content = [json!({ "type": "input_text", "text": text })];
    json!({ "type": "conversation.item.create",
        "item": { "type": "message", "role": "user", "content": content } })
}

#[tokio::test]
async fn a_text_response_has_the_events_of_today() {
    let (model, agent) = scripted(vec![Reply::from("hello you"), Reply::from("again")], Vec::new());
    let mut socket = connect(agent, false).await;
    let created = receive(&mut socket).await;
    assert_eq!(
        (&created["type"], &created["session"]["type"]),
        (&"session.created".into(), &"realtime".into())
    );
    send(&socket, json!({ "type": "session.update", "session": { "instructions": "be brief" } })).await;
    let updated = receive(&mut socket).await;
    assert_eq!(updated["session"]["instructions"], "be brief");
    send(&socket, text_item("hi")).await;
    until(&mut socket, "conversation.item.done").await;
    send(&socket, json!({ "type": "response.create" })).await;
    let events = until(&mut socket, "response.done").await;
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
    );
    let response = &events.last().unwrap()["response"];
    assert_eq!(
        (&response["status"], &response["output"][0]["content"][0]["text"]),
        (&"completed".into(), &"hello you".into())
    );
    assert!(response["usage"]["total_tokens"].as_u64().unwrap() > 0);

    send(&socket, text_item("more")).await;
    send(&socket, json!({ "type": "response.create" })).await;
    until(&mut socket, "response.done").await;
    let requests = model.requests();
    assert!(format!("{:?}", requests[0].system).contains("be brief"));
    assert_eq!(requests[1].messages.len(), 3);
}

#[tokio::test]
async fn the_beta_has_its_own_names() {
    let (_, agent) = scripted(vec![Reply::from("hello")], Vec::new());
    let mut socket = connect(agent, true).await;
    let created = receive(&mut socket).await;
    assert!(created["session"].get("type").is_none(), "{created}");
    send(&socket, text_item("hi")).await;
    until(&mut socket, "conversation.item.created").await;
    send(&socket, json!({ "type": "response.create" })).await;
    let events = until(&mut socket, "response.done").await;
    assert!(kinds(&events).contains(&"response.text.delta"), "{events:?}");
    assert!(kinds(&events).contains(&"response.text.done"));
}

/// A reply of a model that speaks.
fn spoken() -> Reply {
    let audio = |bytes: &'static [u8]| {
        let delta = DataDelta { data: Binary::new(bytes), ..DataDelta::default() };
        StreamEvent::new(1, Delta::Audio(delta))
    };
    Reply::events(vec![StreamEvent::text(0, "hello"), audio(b"one"), audio(b"two")])
}

#[tokio::test]
async fn audio_of_the_model_is_passed_on_in_the_names_of_both_generations() {
    for (beta, delta, done, part, modalities) in [
        (
            false,
            "response.output_audio.delta",
            "response.output_audio.done",
            "output_audio",
            json!(["audio"]),
        ),
        (true, "response.audio.delta", "response.audio.done", "audio", json!(["audio", "text"])),
    ] {
        let (_, agent) = scripted(vec![spoken()], Vec::new());
        let mut socket = connect(agent, beta).await;
        send(&socket, text_item("hi")).await;
        send(&socket, json!({ "type": "response.create" })).await;
        let events = until(&mut socket, "response.done").await;

        let pieces: Vec<&Value> = events.iter().filter(|event| event["type"] == delta).collect();
        let audio: Vec<&str> = pieces.iter().filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(audio, ["b25l", "dHdv"], "{events:?}");
        assert!(pieces.iter().all(|event| event["content_index"] == 1));
        assert!(kinds(&events).contains(&done));
        let response = &events.last().unwrap()["response"];
        let content = &response["output"][0]["content"];
        assert_eq!((&content[0]["text"], &content[1]["type"]), (&"hello".into(), &part.into()));
        let member = if beta { "modalities" } else { "output_modalities" };
        assert_eq!(response[member], modalities);
    }
}

#[tokio::test]
async fn calls_are_handed_to_the_client_and_their_outputs_continue() {
    let (_, agent) =
        scripted(vec![Reply::tool_call("locate", arguments()), Reply::from("in Rome")], Vec::new());
    let mut socket = connect(agent, false).await;
    let tools = json!([{ "type": "function", "name": "locate", "parameters": { "type": "object" } }]);
    send(&socket, json!({ "type": "session.update", "session": { "tools": tools } })).await;
    send(&socket, text_item("where")).await;
    send(&socket, json!({ "type": "response.create" })).await;
    let events = until(&mut socket, "response.done").await;
    let call = &events.last().unwrap()["response"]["output"][0];
    assert_eq!(
        (&call["type"], &call["name"], &call["arguments"]),
        (&"function_call".into(), &"locate".into(), &"{\"x\":1}".into())
    );
    assert!(kinds(&events).contains(&"response.function_call_arguments.done"));

    send(&socket, json!({ "type": "response.create", "event_id": "early" })).await;
    let error = until(&mut socket, "error").await.pop().unwrap();
    assert_eq!(error["error"]["event_id"], "early");
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "Rome" });
    send(&socket, json!({ "type": "conversation.item.create", "item": output })).await;
    send(&socket, json!({ "type": "response.create" })).await;
    let events = until(&mut socket, "response.done").await;
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["text"], "in Rome");
}

#[tokio::test]
async fn a_cancelled_response_is_done_with_this_status() {
    let tool = turntree_agents::Tool::new(crate::openai::definition("hang"))
        .with_function(|_| std::future::pending());
    let (_, agent) = scripted(vec![Reply::tool_call("hang", arguments())], vec![tool]);
    let mut socket = connect(agent, false).await;
    send(&socket, text_item("go")).await;
    send(&socket, json!({ "type": "response.create" })).await;
    until(&mut socket, "response.created").await;
    send(&socket, json!({ "type": "response.create" })).await;
    let error = until(&mut socket, "error").await.pop().unwrap();
    assert_eq!(error["error"]["code"], "conversation_already_has_active_response");
    send(&socket, json!({ "type": "response.cancel" })).await;
    let done = until(&mut socket, "response.done").await.pop().unwrap();
    assert_eq!(done["response"]["status"], "cancelled");
    send(&socket, json!({ "type": "response.cancel" })).await;
    let error = until(&mut socket, "error").await.pop().unwrap();
    assert_eq!(error["error"]["code"], "response_cancel_not_active");
}

/// A connection without a socket.
fn core(takes_audio: bool) -> Core {
    let capabilities = Capabilities { audio_input: takes_audio, ..Capabilities::TEXT };
    let model = Scripted::new(Vec::<Reply>::new()).with_capabilities(capabilities);
    let agent = Arc::new(agent_with(Arc::new(model), Vec::new()));
    Core::new(Generation::Current, &agent, Arc::new(RandomIds), Arc::new(SystemClock))
}

fn events_of(effects: Vec<Effect>) -> Vec<Value> {
    let events = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send(event) => serde_json::from_str(&event).ok(),
        Effect::Start(_) | Effect::Cancel => None,
    });
    events.collect()
}

#[test]
fn committed_audio_is_an_item_if_the_model_takes_audio() {
    let append = json!({ "type": "input_audio_buffer.append", "audio": "AAAA" }).to_string();
    let commit = json!({ "type": "input_audio_buffer.commit" }).to_string();
    let mut with_audio = core(true);
    assert_eq!(events_of(with_audio.on(&commit))[0]["error"]["code"], "input_audio_buffer_commit_empty");
    assert!(with_audio.on(&append).is_empty());
    let events = events_of(with_audio.on(&commit));
    assert_eq!(
        kinds(&events),
        ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done",]
    );
    let effects = with_audio.on(&json!({ "type": "response.create" }).to_string());
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Start(_))), "{effects:?}");

    let mut without = core(false);
    assert!(without.on(&append).is_empty());
    let events = events_of(without.on(&commit));
    assert!(events[0]["error"]["message"].as_str().unwrap().contains("takes no audio"), "{events:?}");
}

#[test]
fn items_are_retrieved_and_deleted_and_errors_name_the_event() {
    let mut core = core(false);
    let item = json!({ "type": "conversation.item.create", "item": {
        "id": "a", "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "x" }] } });
    assert_eq!(events_of(core.on(&item.to_string())).len(), 2);
    assert_eq!(events_of(core.on(&item.to_string()))[0]["error"]["param"], "item.id");
    let of_item = |kind: &str| json!({ "type": kind, "item_id": "a", "event_id": "e" }).to_string();
    let found = events_of(core.on(&of_item("conversation.item.retrieve")));
    assert_eq!(found[0]["item"]["content"][0]["text"], "x");
    let refused = events_of(core.on(&of_item("conversation.item.truncate")));
    assert_eq!((&refused[0]["type"], &refused[0]["error"]["event_id"]), (&"error".into(), &"e".into()));
    assert_eq!(events_of(core.on(&of_item("conversation.item.delete")))[0]["item_id"], "a");
    assert_eq!(
        events_of(core.on(&of_item("conversation.item.delete")))[0]["error"]["code"],
        "item_not_found"
    );
    for text in ["", "{", "[]", "null", r#"{"type":1}"#, r#"{"type":"x"}"#, r#"{"type":"session.update"}"#] {
        assert_eq!(events_of(core.on(text))[0]["type"], "error", "{text}");
    }
}

#[test]
fn damaged_events_are_answered() {
    let mut random = fastrand::Rng::with_seed(7);
    let seeds = [
        text_item("hi").to_string(),
        json!({ "type": "response.create", "response": { "tools": [{ "type": "function", "name": "f" }],
            "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "a" }] }] } })
        .to_string(),
        json!({ "type": "session.update", "session": { "tools": [], "instructions": "" } }).to_string(),
    ];
    for seed in &seeds {
        for _ in 0..300 {
            let bytes = crate::mutations::damage(&mut random, seed.as_bytes());
            let Ok(text) = String::from_utf8(bytes) else { continue };
            assert!(!core(false).on(&text).is_empty(), "{text}");
        }
    }
}

/// The only event that answers, which is an error, or None if there is another event.
fn refusal(effects: &[Effect]) -> Option<Value> {
    let [Effect::Send(event)] = effects else { return None };
    let event: Value = serde_json::from_str(event).unwrap();
    (event["type"] == "error").then(|| event["error"].clone())
}

#[test]
fn a_conversation_and_its_settings_have_a_limit_of_bytes() {
    let mut core = core(false).with_max_bytes(32 << 10);
    let half = "x".repeat(17 << 10);
    let item = |id: &str| {
        let mut event = text_item(&half);
        event["item"]["id"] = id.into();
        event.to_string()
    };
    assert_eq!(refusal(&core.on(&item("a"))), None);
    let error = refusal(&core.on(&item("b"))).unwrap();
    assert_eq!(
        (&error["param"], error["message"].as_str().unwrap().contains("bytes")),
        (&json!("item"), true)
    );
    core.on(&json!({ "type": "conversation.item.delete", "item_id": "a" }).to_string());
    assert_eq!(refusal(&core.on(&item("b"))), None);

    let settings = |name: &str, size: usize| {
        json!({ "type": "session.update", "session": { (name): "x".repeat(size) } }).to_string()
    };
    assert_eq!(refusal(&core.on(&settings("one", 3 << 10))), None);
    assert_eq!(refusal(&core.on(&settings("two", 3 << 10))).unwrap()["param"], "session");
    assert_eq!(refusal(&core.on(&settings("one", 0))), None);
    assert_eq!(refusal(&core.on(&settings("two", 3 << 10))), None);
}

#[tokio::test]
async fn what_the_user_has_not_heard_is_not_in_the_history() {
    let (model, agent) = scripted(vec![Reply::from("unheard"), Reply::from("again")], Vec::new());
    let mut socket = connect(agent, false).await;
    send(&socket, text_item("hi")).await;
    send(&socket, json!({ "type": "response.create" })).await;
    let done = until(&mut socket, "response.done").await;
    let item_id = done.last().unwrap()["response"]["output"][0]["id"].clone();

    let truncate = json!({ "type": "conversation.item.truncate", "item_id": item_id, "content_index": 0,
        "audio_end_ms": 0 });
    send(&socket, truncate).await;
    until(&mut socket, "conversation.item.truncated").await;
    send(&socket, text_item("more")).await;
    send(&socket, json!({ "type": "response.create" })).await;
    until(&mut socket, "response.done").await;

    assert!(!format!("{:?}", model.requests()[1].messages).contains("unheard"));
}

//! Sessions outlive their connections.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use turntree_agents::{Agent, AgentOptions};
use turntree_core::ids::RandomIds;
use turntree_core::message::MessageKind;
use turntree_server::TestClient;
use turntree_uamp::agent::{RustHost, ServedAgent};
use turntree_uamp::service::Site;
use turntree_uamp::wires::uamp::UampLimits;
use turntree_upp::providers::scripted::{Reply, Scripted};

use super::{Socket, agent, calls_locate, eventually, last_seq, locate, service, service_with, text_of};
use crate::openai::Renamed;
use crate::service::site_of;

fn resume(session: &str, after_seq: u64) -> Value {
    json!({"type": "session.create", "session": {"extensions": {"uamp": {
        "resume": {"session_id": session, "after_seq": after_seq}}}}})
}

#[tokio::test]
async fn a_response_continues_without_its_client_and_is_replayed() {
    let hosted = service_with(vec![calls_locate(), Reply::from("In Rome"), calls_locate()]);
    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    let session = socket.create(json!({"session": {"tools": [locate()]}})).await;
    socket.ask(&session, "where").await;
    let seen = socket.until("response.created").await;
    drop(socket);

    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    socket.send(resume(&session, last_seq(&seen))).await;
    let created = socket.event().await;
    assert_eq!((&created["type"], &created["resumed"]), (&json!("session.created"), &json!(true)));
    assert_eq!((created.get("seq"), &created["session_id"]), (None, &json!(session)));
    let events = socket.until("tool.call").await;
    let seqs: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs.first(), Some(&(last_seq(&seen) + 1)));
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    let call_id = events.last().unwrap()["call_id"].clone();
    socket.send(json!({"type": "tool.result", "call_id": call_id, "result": "1"})).await;
    assert_eq!(text_of(&socket.until("response.done").await), "In Rome");

    socket.ask(&session, "again").await;
    let seen = socket.until("tool.call").await;
    drop(socket);
    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    socket.send(resume(&session, 2)).await;
    socket.send(json!({"type": "ping", "event_id": "p"})).await;
    // The answer to a ping follows what is replayed.
    let replayed = socket.until("pong").await;
    assert!(last_seq(&replayed) >= last_seq(&seen));
    socket.send(json!({"type": "response.cancel", "session_id": session})).await;
    socket.until("response.cancelled").await;
}

#[tokio::test]
async fn a_newer_connection_takes_the_session_over() {
    let hosted = service_with(vec![Reply::from("hello")]);
    let (mut first, mut second) =
        (Socket::open(&hosted.service, "/ws").await, Socket::open(&hosted.service, "/ws").await);
    let session = first.create(json!({})).await;
    second.send(resume(&session, 2)).await;
    second.until("capabilities").await;
    second.ask(&session, "hi").await;
    assert_eq!(text_of(&second.until("response.done").await), "hello");
    first.send(json!({"type": "ping"})).await;
    assert_eq!(first.event().await["type"], "pong");
}

#[tokio::test]
async fn a_session_without_a_client_ends_after_the_resume_window() {
    let mut site: Site = site_of([agent("guide", vec![calls_locate()]).0]);
    site.options.resume_window = Duration::from_millis(50);
    let hosted = service(site, UampLimits::default());
    let mut socket = Socket::open(&hosted.service, "/ws").await;
    let session = socket.create(json!({"session": {"tools": [locate()]}})).await;
    socket.ask(&session, "where").await;
    socket.until("tool.call").await;
    assert_eq!(hosted.wire.session_count(), 1);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(hosted.wire.session_count(), 1, "a connected session stays");
    drop(socket);

    eventually(|| hosted.wire.session_count() == 0).await;
}

#[tokio::test]
async fn events_that_were_dropped_cannot_be_replayed() {
    let limits = UampLimits { log_bytes: 1000, ..UampLimits::default() };
    let hosted = service(site_of([agent("guide", vec![Reply::from("a b c d e f g h i j k")]).0]), limits);
    let mut socket = Socket::open(&hosted.service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.ask(&session, "hi").await;
    let events = socket.until("response.done").await;
    drop(socket);

    let mut socket = Socket::open(&hosted.service, "/ws").await;
    socket.send(resume(&session, 1)).await;
    let error = socket.event().await;
    assert_eq!(error["error"]["details"]["reason"], "events_dropped");
    assert_eq!(error["error"]["details"]["last_seq"], last_seq(&events));
    socket.send(resume(&session, last_seq(&events))).await;
    socket.until("session.created").await;

    let client = TestClient::new(hosted.service);
    let response = client.get(&format!("/events/stream?session_id={session}&after=1")).await.unwrap();
    let body = response.json();
    assert_eq!(
        (response.status.as_u16(), &body["error"]["details"]["reason"]),
        (410, &json!("events_dropped"))
    );
    let unread = client.get(&format!("/events/stream?session_id={session}&after=-1")).await.unwrap();
    assert_eq!((unread.status.as_u16(), &unread.json()["error"]["code"]), (400, &json!("invalid_event")));
}

#[tokio::test]
async fn a_position_that_does_not_exist_harms_no_session() {
    let hosted = service_with(vec![Reply::from("one"), Reply::from("two")]);
    let mut socket = Socket::open(&hosted.service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.ask(&session, "hi").await;
    socket.until("response.done").await;
    for (after_seq, code) in [
        (json!(-1), "invalid_event"),
        (json!(1.5), "invalid_event"),
        (json!("7"), "invalid_event"),
        (json!(9_007_199_254_740_992_u64), "invalid_event"),
        (json!(1e300), "invalid_event"),
    ] {
        let mut create = resume(&session, 0);
        create["session"]["extensions"]["uamp"]["resume"]["after_seq"] = after_seq.clone();
        socket.send(create).await;
        assert_eq!(socket.event().await["error"]["code"], code, "{after_seq}");
    }

    // A position after the end is the end.
    let mut again = Socket::open(&hosted.service, "/ws").await;
    again.send(resume(&session, 9_007_199_254_740_991)).await;
    again.until("capabilities").await;
    again.ask(&session, "next").await;
    assert_eq!(text_of(&again.until("response.done").await), "two");
}

#[tokio::test]
async fn the_sessions_of_a_chat_see_who_types() {
    let hosted = service_with(Vec::new());
    let (mut one, mut two, mut other) = (
        Socket::open(&hosted.service, "/ws").await,
        Socket::open(&hosted.service, "/ws").await,
        Socket::open(&hosted.service, "/ws").await,
    );
    for (socket, chat) in [(&mut one, "c1"), (&mut two, "c1"), (&mut other, "c2")] {
        socket.create(json!({"chat": chat})).await;
    }

    one.send(json!({"type": "input.typing", "is_typing": true})).await;

    let typing = two.event().await;
    assert_eq!(
        (&typing["type"], &typing["is_typing"], &typing["chat_id"]),
        (&json!("presence.typing"), &json!(true), &json!("c1"))
    );
    for socket in [&mut one, &mut other] {
        socket.send(json!({"type": "ping"})).await;
        assert_eq!(socket.event().await["type"], "pong");
    }
}

#[tokio::test]
async fn parameters_of_a_response_are_sent_in_the_words_of_the_model() {
    for (provider, name) in [
        ("openai", "max_output_tokens"),
        ("mistral", "max_tokens"),
        ("google", "maxOutputTokens"),
        ("ollama", "num_predict"),
    ] {
        let model = Arc::new(Scripted::new(vec![Reply::from("x")]));
        let renamed = Renamed(Scripted::clone(&model), provider);
        let options = AgentOptions { model: Some(Arc::new(renamed)), ..AgentOptions::default() };
        let served = ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost));
        let hosted = service(site_of([served]), UampLimits::default());
        let mut socket = Socket::open(&hosted.service, "/ws").await;
        socket.create(json!({})).await;
        socket.send(json!({"type": "input.text", "text": "hi"})).await;
        let options = json!({"temperature": 0.5, "max_tokens": 9});
        socket.send(json!({"type": "response.create", "response": options})).await;
        socket.until("response.done").await;

        let sent = serde_json::to_value(&*model.requests()[0].params).unwrap();
        assert_eq!(sent, json!({"temperature": 0.5, name: 9}), "{provider}");
    }
}

#[tokio::test]
async fn another_server_takes_over_a_session_from_the_store() {
    let site = site_of([agent("guide", vec![Reply::from("Hello Ada")]).0]);
    let conversations = site.conversations.clone();
    let first = service(site, UampLimits::default());
    let mut socket = Socket::open(&first.service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.ask(&session, "I am Ada").await;
    let seen = socket.until("response.done").await;

    let (guide, model) = agent("guide", vec![Reply::from("You are Ada")]);
    let mut site = site_of([guide]);
    site.conversations = conversations;
    let second = service(site, UampLimits::default());
    let mut socket = Socket::open(&second.service, "/ws").await;
    socket.send(resume("unknown", 1)).await;
    assert_eq!(socket.event().await["error"]["code"], "session_not_found");
    socket.send(resume(&session, last_seq(&seen))).await;
    let created = socket.until("capabilities").await.remove(0);
    assert_eq!((&created["resumed"], &created["seq"]), (&json!(true), &json!(last_seq(&seen) + 1)));
    socket.ask(&session, "Who am I?").await;
    assert_eq!(text_of(&socket.until("response.done").await), "You are Ada");
    let requests = model.requests();
    let users = requests[0].messages.iter().filter(|message| message.kind() == MessageKind::User);
    assert_eq!(users.count(), 2);
}

#[tokio::test]
async fn an_event_that_is_sent_again_has_no_effect_also_after_a_resume() {
    let (guide, model) = agent("guide", vec![Reply::from("one"), Reply::from("two")]);
    let hosted = service(site_of([guide]), UampLimits::default());
    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    let session = socket.create(json!({})).await;
    let request = [
        json!({"type": "input.text", "session_id": session, "event_id": "e1", "text": "hi"}),
        json!({"type": "response.create", "session_id": session, "event_id": "e2"}),
    ];
    for event in request.iter().chain(&request) {
        socket.send(event.clone()).await;
    }
    let events = socket.until("response.done").await;
    assert!(!events.iter().any(|event| event["type"] == "response.error"), "{events:?}");

    let mut again = Socket::open(&hosted.service, "/uamp").await;
    again.send(resume(&session, last_seq(&events))).await;
    again.until("capabilities").await;
    for event in &request {
        again.send(event.clone()).await;
    }
    // Pings are answered as often as they are sent.
    for _ in 0..2 {
        again.send(json!({"type": "ping", "session_id": session, "event_id": "p"})).await;
        assert_eq!(again.event().await["type"], "pong");
    }
    again.ask(&session, "next").await;
    assert_eq!(text_of(&again.until("response.done").await), "two");
    let requests = model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["hi", "one", "next"]);
}

#[tokio::test]
async fn requests_that_wait_keep_the_conversation_that_was_sent_with_them() {
    let replies = vec![calls_locate(), Reply::from("a"), Reply::from("b"), Reply::from("c")];
    let (guide, model) = agent("guide", replies);
    let hosted = service(site_of([guide]), UampLimits::default());
    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    let settings = json!({"uamp": {"auto_response": true, "on_concurrent": "queue"}});
    let session = socket.create(json!({"session": {"tools": [locate()], "extensions": settings}})).await;
    for text in ["first", "second", "third"] {
        let messages = json!([{"role": "user", "content": text}]);
        socket
            .send(json!({"type": "input.text", "session_id": session, "messages": messages, "text": ""}))
            .await;
    }
    let call = socket.until("tool.call").await.pop().unwrap();
    socket.send(json!({"type": "tool.result", "call_id": call["call_id"], "result": "1"})).await;
    for expected in ["a", "b", "c"] {
        assert_eq!(text_of(&socket.until("response.done").await), expected);
    }
    let asked: Vec<String> = model.requests().iter().map(|request| request.messages[0].text()).collect();
    assert_eq!(asked, ["first", "first", "second", "third"]);
}

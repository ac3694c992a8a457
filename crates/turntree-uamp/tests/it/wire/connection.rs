//! Sessions of one connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use turntree_core::secret::Secret;
use turntree_core::time::{Clock as _, SystemClock};
use turntree_server::{BearerTokens, Message, Principal};
use turntree_uamp::wires::uamp::UampLimits;
use turntree_upp::providers::scripted::Reply;

use super::{PATIENCE, Socket, agent, calls_locate, locate, service, service_with, text_of};
use crate::service::site_of;

#[tokio::test]
async fn a_session_answers_and_keeps_its_conversation() {
    let (guide, model) = agent("guide", vec![Reply::from("Hello Ada"), Reply::from("Ada")]);
    let service = service(site_of([guide]), UampLimits::default()).service;
    let mut socket = Socket::open(&service, "/uamp").await;
    let session = socket.create(json!({"agent": "guide", "chat": "c1"})).await;

    socket.ask(&session, "I am Ada").await;
    let events = socket.until("response.done").await;
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(text_of(&events), "Hello Ada");
    let done = events.last().unwrap();
    assert_eq!(done["response"]["output"], json!([{"type": "text", "text": "Hello Ada"}]));
    assert!(done["response"]["usage"]["output_tokens"].as_u64().unwrap() > 0);
    socket.ask(&session, "Who am I?").await;
    socket.until("response.done").await;

    let requests = model.requests();
    let texts: Vec<String> = requests[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["I am Ada", "Hello Ada", "Who am I?"]);
    let site = service.site();
    let stored = site.conversations.find(site.agents.only().unwrap().agent(), None, "c1").await.unwrap();
    assert_eq!(stored.unwrap().tree().lock().history().len(), 4);
}

#[tokio::test]
async fn several_sessions_share_a_connection() {
    let agents = [agent("a", vec![Reply::from("from a")]).0, agent("b", vec![Reply::from("from b")]).0];
    let mut socket = Socket::open(&service(site_of(agents), UampLimits::default()).service, "/ws").await;
    socket.send(json!({"type": "ping", "event_id": "p"})).await;
    assert_eq!(socket.event().await["reply_to"], "p");
    socket.send(json!({"type": "response.create", "event_id": "e"})).await;
    let error = socket.event().await;
    assert_eq!((&error["error"]["code"], &error["reply_to"]), (&json!("session_required"), &json!("e")));
    let (a, b) = (socket.create(json!({"agent": "a"})).await, socket.create(json!({"agent": "b"})).await);

    socket.send(json!({"type": "response.create"})).await;
    assert_eq!(socket.event().await["error"]["code"], "session_id_required");
    socket.send(json!({"type": "response.create", "session_id": "x"})).await;
    let error = socket.event().await;
    assert_eq!((&error["error"]["code"], &error["session_id"]), (&json!("session_not_found"), &json!("x")));
    socket.ask(&a, "hi").await;
    let events = socket.until("response.done").await;
    assert!(events.iter().all(|event| event["session_id"] == json!(a)));
    assert_eq!(text_of(&events), "from a");
    socket.ask(&b, "hi").await;
    assert_eq!(text_of(&socket.until("response.done").await), "from b");

    socket.send(json!({"type": "session.end", "session_id": a})).await;
    socket.until("session.end").await;
    socket.send(json!({"type": "capabilities.query"})).await;
    let answer = socket.event().await;
    assert!(answer["session_id"] == json!(b) || answer["error"]["code"] == "session_id_required", "{answer}");
}

#[tokio::test]
async fn sessions_that_cannot_be_created_are_refused() {
    let mut socket = Socket::open(&service_with(Vec::new()).service, "/uamp").await;
    for (event, kind, code) in [
        (json!({"uamp_version": "2.0"}), "response.error", "version_mismatch"),
        (json!({"uamp_version": "one"}), "response.error", "version_mismatch"),
        (json!({"uamp_version": "1."}), "response.error", "version_mismatch"),
        (json!({"agent": "other"}), "session.error", "agent_not_found"),
        (json!({"chat": ""}), "session.error", "invalid_event"),
        (json!({"session": {"extensions": {"uamp": 1}}}), "session.error", "invalid_event"),
    ] {
        let mut create = json!({"type": "session.create", "event_id": "e"});
        create.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        socket.send(create).await;
        let error = socket.event().await;
        assert_eq!((&error["type"], &error["error"]["code"]), (&json!(kind), &json!(code)), "{event}");
        assert_eq!(error["reply_to"], "e");
    }
    for (text, code) in [("{", "invalid_json"), ("[]", "invalid_event"), (r#"{"type":1}"#, "invalid_event")] {
        socket.outgoing.send(Message::Text(text.to_owned())).await.unwrap();
        assert_eq!(socket.event().await["error"]["code"], code, "{text}");
    }
    socket.create(json!({"uamp_version": "1.7"})).await;
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_answered_with_its_ids() {
    let mut socket = Socket::open(&service_with(Vec::new()).service, "/uamp").await;
    let (id, long) = (socket.create(json!({})).await, "x".repeat(129));
    let head = format!(r#""event_id":"e1","session_id":"{id}""#);
    for text in [
        format!(r#"{{"type":"input.text",{head}}}"#),
        format!(r#"{{{head},"type":"input.text","text":5}}"#),
        format!(r#"{{{head},"type":"input.text","text":"#),
        format!(r#"{{"type":"ping","more":[{{}}],{head}"#),
        format!(r#"{{{head},"deep":{}"#, "[".repeat(5000)),
    ] {
        socket.outgoing.send(Message::Text(text.clone())).await.unwrap();
        let error = socket.event().await;
        assert_eq!(error["type"], "session.error", "{text}");
        assert_eq!((&error["reply_to"], &error["session_id"]), (&json!("e1"), &json!(id)), "{text}");
    }
    socket.outgoing.send(Message::Binary(format!("{{{head},\"x\":\"").into_bytes().into())).await.unwrap();
    assert_eq!(socket.event().await["reply_to"], "e1");
    for text in [
        "{".to_owned(),
        r#"{"event_id":5,"session_id":null,"type":1}"#.to_owned(),
        format!(r#"{{"event_id":"{long}","session_id":"{long}","type":1}}"#),
    ] {
        socket.outgoing.send(Message::Text(text)).await.unwrap();
        let error = socket.event().await;
        assert!(error.get("reply_to").is_none() && error.get("session_id").is_none(), "{error}");
    }
}

#[tokio::test]
async fn names_that_a_client_chooses_are_not_repeated_without_limit() {
    let mut socket = Socket::open(&service_with(Vec::new()).service, "/uamp").await;
    let id = socket.create(json!({})).await;
    let long = "x".repeat(1 << 20);

    for (member, text) in [("event_id", "x".repeat(1_025)), ("session_id", long.clone())] {
        let mut event = json!({"type": "ping"});
        event[member] = text.into();
        socket.send(event).await;
        let error = socket.event().await;
        assert_eq!(
            (&error["type"], &error["error"]["code"]),
            (&json!("session.error"), &json!("invalid_event"))
        );
        assert!(error["error"]["message"].as_str().unwrap().starts_with(member), "{error}");
    }
    for event in [
        json!({"type": "tool.result", "call_id": long, "result": "1"}),
        json!({"type": "capabilities.query", "model": long}),
        json!({"type": "voice.invite", "call_id": long}),
        json!({"type": "session.create", "agent": long}),
        json!({"type": "session.create", "chat": long}),
        json!({"type": "session.create", "uamp_version": long}),
    ] {
        socket.send(event.clone()).await;
        let answer = socket.event().await.to_string();
        assert!(answer.len() < 2_000, "{}: {} bytes", event["type"], answer.len());
    }
    socket.send(json!({"type": "ping", "event_id": "x".repeat(1_024), "session_id": id})).await;
    assert_eq!(socket.event().await["type"], "pong");
}

#[tokio::test]
async fn a_limit_of_the_server_is_announced_before_the_refusal() {
    let one = UampLimits { sessions_per_connection: 1, ..UampLimits::default() };
    let few = UampLimits { sessions: 1, ..UampLimits::default() };
    for limits in [one, few] {
        let hosted = service(site_of([agent("guide", Vec::new()).0]), limits);
        let mut socket = Socket::open(&hosted.service, "/uamp").await;
        socket.create(json!({})).await;
        let before = SystemClock.now().milliseconds() / 1000;

        socket.send(json!({"type": "session.create", "event_id": "e"})).await;
        let (limit, error) = (socket.event().await, socket.event().await);

        assert_eq!(
            (&limit["type"], &limit["limit"], &limit["remaining"]),
            (&"rate_limit".into(), &1.into(), &0.into())
        );
        assert!(limit["reset_at"].as_i64().unwrap() > before, "{limit}");
        assert_eq!((&error["error"]["code"], &error["reply_to"]), (&json!("rate_limited"), &json!("e")));
    }
}

#[tokio::test]
async fn a_connection_that_sends_nothing_that_can_be_read_is_closed() {
    let mut socket = Socket::open(&service_with(Vec::new()).service, "/uamp").await;
    for _ in 0..2 {
        for _ in 0..99 {
            socket.outgoing.send(Message::Text("{".to_owned())).await.unwrap();
            assert_eq!(socket.event().await["error"]["code"], "invalid_json");
        }
        socket.send(json!({"type": "ping"})).await;
        assert_eq!(socket.event().await["type"], "pong", "events that can be read begin the count anew");
    }
    for _ in 0..100 {
        socket.outgoing.send(Message::Text("{".to_owned())).await.unwrap();
        assert_eq!(socket.event().await["error"]["code"], "invalid_json");
    }
    assert_eq!(socket.close_code().await, Some(1008));
}

#[tokio::test]
async fn an_event_over_the_limit_is_answered_and_ends_the_connection() {
    let mut limits = UampLimits::default();
    limits.event.bytes = 500;
    let hosted = service(site_of([agent("guide", Vec::new()).0]), limits);
    let mut socket = Socket::open(&hosted.service, "/uamp").await;
    let text = "x".repeat(500);

    socket.send(json!({"event_id": "e", "type": "input.text", "text": text})).await;

    let error = socket.event().await;
    assert_eq!((&error["error"]["code"], &error["reply_to"]), (&json!("invalid_event"), &json!("e")));
    assert_eq!(socket.close_code().await, Some(1009));
}

#[tokio::test]
async fn the_client_runs_its_tools_and_may_cancel() {
    let mut socket =
        Socket::open(&service_with(vec![calls_locate(), Reply::from("Rome"), calls_locate()]).service, "/ws")
            .await;
    let session = socket.create(json!({"session": {"tools": [locate()]}})).await;
    socket.ask(&session, "where").await;
    let events = socket.until("tool.call").await;
    let call = events.last().unwrap();
    assert_eq!((&call["name"], &call["arguments"]), (&json!("locate"), &json!("{}")));
    socket.send(json!({"type": "tool.result", "call_id": call["call_id"], "result": "\"Rome\""})).await;
    let events = socket.until("response.done").await;
    assert_eq!(text_of(&events), "Rome");

    socket.ask(&session, "again").await;
    let id = socket.until("tool.call").await[0]["response_id"].clone();
    socket.send(json!({"type": "response.cancel"})).await;
    let cancelled = socket.until("response.cancelled").await;
    assert_eq!(cancelled.last().unwrap()["response_id"], id);
}

#[tokio::test]
async fn a_storm_of_cancellations_cancels_once_and_the_session_goes_on() {
    let replies = vec![calls_locate(), Reply::from("Rome")];
    let mut socket = Socket::open(&service_with(replies).service, "/ws").await;
    let session = socket.create(json!({"session": {"tools": [locate()]}})).await;
    socket.ask(&session, "where").await;
    let id = socket.until("tool.call").await[0]["response_id"].clone();

    let (mut cancelled, mut refused) = (0, 0);
    for round in 0..200 {
        let event = match round % 3 {
            0 => json!({"type": "response.cancel"}),
            1 => json!({"type": "response.cancel", "response_id": id, "session_id": session}),
            _ => json!({"type": "response.cancel", "response_id": "other"}),
        };
        socket.send(event).await;
        let answer = loop {
            let event = socket.event().await;
            if event["type"] == "response.cancelled" || event["type"] == "response.error" {
                break event;
            }
        };
        cancelled += usize::from(answer["type"] == "response.cancelled");
        refused += usize::from(answer["error"]["code"] == "response_not_active");
    }
    assert_eq!((cancelled, refused), (1, 199));

    socket.ask(&session, "again").await;
    assert_eq!(text_of(&socket.until("response.done").await), "Rome");
}

#[tokio::test]
async fn a_session_belongs_to_the_principal_of_its_token() {
    let mut site = site_of([agent("guide", Vec::new()).0]);
    let claims: Map<_, _> = json!({"exp": 1}).as_object().unwrap().clone();
    let tokens = [
        (Secret::new("t-ada"), Principal::new("ada")),
        (Secret::new("t-bob"), Principal::new("bob")),
        (Secret::new("t-old"), Principal::new("ada").with_claims(claims)),
    ];
    site.authenticator = Some(Arc::new(BearerTokens::new(tokens)));
    let service = service(site, UampLimits::default()).service;

    for token in [json!({}), json!({"token": "wrong"})] {
        let mut socket = Socket::open(&service, "/ws").await;
        let mut create = json!({"type": "session.create"});
        create.as_object_mut().unwrap().extend(token.as_object().unwrap().clone());
        socket.send(create).await;
        assert_eq!(socket.event().await["error"]["code"], "unauthorized");
        assert_eq!(socket.close_code().await, Some(4401));
    }
    let mut socket = Socket::open(&service, "/ws?token=t-ada").await;
    let mine = socket.create(json!({})).await;
    let theirs = socket.create(json!({"token": "t-bob"})).await;
    socket.send(json!({"type": "session.update", "session_id": mine, "token": "t-bob"})).await;
    assert_eq!(socket.event().await["error"]["code"], "forbidden");
    let resume = json!({"extensions": {"uamp": {"resume": {"session_id": theirs}}}});
    socket.send(json!({"type": "session.create", "session": resume})).await;
    assert_eq!(socket.event().await["error"]["code"], "session_not_found");

    socket.send(json!({"type": "session.update", "session_id": mine, "token": "t-old"})).await;
    assert_eq!(socket.event().await["type"], "session.updated");
    socket.ask(&mine, "hi").await;
    let error = socket.event().await;
    assert_eq!(error["error"]["details"]["reason"], "token_expired");
    socket.send(json!({"type": "session.update", "session_id": mine, "token": "t-ada"})).await;
    socket.until("session.updated").await;
    socket.send(json!({"type": "response.create", "session_id": mine})).await;
    assert_eq!(socket.event().await["type"], "response.created");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected_and_its_memory_is_bounded() {
    let text = "word ".repeat(200_000);
    let limits = UampLimits {
        unread_bytes: 32 << 10,
        log_bytes: 64 << 10,
        slow_consumer: Duration::from_millis(300),
        ..UampLimits::default()
    };
    let hosted = service(site_of([agent("guide", vec![Reply::from(text)]).0]), limits);
    let mut socket = Socket::open(&hosted.service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.ask(&session, "write").await;
    let ended = tokio::time::timeout(PATIENCE, socket.outgoing.closed()).await;
    ended.expect("the client stays connected");

    // What waited is the channel of the connection and the turn that was being written, not the million bytes.
    let mut bytes = 0;
    let mut last = None;
    while let Some(message) = socket.message().await {
        match message {
            Message::Text(text) => {
                bytes += text.len();
                last = Some(text);
            }
            other => {
                assert!(matches!(other, Message::Close(Some(frame)) if frame.code == 1013));
                break;
            }
        }
    }
    assert!(last.unwrap().contains("slow_consumer"));
    assert!(bytes < 400_000, "{bytes}");
}

//! Events over HTTP.

use http::{HeaderName, Method};
use serde_json::{Value, json};
use turntree_server::{Body, TestClient};
use turntree_upp::providers::scripted::Reply;

use super::{calls_locate, locate, service_with};

/// Reads server-sent events with ids up to the first event of this type.
async fn read_until(client: &TestClient, path: &str, kind: &str) -> Vec<(u64, Value)> {
    let response = client.stream(client.request(Method::GET, path, Body::empty())).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut text = String::new();
    let reading = async {
        while !text.contains(&format!("\"type\":\"{kind}\"")) || !text.ends_with("\n\n") {
            text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
        }
    };
    tokio::time::timeout(super::PATIENCE, reading).await.expect("the event did not come");
    let events = text.split("\n\n").filter(|event| event.contains("data: "));
    let parse = |event: &str| {
        let id = event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().parse().unwrap();
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        (id, serde_json::from_str(data).unwrap())
    };
    events.map(parse).collect()
}

#[tokio::test]
async fn events_are_posted_and_streamed_and_a_stream_resumes() {
    let client = TestClient::new(service_with(vec![Reply::from("hello you")]).service);
    let created = client.post("/events", &json!({"type": "session.create", "event_id": "c"})).await.unwrap();
    assert_eq!(created.status, 201);
    let session = created.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(created.header("x-session-id"), Some(session.as_str()));

    let posting = client.clone().with_header(HeaderName::from_static("x-session-id"), &session);
    let events = json!([
        {"type": "input.text", "event_id": "i", "text": "hi"},
        {"type": "response.create", "event_id": "r"},
    ]);
    for _ in 0..2 {
        // The second time the events have no effect: their ids are known.
        assert_eq!(posting.post("/events", &events).await.unwrap().status, 202);
    }
    let path = format!("/events/stream?session_id={session}");
    let all = read_until(&client, &path, "response.done").await;
    assert_eq!(all[0].1["type"], "session.created");
    assert!(
        all.iter().enumerate().all(|(index, (id, event))| *id == index as u64 + 1 && event["seq"] == *id)
    );
    assert_eq!(all.iter().filter(|(_, event)| event["type"] == "response.created").count(), 1);

    let third = client.clone().with_header(HeaderName::from_static("last-event-id"), "3");
    assert_eq!(read_until(&third, &path, "response.done").await, all[3..]);
    assert_eq!(read_until(&client, &format!("{path}&after=3"), "response.done").await, all[3..]);
}

#[tokio::test]
async fn requests_for_sessions_that_are_not_there_are_refused() {
    let client = TestClient::new(service_with(Vec::new()).service);
    let code = |response: turntree_server::TestResponse| {
        (response.status.as_u16(), response.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let get = async |path: &str| code(client.get(path).await.unwrap());
    let post = async |event: Value| code(client.post("/events", &event).await.unwrap());

    assert_eq!(get("/events/stream").await, (400, "session_required".to_owned()));
    assert_eq!(get("/events/stream?session_id=x").await, (404, "session_not_found".to_owned()));
    assert_eq!(post(json!({"type": "ping"})).await, (400, "session_required".to_owned()));
    assert_eq!(post(json!([])).await, (400, "invalid_json".to_owned()));
    assert_eq!(post(json!("x")).await, (400, "invalid_event".to_owned()));
    assert_eq!(
        post(json!({"type": "session.create", "uamp_version": "3.0"})).await,
        (400, "version_mismatch".to_owned())
    );
    assert_eq!(get("/uamp").await, (426, "upgrade_required".to_owned()));
}

/// The body as the server reads it, without changes.
async fn post_text(client: &TestClient, path: &str, text: &str) -> turntree_server::TestResponse {
    client.send(client.request(Method::POST, path, Body::full(text.to_owned()))).await.unwrap()
}

#[tokio::test]
async fn white_space_may_precede_the_events_of_a_request() {
    let client = TestClient::new(service_with(Vec::new()).service);
    for text in ["\n\t [{\"type\": \"session.create\"}]", "\r\n {\"type\": \"session.create\"}"] {
        assert_eq!(post_text(&client, "/events", text).await.status, 201, "{text}");
    }
    for text in ["", " ", "\n[", "\u{feff}[]", "nul"] {
        assert_eq!(post_text(&client, "/events", text).await.status, 400, "{text}");
    }
}

#[tokio::test]
async fn a_client_that_sends_and_does_not_read_is_refused_until_it_reads() {
    let client = TestClient::new(service_with(Vec::new()).service);
    let created = client.post("/events", &json!({"type": "session.create"})).await.unwrap();
    let session = created.json()["session_id"].as_str().unwrap().to_owned();
    let path = format!("/events/stream?session_id={session}");
    let stream = client.stream(client.request(Method::GET, &path, Body::empty())).await;
    let posting = client.clone().with_header(HeaderName::from_static("x-session-id"), &session);
    let pings = Value::from(vec![json!({"type": "ping"}); 256]);

    let flood = async {
        loop {
            let response = posting.post("/events", &pings).await.unwrap();
            if response.status == 429 && response.text().contains("wait to be read") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::PATIENCE, flood).await.expect("the flood is taken");
    let mut body = stream.into_body();
    let mut pongs = 0;
    while pongs < 4_096 {
        let chunk = body.next().await.unwrap().unwrap();
        pongs += std::str::from_utf8(&chunk).unwrap().matches("\"pong\"").count();
    }

    assert_eq!(posting.post("/events", &json!({"type": "ping"})).await.unwrap().status, 202);
}

#[tokio::test]
async fn a_batch_answers_with_all_events_and_its_session_ends() {
    let hosted = service_with(vec![Reply::from("one"), Reply::from("two"), Reply::from("three")]);
    let client = TestClient::new(hosted.service.clone());
    let events = json!([
        {"type": "session.create", "session": {"extensions": {"uamp": {"on_concurrent": "queue"}}}},
        {"type": "input.text", "text": "hi"},
        {"type": "response.create"},
        {"type": "input.text", "text": "again"},
    ]);
    let response = client.post("/uamp", &events).await.unwrap();
    let body = response.json();
    let kinds: Vec<&str> =
        body.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((response.status.as_u16(), kinds[0]), (200, "session.created"));
    assert_eq!(*kinds.last().unwrap(), "response.done");
    super::eventually(|| hosted.wire.session_count() == 0).await;

    let response = client.post("/agents/guide/uamp/stream", &events).await.unwrap();
    let text = response.text();
    assert!(text.contains("\"two\"") && text.trim_end().ends_with("data: [DONE]"), "{text}");
}

#[tokio::test]
async fn a_batch_hands_calls_to_the_client_and_continues_with_their_results() {
    let hosted = service_with(vec![calls_locate(), Reply::from("In Rome")]);
    let client = TestClient::new(hosted.service.clone());
    let events = json!([
        {"type": "session.create", "session": {"tools": [locate()]}},
        {"type": "input.text", "text": "where"},
        {"type": "response.create"},
    ]);
    let body = client.post("/uamp", &events).await.unwrap().json();
    let call = body.as_array().unwrap().iter().find(|event| event["type"] == "tool.call").unwrap().clone();
    assert!(!body.as_array().unwrap().iter().any(|event| event["type"] == "response.done"));

    let (session, call_id) = (&call["session_id"], &call["call_id"]);
    let result = json!([{"type": "tool.result", "session_id": session, "call_id": call_id, "result": "1"}]);
    let body = client.post("/uamp", &result).await.unwrap().json();
    let events = body.as_array().unwrap();
    assert_eq!(events.last().unwrap()["type"], "response.done");
    assert_eq!(super::text_of(events), "In Rome");
}

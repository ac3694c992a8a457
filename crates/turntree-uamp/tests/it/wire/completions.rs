//! A request of OpenAI's chat completions in, UAMP's events out.

use serde_json::{Value, json};
use turntree_server::{BearerTokens, Principal, Service, TestClient};
use turntree_uamp::wires::uamp::UampLimits;
use turntree_upp::providers::scripted::Reply;

use super::{agent, calls_locate, eventually, locate, service, service_with, text_of};
use crate::service::site_of;

/// The events of a body, without `[DONE]` at its end.
fn events_of(body: &str) -> Vec<Value> {
    let mut frames: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

fn request(model: &str) -> Value {
    json!({
        "model": model,
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "I am Ada"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": [{"type": "text", "text": "Who am I?"}]},
        ],
    })
}

#[tokio::test]
async fn a_request_of_openai_is_answered_with_events_at_all_its_paths() {
    for path in ["/uamp/completions", "/v1/uamp/completions", "/agents/guide/v1/uamp/completions"] {
        let (guide, model) = agent("guide", vec![Reply::from("Ada")]);
        let hosted = service(site_of([guide]), UampLimits::default());
        let response = TestClient::new(hosted.service.clone()).post(path, &request("guide")).await.unwrap();
        assert_eq!(response.status, 200, "{path}");
        let events = events_of(&response.text());
        assert_eq!(events[0]["type"], "session.created");
        assert_eq!(text_of(&events), "Ada");
        assert_eq!(events.last().unwrap()["type"], "response.done");

        let asked = model.requests().remove(0);
        let texts: Vec<String> = asked.messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["I am Ada", "Hello", "Who am I?"]);
        let session = events[0]["session_id"].as_str().unwrap();
        let site = hosted.service.site();
        let kept = site.conversations.find(site.agents.only().unwrap().agent(), None, session).await.unwrap();
        assert!(kept.is_none(), "the client keeps the conversation");
        eventually(|| hosted.wire.session_count() == 0).await;
    }
}

#[tokio::test]
async fn requests_that_are_not_valid_are_refused_as_openai_does() {
    let client = TestClient::new(service_with(Vec::new()).service);
    for (body, status, code) in [
        (request("other"), 404, "model_not_found"),
        (json!({"model": "guide", "messages": []}), 400, "empty_array"),
        (json!({"model": "guide", "messages": [{"role": "judge", "content": "x"}]}), 400, "invalid_value"),
        (json!({"model": "guide"}), 400, "invalid_value"),
    ] {
        let response = client.post("/uamp/completions", &body).await.unwrap();
        let error = response.json()["error"].clone();
        assert_eq!((response.status.as_u16(), &error["code"]), (status, &json!(code)), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_client_without_a_token_does_not_learn_the_names_of_agents() {
    let mut site = site_of([agent("guide", vec![Reply::from("hi")]).0]);
    let tokens = BearerTokens::new([("t-ada".into(), Principal::new("ada"))]);
    site.authenticator = Some(std::sync::Arc::new(tokens));
    let hosted = service(site, UampLimits::default());
    let client = TestClient::for_service(Service::new(hosted.service));

    let response = client.post("/uamp/completions", &request("other")).await.unwrap();
    assert_eq!(response.status, 401);
    assert!(!response.text().contains("guide"));
    let client = client.with_token("t-ada");
    let response = client.post("/uamp/completions", &request("guide")).await.unwrap();
    assert_eq!(text_of(&events_of(&response.text())), "hi");
}

#[tokio::test]
async fn the_client_runs_its_tools_and_continues_the_session() {
    let hosted = service_with(vec![calls_locate(), Reply::from("Rome")]);
    let client = TestClient::new(hosted.service.clone());
    let mut asked = request("guide");
    asked["tools"] = json!([locate()]);
    let response = client.post("/uamp/completions", &asked).await.unwrap();
    let events = events_of(&response.text());
    let call = events.iter().find(|event| event["type"] == "tool.call").unwrap();

    let result = json!([{
        "type": "tool.result", "session_id": call["session_id"], "call_id": call["call_id"], "result": "\"Rome\"",
    }]);
    let response = client.post("/uamp", &result).await.unwrap();
    assert_eq!(text_of(response.json().as_array().unwrap()), "Rome");
}

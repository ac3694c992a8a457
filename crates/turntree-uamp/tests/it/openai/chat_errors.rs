//! Errors of chat completions, as OpenAI writes them.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use turntree_core::message::StreamEvent;
use turntree_server::{BearerTokens, Body, Principal, Service, TestClient};
use turntree_uamp::service::{
    AgentService, PaymentGate, PaymentReceipt, PaymentRefusal, PaymentRequest, ServiceOptions, Site,
};
use turntree_uamp::types::{Payment, PaymentRequirements};
use turntree_uamp::wires;
use turntree_upp::providers::scripted::{Reply, Says};
use turntree_upp::{ErrorCode, UppError};

use super::{client, frames, hello, scripted, with};
use crate::service::{served, service_of, site_of};

const PATH: &str = "/v1/chat/completions";

async fn error_of(client: &TestClient, request: &Value) -> (u16, Value) {
    let response = client.post(PATH, request).await.unwrap();
    let error = response.json()["error"].clone();
    for member in ["message", "type", "param", "code"] {
        assert!(error.get(member).is_some(), "{member} in {}", response.text());
    }
    (response.status.as_u16(), error)
}

#[tokio::test]
async fn invalid_requests_name_the_parameter() {
    let client = client(Vec::new());
    let user = json!({ "role": "user", "content": "hi" });
    let cases = [
        (json!({ "messages": [] }), 400, "messages", "empty_array"),
        (json!({ "messages": [user], "model": "gpt" }), 404, "model", "model_not_found"),
        (with(hello(), json!({ "n": 2 })), 400, "n", "unsupported_parameter"),
        (with(hello(), json!({ "modalities": ["audio"] })), 400, "modalities", "unsupported_parameter"),
        (with(hello(), json!({ "seed": "a" })), 400, "seed", "invalid_value"),
        (with(hello(), json!({ "tool_choice": "required" })), 400, "tool_choice", "invalid_value"),
        (
            with(hello(), json!({ "response_format": { "type": "json_schema" } })),
            400,
            "response_format.schema",
            "missing_required_parameter",
        ),
        (
            json!({ "messages": [{ "role": "robot", "content": "" }] }),
            400,
            "messages[0].role",
            "invalid_value",
        ),
        (
            json!({ "messages": [{ "role": "user" }] }),
            400,
            "messages[0].content",
            "missing_required_parameter",
        ),
        (
            json!({ "messages": [user, { "role": "user", "content": [{ "type": "smell" }] }] }),
            400,
            "messages[1].content[0].type",
            "invalid_value",
        ),
        (
            json!({ "messages": [user, { "role": "tool", "tool_call_id": "a", "content": "" }] }),
            400,
            "messages",
            "invalid_value",
        ),
        (
            json!({ "messages": [user, { "role": "assistant", "tool_calls": [
                { "id": "a", "function": { "name": "f", "arguments": "{}" } }] }, user] }),
            400,
            "messages",
            "invalid_value",
        ),
    ];
    for (request, status, param, code) in cases {
        let (found, error) = error_of(&client, &request).await;
        assert_eq!(
            (found, &error["param"], &error["code"]),
            (status, &param.into(), &code.into()),
            "{error}"
        );
        assert_eq!(error["type"], "invalid_request_error");
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_and_another_method_are_refused() {
    let client = client(Vec::new());
    let request = client.request(Method::POST, PATH, Body::text("{"));
    let response = client.send(request).await.unwrap();
    assert_eq!((response.status.as_u16(), &response.json()["error"]["code"]), (400, &"invalid_json".into()));
    let response = client.get(PATH).await.unwrap();
    assert_eq!((response.status.as_u16(), response.header("allow")), (405, Some("POST")));
    assert_eq!(response.json()["error"]["code"], "method_not_allowed");
}

#[tokio::test]
async fn a_missing_model_is_refused_by_a_strict_server_and_among_several_agents() {
    let request = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let several = TestClient::new(service_of([served("a", &[]), served("b", &[])]));
    let (status, error) = error_of(&several, &request).await;
    assert_eq!((status, &error["param"]), (400, &"model".into()));

    let options = ServiceOptions { strict_openai: true, ..ServiceOptions::default() };
    let site = Site { options, ..site_of([served("a", &["x"])]) };
    let strict = TestClient::new(AgentService::new(site, wires::all()));
    let (status, error) = error_of(&strict, &request).await;
    assert_eq!((status, &error["code"]), (400, &"missing_required_parameter".into()));
}

#[tokio::test]
async fn a_request_without_a_valid_token_gets_401_in_openai_s_form() {
    let tokens = BearerTokens::new([("secret".into(), Principal::new("ada"))]);
    let service = Service::new(service_of([served("a", &["x"])])).with_authenticator(tokens);
    let client = TestClient::for_service(service);
    let (status, error) = error_of(&client, &hello()).await;
    assert_eq!((status, &error["code"]), (401, &"invalid_api_key".into()));
    let request = json!({ "model": "a", "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(client.with_token("secret").post(PATH, &request).await.unwrap().status.as_u16(), 200);
}

#[tokio::test]
async fn a_run_that_fails_before_its_output_has_a_status_and_retry_after_also_if_streamed() {
    let failing = || {
        let error = UppError::new(ErrorCode::RateLimited, "scripted", "slow down");
        Reply { says: Says::Error(UppError { retry_after: Some(2.5), ..error }), ..Reply::from("") }
    };
    let client = client(vec![failing(), failing()]);
    for request in [hello(), with(hello(), json!({ "stream": true }))] {
        let response = client.post(PATH, &request).await.unwrap();
        assert_eq!((response.status.as_u16(), response.header("retry-after")), (429, Some("3")));
        let error = &response.json()["error"];
        assert_eq!(
            (&error["type"], &error["code"]),
            (&"rate_limit_error".into(), &"rate_limit_exceeded".into())
        );
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_its_last_frame() {
    let error = UppError::new(ErrorCode::ProviderError, "scripted", "the model broke");
    let reply = Reply::broken(vec![StreamEvent::text(0, "half")], error);
    let (_, agent) = scripted(vec![reply], Vec::new());
    let client = TestClient::new(service_of([agent]));
    let frames = frames(&client, PATH, &with(hello(), json!({ "stream": true }))).await;
    assert!(frames.iter().any(|frame| frame.contains("half")), "{frames:?}");
    let last: Value = serde_json::from_str(frames.last().unwrap()).unwrap();
    assert_eq!(
        (&last["error"]["type"], &last["error"]["code"]),
        (&"server_error".into(), &"generation_error".into())
    );
}

/// Wants a payment unless the request has the token `paid`.
#[derive(Debug)]
struct Toll;

impl PaymentGate for Toll {
    fn required<'a>(
        &'a self,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<Option<PaymentRequirements>, PaymentRefusal>> {
        let is_paid = request.payment_token.as_deref() == Some("paid");
        let requirements =
            PaymentRequirements { amount: "0.10".to_owned(), ..PaymentRequirements::default() };
        Box::pin(ready(Ok((!is_paid).then_some(requirements))))
    }

    fn submit<'a>(
        &'a self,
        _payment: Payment,
        _request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<PaymentReceipt, PaymentRefusal>> {
        Box::pin(ready(Ok(PaymentReceipt::default())))
    }
}

#[tokio::test]
async fn a_response_that_is_not_paid_is_refused_with_402() {
    let site = Site { payment_gate: Some(Arc::new(Toll)), ..site_of([served("a", &["x"])]) };
    let client = TestClient::new(AgentService::new(site, wires::all()));
    let request = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let (status, error) = error_of(&client, &request).await;
    assert_eq!((status, &error["code"]), (402, &"payment_required".into()));
    assert_eq!(error["requirements"]["amount"], "0.10");
    let response = client.post("/v1/responses", &json!({ "input": "hi" })).await.unwrap();
    assert_eq!(response.status.as_u16(), 402);
    let paid = client.with_header(http::HeaderName::from_static("x-payment-token"), "paid");
    assert_eq!(paid.post(PATH, &request).await.unwrap().status.as_u16(), 200);
}

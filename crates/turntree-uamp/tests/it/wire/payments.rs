//! Responses that must be paid.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use turntree_server::TestClient;
use turntree_uamp::service::{PaymentGate, PaymentReceipt, PaymentRefusal, PaymentRequest};
use turntree_uamp::types::{Payment, PaymentErrorCode, PaymentRequirements};
use turntree_uamp::wires::uamp::UampLimits;
use turntree_upp::providers::scripted::Reply;

use super::{Service, Socket, agent, service, text_of};
use crate::service::site_of;

/// Takes the token `gold`; `tin` may be replaced, `stolen` may not.
#[derive(Debug)]
struct Gate;

impl PaymentGate for Gate {
    fn required<'a>(
        &'a self,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<Option<PaymentRequirements>, PaymentRefusal>> {
        let is_paid = request.payment_token.as_deref() == Some("gold");
        let requirements = PaymentRequirements {
            amount: "0.10".to_owned(),
            currency: "USD".to_owned(),
            ..PaymentRequirements::default()
        };
        Box::pin(async move { Ok((!is_paid).then_some(requirements)) })
    }

    fn submit<'a>(
        &'a self,
        payment: Payment,
        _request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<PaymentReceipt, PaymentRefusal>> {
        Box::pin(async move {
            if payment.token.as_deref() == Some("gold") {
                let balance_remaining = Some("9.90".to_owned());
                return Ok(PaymentReceipt { balance_remaining, ..PaymentReceipt::default() });
            }
            Err(PaymentRefusal {
                code: PaymentErrorCode::TokenInvalid,
                message: "the token is not gold".to_owned(),
                can_retry: payment.token.as_deref() == Some("tin"),
                ..PaymentRefusal::default()
            })
        })
    }
}

fn paid(limits: UampLimits) -> Service {
    let mut site = site_of([agent("guide", vec![Reply::from("one"), Reply::from("two")]).0]);
    site.payment_gate = Some(Arc::new(Gate));
    service(site, limits)
}

fn submit(token: &str) -> serde_json::Value {
    json!({"type": "payment.submit", "payment": {"scheme": "token", "token": token}})
}

#[tokio::test]
async fn a_response_starts_when_it_is_paid() {
    let mut socket = Socket::open(&paid(UampLimits::default()).service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.send(submit("gold")).await;
    assert_eq!(socket.event().await["error"]["code"], "response_not_active");
    socket.ask(&session, "hi").await;
    let events = socket.until("payment.required").await;
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events[1]["requirements"]["amount"], "0.10");
    socket.send(submit("tin")).await;
    let error = socket.event().await;
    assert_eq!((&error["type"], &error["code"]), (&json!("payment.error"), &json!("token_invalid")));
    socket.send(submit("gold")).await;
    let events = socket.until("payment.balance").await;
    assert_eq!(events[0]["type"], "payment.accepted");
    assert_eq!(text_of(&events), "one");
    assert_eq!(events.last().unwrap()["balance"], "9.90");

    socket.ask(&session, "again").await;
    socket.until("payment.required").await;
    socket.send(submit("stolen")).await;
    let events = socket.until("response.error").await;
    assert_eq!(events.last().unwrap()["error"]["code"], "payment_required");
    socket.send(json!({"type": "input.text", "text": "now", "payment_token": "gold"})).await;
    socket.send(json!({"type": "response.create"})).await;
    assert_eq!(text_of(&socket.until("response.done").await), "two");
}

#[tokio::test]
async fn a_payment_that_does_not_come_ends_the_response() {
    let limits = UampLimits { payment: std::time::Duration::from_millis(30), ..UampLimits::default() };
    let mut socket = Socket::open(&paid(limits).service, "/ws").await;
    let session = socket.create(json!({})).await;
    socket.ask(&session, "hi").await;
    let events = socket.until("response.error").await;
    assert_eq!(events.last().unwrap()["error"]["code"], "payment_timeout");
}

#[tokio::test]
async fn a_batch_that_is_not_paid_answers_402() {
    let client = TestClient::new(paid(UampLimits::default()).service);
    let events = json!([
        {"type": "session.create"},
        {"type": "input.text", "text": "hi"},
        {"type": "response.create"},
    ]);
    let response = client.post("/uamp", &events).await.unwrap();
    assert_eq!(response.status, 402);
    assert_eq!(response.json()[3]["type"], "payment.required");

    let paying = client.with_header(http::HeaderName::from_static("x-payment-token"), "gold");
    let response = paying.post("/uamp", &events).await.unwrap();
    assert_eq!(
        (response.status.as_u16(), text_of(response.json().as_array().unwrap())),
        (200, "one".to_owned())
    );
}

//! Calls of tasks that wait for a person, and the decisions about them.

use std::time::Duration;

use serde_json::{Value, json};
use turntree_core::time::Clock as _;
use turntree_uaip::engine::{CallFailure, CallResult};
use turntree_uaip::store::ApprovalDecision;

use crate::support::service::{Functions, Server, method_call, returns};
use crate::support::shop;

/// A server whose task `search` needs an approval.
fn server() -> Server {
    let mut definition = shop();
    definition["stages"][0]["tasks"][0]["approval"] = json!(true);
    let functions = Functions::default().on_async("search", |call, context| async move {
        match context.approval {
            Some(ApprovalDecision::Granted) => returns(call, json!("found")),
            Some(ApprovalDecision::Denied { reason }) => CallResult::Failed(CallFailure::Task(reason)),
            None => CallResult::Failed(CallFailure::ApprovalRequired { request: Value::Null }),
        }
    });
    Server::new(definition, functions)
}

async fn search(server: &Server, session: &str, text: &str) -> Value {
    let (status, body) = server.action(session, method_call("search", json!({"text": text}))).await;
    assert_eq!(status, 200, "{body}");
    body
}

async fn waiting(server: &Server) -> Vec<String> {
    let calls = server.store.pending_approvals("store", server.clock.now()).await.unwrap();
    calls.into_iter().map(|call| call.id).collect()
}

async fn decide(server: &Server, id: &str, decision: ApprovalDecision) -> bool {
    server.store.decide("store", id, &decision, server.clock.now()).await.unwrap()
}

#[tokio::test]
async fn a_call_waits_until_it_is_decided_and_a_decision_is_for_one_call() {
    let server = server();
    let session = server.open("store").await;

    let asked = search(&server, &session, "tea").await;
    let id = asked["approval"]["id"].as_str().unwrap().to_owned();
    assert_eq!(asked["approval"], json!({"id": id, "task": "search", "arguments": {"text": "tea"}}));
    assert_eq!(search(&server, &session, "tea").await["approval"]["id"], json!(id));
    assert_eq!(waiting(&server).await, [id.as_str()]);

    assert!(decide(&server, &id, ApprovalDecision::Granted).await);
    assert!(!decide(&server, &id, ApprovalDecision::Granted).await);
    assert_eq!(search(&server, &session, "rum").await["status"], json!("approval_required"));
    assert_eq!(search(&server, &session, "tea").await["result"], json!("found"));
    assert_eq!(search(&server, &session, "tea").await["status"], json!("approval_required"));

    assert!(decide(&server, &id, ApprovalDecision::Denied { reason: "too much".to_owned() }).await);
    assert_eq!(search(&server, &session, "tea").await["content"], json!("Error: too much"));
    assert_eq!(search(&server, &session, "tea").await["status"], json!("approval_required"));
}

#[tokio::test]
async fn sessions_have_their_own_approvals_which_expire_with_them() {
    let server = server();
    let (first, second) = (server.open("store").await, server.open("store").await);
    search(&server, &first, "tea").await;
    search(&server, &second, "tea").await;
    let ids = waiting(&server).await;
    assert_eq!(ids.len(), 2);

    assert!(decide(&server, &ids[0], ApprovalDecision::Granted).await);
    assert_eq!(search(&server, &second, "tea").await["status"], json!("approval_required"));
    assert_eq!(search(&server, &first, "tea").await["result"], json!("found"));

    server.clock.advance(Duration::from_secs(25 * 3600));
    assert!(waiting(&server).await.is_empty());
    assert!(!decide(&server, &ids[1], ApprovalDecision::Granted).await);
}

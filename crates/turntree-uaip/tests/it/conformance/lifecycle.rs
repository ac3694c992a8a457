//! Sessions over time: concurrency, repeated requests, expiry, principals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use turntree_server::{Authenticator, Principal, ServerError, Service, TestClient};
use turntree_uaip::ServiceOptions;
use turntree_uaip::engine::{CallFailure, CallResult};

use crate::support::service::{Functions, Server, method_call, returns, state_input, transition};
use crate::support::{shop, workflow};

fn search() -> Value {
    method_call("search", json!({"text": "tea"}))
}

/// A task that adds one to a key, and lets others run in between.
fn counting() -> Functions {
    Functions::default().on_async("search", |mut call, _| async move {
        let count = call.state.get("count").and_then(Value::as_i64).unwrap_or_default();
        tokio::task::yield_now().await;
        call.state.set("count", json!(count + 1));
        returns(call, json!(count + 1))
    })
}

#[tokio::test]
async fn d12_a16_actions_of_a_session_run_one_after_the_other() {
    let server = Server::new(shop(), counting());
    let id = server.open("store").await;

    let results = join_all((0..30).map(|_| server.action(&id, search()))).await;

    let mut counts: Vec<i64> = results.iter().map(|(_, body)| body["result"].as_i64().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn i5_interleaved_sessions_never_see_each_other() {
    let server = Server::new(shop(), counting());
    let ids = join_all((0..50).map(|_| server.open("store"))).await;

    for round in 1..=5 {
        let results = join_all(ids.iter().map(|id| server.action(id, search()))).await;
        assert!(results.iter().all(|(_, body)| body["result"] == json!(round)));
    }
}

#[tokio::test]
async fn a16_if_match_refuses_another_version() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;
    for value in ["0", "\"1\""] {
        assert_eq!(server.execute(&id, search(), &[("if-match", value)]).await.status, 200);
    }

    let conflict = server.execute(&id, search(), &[("if-match", "1")]).await;

    let body = conflict.json();
    assert_eq!((conflict.status.as_u16(), &body["code"]), (409, &json!("version_conflict")));
    assert_eq!(body["state_version"], json!(2));
}

#[tokio::test]
async fn a16_a25_a_repeated_request_runs_once() {
    let server = Server::new(shop(), counting());
    let id = server.open("store").await;
    let key = [("idempotency-key", "k-1")];
    let first = server.execute(&id, search(), &key).await;

    let again = server.execute(&id, search(), &key).await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(again.json()["result"], json!(1));

    let other = server.execute(&id, method_call("search", json!({"text": "milk"})), &key).await;
    assert_eq!((other.status.as_u16(), other.json()["code"].clone()), (422, json!("idempotency_key_reused")));

    let another_session = server.open("store").await;
    assert_eq!(server.execute(&another_session, search(), &key).await.json()["result"], json!(1));

    server.clock.advance(Duration::from_secs(24 * 60 * 60 - 1));
    assert_eq!(server.execute(&id, search(), &key).await.json()["result"], json!(1));
    server.execute(&id, search(), &[]).await;
    server.clock.advance(Duration::from_secs(2));
    assert_eq!(server.execute(&id, search(), &key).await.json()["result"], json!(3));
}

#[tokio::test]
async fn a25_concurrent_requests_with_one_key_run_once() {
    let server = Server::new(shop(), counting());
    let id = server.open("store").await;

    let key = [("idempotency-key", "k")];
    let results = join_all((0..10).map(|_| server.execute(&id, search(), &key))).await;

    assert!(results.iter().all(|response| response.json()["result"] == json!(1)));
}

#[tokio::test]
async fn a25_a_replayed_end_is_answered_although_the_session_is_gone() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;
    let end = || json!({"workflow_name": "store", "action": "terminate_session"});
    let key = [("idempotency-key", "end")];
    let first = server.execute(&id, end(), &key).await;

    let again = server.execute(&id, end(), &key).await;

    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()));
    assert_eq!(server.execute(&id, end(), &[]).await.status, 404);
}

#[tokio::test]
async fn a_repeated_initialize_opens_one_session() {
    let server = Server::new(shop(), Functions::default());
    let open = || {
        let body = br#"{"workflow_name":"store"}"#;
        server.send("/initialize", "", body, &[("idempotency-key", "open")])
    };

    let (first, again) = (open().await, open().await);

    assert_eq!(first.json(), again.json());
    assert_eq!(again.header("x-session-id"), first.json()["session_id"].as_str());
}

#[tokio::test]
async fn a16_too_many_waiting_actions_are_429() {
    let (entered, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let functions = Functions::default().on_async("search", {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        move |call, _| {
            let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
            async move {
                entered.add_permits(1);
                leave.acquire().await.unwrap().forget();
                returns(call, Value::Null)
            }
        }
    });
    let options = ServiceOptions { queue_depth: 2, ..ServiceOptions::default() };
    let server = Server::with(vec![workflow(shop())], functions, options);
    let id = server.open("store").await;
    let send = || {
        let (server, id) = (server.clone(), id.clone());
        tokio::task::spawn_local(async move { server.execute(&id, search(), &[]).await })
    };
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let running = send();
            entered.acquire().await.unwrap().forget();
            let waiting = [send(), send()];
            tokio::task::yield_now().await;

            let refused = server.execute(&id, search(), &[]).await;

            assert_eq!((refused.status.as_u16(), refused.json()["code"].clone()), (429, json!("queue_full")));
            assert_eq!(refused.header("retry-after"), Some("1"));
            leave.add_permits(3);
            assert_eq!(running.await.unwrap().status, 200);
            for action in waiting {
                assert_eq!(action.await.unwrap().status, 200);
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a19_a_task_that_is_too_slow_is_504_and_writes_nothing() {
    let functions = Functions::default().on_async("search", |_, _| std::future::pending::<CallResult>());
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;

    let (status, body) = server.action(&id, search()).await;

    assert_eq!(
        (status, &body["code"], &body["current_stage"]),
        (504, &json!("task_timeout"), &json!("browse"))
    );
    let (status, body) = server.action(&id, transition("cart")).await;
    assert_eq!((status, &body["state_version"]), (200, &json!(1)));
}

#[tokio::test]
async fn a_client_that_disconnects_in_a_task_leaves_the_session_as_it_was() {
    let started = Arc::new(AtomicUsize::new(0));
    let functions = Functions::default().on_async("search", {
        let started = Arc::clone(&started);
        move |call, _| {
            let is_first = started.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if is_first {
                    std::future::pending::<()>().await;
                }
                returns(call, json!("done"))
            }
        }
    });
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    {
        let mut action = Box::pin(server.execute(&id, search(), &[]));
        while started.load(Ordering::SeqCst) == 0 {
            assert!(futures_util::poll!(action.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }

    let (status, body) = server.action(&id, search()).await;

    assert_eq!((status, &body["result"], &body["state_version"]), (200, &json!("done"), &json!(1)));
}

#[tokio::test]
async fn d14_a17_idle_and_old_sessions_expire_and_are_swept() {
    let hour = Duration::from_secs(60 * 60);
    let options = ServiceOptions { idle_ttl: hour, absolute_ttl: hour * 3, ..ServiceOptions::default() };
    let server = Server::with(vec![workflow(shop())], Functions::default(), options);
    let (idle, used) = (server.open("store").await, server.open("store").await);

    for _ in 0..5 {
        server.clock.advance(hour / 2);
        assert_eq!(server.action(&used, search()).await.0, 200);
    }
    assert_eq!(server.action(&idle, search()).await.0, 404);
    server.clock.advance(hour / 2);
    assert_eq!(server.action(&used, search()).await.0, 404);

    assert_eq!(server.service.sweep().await.unwrap(), 2);
    assert_eq!(server.service.sweep().await.unwrap(), 0);
}

#[tokio::test]
async fn a17_a_session_can_be_read_and_deleted() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;
    server.action(&id, state_input(json!({"quantity": 1}))).await;
    let path = format!("/sessions/{id}");

    let session = server.client.get(&path).await.unwrap().json();
    assert_eq!((&session["session_id"], &session["status"]), (&json!(id), &json!("active")));
    assert_eq!((&session["state"], &session["state_version"]), (&json!({"quantity": 1}), &json!(1)));

    let deleted = server.client.delete(&path).await.unwrap();
    assert_eq!((deleted.status.as_u16(), deleted.json()["status"].clone()), (200, json!("terminated")));
    assert_eq!(server.client.get(&path).await.unwrap().status, 404);
    assert_eq!(server.client.delete(&path).await.unwrap().status, 404);
}

#[tokio::test]
async fn the_log_has_every_action_that_ran_with_its_changes() {
    let functions = Functions::default()
        .on("add_to_cart", |_| CallResult::Failed(CallFailure::Task("sold out".to_owned())));
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    server.action(&id, state_input(json!({"quantity": 2}))).await;
    server.action(&id, transition("cart")).await;
    server.action(&id, method_call("pay", json!({}))).await;
    server.action(&id, method_call("add_to_cart", json!({"product_id": "a"}))).await;

    let log = server.store.history(&id, 0, 100).await.unwrap();

    let shown: Vec<_> = log
        .iter()
        .map(|entry| (entry.number, &*entry.action, &*entry.outcome, entry.state_version))
        .collect();
    assert_eq!(
        shown,
        [
            (1, "initialize", "ok", 0),
            (2, "state_input", "ok", 1),
            (3, "stage_transition", "ok", 2),
            (4, "method_call", "task_error", 2),
        ]
    );
    assert_eq!((&*log[1].changes[0].key, log[1].changes[0].value.as_deref()), ("quantity", Some(&json!(2))));
    assert_eq!(log[3].target.as_deref(), Some("add_to_cart"));
    assert_eq!(server.store.history(&id, 2, 1).await.unwrap()[0].number, 3);
}

/// Every token is the name of a principal.
#[derive(Debug)]
struct Names;

impl Authenticator for Names {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        Box::pin(std::future::ready(Ok((token != "wrong").then(|| Principal::new(token)))))
    }
}

#[tokio::test]
async fn d15_sessions_belong_to_the_principal_who_opened_them() {
    let server = Server::new(shop(), Functions::default());
    let service = Service::new(Arc::clone(&server.service)).with_authenticator(Names);
    let client = |token: &str| TestClient::for_service(service.clone()).with_token(token);
    let open = json!({"workflow_name": "store"});
    let opened = client("ann").post("/initialize", &open).await.unwrap().json();
    let id = opened["session_id"].as_str().unwrap();
    let status = |token: &'static str| {
        let client = client(token).with_header("x-session-id".parse().unwrap(), id);
        async move { client.post("/execute", &search()).await.unwrap().status.as_u16() }
    };

    assert_eq!((status("ann").await, status("bob").await, status("wrong").await), (200, 404, 401));
    let path = format!("/sessions/{id}");
    assert_eq!(client("bob").get(&path).await.unwrap().status, 404);
    assert_eq!(client("bob").delete(&path).await.unwrap().status, 404);
    let refused = client("wrong").post("/initialize", &open).await.unwrap();
    assert_eq!(refused.json()["code"], "unauthorized");
    assert!(refused.json()["detail"].is_string());
}

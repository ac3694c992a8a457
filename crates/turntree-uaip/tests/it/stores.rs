//! Services that share one store: SQLite always, PostgreSQL if `TURNTREE_TEST_POSTGRES` names a server.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::runtime;
use turntree_store::Engine;
use turntree_store::engines::file::FileEngine;
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};
use turntree_uaip::ServiceOptions;

use crate::support::service::{Functions, Server, method_call, returns, state_input};
use crate::support::{shop, workflow};

/// A store that can be opened several times. Its data is removed at the end.
struct Shared {
    open: Box<dyn Fn() -> Arc<dyn Engine>>,
    folder: Option<PathBuf>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // A store that was dropped may still close its files.
            drop(std::fs::remove_dir_all(folder));
        }
    }
}

fn unique(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}

fn stores() -> Vec<Shared> {
    let folder = std::env::temp_dir().join(unique("uaip"));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("sessions.db");
    let open =
        move || -> Arc<dyn Engine> { Arc::new(SqliteEngine::open(&path, SqliteOptions::default()).unwrap()) };
    let mut stores = vec![Shared { open: Box::new(open), folder: Some(folder) }];
    match runtime::environment("TURNTREE_TEST_POSTGRES") {
        Some(url) => {
            let schema = unique("uaip");
            let open = move || -> Arc<dyn Engine> {
                let options = PostgresOptions { schema: Some(schema.clone()), ..PostgresOptions::default() };
                Arc::new(PostgresEngine::connect(&url, options).unwrap())
            };
            stores.push(Shared { open: Box::new(open), folder: None });
        }
        None => println!("NOT TESTED: PostgreSQL, because TURNTREE_TEST_POSTGRES is not set"),
    }
    stores
}

/// A task that counts its calls in the state.
fn counting() -> Functions {
    Functions::default().on("search", |mut call| {
        let count = call.state.get("count").and_then(Value::as_i64).unwrap_or_default() + 1;
        call.state.set("count", json!(count));
        returns(call, json!(count))
    })
}

fn serve(engine: Arc<dyn Engine>, functions: Functions) -> Server {
    Server::on(engine, vec![workflow(shop())], functions, ServiceOptions::default())
}

fn search() -> Value {
    method_call("search", json!({"text": "tea"}))
}

#[tokio::test]
async fn a_session_goes_on_in_another_server_and_a_repeated_request_runs_once() {
    for store in stores() {
        let first = serve((store.open)(), counting());
        let id = first.open("store").await;
        first.action(&id, state_input(json!({"note": "with \u{0} and \u{1f375}"}))).await;
        let key = [("idempotency-key", "k")];
        let answered = first.execute(&id, search(), &key).await;
        assert_eq!(answered.json()["result"], json!(1), "{}", answered.text());

        let second = serve((store.open)(), counting());

        assert_eq!(second.execute(&id, search(), &key).await.json(), answered.json());
        let (_, body) = second.action(&id, search()).await;
        assert_eq!((&body["result"], &body["state_version"]), (&json!(2), &json!(3)));
        let (_, body) = first.action(&id, search()).await;
        assert_eq!(body["result"], json!(3));
        let session = second.client.get(&format!("/sessions/{id}")).await.unwrap().json();
        assert_eq!(session["state"]["note"], json!("with \u{0} and \u{1f375}"));
        assert_eq!(second.store.history(&id, 0, 100).await.unwrap().len(), 5);
    }
}

#[tokio::test]
async fn of_two_servers_that_run_actions_of_one_session_one_stores_its_action() {
    for store in stores() {
        let other = Arc::new(serve((store.open)(), counting()));
        let functions = Functions::default().on_async("search", {
            let other = Arc::clone(&other);
            move |mut call, context| {
                let other = Arc::clone(&other);
                async move {
                    let (status, body) = other.action(&context.session_id, search()).await;
                    assert_eq!((status, &body["result"]), (200, &json!(1)));
                    call.state.set("count", json!(100));
                    returns(call, json!(100))
                }
            }
        });
        let server = serve((store.open)(), functions);
        let id = server.open("store").await;

        let (status, body) = server.action(&id, search()).await;

        assert_eq!((status, &body["code"]), (409, &json!("version_conflict")));
        let session = other.client.get(&format!("/sessions/{id}")).await.unwrap().json();
        assert_eq!((&session["state"], &session["state_version"]), (&json!({"count": 1}), &json!(1)));
    }
}

#[tokio::test]
async fn a_store_without_records_is_refused() {
    let folder = std::env::temp_dir().join(unique("uaip_files"));
    let engine = FileEngine::open(&folder);

    let error = turntree_uaip::SessionStore::new(Arc::new(engine.unwrap())).unwrap_err();

    assert!(error.to_string().contains("use the memory store, SQLite or PostgreSQL"), "{error}");
    // The store makes its folder when it is first used.
    drop(std::fs::remove_dir_all(&folder));
}

//! The reference profile: what clients of version 0.4 expect.

use serde_json::{Value, json};
use turntree_uaip::engine::{CallFailure, CallResult};
use turntree_uaip::wire::python_text;
use turntree_uaip::{Profile, ServiceOptions};

use crate::support::service::{Functions, Server, method_call, returns, state_input, tool_names, transition};
use crate::support::{shop, workflow};

fn reference(functions: Functions) -> Server {
    let options = ServiceOptions { profile: Profile::Reference, ..ServiceOptions::default() };
    Server::with(vec![workflow(shop())], functions, options)
}

fn members(body: &Value) -> Vec<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn results_are_python_text_with_tools() {
    let functions =
        Functions::default().on("search", |call| returns(call, json!({"a": [null, true, "it's"]})));
    let server = reference(functions);
    let id = server.open("store").await;

    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    assert_eq!(status, 200);
    assert_eq!(members(&body), ["content", "tools"]);
    let text = "Task 'search' executed successfully.\n\nResult:\n{'a': [None, True, \"it's\"]}";
    assert_eq!(body["content"], json!(text));
    assert_eq!(tool_names(&body), ["search", "transition_stage", "terminate_session"]);
}

#[tokio::test]
async fn everything_after_the_envelope_is_200_with_an_error_text() {
    let functions = Functions::default()
        .on("search", |_| CallResult::Failed(CallFailure::Task("the shop is closed".to_owned())));
    let server = reference(functions);
    let id = server.open("store").await;
    let bodies = [
        method_call("pay", json!({})),
        method_call("search", json!({})),
        method_call("search", Value::Null),
        method_call("search", json!({"text": "tea"})),
        json!({"workflow_name": "store", "action": "fly"}),
        state_input(json!({"total": 1})),
        transition("done"),
    ];
    for body in bodies {
        let (status, answer) = server.action(&id, body.clone()).await;
        assert_eq!((status, members(&answer)), (200, vec!["content", "tools"]), "{body}");
        assert!(answer["content"].as_str().unwrap().starts_with("Error: "), "{answer}");
    }
    let (_, answer) = server.action(&id, transition("done")).await;
    assert!(answer["content"].as_str().unwrap().ends_with("\n\nAllowed options: cart"));
    let (status, answer) = server.action(&id, state_input(json!([]))).await;
    assert_eq!((status, members(&answer)), (200, vec!["error"]));
}

#[tokio::test]
async fn the_checks_of_the_envelope_keep_their_status() {
    let server = reference(Functions::default());
    let id = server.open("store").await;
    let status = |session: &str, body: &str| {
        let (session, body) = (session.to_owned(), body.to_owned());
        let server = server.clone();
        async move { server.send("/execute", &session, body.as_bytes(), &[]).await.status.as_u16() }
    };
    assert_eq!(status("", "{}").await, 400);
    assert_eq!(status(&id, "[]").await, 400);
    assert_eq!(status(&id, r#"{"workflow_name":"zz"}"#).await, 404);
    assert_eq!(status("nobody", r#"{"workflow_name":"store"}"#).await, 404);
    assert_eq!(status(&id, r#"{"workflow_name":"store"}"#).await, 400);
    assert_eq!(status(&id, r#"{"workflow_name":"store","action":"method_call"}"#).await, 400);
    assert_eq!(status(&id, r#"{"workflow_name":"store","action":"stage_transition"}"#).await, 400);
}

#[tokio::test]
async fn a24_missing_prerequisites_offer_only_provide_state() {
    let server = reference(Functions::default());
    let id = server.open("store").await;
    server.action(&id, transition("cart")).await;

    let (status, body) = server.action(&id, transition("checkout")).await;

    assert_eq!((status, &body["status"]), (200, &json!("state_required")));
    assert_eq!(tool_names(&body), ["provide_state"]);
    let quantity = &body["tools"][0]["input_schema"]["properties"]["quantity"];
    assert_eq!(quantity["type"], json!("integer"));
}

#[tokio::test]
async fn a30_a31_initialize_lists_stages_and_the_other_actions_work() {
    let server = reference(Functions::default());
    let opened = server.client.post("/initialize", &json!({"workflow_name": "store"})).await.unwrap().json();
    assert_eq!(opened["stages"], json!(["browse", "cart", "checkout", "done"]));
    let id = opened["session_id"].as_str().unwrap();

    let (_, body) = server.action(id, json!({"workflow_name": "store", "action": "handshake"})).await;
    assert_eq!(body["content"], json!("Session started successfully."));
    let (_, body) = server.action(id, state_input(json!({"quantity": 1}))).await;
    assert_eq!(body["content"], json!("State populated successfully."));
    let (_, body) = server.action(id, transition("cart")).await;
    assert_eq!(body["content"], json!("Successfully transitioned from 'browse' to 'cart'."));
    let end = json!({"workflow_name": "store", "action": "terminate_session"});
    assert_eq!(
        server.action(id, end.clone()).await,
        (200, json!({"status": "terminated", "session_id": id}))
    );
    assert_eq!(server.action(id, end).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a23_a_timeout_is_an_error_text() {
    let functions = Functions::default().on_async("search", |_, _| std::future::pending::<CallResult>());
    let server = reference(functions);
    let id = server.open("store").await;

    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    assert_eq!(status, 200);
    assert!(body["content"].as_str().unwrap().starts_with("Error: Task timed out after 60 s"), "{body}");
}

#[tokio::test]
async fn the_header_selects_the_profile_of_a_request() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;
    let pay = || method_call("pay", json!({}));

    assert_eq!(server.execute(&id, pay(), &[("x-uaip-profile", "reference")]).await.status, 200);
    assert_eq!(server.execute(&id, pay(), &[("x-uaip-profile", "strict")]).await.status, 422);
}

#[test]
fn values_are_written_as_python_writes_them() {
    let cases = [
        (json!("plain 'text'"), "plain 'text'"),
        (json!(null), "None"),
        (json!(false), "False"),
        (json!([1, 2.5, "a"]), "[1, 2.5, 'a']"),
        (json!({"a": {}, "b": []}), "{'a': {}, 'b': []}"),
        (json!(["it's", "say \"it's\"", "\\", "a\nb\u{1}"]), r#"["it's", 'say "it\'s"', '\\', 'a\nb\x01']"#),
    ];
    for (value, text) in cases {
        assert_eq!(python_text(&value), text);
    }
}

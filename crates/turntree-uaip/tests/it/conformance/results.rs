//! Bodies of actions in the strict profile.

use serde_json::{Value, json};
use turntree_uaip::engine::{CallFailure, CallResult};

use crate::support::service::{Functions, Server, method_call, returns, state_input, tool_names, transition};
use crate::support::shop;

#[tokio::test]
async fn a1_a2_a_result_is_json_and_text() {
    let functions =
        Functions::default().on("search", |call| returns(call, json!({"found": ["tea", null, true]})));
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;

    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    assert_eq!(status, 200);
    assert_eq!(body["result"], json!({"found": ["tea", null, true]}));
    assert_eq!(body["content"], json!("{\"found\":[\"tea\",null,true]}"));
    assert_eq!((&body["status"], &body["current_stage"]), (&json!("ok"), &json!("browse")));
    assert_eq!((&body["terminal"], &body["state_version"]), (&json!(false), &json!(1)));
    assert_eq!(tool_names(&body), ["search", "transition_stage", "terminate_session"]);
    let transition = &body["tools"][1]["input_schema"]["properties"]["target_stage"];
    assert_eq!(transition["enum"], json!(["cart"]));
}

#[tokio::test]
async fn a2_a_task_that_returns_nothing_has_the_result_null() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;

    let (_, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    assert_eq!((body.get("result"), &body["content"]), (Some(&Value::Null), &json!("null")));
}

#[tokio::test]
async fn a3_state_input_answers_keys_and_no_values() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;

    let (status, body) = server.action(&id, state_input(json!({"user.email": "secret@b.c"}))).await;
    assert_eq!((status, &body["updated"]), (200, &json!(["user.email"])));
    assert_eq!(
        (&body["content"], &body["state_version"]),
        (&json!("State populated successfully."), &json!(1))
    );
    assert!(!body.to_string().contains("secret@b.c"));

    let (status, body) = server.action(&id, state_input(json!({}))).await;
    assert_eq!((status, &body["updated"], &body["state_version"]), (200, &json!([]), &json!(1)));

    let missing = json!({"workflow_name": "store", "action": "state_input"});
    assert_eq!(server.action(&id, missing).await.0, 400);
    for updates in [Value::Null, json!([]), json!("a")] {
        assert_eq!(server.action(&id, state_input(updates)).await.0, 400);
    }
}

#[tokio::test]
async fn d2_a4_errors_of_the_specification_are_422_with_what_is_allowed() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;

    let (status, body) = server.action(&id, method_call("pay", json!({}))).await;
    assert_eq!(
        (status, &body["code"], &body["allowed"]),
        (422, &json!("task_not_in_stage"), &json!(["search"]))
    );
    assert_eq!((&body["current_stage"], tool_names(&body)[0]), (&json!("browse"), "search"));

    let (status, body) = server.action(&id, transition("done")).await;
    assert_eq!(
        (status, &body["code"], &body["allowed"]),
        (422, &json!("invalid_transition"), &json!(["cart"]))
    );

    let (status, body) = server.action(&id, method_call("search", json!({"text": 1}))).await;
    assert_eq!((status, &body["code"]), (422, &json!("invalid_args")));
    assert_eq!((&body["errors"][0]["loc"], &body["errors"][0]["type"]), (&json!(["text"]), &json!("type")));

    let (status, body) = server.action(&id, json!({"workflow_name": "store", "action": "fly"})).await;
    assert_eq!((status, &body["code"]), (422, &json!("unknown_action")));
    assert_eq!((&body["current_stage"], tool_names(&body)[0]), (&json!("browse"), "search"));
}

#[tokio::test]
async fn a6_a_task_that_raises_is_a_task_error_and_shows_declared_messages_only() {
    let functions = Functions::default().on("search", |mut call| {
        call.state.set("half", json!("done"));
        CallResult::Failed(CallFailure::Task("the shop is closed".to_owned()))
    });
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;
    assert_eq!((status, &body["status"], &body["is_error"]), (200, &json!("task_error"), &json!(true)));
    assert_eq!((&body["content"], &body["state_version"]), (&json!("Error: the shop is closed"), &json!(0)));
    let session = server.client.get(&format!("/sessions/{id}")).await.unwrap().json();
    assert_eq!(session["state"], json!({}));

    let functions = Functions::default().on_async("search", |_, context| async move {
        CallResult::Failed(CallFailure::Internal { correlation_id: context.correlation_id.to_string() })
    });
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;
    assert_eq!((status, &body["status"]), (200, &json!("task_error")));
    let correlation = body["correlation_id"].as_str().unwrap();
    assert!(body["content"].as_str().unwrap().contains(correlation), "{body}");
}

#[tokio::test]
async fn a23_a_result_that_its_schema_forbids_is_a_task_error_without_the_value() {
    let functions = Functions::default().on("add_to_cart", |mut call| {
        call.state.set("items", json!(1));
        returns(call, json!({"count": "secret"}))
    });
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    server.action(&id, transition("cart")).await;

    let (status, body) = server.action(&id, method_call("add_to_cart", json!({"product_id": "a"}))).await;

    assert_eq!((status, &body["status"], &body["state_version"]), (200, &json!("task_error"), &json!(1)));
    assert!(!body.to_string().contains("secret"));
}

#[tokio::test]
async fn a7_a24_missing_prerequisites_offer_provide_state_with_real_schemas() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;
    server.action(&id, transition("cart")).await;

    let (status, body) = server.action(&id, transition("checkout")).await;
    assert_eq!((status, &body["code"]), (422, &json!("missing_prerequisites")));
    assert_eq!(body["missing"], json!(["user.email", "quantity"]));
    assert_eq!(tool_names(&body), ["add_to_cart", "transition_stage", "terminate_session", "provide_state"]);
    let schema = &body["tools"][3]["input_schema"];
    assert_eq!(schema["properties"]["quantity"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(schema["required"], json!(["user.email", "quantity"]));

    server.action(&id, state_input(json!({"user.email": "a@b.c", "quantity": -5}))).await;
    let (status, body) = server.action(&id, transition("checkout")).await;
    assert_eq!((status, &body["code"], &body["missing"]), (422, &json!("missing_prerequisites"), &json!([])));
    assert_eq!(
        (&body["errors"][0]["loc"], &body["errors"][0]["type"]),
        (&json!(["quantity"]), &json!("minimum"))
    );

    server.action(&id, state_input(json!({"quantity": 5}))).await;
    let (status, body) = server.action(&id, transition("checkout")).await;
    assert_eq!((status, &body["current_stage"]), (200, &json!("checkout")));
    assert_eq!(body["content"], json!("Successfully transitioned from 'cart' to 'checkout'."));
}

#[tokio::test]
async fn a31_handshake_changes_nothing_and_terminate_ends_the_session() {
    let server = Server::new(shop(), Functions::default());
    let id = server.open("store").await;

    let (status, body) = server.action(&id, json!({"workflow_name": "store", "action": "handshake"})).await;
    assert_eq!((status, &body["status"], &body["state_version"]), (200, &json!("ok"), &json!(0)));
    assert_eq!(tool_names(&body), ["search", "transition_stage", "terminate_session"]);

    let end = json!({"workflow_name": "store", "action": "terminate_session", "reason": "done"});
    let (status, body) = server.action(&id, end.clone()).await;
    assert_eq!((status, &body["status"]), (200, &json!("terminated")));
    assert_eq!(server.action(&id, end).await.0, 404);
    assert_eq!(server.client.get(&format!("/sessions/{id}")).await.unwrap().status, 404);
}

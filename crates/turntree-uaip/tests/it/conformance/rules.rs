//! Rules of workflows over HTTP: keys, guards, hooks, terminal stages, separate sessions.

use serde_json::{Value, json};
use turntree_uaip::engine::{CallFailure, CallResult};
use turntree_uaip::{ServiceOptions, Workflow};

use crate::support::service::{Functions, Server, method_call, returns, state_input, transition};
use crate::support::{shop, workflow};

fn action(name: &str, rest: &Value) -> Value {
    let mut body = json!({"workflow_name": "w", "action": name});
    for (key, value) in rest.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn d1_i5_a_second_session_does_not_move_the_first_one() {
    let server = Server::new(shop(), Functions::default());
    let first = server.open("store").await;
    server.action(&first, transition("cart")).await;
    server.action(&first, state_input(json!({"user.email": "first@b.c"}))).await;

    let second = server.open("store").await;

    let (_, body) = server.action(&first, json!({"workflow_name": "store", "action": "handshake"})).await;
    assert_eq!(body["current_stage"], json!("cart"));
    let session = server.client.get(&format!("/sessions/{second}")).await.unwrap().json();
    assert_eq!((&session["current_stage"], &session["state"]), (&json!("browse"), &json!({})));
}

#[tokio::test]
async fn d4_i4_state_survives_transitions() {
    let server = Server::new(
        shop(),
        Functions::default().on("search", |mut call| {
            call.state.set("found", json!("tea"));
            returns(call, Value::Null)
        }),
    );
    let id = server.open("store").await;
    server.action(&id, method_call("search", json!({"text": "tea"}))).await;
    for stage in ["cart", "browse", "cart"] {
        assert_eq!(server.action(&id, transition(stage)).await.0, 200);
    }

    let session = server.client.get(&format!("/sessions/{id}")).await.unwrap().json();
    assert_eq!(session["state"], json!({"found": "tea"}));
}

#[tokio::test]
async fn d10_workflows_with_the_same_stage_have_their_own_transitions() {
    let definition = |name: &str, to: &str| {
        json!({"name": name, "stages": [{"name": "shared"}, {"name": to}],
            "transitions": [{"from": "shared", "to": to}]})
    };
    let workflows = [workflow(definition("one", "x")), workflow(definition("two", "y"))];

    let exits = |workflow: &Workflow| workflow.stage("shared").unwrap().transitions[0].to.clone();

    assert_eq!((exits(&workflows[0]), exits(&workflows[1])), ("x".to_owned(), "y".to_owned()));
}

#[tokio::test]
async fn a10_private_keys_are_neither_written_nor_shown() {
    let functions = Functions::default().on("search", |mut call| {
        call.state.set("total", json!(99));
        call.state.set("shown", json!(1));
        returns(call, Value::Null)
    });
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    let (status, body) = server.action(&id, state_input(json!({"total": 1}))).await;
    assert_eq!((status, &body["code"]), (422, &json!("state_key_not_writable")));
    assert_eq!(body["allowed"], json!(["note", "quantity", "user.email"]));
    let session = server.client.get(&format!("/sessions/{id}")).await.unwrap().json();
    assert_eq!(session["state"], json!({"shown": 1}));
}

#[tokio::test]
async fn a28_each_declaration_ends_the_freedom_to_write_any_key() {
    let base = || json!({"name": "w", "stages": [{"name": "a"}, {"name": "b"}], "transitions": [{"from": "a", "to": "b"}]});
    let declared = [
        ("/private", json!(["p"])),
        ("/agent_writable", json!(["p"])),
        ("/state_schema", json!({"type": "object", "properties": {"p": {}}})),
    ];
    let write = |server: Server| async move {
        let id = server.open("w").await;
        server.action(&id, action("state_input", &json!({"state_updates": {"any": 1}}))).await.0
    };
    assert_eq!(write(Server::new(base(), Functions::default())).await, 200);
    for (member, value) in declared {
        let mut definition = base();
        definition[&member[1..]] = value;
        assert_eq!(write(Server::new(definition, Functions::default())).await, 422, "{member}");
    }
    let mut definition = base();
    definition["stages"][1]["prerequisites"] = json!(["p"]);
    assert_eq!(write(Server::new(definition, Functions::default())).await, 422);
}

#[tokio::test]
async fn a11_a_terminal_stage_is_marked_and_its_tasks_stay_callable() {
    let definition = json!({"name": "w", "stages": [{"name": "a"}, {"name": "b", "complete_on_enter": true, "tasks": [{"name": "t"}]}],
        "transitions": [{"from": "a", "to": "b"}], "require_terminal": true});
    let server = Server::new(definition, Functions::default());
    let id = server.open("w").await;

    let (status, body) = server.action(&id, action("terminate_session", &json!({}))).await;
    assert_eq!((status, &body["code"], &body["allowed"]), (422, &json!("not_terminal"), &json!(["b"])));

    let (_, body) = server.action(&id, action("stage_transition", &json!({"stage": "b"}))).await;
    assert_eq!(body["terminal"], json!(true));
    let session = server.client.get(&format!("/sessions/{id}")).await.unwrap().json();
    assert_eq!((&session["status"], &session["terminal"]), (&json!("completed"), &json!(true)));
    assert_eq!(server.action(&id, action("method_call", &json!({"task": "t"}))).await.0, 200);
    assert_eq!(server.action(&id, action("terminate_session", &json!({}))).await.0, 200);
}

#[tokio::test]
async fn a23_guards_and_hooks() {
    let definition = json!({"name": "w", "stages": [{"name": "a"}, {"name": "b", "on_enter": true}],
        "transitions": [{"from": "a", "to": "b", "guarded": true}]});
    let denies = Functions::default().on("a -> b", |_| CallResult::Guard { allowed: false });
    let server = Server::new(definition.clone(), denies);
    let id = server.open("w").await;
    let go = || action("stage_transition", &json!({"stage": "b"}));
    let (status, body) = server.action(&id, go()).await;
    assert_eq!((status, &body["code"]), (422, &json!("transition_denied")));

    let fails = Functions::default()
        .on("enter b", |_| CallResult::Failed(CallFailure::Task("b is closed".to_owned())));
    let server = Server::new(definition, fails);
    let id = server.open("w").await;
    let (status, body) = server.action(&id, go()).await;
    assert_eq!((status, &body["status"], &body["current_stage"]), (200, &json!("task_error"), &json!("a")));
    assert_eq!(body["content"], json!("Error: b is closed"));
}

#[tokio::test]
async fn a26_the_hook_of_the_initial_stage_runs_at_the_start() {
    let definition = json!({"name": "w", "stages": [{"name": "a", "on_enter": true}]});
    let writes = Functions::default().on("enter a", |mut call| {
        call.state.set("greeting", json!("hi"));
        returns(call, Value::Null)
    });
    let server = Server::new(definition.clone(), writes);
    let id = server.open("w").await;
    let session = server.client.get(&format!("/sessions/{id}")).await.unwrap().json();
    assert_eq!(session["state"], json!({"greeting": "hi"}));

    let start = |failure: CallFailure| {
        let definition = definition.clone();
        async move {
            let functions = Functions::default().on("enter a", move |_| CallResult::Failed(failure.clone()));
            let server = Server::new(definition, functions);
            let response = server.client.post("/initialize", &json!({"workflow_name": "w"})).await.unwrap();
            assert_eq!(response.header("x-session-id"), None);
            (response.status.as_u16(), response.json())
        }
    };
    let (status, body) = start(CallFailure::Task("not today".to_owned())).await;
    assert_eq!((status, &body["code"]), (422, &json!("initialize_failed")));
    let (status, body) = start(CallFailure::Internal { correlation_id: "c-1".to_owned() }).await;
    assert_eq!((status, &body["correlation_id"]), (500, &json!("c-1")));
}

#[tokio::test]
async fn the_runner_can_refuse_arguments_and_ask_for_approval() {
    let violation = turntree_agents::types::Violation::new("/text", "value_error", "not a product");
    let functions = Functions::default()
        .on("search", move |_| CallResult::Failed(CallFailure::InvalidArgs(vec![violation.clone()])));
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;
    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;
    assert_eq!((status, &body["code"]), (422, &json!("invalid_args")));
    assert_eq!(body["errors"], json!([{"loc": ["text"], "msg": "not a product", "type": "value_error"}]));

    let functions = Functions::default().on("search", |_| {
        CallResult::Failed(CallFailure::ApprovalRequired { request: json!({"amount": 5}) })
    });
    let server = Server::with(vec![workflow(shop())], functions, ServiceOptions::default());
    let id = server.open("store").await;
    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;
    assert_eq!(
        (status, &body["status"], &body["approval"]),
        (200, &json!("approval_required"), &json!({"amount": 5}))
    );
    assert_eq!(body["state_version"], json!(0));
}

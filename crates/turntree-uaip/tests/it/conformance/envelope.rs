//! What is checked before an action: headers, the body, the workflow, the session, the shape of the action.

use serde_json::{Value, json};
use turntree_uaip::ServiceOptions;

use crate::support::service::{Functions, Server, method_call};
use crate::support::{shop, workflow};

fn two() -> Server {
    let other = json!({"name": "other", "stages": [{"name": "a", "tasks": [{"name": "t"}]}]});
    let workflows = vec![workflow(shop()), workflow(other)];
    Server::with(workflows, Functions::default(), ServiceOptions::default())
}

async fn refused(server: &Server, session: &str, body: &[u8]) -> (u16, String) {
    let response = server.send("/execute", session, body, &[]).await;
    let body = response.json();
    assert!(body["detail"].is_string(), "{body}");
    (response.status.as_u16(), body["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_checks_have_the_order_of_the_specification() {
    let server = two();
    let id = server.open("store").await;
    let expect = |status: u16, code: &str| (status, code.to_owned());

    assert_eq!(refused(&server, "", b"not json").await, expect(400, "missing_session_header"));
    assert_eq!(refused(&server, "nobody", b"not json").await, expect(400, "invalid_body"));
    assert_eq!(refused(&server, "nobody", b"").await, expect(400, "invalid_body"));
    assert_eq!(refused(&server, "nobody", b"{}").await, expect(400, "missing_field"));
    let unknown = br#"{"workflow_name":"zz"}"#;
    assert_eq!(refused(&server, "nobody", unknown).await, expect(404, "workflow_not_found"));
    let known = br#"{"workflow_name":"store"}"#;
    assert_eq!(refused(&server, "nobody", known).await, expect(404, "session_not_found"));
    assert_eq!(refused(&server, &id, known).await, expect(400, "missing_field"));
    let fly = br#"{"workflow_name":"store","action":"fly"}"#;
    assert_eq!(refused(&server, &id, fly).await, expect(422, "unknown_action"));
    let call = br#"{"workflow_name":"store","action":"method_call"}"#;
    assert_eq!(refused(&server, &id, call).await, expect(400, "missing_field"));
    let stage = br#"{"workflow_name":"store","action":"stage_transition","stage":7}"#;
    assert_eq!(refused(&server, &id, stage).await, expect(400, "invalid_body"));
}

#[tokio::test]
async fn d13_bodies_that_are_not_objects_are_400() {
    let server = two();
    for body in ["[]", "null", "\"store\"", "1", "{", "{\"workflow_name\":[\"store\"]}", "\u{feff}{}"] {
        let response = server.send("/initialize", "", body.as_bytes(), &[]).await;
        assert_eq!(response.status, 400, "{body}");
    }
    assert_eq!(server.send("/initialize", "", b"\xff\xfe", &[]).await.status, 400);
    let deep = format!("{{\"workflow_name\":\"store\",\"x\":{}}}", "[".repeat(5_000));
    assert_eq!(server.send("/initialize", "", deep.as_bytes(), &[]).await.status, 400);
    let missing = server.send("/initialize", "", b"{}", &[]).await;
    assert_eq!(
        (missing.status.as_u16(), missing.json()["detail"].clone()),
        (400, json!("Missing 'workflow_name'"))
    );
    let unknown = server.send("/initialize", "", br#"{"workflow_name":"zz"}"#, &[]).await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.json()["detail"].clone()),
        (404, json!("Workflow not found: zz"))
    );
}

#[tokio::test]
async fn a5_args_may_be_absent_and_are_an_object() {
    let server = two();
    let id = server.open("other").await;
    let call = |args: Value| {
        let mut body = json!({"workflow_name": "other", "action": "method_call", "task": "t"});
        if args != json!("absent") {
            body["args"] = args;
        }
        body
    };

    assert_eq!(server.action(&id, call(json!("absent"))).await.0, 200);
    assert_eq!(server.action(&id, call(json!({}))).await.0, 200);
    for args in [Value::Null, json!([]), json!("a"), json!(1)] {
        let (status, body) = server.action(&id, call(args)).await;
        assert_eq!((status, &body["code"]), (400, &json!("invalid_body")));
    }
    let (status, body) = server.action(&id, call(json!({"unknown": 1}))).await;
    assert_eq!((status, &body["code"]), (422, &json!("invalid_args")));
}

#[tokio::test]
async fn a13_a_session_of_another_workflow_is_not_found() {
    let server = two();
    let id = server.open("other").await;

    let (status, body) = server.action(&id, method_call("search", json!({"text": "tea"}))).await;

    assert_eq!((status, body["detail"].clone()), (404, json!("Session not found")));
}

#[tokio::test]
async fn a18_other_content_types_are_415_and_large_bodies_413() {
    let server = two();
    let send = |content_type: &'static str| {
        let server = server.clone();
        let body = br#"{"workflow_name":"store"}"#;
        async move { server.send("/initialize", "", body, &[("content-type", content_type)]).await }
    };
    for accepted in ["application/json", "application/json; charset=utf-8", "application/vnd.x+json"] {
        assert_eq!(send(accepted).await.status, 200, "{accepted}");
    }
    for refused in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let response = send(refused).await;
        assert_eq!(
            (response.status.as_u16(), response.json()["code"].clone()),
            (415, json!("unsupported_media_type"))
        );
    }
    let large = vec![b' '; (1 << 20) + 1];
    let response = server.send("/initialize", "", &large, &[]).await;
    assert_eq!((response.status.as_u16(), response.json()["code"].clone()), (413, json!("body_too_large")));
}

#[tokio::test]
async fn a21_the_session_id_comes_from_the_header_only() {
    let server = two();
    let id = server.open("store").await;
    let body = serde_json::to_vec(&method_call("search", json!({"text": "tea"}))).unwrap();

    let response = server.send(&format!("/execute?session_id={id}&X-Session-Id={id}"), "", &body, &[]).await;

    assert_eq!(response.json()["code"], "missing_session_header");
}

#[tokio::test]
async fn a30_error_bodies_repeat_little_of_the_input() {
    let server = two();
    let id = server.open("store").await;
    let long = "x".repeat(100_000);
    let bodies = [
        json!({"workflow_name": long}),
        json!({"workflow_name": "store", "action": long}),
        method_call(&long, json!({})),
        method_call("search", json!({"text": 1, long.as_str(): 1})),
        method_call("search", json!({"text": [long]})),
        json!({"workflow_name": "store", "action": "stage_transition", "stage": long}),
        json!({"workflow_name": "store", "action": "state_input", "state_updates": {long.as_str(): 1}}),
    ];
    for body in bodies {
        let response = server.execute(&id, body, &[]).await;
        let text = response.text();
        assert!(response.status.is_client_error(), "{text}");
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert!(text.matches('x').count() < 1_000, "{} repeated characters", text.matches('x').count());
    }
}

#[tokio::test]
async fn paths_and_methods_that_do_not_exist_are_404_and_405() {
    let server = two();
    let missing = server.client.get("/nothing").await.unwrap();
    assert_eq!((missing.status.as_u16(), missing.json()["code"].clone()), (404, json!("not_found")));
    let wrong = server.client.get("/execute").await.unwrap();
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, Some("POST")));
    let wrong = server.client.delete("/api/workflows").await.unwrap();
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test]
async fn headers_with_other_values_are_400() {
    let server = two();
    let id = server.open("store").await;
    let search = || method_call("search", json!({"text": "tea"}));
    for (name, value) in
        [("if-match", "*"), ("if-match", "-1"), ("x-uaip-profile", "loose"), ("idempotency-key", " ")]
    {
        let response = server.execute(&id, search(), &[(name, value)]).await;
        assert_eq!(
            (response.status.as_u16(), response.json()["code"].clone()),
            (400, json!("invalid_header")),
            "{name}"
        );
    }
}

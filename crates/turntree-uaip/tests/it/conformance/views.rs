//! What a server says of itself and its workflows.

use serde_json::{Value, json};
use turntree_uaip::ServiceOptions;

use crate::support::service::{Functions, Server};
use crate::support::{shop, workflow};

async fn get(server: &Server, path: &str) -> Value {
    let response = server.client.get(path).await.unwrap();
    assert_eq!(response.status, 200, "{path}");
    response.json()
}

#[tokio::test]
async fn the_success_of_initialize_d3_names_the_stages_d5_and_one_initial_stage() {
    let server = Server::new(shop(), Functions::default());

    let response = server.client.post("/initialize", &json!({"workflow_name": "store"})).await.unwrap();

    let body = response.json();
    assert_eq!(body["stages"], json!(["browse", "cart", "checkout", "done"]));
    assert_eq!((&body["workflow"], &body["initial_stage"]), (&json!("store"), &json!("browse")));
    let id = body["session_id"].as_str().unwrap();
    assert_eq!(response.header("x-session-id"), Some(id));
    assert_eq!((id.len(), &id[14..15]), (36, "4"));
    let session = get(&server, &format!("/sessions/{id}")).await;
    assert_eq!(session["current_stage"], body["initial_stage"]);
    assert_eq!(get(&server, "/api/workflows/store").await["initial_stage"], body["initial_stage"]);
}

#[tokio::test]
async fn the_schema_of_a_workflow() {
    let server = Server::new(shop(), Functions::default());

    let view = get(&server, "/api/workflows/store").await;

    assert_eq!((&view["name"], &view["description"]), (&json!("store"), &json!("A shop")));
    let cart = &view["stages"]["cart"];
    assert_eq!(cart["transitions"], json!(["browse", "checkout"]));
    let task = &cart["tasks"]["add_to_cart"];
    assert_eq!((&task["name"], &task["description"]), (&json!("add_to_cart"), &json!("Adds a product")));
    assert_eq!(task["parameters"]["required"], json!(["product_id"]));
    assert_eq!(task["returns"]["required"], json!(["count"]));
    assert_eq!(view["stages"]["checkout"]["prerequisites"], json!(["user.email", "quantity"]));
    let missing = server.client.get("/api/workflows/zz").await.unwrap();
    assert_eq!((missing.status.as_u16(), missing.json()["code"].clone()), (404, json!("workflow_not_found")));
}

#[tokio::test]
async fn a20_the_server_lists_its_workflows_and_one_workflow_need_not_be_named() {
    let single = Server::new(shop(), Functions::default());
    let root = get(&single, "/").await;
    assert_eq!((&root["protocol"], &root["version"]), (&json!("UAIP"), &json!("0.1.0")));
    assert_eq!(get(&single, "/schema").await, get(&single, "/api/workflows/store").await);
    let opened = single.client.post("/initialize", &json!({})).await.unwrap();
    let id = opened.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(single.action(&id, json!({"action": "handshake"})).await.0, 200);

    let other = json!({"name": "other things", "stages": [{"name": "a"}]});
    let workflows = vec![workflow(shop()), workflow(other)];
    let two = Server::with(workflows, Functions::default(), ServiceOptions::default());
    assert_eq!(two.client.get("/schema").await.unwrap().status, 404);
    assert_eq!(two.client.post("/initialize", &json!({})).await.unwrap().status, 400);
    let names: Vec<Value> = get(&two, "/api/workflows").await["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|workflow| workflow["name"].clone())
        .collect();
    assert_eq!(names, ["store", "other things"]);
    assert_eq!(get(&two, "/api/workflows/other%20things").await["name"], json!("other things"));
}

#[tokio::test]
async fn openapi_has_the_real_names_and_schemas_and_all_references_resolve() {
    let mut definition = shop();
    definition["stages"][0]["tasks"][0]["parameters"] = json!({"type": "object",
        "properties": {"filter": {"$ref": "#/$defs/Filter"}}, "$defs": {"Filter": {"type": "object"}}});
    let server = Server::new(definition, Functions::default());

    let document = get(&server, "/openapi.json").await;

    assert_eq!(document["openapi"], json!("3.1.0"));
    let bodies = document["components"]["schemas"]["ExecuteRequest"]["anyOf"].as_array().unwrap();
    let tasks: Vec<&Value> = bodies
        .iter()
        .map(|body| &body["properties"]["task"]["const"])
        .filter(|task| !task.is_null())
        .collect();
    assert_eq!(tasks, [&json!("search"), &json!("add_to_cart"), &json!("pay")]);
    let mut references = 0;
    let mut waiting = vec![&document];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let target = document.pointer(reference.strip_prefix('#').unwrap());
                    assert!(target.is_some(), "{reference} does not resolve");
                    references += 1;
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    assert!(references > 20, "only {references} references");
    for path in [
        "/",
        "/initialize",
        "/execute",
        "/api/workflows",
        "/api/workflows/{name}",
        "/sessions/{session_id}",
        "/schema",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}

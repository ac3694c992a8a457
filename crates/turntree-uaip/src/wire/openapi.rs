//! The OpenAPI 3.1 document of a server: the real names of workflows, stages and tasks, and the schemas of their arguments.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::openapi_parts::{component, object, responses, schemas};
use super::view::PROTOCOL_VERSION;
use crate::definition::{Schema, Stage, Workflow};

/// Describes a server of these workflows.
pub fn openapi(workflows: &[Arc<Workflow>]) -> Value {
    let mut components = schemas();
    let bodies = execute_bodies(workflows, &mut components);
    let names: Vec<&str> = workflows.iter().map(|workflow| workflow.name()).collect();
    let is_single = names.len() == 1;
    components.insert("InitializeRequest".to_owned(), initialize_request(&names));
    components.insert("ExecuteRequest".to_owned(), json!({ "anyOf": bodies }));
    let mut paths = paths(&names);
    if is_single && let Some(paths) = paths.as_object_mut() {
        let schema = get("schema", "The schema of the only workflow.", "Workflow", &[]);
        paths.insert("/schema".to_owned(), schema);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "UAIP server",
            "version": PROTOCOL_VERSION,
            "description": "Workflows of stages. An agent calls only the tasks of its current stage.",
        },
        "paths": paths,
        "components": {"schemas": components},
    })
}

fn initialize_request(names: &[&str]) -> Value {
    let required: &[&str] = if names.len() == 1 { &[] } else { &["workflow_name"] };
    object(&json!({"workflow_name": {"type": "string", "enum": names}}), required)
}

fn paths(names: &[&str]) -> Value {
    json!({
        "/": get("server", "The protocol and its version.", "Server", &[]),
        "/initialize": {"post": {
            "operationId": "initialize",
            "summary": "Creates a session.",
            "parameters": [idempotency_key()],
            "requestBody": body("InitializeRequest"),
            "responses": responses("InitializeResponse", &[400, 401, 404, 408, 413, 415, 422, 429, 500, 503, 504], Some(&json!({
                "X-Session-Id": {"description": "The id of the session.", "schema": {"type": "string"}}
            }))),
        }},
        "/execute": {"post": {
            "operationId": "execute",
            "summary": "Executes an action of a session.",
            "parameters": [
                header("X-Session-Id", "The id of the session.", true),
                idempotency_key(),
                if_match(),
                {"name": "X-UAIP-Profile", "in": "header", "required": false,
                 "description": "How the response looks.",
                 "schema": {"type": "string", "enum": ["strict", "reference"]}},
            ],
            "requestBody": body("ExecuteRequest"),
            "responses": execute_responses(),
        }},
        "/api/workflows": get("listWorkflows", "The workflows.", "Workflows", &[]),
        "/api/workflows/{name}": {"get": {
            "operationId": "getWorkflow",
            "summary": "The schema of a workflow.",
            "parameters": [{"name": "name", "in": "path", "required": true,
                "schema": {"type": "string", "enum": names}}],
            "responses": responses("Workflow", &[401, 404], None),
        }},
        "/sessions/{session_id}": {
            "get": {
                "operationId": "getSession",
                "summary": "The stage, the tools and the visible state of a session.",
                "parameters": [session_path()],
                "responses": responses("Session", &[401, 404, 503], None),
            },
            "delete": {
                "operationId": "deleteSession",
                "summary": "Ends a session.",
                "parameters": [session_path(), if_match()],
                "responses": responses("ExecuteResponse", &[400, 401, 404, 409, 422, 429, 503], None),
            },
        },
        "/openapi.json": get("openapi", "This document.", "Document", &[]),
    })
}

fn get(id: &str, summary: &str, schema: &str, statuses: &[u16]) -> Value {
    let mut all = vec![401];
    all.extend(statuses);
    json!({"get": {"operationId": id, "summary": summary, "responses": responses(schema, &all, None)}})
}

fn body(schema: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": {"$ref": component(schema)}}}})
}

fn header(name: &str, description: &str, required: bool) -> Value {
    json!({"name": name, "in": "header", "required": required, "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}})
}

fn idempotency_key() -> Value {
    header("Idempotency-Key", "A request that is sent again with the same key runs once.", false)
}

fn if_match() -> Value {
    json!({"name": "If-Match", "in": "header", "required": false,
        "description": "The state_version that the session must have.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}})
}

fn session_path() -> Value {
    json!({"name": "session_id", "in": "path", "required": true, "schema": {"type": "string", "format": "uuid"}})
}

fn execute_responses() -> Value {
    let mut all =
        responses("ExecuteResponse", &[400, 401, 404, 408, 409, 413, 415, 422, 429, 500, 503, 504], None);
    if let Some(content) = all.pointer_mut("/200/content").and_then(Value::as_object_mut) {
        let text = json!({"schema": {"type": "string", "description":
            "Events `progress` while a task runs, then one event `result` with the body."}});
        content.insert("text/event-stream".to_owned(), text);
    }
    all
}

/// The bodies of `/execute`: one for each task, and one for each other action of each workflow.
fn execute_bodies(workflows: &[Arc<Workflow>], components: &mut Map<String, Value>) -> Vec<Value> {
    let is_single = workflows.len() == 1;
    let mut bodies = Vec::new();
    for workflow in workflows {
        let workflow_name = json!({"type": "string", "const": workflow.name()});
        let mut add = |action: &str, mut properties: Value, required: &[&str]| {
            if let Some(properties) = properties.as_object_mut() {
                properties.insert("workflow_name".to_owned(), workflow_name.clone());
                properties.insert("action".to_owned(), json!({"type": "string", "const": action}));
            }
            let mut all = vec!["action"];
            all.extend(required);
            if !is_single {
                all.push("workflow_name");
            }
            bodies.push(object(&properties, &all));
        };
        for (stage, task) in
            workflow.stages().iter().flat_map(|stage| stage.tasks.iter().map(move |task| (stage, task)))
        {
            let reference = add_arguments(components, workflow, stage, &task.name, &task.parameters);
            let properties =
                json!({"task": {"type": "string", "const": task.name}, "args": {"$ref": reference}});
            let needs_args = task.parameters.required().next().is_some();
            let required: &[&str] = if needs_args { &["task", "args"] } else { &["task"] };
            add("method_call", properties, required);
        }
        let exits: Vec<&str> = workflow
            .stages()
            .iter()
            .map(|stage| stage.name.as_str())
            .filter(|name| workflow.stages().iter().any(|stage| stage.transition(name).is_some()))
            .collect();
        if !exits.is_empty() {
            add("stage_transition", json!({"stage": {"type": "string", "enum": exits}}), &["stage"]);
        }
        add("state_input", json!({"state_updates": state_updates(workflow)}), &["state_updates"]);
        add("handshake", json!({}), &[]);
        add("terminate_session", json!({"reason": {"type": "string"}}), &[]);
    }
    bodies
}

/// The object of `state_updates`: the keys that an agent may write.
fn state_updates(workflow: &Workflow) -> Value {
    match workflow.agent_writable_keys() {
        None => json!({"type": "object"}),
        Some(keys) => {
            let properties: Map<String, Value> =
                keys.into_iter().map(|key| (key.to_owned(), json!({}))).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false})
        }
    }
}

/// Adds the schema of a task's arguments. Returns the reference to it.
fn add_arguments(
    components: &mut Map<String, Value>,
    workflow: &Workflow,
    stage: &Stage,
    task: &str,
    schema: &Schema,
) -> String {
    let base = format!("{}.{}.{task}", plain(workflow.name()), plain(&stage.name));
    let mut name = base.clone();
    let mut count = 1;
    while components.contains_key(&name) {
        count += 1;
        name = format!("{base}.{count}");
    }
    let reference = component(&name);
    components.insert(name, relocated(schema.value(), &reference));
    reference
}

/// A name of a component: letters, digits, `_`, `-` and periods.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// A schema whose references to its own parts are references into the document that now contains it.
fn relocated(schema: &Value, place: &str) -> Value {
    let mut schema = schema.clone();
    let mut waiting = vec![&mut schema];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                for (key, member) in members.iter_mut() {
                    if key == "$ref"
                        && let Value::String(reference) = member
                    {
                        if let Some(rest) = reference.strip_prefix('#') {
                            *reference = format!("{place}{rest}");
                        }
                    } else {
                        waiting.push(member);
                    }
                }
            }
            Value::Array(items) => waiting.extend(items.iter_mut()),
            _ => {}
        }
    }
    schema
}

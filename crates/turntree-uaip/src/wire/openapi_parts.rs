//! Schemas and responses of the OpenAPI document that are the same on every server.

use serde_json::{Map, Value, json};

/// The reference to a component.
pub(super) fn component(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// The schema of an object.
pub(super) fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The response of a success, and those of errors.
pub(super) fn responses(schema: &str, errors: &[u16], headers: Option<&Value>) -> Value {
    let mut all = error_responses(errors);
    let mut success = json!({
        "description": "Success.",
        "content": {"application/json": {"schema": {"$ref": component(schema)}}},
    });
    if let (Some(headers), Some(success)) = (headers, success.as_object_mut()) {
        success.insert("headers".to_owned(), headers.clone());
    }
    if let Some(all) = all.as_object_mut() {
        all.insert("200".to_owned(), success);
    }
    all
}

/// The responses of errors.
pub(super) fn error_responses(statuses: &[u16]) -> Value {
    let all = statuses.iter().map(|status| {
        let response = json!({
            "description": description(*status),
            "content": {"application/json": {"schema": {"$ref": component("Error")}}},
        });
        (status.to_string(), response)
    });
    Value::Object(all.collect())
}

const fn description(status: u16) -> &'static str {
    match status {
        400 => "The body, a member or a header is missing or has the wrong form.",
        401 => "The request has no valid token.",
        404 => "The workflow or the session does not exist.",
        405 => "The path does not have this method.",
        408 => "The body did not arrive in time.",
        409 => "The session has another version.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The action is against a rule of the workflow.",
        429 => "Too many actions of the session wait.",
        503 => "The session store is not available.",
        504 => "The task did not end in time.",
        _ => "The server has failed.",
    }
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn tools() -> Value {
    json!({"type": "array", "items": {"$ref": component("Tool")}})
}

/// The schemas of the bodies.
pub(super) fn schemas() -> Map<String, Value> {
    let all = [
        ("Error", error()),
        ("Tool", tool()),
        ("Server", server()),
        ("InitializeResponse", initialize_response()),
        ("ExecuteResponse", execute_response()),
        ("Workflows", workflows()),
        ("Workflow", workflow()),
        ("Stage", stage()),
        ("Session", session()),
        ("Document", json!({"type": "object"})),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn error() -> Value {
    let errors = json!({"type": "array", "items": {"type": "object"}});
    let properties = json!({"detail": text(), "code": text(), "tools": tools(), "current_stage": text(),
        "allowed": texts(), "missing": texts(), "errors": errors});
    object(&properties, &["detail", "code"])
}

fn tool() -> Value {
    let properties = json!({"name": text(), "description": text(), "input_schema": {"type": "object"}});
    object(&properties, &["name", "description", "input_schema"])
}

fn server() -> Value {
    let properties = json!({"protocol": {"const": "UAIP"}, "version": text(), "server": text()});
    object(&properties, &["protocol", "version", "server"])
}

fn initialize_response() -> Value {
    let properties = json!({"session_id": {"type": "string", "format": "uuid"}, "workflow": text(),
        "initial_stage": text(), "stages": texts()});
    object(&properties, &["session_id", "workflow", "initial_stage", "stages"])
}

/// Nothing is required: the responses of the reference profile have fewer members.
fn execute_response() -> Value {
    let status = ["ok", "task_error", "state_required", "terminated", "approval_required"];
    let properties = json!({"content": text(), "tools": tools(), "status": {"type": "string", "enum": status},
        "current_stage": text(), "terminal": {"type": "boolean"}, "result": {},
        "state_version": {"type": "integer", "minimum": 0}, "updated": texts(), "session_id": text(),
        "is_error": {"type": "boolean"}, "correlation_id": text()});
    object(&properties, &[])
}

fn workflows() -> Value {
    object(&json!({"workflows": {"type": "array", "items": {"type": "object"}}}), &["workflows"])
}

fn workflow() -> Value {
    let stages = json!({"type": "object", "additionalProperties": {"$ref": component("Stage")}});
    let properties =
        json!({"name": text(), "description": text(), "initial_stage": text(), "stages": stages});
    object(&properties, &["name", "description", "initial_stage", "stages"])
}

fn stage() -> Value {
    let properties = json!({"name": text(), "description": text(), "transitions": texts(),
        "prerequisites": texts(), "tasks": {"type": "object"}});
    object(&properties, &["name", "description", "tasks", "transitions"])
}

fn session() -> Value {
    let properties = json!({"session_id": text(), "workflow": text(), "current_stage": text(),
        "status": {"enum": ["active", "completed"]}, "terminal": {"type": "boolean"},
        "state_version": {"type": "integer"}, "state": {"type": "object"}, "tools": tools()});
    let required =
        ["session_id", "workflow", "current_stage", "status", "terminal", "state_version", "state", "tools"];
    object(&properties, &required)
}

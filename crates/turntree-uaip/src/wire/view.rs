//! Workflows and sessions as JSON.

use serde_json::{Map, Value, json};

use super::tools::tools;
use crate::definition::{Prerequisite, Stage, Workflow};
use crate::engine::Session;

/// The version of the protocol.
pub const PROTOCOL_VERSION: &str = "0.1.0";

/// The body of `GET /`.
pub fn server_view() -> Value {
    json!({
        "protocol": "UAIP",
        "version": PROTOCOL_VERSION,
        "server": concat!("turntree/", env!("CARGO_PKG_VERSION")),
    })
}

/// The body of `GET /api/workflows`.
pub fn workflows_view<'w>(workflows: impl Iterator<Item = &'w Workflow>) -> Value {
    let listed: Vec<Value> = workflows
        .map(|workflow| {
            json!({
                "name": workflow.name(),
                "description": workflow.description().unwrap_or_default(),
                "initial_stage": workflow.initial_stage(),
                "stages": stage_names(workflow),
            })
        })
        .collect();
    json!({ "workflows": listed })
}

/// The names of the stages, as they were declared.
pub fn stage_names(workflow: &Workflow) -> Vec<&str> {
    workflow.stages().iter().map(|stage| stage.name.as_str()).collect()
}

/// The body of `GET /api/workflows/{name}`.
pub fn workflow_view(workflow: &Workflow) -> Value {
    let stages: Map<String, Value> =
        workflow.stages().iter().map(|stage| (stage.name.clone(), stage_view(stage))).collect();
    json!({
        "name": workflow.name(),
        "description": workflow.description().unwrap_or_default(),
        "initial_stage": workflow.initial_stage(),
        "stages": stages,
    })
}

fn stage_view(stage: &Stage) -> Value {
    let tasks = stage.tasks.iter().map(|task| {
        let mut view = json!({
            "name": task.name,
            "description": task.description,
            "parameters": task.parameters.value(),
        });
        if let (Some(returns), Some(view)) = (&task.returns, view.as_object_mut()) {
            view.insert("returns".to_owned(), returns.value().clone());
        }
        (task.name.clone(), view)
    });
    let mut view = json!({
        "name": stage.name,
        "description": stage.description.as_deref().unwrap_or_default(),
        "tasks": tasks.collect::<Map<_, _>>(),
        "transitions": stage.exits(),
    });
    if let (false, Some(view)) = (stage.prerequisites.is_empty(), view.as_object_mut()) {
        let mut keys: Vec<&str> = Vec::new();
        for key in stage.prerequisites.iter().flat_map(Prerequisite::required_keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        view.insert("prerequisites".to_owned(), json!(keys));
    }
    view
}

/// The body of `GET /sessions/{id}`, without the times. Private keys of the state are left out.
pub fn session_view(workflow: &Workflow, session_id: &str, session: &Session) -> Map<String, Value> {
    let stage = workflow.stage(&session.stage);
    let view = [
        ("session_id", json!(session_id)),
        ("workflow", json!(session.workflow)),
        ("current_stage", json!(session.stage)),
        ("status", json!(session.status.as_str())),
        ("terminal", json!(stage.is_some_and(Stage::is_terminal))),
        ("state_version", json!(session.version)),
        ("state", Value::Object(session.visible_state(workflow))),
        ("tools", json!(stage.map(tools).unwrap_or_default())),
    ];
    view.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

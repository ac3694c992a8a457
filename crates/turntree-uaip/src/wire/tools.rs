//! The tools that an agent may call next, with the schemas of their arguments.

use serde_json::{Map, Value, json};

use crate::definition::{Stage, Workflow};

/// The tools of a stage: its tasks, `transition_stage` if there is an exit, and `terminate_session`.
pub fn tools(stage: &Stage) -> Vec<Value> {
    let tasks = stage.tasks.iter().map(|task| {
        json!({"name": task.name, "description": task.description, "input_schema": task.parameters.value()})
    });
    let mut tools: Vec<Value> = tasks.collect();
    if !stage.is_terminal() {
        tools.push(json!({
            "name": "transition_stage",
            "description": "Moves to another stage of the workflow.",
            "input_schema": {
                "type": "object",
                "properties": {"target_stage": {
                    "type": "string", "enum": stage.exits(), "description": "The stage to move to."}},
                "required": ["target_stage"],
                "additionalProperties": false,
            },
        }));
    }
    tools.push(json!({
        "name": "terminate_session",
        "description": "Ends the session.",
        "input_schema": {
            "type": "object",
            "properties": {"reason": {"type": "string", "description": "Why the session ends."}},
            "additionalProperties": false,
        },
    }));
    tools
}

/// The tool that writes keys of the state, with the schemas that are known for them; `None` if the agent may write none of
/// the keys.
pub fn provide_state(workflow: &Workflow, keys: &[String]) -> Option<Value> {
    let mut properties = Map::new();
    let mut definitions = Map::new();
    for key in keys.iter().filter(|key| workflow.is_agent_writable(key)) {
        let (schema, root) = schema_of(workflow, key);
        properties.insert(key.clone(), schema);
        let own = root.and_then(|root| root.get("$defs")).and_then(Value::as_object);
        definitions.extend(own.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    }
    if properties.is_empty() {
        return None;
    }
    let required: Vec<&String> = properties.keys().collect();
    let mut schema = json!({"type": "object", "required": required});
    if let Some(object) = schema.as_object_mut() {
        object.insert("properties".to_owned(), Value::Object(properties));
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
        if !definitions.is_empty() {
            object.insert("$defs".to_owned(), Value::Object(definitions));
        }
    }
    Some(json!({
        "name": "provide_state",
        "description": "Provides values that the workflow needs.",
        "input_schema": schema,
    }))
}

/// The schema of a key, and the document that its references are relative to: that of a model, or else that of the state.
fn schema_of<'w>(workflow: &'w Workflow, key: &str) -> (Value, Option<&'w Value>) {
    let prerequisites = workflow.stages().iter().flat_map(|stage| &stage.prerequisites);
    for prerequisite in prerequisites {
        if let crate::definition::Prerequisite::Model { schema, .. } = prerequisite
            && let Some((_, found)) = schema.properties().find(|(name, _)| *name == key)
        {
            return (found.clone(), Some(schema.value()));
        }
    }
    match workflow.schema_of_key(key) {
        Some(found) => (found.clone(), workflow.state_schema().map(crate::definition::Schema::value)),
        None => (json!({}), None),
    }
}

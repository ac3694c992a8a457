//! The JSON of version 0.3: parts and objects with `kind`, lower-case states.
//!
//! Spec: A2A 0.3

use serde_json::{Map, Value, json};

use super::error::A2aError;
use super::model::{
    Artifact, ArtifactUpdate, Message, Part, PushConfig, Role, StatusUpdate, StreamEvent, Task, TaskState,
    TaskStatus,
};

const fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input-required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
    }
}

fn part(part: &Part) -> Value {
    let Part { text, raw, url, data, media_type, filename, metadata } = part;
    let mut value = if let Some(text) = text {
        json!({ "kind": "text", "text": text })
    } else if let Some(data) = data {
        // In 0.3 data is an object.
        let data = if data.is_object() { data.clone() } else { json!({ "value": data }) };
        json!({ "kind": "data", "data": data })
    } else {
        let mut file = Map::new();
        let members = [("bytes", raw), ("uri", url), ("mimeType", media_type), ("name", filename)];
        for (name, member) in members {
            if let Some(text) = member {
                file.insert(name.to_owned(), text.as_str().into());
            }
        }
        json!({ "kind": "file", "file": file })
    };
    add(&mut value, "metadata", metadata.as_ref().map(|metadata| json!(metadata)));
    value
}

fn parts(list: &[Part]) -> Vec<Value> {
    list.iter().map(part).collect()
}

fn add(value: &mut Value, name: &str, member: Option<Value>) {
    if let (Some(object), Some(member)) = (value.as_object_mut(), member) {
        object.insert(name.to_owned(), member);
    }
}

/// A message.
pub fn message(message: &Message) -> Value {
    let role = if message.role == Role::User { "user" } else { "agent" };
    let mut value = json!({
        "kind": "message", "messageId": message.message_id, "role": role, "parts": parts(&message.parts),
    });
    add(&mut value, "contextId", message.context_id.as_deref().map(Value::from));
    add(&mut value, "taskId", message.task_id.as_deref().map(Value::from));
    add(&mut value, "metadata", message.metadata.as_ref().map(|metadata| json!(metadata)));
    value
}

fn status(status: &TaskStatus) -> Value {
    let mut value = json!({ "state": state(status.state), "timestamp": status.timestamp });
    add(&mut value, "message", status.message.as_ref().map(message));
    value
}

fn artifact(artifact: &Artifact) -> Value {
    let mut value = json!({ "artifactId": artifact.artifact_id, "parts": parts(&artifact.parts) });
    add(&mut value, "name", artifact.name.as_deref().map(Value::from));
    value
}

/// A task.
pub fn task(task: &Task) -> Value {
    json!({
        "kind": "task", "id": task.id, "contextId": task.context_id, "status": status(&task.status),
        "artifacts": task.artifacts.iter().map(artifact).collect::<Vec<_>>(),
        "history": task.history.iter().map(message).collect::<Vec<_>>(),
    })
}

/// An event of a stream.
pub fn event(event: &StreamEvent) -> Value {
    match event {
        StreamEvent::Task(value) => task(value),
        StreamEvent::Message(value) => message(value),
        StreamEvent::StatusUpdate(StatusUpdate { task_id, context_id, status: new }) => json!({
            "kind": "status-update", "taskId": task_id, "contextId": context_id, "status": status(new),
            "final": new.state.is_terminal() || new.state.is_interrupted(),
        }),
        StreamEvent::ArtifactUpdate(ArtifactUpdate {
            task_id,
            context_id,
            artifact: new,
            append,
            last_chunk,
        }) => json!({
            "kind": "artifact-update", "taskId": task_id, "contextId": context_id, "artifact": artifact(new),
            "append": append, "lastChunk": last_chunk,
        }),
    }
}

/// A webhook.
pub fn push_config(config: &PushConfig) -> Value {
    let mut inner = json!({ "id": config.id, "url": config.url });
    add(&mut inner, "token", config.token.as_deref().map(Value::from));
    let authentication = config.authentication.as_ref().map(|authentication| {
        let mut value = json!({ "schemes": [authentication.scheme] });
        add(&mut value, "credentials", authentication.credentials.as_deref().map(Value::from));
        value
    });
    add(&mut inner, "authentication", authentication);
    json!({ "taskId": config.task_id, "pushNotificationConfig": inner })
}

/// A webhook of a request, in the form of 1.0.
pub fn read_push_config(mut value: Value) -> Value {
    let scheme = value.pointer("/authentication/schemes/0").cloned();
    if let Some(authentication) = value.get_mut("authentication") {
        add(authentication, "scheme", scheme);
    }
    add(&mut value, "isV03", Some(true.into()));
    value
}

/// A message of a request, in the form of 1.0.
///
/// # Errors
/// A part has an unknown kind.
pub fn read_message(mut value: Value) -> Result<Value, A2aError> {
    let role = match value.get("role").and_then(Value::as_str) {
        Some("agent") => "ROLE_AGENT",
        Some("user") => "ROLE_USER",
        _ => return Err(A2aError::invalid("message.role: expected \"user\" or \"agent\"")),
    };
    add(&mut value, "role", Some(role.into()));
    let list = value.get_mut("parts").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let parts: Result<Vec<Value>, A2aError> = list
        .into_iter()
        .enumerate()
        .map(|(index, part)| {
            read_part(part).ok_or_else(|| {
                A2aError::invalid(format!("message.parts[{index}].kind: expected text, file or data"))
            })
        })
        .collect();
    add(&mut value, "parts", Some(Value::Array(parts?)));
    Ok(value)
}

fn read_part(mut part: Value) -> Option<Value> {
    let kind = part.get("kind").or_else(|| part.get("type")).and_then(Value::as_str)?.to_owned();
    let mut read = match kind.as_str() {
        "text" => json!({ "text": part.get("text")? }),
        "data" => json!({ "data": part.get_mut("data")?.take() }),
        "file" => {
            let file = part.get_mut("file")?;
            let mut read = json!({});
            for (new, old) in
                [("raw", "bytes"), ("url", "uri"), ("mediaType", "mimeType"), ("filename", "name")]
            {
                let member = file.get_mut(old).map(Value::take).filter(|member| !member.is_null());
                add(&mut read, new, member);
            }
            read
        }
        _ => return None,
    };
    let metadata = part.get_mut("metadata").map(Value::take);
    add(&mut read, "metadata", metadata.filter(Value::is_object));
    Some(read)
}

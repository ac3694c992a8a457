//! The parameters of requests, in the JSON of version 1.0.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turntree_agents::types::Verdict;
use turntree_core::ids::IdSource;
use turntree_core::message::Message as UppMessage;
use turntree_core::time::Clock;

use super::super::media::{MediaPart, Source};
use super::error::{A2aError, ErrorKind};
use super::model::{Message, Part, PushConfig, Role, Task, TaskState};
use super::v03;
use super::version::Version;
use crate::agent::messages_to_upp;
use crate::types::{ContentItem, Message as UampMessage, Role as UampRole};

/// How many parts a message has at most.
const MAX_PARTS: usize = 256;

/// `SendMessage`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SendRequest {
    pub(super) message: Message,
    #[serde(default)]
    pub(super) configuration: SendConfiguration,
}

/// How a message is answered.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SendConfiguration {
    pub(super) history_length: Option<u64>,
    pub(super) return_immediately: bool,
    pub(super) task_push_notification_config: Option<PushConfig>,
}

/// `GetTask`, `CancelTask`, `SubscribeToTask`
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskRequest {
    pub(super) id: String,
    #[serde(default)]
    pub(super) history_length: Option<u64>,
}

/// `ListTasks`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListRequest {
    pub(super) context_id: Option<String>,
    pub(super) status: Option<String>,
    pub(super) page_size: Option<u64>,
    pub(super) page_token: Option<String>,
    pub(super) history_length: Option<u64>,
    pub(super) status_timestamp_after: Option<String>,
    pub(super) include_artifacts: bool,
}

impl ListRequest {
    /// The state of the tasks to list.
    pub(super) fn state(&self) -> Result<Option<TaskState>, A2aError> {
        let name =
            self.status.as_deref().filter(|name| !name.is_empty() && *name != "TASK_STATE_UNSPECIFIED");
        let Some(name) = name else { return Ok(None) };
        let state = serde_json::from_value(json!(name));
        state.map(Some).map_err(|_| A2aError::invalid(format!("status: there is no state \"{name}\"")))
    }
}

/// `GetTaskPushNotificationConfig`, `ListTaskPushNotificationConfigs`, `DeleteTaskPushNotificationConfig`
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigRequest {
    pub(super) task_id: String,
    #[serde(default)]
    pub(super) id: String,
}

/// Reads parameters.
pub(super) fn read<T: DeserializeOwned>(params: Value) -> Result<T, A2aError> {
    serde_json::from_value(params).map_err(|error| A2aError::invalid(format!("params: {error}")))
}

/// The parameters of `SendMessage` of a version.
pub(super) fn read_send(mut params: Value, version: Version) -> Result<SendRequest, A2aError> {
    if version == Version::V03 {
        if let Some(message) = params.get_mut("message") {
            *message = v03::read_message(message.take())?;
        }
        if let Some(configuration) = params.get_mut("configuration").and_then(Value::as_object_mut) {
            // Not to wait is a choice of the client in both versions.
            let waits = configuration.get("blocking").and_then(Value::as_bool).unwrap_or(true);
            configuration.insert("returnImmediately".to_owned(), (!waits).into());
            if let Some(config) = configuration.remove("pushNotificationConfig") {
                let config = v03::read_push_config(config);
                configuration.insert("taskPushNotificationConfig".to_owned(), config);
            }
        }
    }
    if params.get("configuration").is_some_and(Value::is_null)
        && let Some(members) = params.as_object_mut()
    {
        members.remove("configuration");
    }
    let request: SendRequest = read(params)?;
    check(&request.message)?;
    Ok(request)
}

fn check(message: &Message) -> Result<(), A2aError> {
    if message.role != Role::User {
        return Err(A2aError::invalid("message.role: a client sends messages with the role of the user"));
    }
    if message.message_id.is_empty() {
        return Err(A2aError::invalid("message.messageId: expected an id that the client chooses"));
    }
    if message.parts.is_empty() || message.parts.len() > MAX_PARTS {
        return Err(A2aError::invalid(format!("message.parts: expected 1 to {MAX_PARTS} parts")));
    }
    Ok(())
}

/// The parameters of `CreateTaskPushNotificationConfig` of a version.
pub(super) fn read_config(mut params: Value, version: Version) -> Result<PushConfig, A2aError> {
    if version == Version::V03 {
        let task_id = params.get_mut("taskId").map(Value::take).unwrap_or_default();
        let inner = params.get_mut("pushNotificationConfig").map(Value::take).unwrap_or_default();
        let mut inner = v03::read_push_config(inner);
        if let Some(members) = inner.as_object_mut() {
            members.insert("taskId".to_owned(), task_id);
        }
        return read(inner);
    }
    // Early clients of 1.0 nest the webhook.
    if let Some(mut inner) = params.get_mut("config").map(Value::take).filter(Value::is_object) {
        if let (Some(members), Some(task_id)) = (inner.as_object_mut(), params.get("taskId")) {
            members.insert("taskId".to_owned(), task_id.clone());
        }
        return read(inner);
    }
    read(params)
}

/// The parameters that name a webhook, of a version.
pub(super) fn read_config_name(mut params: Value, version: Version) -> Result<ConfigRequest, A2aError> {
    if version == Version::V03 {
        let task_id = params.get_mut("id").map(Value::take).unwrap_or_default();
        let id = params.get_mut("pushNotificationConfigId").map_or_else(|| json!(""), Value::take);
        return read(json!({ "taskId": task_id, "id": id }));
    }
    read(params)
}

/// The message as the model reads it.
pub(super) fn to_upp(
    message: &Message,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<Vec<UppMessage>, A2aError> {
    let items: Result<Vec<ContentItem>, A2aError> =
        message.parts.iter().enumerate().map(|(index, part)| item(index, part)).collect();
    let message = UampMessage { role: UampRole::User, content_items: Some(items?), ..UampMessage::default() };
    let converted = messages_to_upp(&[message], ids, clock)
        .map_err(|error| A2aError::new(ErrorKind::ContentTypeNotSupported, error.to_string()))?;
    Ok(converted.messages)
}

fn item(index: usize, part: &Part) -> Result<ContentItem, A2aError> {
    let Part { text, raw, url, data, media_type, filename, .. } = part;
    let mime_type = || media_type.clone().unwrap_or_default();
    match (text, raw, url, data) {
        (Some(text), None, None, None) => Ok(ContentItem::text(text.clone())),
        (None, None, None, Some(data)) => Ok(ContentItem::text(data.to_string())),
        (None, Some(raw), None, None) => {
            let source = Source::Base64(raw.clone());
            Ok(MediaPart { mime_type: mime_type(), source, filename: filename.clone() }.into_item())
        }
        (None, None, Some(url), None) => {
            let source = Source::Url(url.clone());
            Ok(MediaPart { mime_type: mime_type(), source, filename: filename.clone() }.into_item())
        }
        _ => Err(A2aError::invalid(format!(
            "message.parts[{index}]: expected exactly one of text, raw, url and data"
        ))),
    }
}

/// The decisions on the calls that a task waits for: a part with data `{"approvals": [{"callId", "approved", "reason"}]}`
/// for single calls, or text for all of them: `approve` approves, and every other text is the reason of a denial.
pub(super) fn decisions(task: &Task, message: &Message) -> Result<Vec<(String, Verdict)>, A2aError> {
    let asked = task.status.message.iter().flat_map(|question| &question.parts);
    let calls: Vec<&str> = asked
        .filter_map(|part| part.data.as_ref()?.get("approvals")?.as_array())
        .flatten()
        .filter_map(|call| call.get("callId")?.as_str())
        .collect();
    let given: Vec<&Value> = message
        .parts
        .iter()
        .filter_map(|part| part.data.as_ref()?.get("approvals")?.as_array())
        .flatten()
        .collect();
    if given.is_empty() {
        let text = message.text();
        let word = text.trim().trim_end_matches(['.', '!']).to_lowercase();
        let verdict = match word.as_str() {
            "" => {
                return Err(A2aError::invalid("message: it decides nothing; answer \"approve\", or why not"));
            }
            "approve" | "approved" | "yes" | "ok" => Verdict::Approved,
            _ => Verdict::Denied { reason: Some(text.clone()) },
        };
        return Ok(calls.iter().map(|call| ((*call).to_owned(), verdict.clone())).collect());
    }
    let decide = |call: &&str| {
        let decision = given.iter().find(|given| given.get("callId").and_then(Value::as_str) == Some(call));
        let approved = decision.and_then(|decision| decision.get("approved")?.as_bool());
        let reason = decision.and_then(|decision| decision.get("reason")?.as_str().map(str::to_owned));
        match approved {
            Some(true) => Ok(((*call).to_owned(), Verdict::Approved)),
            Some(false) => Ok(((*call).to_owned(), Verdict::Denied { reason })),
            None => Err(A2aError::invalid(format!(
                "message: there is no decision on the call \"{call}\"; decide on all calls of the task"
            ))),
        }
    };
    calls.iter().map(decide).collect()
}

//! The binding to JSON-RPC 2.0, of both versions.

use futures_util::StreamExt as _;
use http::StatusCode;
use serde_json::{Value, json};
use turntree_server::{Body, KeepAlive, Response, SseEvent};

use super::error::{A2aError, ErrorKind};
use super::model::{PushConfig, StreamEvent, Task};
use super::operations::{Events, Operations};
use super::requests::{self, TaskRequest};
use super::v03;
use super::version::Version;

/// A method, by its names in both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreateConfig,
    GetConfig,
    ListConfigs,
    DeleteConfig,
    ExtendedCard,
}

impl Method {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "SendMessage" | "message/send" => Self::Send,
            "SendStreamingMessage" | "message/stream" => Self::Stream,
            "GetTask" | "tasks/get" => Self::Get,
            "ListTasks" | "tasks/list" => Self::List,
            "CancelTask" | "tasks/cancel" => Self::Cancel,
            "SubscribeToTask" | "tasks/resubscribe" => Self::Subscribe,
            "CreateTaskPushNotificationConfig" | "tasks/pushNotificationConfig/set" => Self::CreateConfig,
            "GetTaskPushNotificationConfig" | "tasks/pushNotificationConfig/get" => Self::GetConfig,
            "ListTaskPushNotificationConfigs" | "tasks/pushNotificationConfig/list" => Self::ListConfigs,
            "DeleteTaskPushNotificationConfig" | "tasks/pushNotificationConfig/delete" => Self::DeleteConfig,
            "GetExtendedAgentCard" | "agent/getAuthenticatedExtendedCard" => Self::ExtendedCard,
            _ => return None,
        })
    }
}

/// A request of JSON-RPC.
#[derive(Debug)]
pub(super) struct RpcRequest {
    pub(super) id: Value,
    pub(super) method: String,
    params: Value,
}

impl RpcRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The error, and the id for the response.
    pub(super) fn read(body: &[u8]) -> Result<Self, (A2aError, Value)> {
        let error = |kind, message: String, id| (A2aError::new(kind, message), id);
        let mut value: Value = serde_json::from_slice(body).map_err(|reason| {
            error(ErrorKind::Parse, format!("the body is not JSON: {reason}"), Value::Null)
        })?;
        let id = value.get("id").cloned().unwrap_or_default();
        let id = if id.is_string() || id.is_number() { id } else { Value::Null };
        if value.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            let message = "the body is not a request of JSON-RPC 2.0; batches are not supported";
            return Err(error(ErrorKind::InvalidRequest, message.to_owned(), id));
        }
        let Some(method) = value.get("method").and_then(Value::as_str).map(str::to_owned) else {
            return Err(error(ErrorKind::InvalidRequest, "method: expected a string".to_owned(), id));
        };
        let params = value.get_mut("params").map(Value::take).filter(|params| !params.is_null());
        Ok(Self { id, method, params: params.unwrap_or_else(|| json!({})) })
    }
}

/// Answers a request.
pub(super) async fn answer(
    operations: &Operations,
    request: RpcRequest,
    version: Version,
    last_event_id: Option<u64>,
) -> Response {
    let id = request.id.clone();
    match perform(operations, request, version, last_event_id).await {
        Ok(Answer::Value(result)) => {
            Body::json(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(StatusCode::OK)
        }
        Ok(Answer::Events(events)) => {
            let frames = events.map(move |(number, event)| {
                let result = event_in(version, &event);
                SseEvent::json(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
                    .with_id(number.to_string())
            });
            Body::events(frames, KeepAlive::default()).into_response(StatusCode::OK)
        }
        Err(error) => Body::json(&error.json_rpc(&id)).into_response(StatusCode::OK),
    }
}

enum Answer {
    Value(Value),
    Events(Events),
}

async fn perform(
    operations: &Operations,
    request: RpcRequest,
    version: Version,
    last_event_id: Option<u64>,
) -> Result<Answer, A2aError> {
    let RpcRequest { method, params, .. } = request;
    let method = Method::of_name(&method).ok_or_else(|| {
        let name: String = method.chars().take(100).collect();
        A2aError::new(ErrorKind::MethodNotFound, format!("there is no method \"{name}\""))
    })?;
    let value = match method {
        Method::Send => {
            let task = operations.send(requests::read_send(params, version)?).await?;
            match version {
                Version::V1 => json!({ "task": task }),
                Version::V03 => v03::task(&task),
            }
        }
        Method::Stream => {
            let request = requests::read_send(params, version)?;
            return Ok(Answer::Events(operations.stream(request).await?));
        }
        Method::Subscribe => {
            let request: TaskRequest = requests::read(params)?;
            return Ok(Answer::Events(operations.subscribe(&request.id, last_event_id).await?));
        }
        Method::Get => task_in(version, &operations.get(requests::read(params)?).await?),
        Method::Cancel => {
            let request: TaskRequest = requests::read(params)?;
            task_in(version, &operations.cancel(&request.id).await?)
        }
        Method::List => operations.list(&requests::read(params)?).await?,
        Method::CreateConfig => {
            config_in(version, &operations.create_config(requests::read_config(params, version)?).await?)
        }
        Method::GetConfig => {
            config_in(version, &operations.config(&requests::read_config_name(params, version)?).await?)
        }
        Method::ListConfigs => {
            let request = requests::read_config_name(params, version)?;
            let configs = operations.configs(&request.task_id).await?;
            let list: Vec<Value> = configs.iter().map(|config| config_in(version, config)).collect();
            match version {
                Version::V1 => json!({ "configs": list }),
                Version::V03 => Value::Array(list),
            }
        }
        Method::DeleteConfig => {
            operations.delete_config(&requests::read_config_name(params, version)?).await?;
            Value::Null
        }
        Method::ExtendedCard => {
            let message = "the card at /.well-known/agent-card.json is complete";
            return Err(A2aError::new(ErrorKind::ExtendedCardNotConfigured, message));
        }
    };
    Ok(Answer::Value(value))
}

fn task_in(version: Version, task: &Task) -> Value {
    match version {
        Version::V1 => json!(task),
        Version::V03 => v03::task(task),
    }
}

fn event_in(version: Version, event: &StreamEvent) -> Value {
    match version {
        Version::V1 => json!(event),
        Version::V03 => v03::event(event),
    }
}

fn config_in(version: Version, config: &PushConfig) -> Value {
    match version {
        Version::V1 => json!(config),
        Version::V03 => v03::push_config(config),
    }
}

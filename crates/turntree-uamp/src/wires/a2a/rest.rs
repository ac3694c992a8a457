//! The binding to HTTP and JSON, of version 1.0.

use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use turntree_server::{Body, KeepAlive, Response, SseEvent};

use super::error::{A2aError, ErrorKind};
use super::operations::{Events, Operations};
use super::requests::{self, ConfigRequest, TaskRequest};
use super::version::Version;

/// True for the paths of the binding.
pub(super) fn is_path(path: &str) -> bool {
    matches!(path, "/message:send" | "/message:stream" | "/tasks" | "/extendedAgentCard")
        || path.starts_with("/tasks/")
}

/// A request.
#[derive(Debug)]
pub(super) struct RestRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
    pub(super) last_event_id: Option<u64>,
}

/// Answers a request.
pub(super) async fn answer(operations: &Operations, request: RestRequest<'_>) -> Response {
    match perform(operations, request).await {
        Ok(Answer::Value(value)) => Body::json(&value).into_response(StatusCode::OK),
        Ok(Answer::Events(events)) => {
            let frames = events.map(|(number, event)| SseEvent::json(&event).with_id(number.to_string()));
            Body::events(frames, KeepAlive::default()).into_response(StatusCode::OK)
        }
        Err(error) => error.rest_response(),
    }
}

enum Answer {
    Value(Value),
    Events(Events),
}

async fn perform(operations: &Operations, request: RestRequest<'_>) -> Result<Answer, A2aError> {
    let RestRequest { method, path, query, body, last_event_id } = request;
    let is_post = method == Method::POST;
    let is_get = method == Method::GET || method == Method::HEAD;
    let segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let value = match *segments {
        ["message:send"] if is_post => {
            json!({ "task": operations.send(requests::read_send(json_of(body)?, Version::V1)?).await? })
        }
        ["message:stream"] if is_post => {
            let request = requests::read_send(json_of(body)?, Version::V1)?;
            return Ok(Answer::Events(operations.stream(request).await?));
        }
        ["extendedAgentCard"] if is_get => {
            let message = "the card at /.well-known/agent-card.json is complete";
            return Err(A2aError::new(ErrorKind::ExtendedCardNotConfigured, message));
        }
        ["tasks"] if is_get => operations.list(&requests::read(parameters(query))?).await?,
        ["tasks", task] => match task.split_once(':') {
            None if is_get => {
                let mut request = parameters(query);
                if let Some(members) = request.as_object_mut() {
                    members.insert("id".to_owned(), task.into());
                }
                let request: TaskRequest = requests::read(request)?;
                json!(operations.get(request).await?)
            }
            Some((id, "cancel")) if is_post => json!(operations.cancel(id).await?),
            Some((id, "subscribe")) if is_post || is_get => {
                return Ok(Answer::Events(operations.subscribe(id, last_event_id).await?));
            }
            _ => return Err(no_method(method, path)),
        },
        ["tasks", task, "pushNotificationConfigs", ref rest @ ..] => {
            return webhook(operations, method, path, (task, rest), body).await.map(Answer::Value);
        }
        _ => return Err(no_method(method, path)),
    };
    Ok(Answer::Value(value))
}

/// The operations on the webhooks of a task: of all of them, or of the one that the rest of the path names.
async fn webhook(
    operations: &Operations,
    method: &Method,
    path: &str,
    (task, rest): (&str, &[&str]),
    body: &[u8],
) -> Result<Value, A2aError> {
    let is_get = method == Method::GET || method == Method::HEAD;
    match *rest {
        [] if method == Method::POST => {
            let mut params = json_of(body)?;
            if let Some(members) = params.as_object_mut() {
                members.insert("taskId".to_owned(), task.into());
            }
            let config = requests::read_config(params, Version::V1)?;
            Ok(json!(operations.create_config(config).await?))
        }
        [] if is_get => Ok(json!({ "configs": operations.configs(task).await? })),
        [id] => {
            let request = ConfigRequest { task_id: task.to_owned(), id: id.to_owned() };
            if is_get {
                Ok(json!(operations.config(&request).await?))
            } else if method == Method::DELETE {
                operations.delete_config(&request).await?;
                Ok(json!({}))
            } else {
                Err(no_method(method, path))
            }
        }
        _ => Err(no_method(method, path)),
    }
}

fn no_method(method: &Method, path: &str) -> A2aError {
    let path: String = path.chars().take(100).collect();
    A2aError::new(ErrorKind::MethodNotFound, format!("there is no operation {method} {path}"))
}

fn json_of(body: &[u8]) -> Result<Value, A2aError> {
    serde_json::from_slice(body)
        .map_err(|error| A2aError::new(ErrorKind::Parse, format!("the body is not JSON: {error}")))
}

/// The parameters of a query. Numbers and booleans become those of JSON.
fn parameters(query: &str) -> Value {
    let mut members = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned();
        let value = match name {
            "pageSize" | "historyLength" => {
                value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from)
            }
            "includeArtifacts" => Value::from(value == "true"),
            _ => Value::from(value),
        };
        members.insert(name.to_owned(), value);
    }
    Value::Object(members)
}

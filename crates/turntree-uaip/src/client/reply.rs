//! Reads responses of both profiles.

use http::StatusCode;
use serde_json::{Map, Value};
use turntree_core::json;
use turntree_core::limits::Limits;

use super::error::ClientError;

/// Parses the body of a success.
pub(super) fn parse(body: &[u8]) -> Result<Value, ClientError> {
    match json::parse_bytes::<Value>(body, &Limits::PAYLOAD) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(ClientError::Protocol { reason: "the response is not an object".to_owned() }),
        Err(error) => Err(ClientError::Protocol { reason: format!("the response is not JSON: {error}") }),
    }
}

/// The error of a response with another status than 2xx.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    let parsed = json::parse_bytes::<Value>(body, &Limits::PAYLOAD).ok();
    let body = match parsed {
        Some(Value::Object(body)) => body,
        _ => Map::new(),
    };
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let detail = text("detail").unwrap_or_else(|| format!("the server has answered {status}"));
    let code = text("code").unwrap_or_else(|| code_of(status).to_owned());
    ClientError::Refused { status: status.as_u16(), code, detail, body }
}

/// The code of a server that sends none.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::NOT_FOUND => "session_not_found",
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        _ => "error",
    }
}

/// The error that a body with status 200 contains.
pub(super) fn error_of(body: &Map<String, Value>) -> Option<ClientError> {
    let content = body.get("content").and_then(Value::as_str).unwrap_or_default();
    let message = content.strip_prefix("Error: ");
    let status = body.get("status").and_then(Value::as_str);
    let refused = |code: &str, detail: &str| ClientError::Refused {
        status: 200,
        code: code.to_owned(),
        detail: detail.to_owned(),
        body: body.clone(),
    };
    match status {
        Some("task_error") => Some(ClientError::TaskFailed {
            message: message.unwrap_or(content).to_owned(),
            correlation_id: body.get("correlation_id").and_then(Value::as_str).map(str::to_owned),
        }),
        Some("approval_required") => Some(ClientError::ApprovalRequired {
            message: content.to_owned(),
            request: body.get("approval").cloned().unwrap_or_default(),
        }),
        Some("state_required") => Some(refused("missing_prerequisites", content)),
        // From here on: servers of version 0.4.
        Some(_) => None,
        None if body.contains_key("error") => {
            Some(refused("invalid_body", body.get("error").and_then(Value::as_str).unwrap_or_default()))
        }
        None if only_provides_state(body) => Some(refused("missing_prerequisites", content)),
        None => message.map(|message| refused("error", message)),
    }
}

fn only_provides_state(body: &Map<String, Value>) -> bool {
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    matches!(tools, [tool] if tool.get("name").and_then(Value::as_str) == Some("provide_state"))
}

/// The result of a task: JSON, or the text that a server of version 0.4 writes.
pub(super) fn result_of(body: &Map<String, Value>) -> Value {
    if let Some(result) = body.get("result") {
        return result.clone();
    }
    let content = body.get("content").and_then(Value::as_str).unwrap_or_default();
    Value::String(content.split_once("Result:\n").map_or(content, |(_, result)| result).to_owned())
}

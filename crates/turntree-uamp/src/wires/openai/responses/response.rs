//! The response as an object.

use serde_json::{Value, json};

use super::request::ResponsesRequest;
use super::stored::ResponseId;
use crate::types::{ErrorCode, ErrorDetails, UsageStats};
use crate::wires::openai::reply::Incomplete;

/// The state of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The agent works.
    InProgress,
    /// It is complete.
    Completed,
    /// The model was stopped before the end.
    Incomplete(Incomplete),
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed(Box<ErrorDetails>),
}

impl Status {
    /// The name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct ResponseObject {
    /// The members that do not change.
    settings: Value,
    /// The state.
    pub status: Status,
    /// The complete output items.
    pub output: Vec<Value>,
    usage: Option<Value>,
    completed_at: Option<i64>,
}

impl ResponseObject {
    /// The response of a request, in progress.
    pub fn new(request: &ResponsesRequest, id: &ResponseId, model: &str, created_at: i64) -> Self {
        let conversation = request.conversation().map(|id| json!({ "id": id }));
        let settings = json!({
            "id": id.to_string(),
            "object": "response",
            "created_at": created_at,
            "background": false,
            "conversation": conversation,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata.as_ref().map_or_else(|| json!({}), |metadata| json!(metadata)),
            "model": model,
            "parallel_tool_calls": true,
            "previous_response_id": request.previous_response_id,
            "reasoning": { "effort": null, "summary": null },
            "store": request.is_stored(),
            "temperature": request.temperature,
            "text": { "format": { "type": request.format_kind() } },
            "tool_choice": request.tool_choice_json(),
            "tools": request.tools_json(),
            "top_p": request.top_p,
            "truncation": "disabled",
            "user": null,
        });
        Self { settings, status: Status::InProgress, output: Vec::new(), usage: None, completed_at: None }
    }

    /// Sets the state after the end.
    pub fn finish(&mut self, status: Status, usage: &UsageStats, now: i64) {
        self.completed_at = (status == Status::Completed).then_some(now);
        self.status = status;
        self.usage = Some(usage_json(usage));
    }

    /// The ids of the calls that the client must run.
    pub fn call_ids(&self) -> Vec<String> {
        let calls = self.output.iter().filter_map(|item| item.get("call_id")?.as_str());
        calls.map(str::to_owned).collect()
    }

    /// The object.
    pub fn to_json(&self) -> Value {
        let mut object = self.settings.clone();
        let error = match &self.status {
            Status::Failed(error) => json!({ "code": error_code(&error.code), "message": error.message }),
            _ => Value::Null,
        };
        let incomplete = match self.status {
            Status::Incomplete(Incomplete::Length) => json!({ "reason": "max_output_tokens" }),
            Status::Incomplete(Incomplete::Filtered) => json!({ "reason": "content_filter" }),
            _ => Value::Null,
        };
        if let Some(members) = object.as_object_mut() {
            members.insert("status".to_owned(), self.status.name().into());
            members.insert("error".to_owned(), error);
            members.insert("incomplete_details".to_owned(), incomplete);
            members.insert("output".to_owned(), self.output.clone().into());
            members.insert("usage".to_owned(), self.usage.clone().unwrap_or_default());
            members.insert("completed_at".to_owned(), self.completed_at.into());
        }
        object
    }
}

/// The codes that responses have for failures.
const fn error_code(code: &ErrorCode) -> &'static str {
    match code {
        ErrorCode::RateLimited | ErrorCode::RateLimitExceeded => "rate_limit_exceeded",
        _ => "server_error",
    }
}

fn usage_json(usage: &UsageStats) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens.unwrap_or(0) },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
    })
}

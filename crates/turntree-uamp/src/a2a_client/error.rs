//! Errors of the client.

use std::sync::Arc;

use serde_json::Value;
use turntree_core::http::HttpError;

/// Why an agent could not be called, or has not answered. Cloning shares the error of HTTP.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum A2aClientError {
    /// The URL is not one of an agent.
    #[error(
        "\"{url}\" is not the URL of an agent: {reason}; it looks like https://example.com/agents/helper"
    )]
    Url {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no card at the URL.
    #[error("there is no agent card at \"{url}\": {reason}")]
    Card {
        /// The URL of the card.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The agent has no interface that this client speaks.
    #[error("the agent offers {found}; this client needs the binding JSONRPC of version 1.0 or 0.3")]
    Interface {
        /// The interfaces of the card.
        found: String,
    },
    /// The agent's server refuses the request.
    #[error("{message}")]
    Refused {
        /// The code of JSON-RPC.
        code: i64,
        /// The message.
        message: String,
        /// More for programs.
        data: Value,
    },
    /// The task has ended without an answer.
    #[error("the task of the agent {}: {message}", ended(.state))]
    Ended {
        /// The state: `failed`, `canceled`, `rejected` or `auth-required`.
        state: String,
        /// What the agent says.
        message: String,
    },
    /// The response is not one of A2A.
    #[error("{reason}; is this the URL of an A2A agent?")]
    Protocol {
        /// What is wrong.
        reason: String,
    },
    /// There is no response, or its status is an error.
    #[error(transparent)]
    Http(Arc<HttpError>),
}

fn ended(state: &str) -> String {
    match state {
        "failed" => "has failed".to_owned(),
        "canceled" => "was cancelled".to_owned(),
        "rejected" => "was rejected".to_owned(),
        "auth-required" => "needs credentials".to_owned(),
        state => format!("has the state {state}"),
    }
}

impl A2aClientError {
    /// The code: `invalid_url`, `card_not_found`, `interface_not_supported`, `task_failed`, `task_canceled`,
    /// `task_rejected`, `auth_required`, `invalid_response`, `unauthorized`, `forbidden`, `connection_failed`, or the name
    /// of an error of A2A such as `task_not_found`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => "invalid_url",
            Self::Card { .. } => "card_not_found",
            Self::Interface { .. } => "interface_not_supported",
            Self::Refused { code, .. } => match code {
                -32001 => "task_not_found",
                -32002 => "task_not_cancelable",
                -32003 => "push_notification_not_supported",
                -32004 => "unsupported_operation",
                -32005 => "content_type_not_supported",
                -32006 => "invalid_agent_response",
                -32009 => "version_not_supported",
                -32602 => "invalid_params",
                -32601 => "method_not_found",
                _ => "agent_error",
            },
            Self::Ended { state, .. } => match state.as_str() {
                "canceled" => "task_canceled",
                "rejected" => "task_rejected",
                "auth-required" => "auth_required",
                _ => "task_failed",
            },
            Self::Protocol { .. } => "invalid_response",
            Self::Http(error) => match error.status().map(|status| status.as_u16()) {
                Some(401) => "unauthorized",
                Some(403) => "forbidden",
                _ => "connection_failed",
            },
        }
    }

    /// More for programs, as JSON: the code of JSON-RPC with its data, or the status of HTTP.
    pub fn details(&self) -> Value {
        match self {
            Self::Refused { code, data, .. } => serde_json::json!({ "code": code, "data": data }),
            Self::Ended { state, .. } => serde_json::json!({ "state": state }),
            Self::Http(error) => {
                error.status().map_or(Value::Null, |status| serde_json::json!({ "status": status.as_u16() }))
            }
            _ => Value::Null,
        }
    }
}

impl From<HttpError> for A2aClientError {
    fn from(error: HttpError) -> Self {
        Self::Http(Arc::new(error))
    }
}

//! Errors of requests, with their status and code.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::error_text::clip;
use crate::engine::Action;

/// Why a request is not executed. The codes are stable (decisions UAIP-A4, UAIP-A23).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The body is not JSON, or a member has the wrong type.
    #[error("Invalid JSON body: {reason}")]
    InvalidBody {
        /// The place, the rule and the remedy.
        reason: String,
    },
    /// A member is missing.
    #[error("Missing '{field}'")]
    MissingField {
        /// The member.
        field: &'static str,
    },
    /// The session id is missing.
    #[error("Missing 'X-Session-Id' header; POST /initialize returns one")]
    MissingSessionHeader,
    /// A header has a value that is not allowed.
    #[error("{header}: {rule}")]
    InvalidHeader {
        /// The header.
        header: &'static str,
        /// What the value must be.
        rule: &'static str,
    },
    /// There is no such workflow.
    #[error("Workflow not found: {}", clip(.name))]
    WorkflowNotFound {
        /// The name in the request.
        name: String,
    },
    /// There is no such session, or it is over, of another workflow, or of another principal.
    #[error("Session not found")]
    SessionNotFound,
    /// There is no such action.
    #[error("Unknown action: {}; use one of {}", clip(.action), Action::NAMES.join(", "))]
    UnknownAction {
        /// The name in the request.
        action: String,
    },
    /// There is no such path.
    #[error("Not found: {}", clip(.path))]
    PathNotFound {
        /// The path of the request.
        path: String,
    },
    /// The path exists, but not for this method.
    #[error("Method not allowed; use {allowed}")]
    MethodNotAllowed {
        /// The methods, separated by commas.
        allowed: &'static str,
    },
    /// The body has another type than JSON.
    #[error("Unsupported content type: {}; send application/json", clip(.content_type))]
    UnsupportedMediaType {
        /// The content type of the request.
        content_type: String,
    },
    /// The body is too large.
    #[error("The body is larger than {limit} bytes; send less")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("The body did not arrive in time; send it faster")]
    BodyTimeout,
    /// The session has another version than the request expects.
    #[error("The session has version {found}, not {}; read it again and repeat the action", clip(.expected))]
    VersionConflict {
        /// The version in `If-Match`.
        expected: String,
        /// The version of the session.
        found: u64,
    },
    /// Another process has changed the session while the action ran. Nothing was stored.
    #[error(
        "The session was changed by another server while the action ran; nothing was stored, repeat the action"
    )]
    ChangedElsewhere,
    /// An idempotency key was used for another request.
    #[error("The Idempotency-Key was used for a request with another body; use a new key for each action")]
    IdempotencyKeyReused,
    /// Too many actions of the session wait.
    #[error("The session has {limit} actions waiting; send the next one after they are done")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// A task, guard or hook did not end in time. Nothing was stored.
    #[error("Task timed out after {} s; nothing was stored", .limit.as_secs_f64())]
    TaskTimeout {
        /// The limit.
        limit: Duration,
    },
    /// The hook of the initial stage has failed, so there is no session.
    #[error("The session could not be started: {message}")]
    InitializeFailed {
        /// What the client may see.
        message: String,
        /// The id by which the error is found in the log; `None` for an error that is meant for the client.
        correlation_id: Option<String>,
    },
    /// The sessions cannot be read or stored.
    #[error("The session store is not available; try again later (correlation id {correlation_id})")]
    StoreUnavailable {
        /// The id by which the error is found in the log.
        correlation_id: String,
    },
    /// A defect of the server.
    #[error("Internal error (correlation id {correlation_id}); please report it")]
    Internal {
        /// The id by which the error is found in the log.
        correlation_id: String,
    },
}

impl WireError {
    /// True if it is found before the action is looked at; the reference profile then has the same status.
    pub fn is_envelope(&self) -> bool {
        const FIELDS: [&str; 3] = ["action", "task", "stage"];
        match self {
            Self::MissingField { field } => FIELDS.contains(field),
            Self::InvalidBody { reason } => {
                FIELDS.iter().any(|field| reason.starts_with(&format!("'{field}'")))
            }
            _ => false,
        }
    }

    /// The status of the response.
    pub const fn status(&self) -> u16 {
        match self {
            Self::InvalidBody { .. }
            | Self::MissingField { .. }
            | Self::MissingSessionHeader
            | Self::InvalidHeader { .. } => 400,
            Self::WorkflowNotFound { .. } | Self::SessionNotFound | Self::PathNotFound { .. } => 404,
            Self::MethodNotAllowed { .. } => 405,
            Self::BodyTimeout => 408,
            Self::VersionConflict { .. } | Self::ChangedElsewhere => 409,
            Self::BodyTooLarge { .. } => 413,
            Self::UnsupportedMediaType { .. } => 415,
            Self::UnknownAction { .. }
            | Self::IdempotencyKeyReused
            | Self::InitializeFailed { correlation_id: None, .. } => 422,
            Self::QueueFull { .. } => 429,
            Self::InitializeFailed { .. } | Self::Internal { .. } => 500,
            Self::StoreUnavailable { .. } => 503,
            Self::TaskTimeout { .. } => 504,
        }
    }

    /// The code in the body.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidBody { .. } => "invalid_body",
            Self::MissingField { .. } => "missing_field",
            Self::MissingSessionHeader => "missing_session_header",
            Self::InvalidHeader { .. } => "invalid_header",
            Self::WorkflowNotFound { .. } => "workflow_not_found",
            Self::SessionNotFound => "session_not_found",
            Self::UnknownAction { .. } => "unknown_action",
            Self::PathNotFound { .. } => "not_found",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::UnsupportedMediaType { .. } => "unsupported_media_type",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::VersionConflict { .. } | Self::ChangedElsewhere => "version_conflict",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::QueueFull { .. } => "queue_full",
            Self::TaskTimeout { .. } => "task_timeout",
            Self::InitializeFailed { .. } => "initialize_failed",
            Self::StoreUnavailable { .. } => "store_unavailable",
            Self::Internal { .. } => "internal_error",
        }
    }

    /// A header that the status requires.
    pub const fn header(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::MethodNotAllowed { allowed } => Some(("allow", allowed)),
            Self::QueueFull { .. } | Self::StoreUnavailable { .. } => Some(("retry-after", "1")),
            _ => None,
        }
    }

    /// The body: `detail`, `code`, and what else the client can use.
    pub fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("detail".to_owned(), json!(self.to_string()));
        body.insert("code".to_owned(), json!(self.code()));
        match self {
            Self::MissingField { field } => {
                body.insert("field".to_owned(), json!(field));
            }
            Self::UnknownAction { .. } => {
                body.insert("allowed".to_owned(), json!(Action::NAMES));
            }
            Self::VersionConflict { found, .. } => {
                body.insert("state_version".to_owned(), json!(found));
            }
            Self::InitializeFailed { correlation_id: Some(id), .. }
            | Self::StoreUnavailable { correlation_id: id }
            | Self::Internal { correlation_id: id } => {
                body.insert("correlation_id".to_owned(), json!(id));
            }
            _ => {}
        }
        body
    }
}

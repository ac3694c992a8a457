//! Errors of the client.

use std::sync::Arc;

use serde_json::{Map, Value};
use turntree_core::http::HttpError;

/// Why a request of a client has failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server has refused the request. Nothing has changed.
    #[error("{detail} ({code})")]
    Refused {
        /// The status of the response.
        status: u16,
        /// The code, for example `task_not_in_stage`; `error` from servers that send none.
        code: String,
        /// The message.
        detail: String,
        /// The whole body: what is allowed, what is missing, the tools.
        body: Map<String, Value>,
    },
    /// A task has failed. Nothing has changed.
    #[error("{message}")]
    TaskFailed {
        /// The message for the agent.
        message: String,
        /// The id by which the server's log has the error.
        correlation_id: Option<String>,
    },
    /// A person must approve the call first. Nothing has changed.
    #[error("{message}")]
    ApprovalRequired {
        /// The message for the agent.
        message: String,
        /// What is to be approved.
        request: Value,
    },
    /// The server's response is not one of UAIP.
    #[error("{reason}; is this the URL of a UAIP server?")]
    Protocol {
        /// What is wrong.
        reason: String,
    },
    /// There is no response.
    #[error(transparent)]
    Http(Arc<HttpError>),
    /// The session was ended.
    #[error("the session was ended; open a new one")]
    Ended,
}

impl ClientError {
    /// The code of the error.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::TaskFailed { .. } => "task_error",
            Self::ApprovalRequired { .. } => "approval_required",
            Self::Protocol { .. } => "invalid_response",
            Self::Http(_) => "connection_failed",
            Self::Ended => "session_ended",
        }
    }

    /// The status of the response, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::TaskFailed { .. } | Self::ApprovalRequired { .. } => Some(200),
            Self::Http(error) => error.status().map(|status| status.as_u16()),
            Self::Protocol { .. } | Self::Ended => None,
        }
    }
}

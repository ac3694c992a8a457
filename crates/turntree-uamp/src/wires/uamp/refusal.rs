//! Why a request is refused, as an event and as a response.

use http::StatusCode;
use serde_json::json;
use turntree_core::json::RawJson;
use turntree_server::{Body, Response, ServerError};

use crate::error::UampError;
use crate::event::{ResponseError, ServerEvent, SessionError};
use crate::types::{ErrorCode, ErrorDetails};

/// The client has no valid token.
pub(super) const CLOSE_UNAUTHORIZED: u16 = 4401;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The error.
    pub error: ErrorDetails,
    /// The event that caused it.
    pub reply_to: Option<String>,
    /// The session, if the event names one.
    pub session_id: Option<String>,
    /// The status of an HTTP response.
    pub status: u16,
}

impl Refusal {
    /// A refusal with the usual status of the code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let status = code.http_status();
        Self { error: ErrorDetails::new(code, message), reply_to: None, session_id: None, status }
    }

    /// Adds more about the error.
    #[must_use]
    pub fn with_details(mut self, details: &serde_json::Value) -> Self {
        self.error.details = RawJson::from_value(details).ok();
        self
    }

    /// Names the event that caused the error.
    #[must_use]
    pub fn in_reply_to(self, event_id: Option<String>) -> Self {
        Self { reply_to: self.reply_to.or(event_id), ..self }
    }

    /// Names the session.
    #[must_use]
    pub fn of_session(self, session_id: &str) -> Self {
        Self { session_id: Some(session_id.to_owned()), ..self }
    }

    /// The event. It has no id yet.
    pub fn event(self) -> ServerEvent {
        let Self { error, reply_to, session_id, .. } = self;
        if error.code == ErrorCode::VersionMismatch {
            return ResponseError { error, reply_to, ..ResponseError::default() }.into();
        }
        SessionError { session_id, error, reply_to, ..SessionError::default() }.into()
    }

    /// The response.
    pub fn response(&self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status == StatusCode::UNAUTHORIZED {
            return ServerError::InvalidToken.response();
        }
        let mut response = Body::json(&json!({ "error": self.error })).into_response(status);
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<UampError> for Refusal {
    fn from(error: UampError) -> Self {
        let status = if matches!(error, UampError::EventTooLarge { .. }) { 413 } else { 400 };
        Self { status, ..Self::new(error.code(), error.to_string()) }
    }
}

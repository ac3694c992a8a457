//! Why a request is refused, as an event and as a response.

use std::fmt;

use http::StatusCode;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::json;
use turntree_core::json::RawJson;
use turntree_core::time::Timestamp;
use turntree_server::{Body, Response, ServerError};

use crate::error::UampError;
use crate::event::{RateLimit, ResponseError, ServerEvent, SessionError};
use crate::types::{ErrorCode, ErrorDetails, rounded_up};

/// The client has no valid token.
pub(super) const CLOSE_UNAUTHORIZED: u16 = 4401;

/// The token belongs to another principal.
const CLOSE_FORBIDDEN: u16 = 4403;

/// The path names an agent that the server does not have.
pub(super) const CLOSE_AGENT_NOT_FOUND: u16 = 4404;

/// The client has sent too much that cannot be read.
pub(super) const CLOSE_POLICY: u16 = 1008;

/// An event is larger than the limit.
const CLOSE_TOO_LARGE: u16 = 1009;

/// The longest id that is repeated from an event that cannot be read.
const MAX_ID: usize = 128;

/// When a client that is over a limit may try again, as in the header `Retry-After`.
const RETRY_AFTER_MILLISECONDS: i64 = 1000;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The error.
    pub error: ErrorDetails,
    /// The event that caused it.
    pub reply_to: Option<String>,
    /// The session, if the event names one.
    pub session_id: Option<String>,
    /// The limit of the server that the request is over.
    pub limit: Option<usize>,
    /// The status of an HTTP response.
    pub status: u16,
}

impl Refusal {
    /// A refusal with the usual status of the code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let status = code.http_status();
        Self {
            error: ErrorDetails::new(code, message),
            reply_to: None,
            session_id: None,
            limit: None,
            status,
        }
    }

    /// A refusal because of a limit of the server.
    pub fn limited(limit: usize, message: impl Into<String>) -> Self {
        Self { limit: Some(limit), ..Self::new(ErrorCode::RateLimited, message) }
    }

    /// The refusal of an event that cannot be read. It names the event and the session if these can be read.
    pub fn unreadable(error: UampError, text: &[u8]) -> Self {
        let Ids { event_id, session_id } = Ids::of(text);
        Self { reply_to: event_id, session_id, ..Self::from(error) }
    }

    /// The limit as an event that precedes that of the refusal; `None` if no limit is the reason.
    pub fn rate_limit(&self, now: Timestamp) -> Option<RateLimit> {
        let limit = u64::try_from(self.limit?).unwrap_or(u64::MAX);
        let retry_at = now.milliseconds().saturating_add(RETRY_AFTER_MILLISECONDS);
        Some(RateLimit {
            session_id: self.session_id.clone(),
            limit: Some(limit.into()),
            reset_at: Some(rounded_up(retry_at).into()),
            ..RateLimit::default()
        })
    }

    /// The code with which a connection without sessions is closed; `None` if it stays open.
    pub(super) const fn close_code(&self, has_sessions: bool) -> Option<u16> {
        if self.status == 413 {
            return Some(CLOSE_TOO_LARGE);
        }
        match self.error.code {
            ErrorCode::Unauthorized if !has_sessions => Some(CLOSE_UNAUTHORIZED),
            ErrorCode::Forbidden if !has_sessions => Some(CLOSE_FORBIDDEN),
            _ => None,
        }
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

/// The ids in an event that cannot be read: those before its first error.
#[derive(Debug, Default)]
struct Ids {
    event_id: Option<String>,
    session_id: Option<String>,
}

impl Ids {
    fn of(text: &[u8]) -> Self {
        let mut ids = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        // The ids that were read are what counts: the text has an error.
        let _ = reader.deserialize_map(&mut ids);
        ids
    }
}

impl<'de> Visitor<'de> for &mut Ids {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let id = match &*name {
                "event_id" => &mut self.event_id,
                "session_id" => &mut self.session_id,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value: serde_json::Value = members.next_value()?;
            *id = value.as_str().filter(|id| id.len() <= MAX_ID).map(str::to_owned);
        }
        Ok(())
    }
}

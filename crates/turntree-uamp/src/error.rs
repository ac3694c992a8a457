//! The error of the crate.

use turntree_core::json::{ParseError, ParseErrorKind};

use crate::types::ErrorCode;

/// Why an event is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UampError {
    /// The text is larger than the limit.
    #[error(
        "the event has {found} bytes, more than the limit of {limit}; send media as a URL, or split the event"
    )]
    EventTooLarge {
        /// The size in bytes.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The text is not JSON, or it is nested too deeply, or it has too many values.
    #[error("the event is not valid JSON: {reason}")]
    InvalidJson {
        /// The place, the rule and the remedy.
        reason: String,
    },
    /// The value is JSON, but not an event.
    #[error("the event is not valid{}: {reason}", at(.pointer))]
    InvalidEvent {
        /// The place as a JSON pointer; empty for the event itself.
        pointer: String,
        /// The rule and the remedy.
        reason: String,
    },
}

impl UampError {
    /// The code in `session.error` and `response.error`.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidJson { .. } => ErrorCode::InvalidJson,
            Self::EventTooLarge { .. } | Self::InvalidEvent { .. } => ErrorCode::InvalidEvent,
        }
    }

    /// The same error of a value inside of another one, at this JSON pointer.
    #[must_use]
    pub fn inside(self, place: &str) -> Self {
        match self {
            Self::InvalidEvent { pointer, reason } => {
                Self::InvalidEvent { pointer: format!("{place}{pointer}"), reason }
            }
            other => other,
        }
    }
}

impl From<ParseError> for UampError {
    fn from(error: ParseError) -> Self {
        match error.kind {
            ParseErrorKind::Shape => Self::InvalidEvent { pointer: error.pointer(), reason: error.message },
            _ => Self::InvalidJson { reason: error.to_string() },
        }
    }
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at {pointer}") }
}

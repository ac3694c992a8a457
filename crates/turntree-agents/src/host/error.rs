//! Errors of the application's own code.

use std::fmt;

use turntree_upp::error::HostPayload;
use turntree_upp::{ErrorCode, UppError};

/// What kind of failure a [`HostError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostErrorKind {
    /// The application's code raised.
    #[default]
    Raised,
    /// The arguments do not fit the tool: it was not called.
    InvalidArguments,
    /// The process is to stop (as `KeyboardInterrupt`): the run ends at once, and nobody is asked.
    Fatal,
}

/// A failure of the application's own code, carried as it is.
#[derive(Clone)]
pub struct HostError {
    /// What kind of failure.
    pub kind: HostErrorKind,
    /// The exception's type, as `ValueError`.
    pub type_name: String,
    /// Its words; what a model is told of a failed tool.
    pub message: String,
    /// The exception itself, where there is one.
    pub payload: Option<HostPayload>,
}

impl HostError {
    /// The application's code raised.
    pub fn raised(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        let (type_name, message) = (type_name.into(), message.into());
        Self { kind: HostErrorKind::Raised, type_name, message, payload: None }
    }

    /// The arguments do not fit; `message` tells the model what to change.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self { kind: HostErrorKind::InvalidArguments, ..Self::raised("ValidationError", message) }
    }

    /// With the exception itself.
    #[must_use]
    pub fn with_payload(self, payload: HostPayload) -> Self {
        Self { payload: Some(payload), ..self }
    }

    /// As the error of a run: `place` names what raised. The exception stays in [`UppError::host`].
    pub fn into_error(self, place: &str, provider: &str) -> UppError {
        let words = format!("{place} raised {}: {}", self.type_name, self.message);
        UppError { host: self.payload, ..UppError::new(ErrorCode::InvalidRequest, provider, words) }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({:?})", self.type_name, self.message, self.kind)
    }
}

impl std::error::Error for HostError {}

//! Errors of the application's code.

use std::fmt;
use std::sync::Arc;

use crate::types::approval::{ApproverRaised, is_of_approver};
use turntree_core::message::ToolCall;
use turntree_upp::error::HostPayload;
use turntree_upp::{ErrorCode, UppError};

/// The kind of a [`HostError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostErrorKind {
    /// The application's code raised an exception.
    #[default]
    Raised,
    /// The arguments do not match the tool's schema; the tool was not called.
    InvalidArguments,
    /// The tool asks the model to call it again in another way, for the reason in the message. A run allows this as often as
    /// [`Tool::retries`](crate::host::Tool::retries) says.
    Retry,
    /// A function that decides about calls for the application raised: the run ends, and the runs that call it, as a tool,
    /// end with the same error. They can be resumed.
    Approver,
    /// The process stops (for example on `KeyboardInterrupt`): the run ends at once and no hook is called.
    Fatal,
}

impl HostErrorKind {
    /// True if the error ends the run also if a tool has raised it.
    pub(crate) const fn ends_run(self) -> bool {
        matches!(self, Self::Approver | Self::Fatal)
    }
}

/// The payload of an error that ends every run that contains it, unchanged.
struct EndOfRuns(UppError);

/// The payload of the error of a sub-agent whose calls wait for approval: these calls.
struct Waiting(Vec<Arc<ToolCall>>);

/// An error of the application's code.
#[derive(Clone)]
pub struct HostError {
    /// The kind of the error.
    pub kind: HostErrorKind,
    /// The exception's type, for example `ValueError`.
    pub type_name: String,
    /// The exception's message. The model receives it as the result of a failed tool.
    pub message: String,
    /// The exception object, if there is one.
    pub payload: Option<HostPayload>,
}

impl HostError {
    /// An exception of the application's code.
    pub fn raised(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        let (type_name, message) = (type_name.into(), message.into());
        Self { kind: HostErrorKind::Raised, type_name, message, payload: None }
    }

    /// Invalid arguments; `message` explains to the model what to change.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self { kind: HostErrorKind::InvalidArguments, ..Self::raised("ValidationError", message) }
    }

    /// An error inside a tool that is not the tool's: it ends the run, and [`Self::into_error`] returns it.
    pub(crate) fn end_of_runs(error: UppError) -> Self {
        let raised = Self::raised("UppError", error.message.clone());
        let kind = if is_of_approver(&error) { HostErrorKind::Approver } else { HostErrorKind::Fatal };
        Self { kind, payload: Some(Arc::new(EndOfRuns(error))), ..raised }
    }

    /// Calls of a sub-agent wait for approval: the run that calls it stops until they are decided.
    pub(crate) fn waiting(calls: Vec<Arc<ToolCall>>) -> Self {
        let raised = Self::raised("ApprovalRequired", "calls of the sub-agent wait for approval");
        Self { kind: HostErrorKind::Fatal, payload: Some(Arc::new(Waiting(calls))), ..raised }
    }

    /// The calls that a sub-agent waits for, if that is the error.
    pub(crate) fn waits_for(&self) -> Option<&[Arc<ToolCall>]> {
        let Waiting(calls) = self.payload.as_deref()?.downcast_ref()?;
        Some(calls)
    }

    /// Adds the exception object.
    #[must_use]
    pub fn with_payload(self, payload: HostPayload) -> Self {
        Self { payload: Some(payload), ..self }
    }

    /// Converts the error to the error of a run; `place` names the code that raised. [`UppError::host`] keeps the
    /// exception object.
    pub fn into_error(self, place: &str, provider: &str) -> UppError {
        if let Some(EndOfRuns(error)) = self.payload.as_deref().and_then(|payload| payload.downcast_ref()) {
            return error.clone();
        }
        let message = format!("{place} raised {}: {}", self.type_name, self.message);
        let error = UppError::new(ErrorCode::InvalidRequest, provider, message);
        let is_of_approver = self.kind == HostErrorKind::Approver;
        let error = if is_of_approver { error.with_cause(ApproverRaised) } else { error };
        UppError { host: self.payload, ..error }
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

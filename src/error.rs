//! Rust errors as Python exceptions, mapped here once. The classes themselves are Python (`turntree.exceptions`): with
//! the stable ABI a native class cannot extend `Exception`, and these carry typed attributes.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyList};

use super::bridge::gc::Collect;
use super::bridge::gil;
use super::data::DataClass as _;
use super::records::ToolCall;
use turntree_agents::SessionError;
use turntree_agents::types::{ApprovalRequired, approval_required, partial_turn};
use turntree_core::http::{HostFailure, HttpError};
use turntree_core::json::{ParseError, PathSegment};
use turntree_upp::{ErrorCode, UppError};

/// A Python exception that a tool, hook or key function raised, kept whole while it travels through the core.
#[derive(Debug)]
pub(crate) struct Raised {
    value: Py<PyBaseException>,
    /// Class and message, to be told where there is no GIL.
    text: String,
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Keeps an exception, with its traceback.
    pub(crate) fn new(py: Python<'_>, error: PyErr) -> Self {
        Self { text: error.to_string(), value: error.into_value(py) }
    }

    /// The exception; always the same object.
    pub(crate) fn value<'py>(&self, py: Python<'py>) -> &Bound<'py, PyBaseException> {
        self.value.bind(py)
    }

    /// As an error of `PyO3`.
    pub(crate) fn error(&self, py: Python<'_>) -> PyErr {
        PyErr::from_value(self.value(py).clone().into_any())
    }
}

/// The exception that an error carries.
impl Collect for UppError {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.host.as_deref().and_then(|host| host.downcast_ref::<Raised>()) {
            Some(raised) => visit.call(&raised.value),
            None => Ok(()),
        }
    }
}

pub(super) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "turntree.exceptions"))?.getattr(name)
}

pub(super) fn build(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|error| error, PyErr::from_value)
}

/// `turntree.ValidationError` for a document; `input` lets the error show what was read.
pub(crate) fn validation(py: Python<'_>, error: &ParseError, input: Option<&str>) -> PyErr {
    build(validation_exception(py, error, None, input))
}

/// As [`validation`], for an argument of a call: the message names it.
pub(crate) fn argument(py: Python<'_>, error: &ParseError, what: &str, input: &str) -> PyErr {
    build(validation_exception(py, error, Some(what), Some(input)))
}

fn validation_exception<'py>(
    py: Python<'py>,
    error: &ParseError,
    argument: Option<&str>,
    input: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let location = PyList::empty(py);
    for segment in &error.path {
        match segment {
            PathSegment::Key(key) => location.append(key)?,
            PathSegment::Index(index) => location.append(index)?,
        }
    }
    let detail = PyDict::new(py);
    detail.set_item("loc", location.to_tuple())?;
    detail.set_item("pointer", error.pointer())?;
    detail.set_item("type", error.kind.name())?;
    detail.set_item("msg", &error.message)?;
    detail.set_item("input", input.map(|text| text.chars().take(200).collect::<String>()))?;
    let message = match argument {
        Some(argument) => format!("{argument}{}: {}", error.pointer(), error.message),
        None => error.to_string(),
    };
    class(py, "ValidationError")?.call1((message, PyList::new(py, [detail])?))
}

/// `turntree.SerializationError`.
pub(crate) fn serialization(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    build(class(py, "SerializationError").and_then(|class| class.call1((error.to_string(),))))
}

/// An exception of ours by its name, with these words.
pub(crate) fn named(py: Python<'_>, name: &str, words: &str) -> PyErr {
    build(class(py, name).and_then(|class| class.call1((words,))))
}

/// The exception of a failed run: the caller's own, as it was raised, where that ended it; else `turntree.upp.UPPError`.
pub(crate) fn upp(py: Python<'_>, error: &UppError) -> PyErr {
    let cause = partial_turn(error).map_or(&error.cause, |partial| &partial.cause).as_deref();
    if let Some(session) = cause.and_then(|cause| cause.downcast_ref::<SessionError>()) {
        return super::agents::session::raised(py, session);
    }
    if let Some(required) = approval_required(error) {
        return build(approval_exception(py, error, required));
    }
    match error.host.as_deref().and_then(|host| host.downcast_ref::<Raised>()) {
        Some(raised) => raised.error(py),
        None => match super::agents::middleware::errors::raised(py, error) {
            Some(raised) => raised,
            None => upp_or_host_failure(py, error),
        },
    }
}

fn upp_or_host_failure(py: Python<'_>, error: &UppError) -> PyErr {
    match host_failure(error) {
        Some(raised) => raised.error(py),
        None => build(upp_exception(py, error)),
    }
}

/// An exception of the application's own code as an error of the core.
pub(crate) fn to_host_failure(error: PyErr) -> HostFailure {
    let mut error = Some(error);
    let kept = gil::if_held(|py| error.take().map(|error| HostFailure::new(Raised::new(py, error))));
    kept.flatten().unwrap_or_else(|| {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        HostFailure::new(std::io::Error::other(text))
    })
}

/// The exception that the application's own retry strategy raised: a failure of its own, and no cause of another.
fn host_failure(error: &UppError) -> Option<&Raised> {
    match error.cause.as_deref().and_then(|cause| cause.downcast_ref::<HttpError>()) {
        Some(HttpError::Host(failure)) => failure.downcast_ref(),
        _ => None,
    }
}

/// The exception of the application's own code among the causes of an error.
fn raised_among<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a Raised> {
    let mut cause = Some(cause);
    while let Some(error) = cause {
        let host = || error.downcast_ref::<UppError>()?.host.as_deref()?.downcast_ref();
        if let Some(raised) = error.downcast_ref().or_else(host) {
            return Some(raised);
        }
        cause = error.source();
    }
    None
}

fn upp_exception<'py>(py: Python<'py>, error: &UppError) -> PyResult<Bound<'py, PyAny>> {
    let partial = partial_turn(error);
    let cause = partial.map_or_else(|| error.cause.clone(), |partial| partial.cause.clone());
    let options = PyDict::new(py);
    options.set_item("provider", &error.provider)?;
    options.set_item("modality", error.modality.as_str())?;
    options.set_item("status_code", error.status_code)?;
    options.set_item("retry_after", error.retry_after)?;
    options.set_item("request_id", error.request_id.as_deref())?;
    let raised = cause.as_deref().and_then(|cause| raised_among(cause)).map(|raised| raised.value(py));
    match raised {
        Some(raised) => options.set_item("cause", raised)?,
        None => options.set_item("cause", cause.as_ref().map(ToString::to_string))?,
    }
    let turn = partial.map(|partial| super::records::wrap_turn(py, Arc::clone(&partial.turn))).transpose()?;
    options.set_item("partial", turn)?;
    let exception =
        class(py, "UPPError")?.call((error.message.as_str(), error.code.as_str()), Some(&options))?;
    if let Some(raised) = raised {
        exception.setattr(intern!(py, "__cause__"), raised)?;
    }
    Ok(exception)
}

/// `turntree.ApprovalRequired`.
fn approval_exception<'py>(
    py: Python<'py>,
    error: &UppError,
    required: &ApprovalRequired,
) -> PyResult<Bound<'py, PyAny>> {
    let calls = required.calls.iter().map(|call| ToolCall::wrap(py, Arc::clone(call)));
    let calls = calls.collect::<PyResult<Vec<_>>>()?;
    let partial = partial_turn(error).map(|partial| super::records::wrap_turn(py, Arc::clone(&partial.turn)));
    class(py, "ApprovalRequired")?.call1((required.to_string(), calls, partial.transpose()?))
}

/// Whether an exception is a `UPPError`.
pub(crate) fn is_upp(py: Python<'_>, raised: &PyErr) -> bool {
    class(py, "UPPError").is_ok_and(|class| raised.value(py).is_instance(&class).unwrap_or(false))
}

/// A Python exception as the error of a model: its own fields when it is a `UPPError`. Comes back as the same object.
pub(crate) fn to_upp(py: Python<'_>, raised: PyErr) -> UppError {
    let value = raised.value(py);
    let text =
        |name: &str| value.getattr(name).ok().and_then(|field| field.str().ok()).map(|text| text.to_string());
    let is_upp = is_upp(py, &raised);
    let code = if is_upp { text("code") } else { None };
    let code = ErrorCode::ALL.into_iter().find(|known| Some(known.as_str()) == code.as_deref());
    let message = if is_upp { text("message") } else { None };
    let message = message.unwrap_or_else(|| raised.to_string());
    let provider = if is_upp { text("provider") } else { None };
    let mut error =
        UppError::new(code.unwrap_or(ErrorCode::ProviderError), provider.unwrap_or_default(), message);
    error.status_code = value.getattr("status_code").ok().and_then(|status| status.extract().ok());
    error.host = Some(Arc::new(Raised::new(py, raised)));
    error
}

//! Rust errors as Python exceptions, mapped here once. The classes themselves are Python (`turntree.exceptions`): with
//! the stable ABI a native class cannot extend `Exception`, and these carry typed attributes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::core::json::{ParseError, PathSegment};
use crate::upp::UppError;

/// A Python exception that a tool, hook or key function raised, kept whole while it travels through the core.
pub(crate) struct Raised(pub(crate) PyErr);

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "turntree.exceptions"))?.getattr(name)
}

fn build(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|error| error, PyErr::from_value)
}

/// `turntree.ValidationError` for a document; `input` lets the error show what was read.
pub(crate) fn validation(py: Python<'_>, error: &ParseError, input: Option<&str>) -> PyErr {
    build(validation_exception(py, error, input))
}

fn validation_exception<'py>(
    py: Python<'py>,
    error: &ParseError,
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
    class(py, "ValidationError")?.call1((error.to_string(), PyList::new(py, [detail])?))
}

/// `turntree.SerializationError`.
pub(crate) fn serialization(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    build(class(py, "SerializationError").and_then(|class| class.call1((error.to_string(),))))
}

/// `turntree.upp.UPPError`; the caller's own exception, where that is the cause, becomes its `__cause__`.
pub(crate) fn upp(py: Python<'_>, error: &UppError) -> PyErr {
    build(upp_exception(py, error))
}

fn upp_exception<'py>(py: Python<'py>, error: &UppError) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item("provider", &error.provider)?;
    options.set_item("modality", error.modality.as_str())?;
    options.set_item("status_code", error.status_code)?;
    options.set_item("retry_after", error.retry_after)?;
    options.set_item("request_id", error.request_id.as_deref())?;
    options.set_item("cause", error.cause.as_ref().map(ToString::to_string))?;
    let exception =
        class(py, "UPPError")?.call((error.message.as_str(), error.code.as_str()), Some(&options))?;
    if let Some(Raised(cause)) = error.host.as_deref().and_then(|host| host.downcast_ref::<Raised>()) {
        exception.setattr(intern!(py, "__cause__"), cause.value(py))?;
        exception.setattr(intern!(py, "cause"), cause.value(py))?;
    }
    Ok(exception)
}

//! Errors of `turntree-thread-protocol` as Python exceptions.

use crate::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::{ToException, build, class};
use turntree_core::json::{ParseError, PathSegment};
use turntree_thread_protocol::ThreadError;

/// `turntree.ValidationError` for an error of the core, with one entry for each place.
impl ToException for ThreadError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Parse(error) => error.to_exception(py),
            error => build(exception(py, error)),
        }
    }

    fn to_exception_in(&self, py: Python<'_>, input: &str) -> PyErr {
        match self {
            Self::Parse(error) => error.to_exception_in(py, input),
            error => build(exception(py, error)),
        }
    }
}

fn exception<'py>(py: Python<'py>, error: &ThreadError) -> PyResult<Bound<'py, PyAny>> {
    let details = match error {
        ThreadError::Invalid { issues } => {
            issues.iter().map(|issue| detail(py, &issue.pointer, issue.rule.name(), &issue.message)).collect()
        }
        error => vec![detail(py, &error.pointer(), error.rule(), &error.to_string())],
    };
    let details = details.into_iter().collect::<PyResult<Vec<_>>>()?;
    class(py, "ValidationError")?.call1((format!("{error}; {}", error.hint()), details))
}

/// One entry of the error list of `turntree.ValidationError`.
pub(super) fn detail<'py>(
    py: Python<'py>,
    pointer: &str,
    rule: &str,
    message: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let location = PyList::empty(py);
    for step in pointer.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => location.append(index)?,
            Err(_) => location.append(step.replace("~1", "/").replace("~0", "~"))?,
        }
    }
    let detail = PyDict::new(py);
    detail.set_item("loc", location.to_tuple())?;
    detail.set_item("pointer", pointer)?;
    detail.set_item("type", rule)?;
    detail.set_item("msg", message)?;
    detail.set_item("input", py.None())?;
    Ok(detail)
}

/// The beginning of a document for an error.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..400).unwrap_or(bytes)).into_owned()
}

/// The error of a class that accepts only one kind of value.
pub(super) fn wrong_kind(key: &str, expected: &str, actual: &str) -> ParseError {
    let message = format!("must be \"{expected}\" here, not \"{actual}\"");
    ParseError::shape(vec![PathSegment::Key(key.to_owned())], message)
}

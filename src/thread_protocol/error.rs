//! Errors of `turntree-thread-protocol` as Python exceptions.

use pyo3::prelude::*;
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

/// `turntree.ValidationError` for an error of the core, with one entry for each place.
pub(crate) fn to_exception(py: Python<'_>, error: &ThreadError, input: Option<&str>) -> PyErr {
    match input {
        Some(input) => error.to_exception_in(py, input),
        None => error.to_exception(py),
    }
}

fn exception<'py>(py: Python<'py>, error: &ThreadError) -> PyResult<Bound<'py, PyAny>> {
    let details = PyList::empty(py);
    let detail = |pointer: &str, rule: &str, message: &str| -> PyResult<()> {
        let detail = PyDict::new(py);
        detail.set_item("loc", location(py, pointer)?)?;
        detail.set_item("pointer", pointer)?;
        detail.set_item("type", rule)?;
        detail.set_item("msg", message)?;
        detail.set_item("input", py.None())?;
        details.append(detail)
    };
    match error {
        ThreadError::Invalid { issues } => {
            issues.iter().try_for_each(|issue| detail(&issue.pointer, issue.rule.name(), &issue.message))?;
        }
        error => detail(&error.pointer(), error.rule(), &error.to_string())?,
    }
    class(py, "ValidationError")?.call1((format!("{error}; {}", error.hint()), details))
}

/// A JSON pointer as the tuple that error lists have.
pub(super) fn location<'py>(py: Python<'py>, pointer: &str) -> PyResult<Bound<'py, PyAny>> {
    let steps = PyList::empty(py);
    for step in pointer.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => steps.append(index)?,
            Err(_) => steps.append(step.replace("~1", "/").replace("~0", "~"))?,
        }
    }
    Ok(steps.to_tuple().into_any())
}

/// A class of which only one kind of value is a member.
pub(super) fn wrong_kind(key: &str, wanted: &str, found: &str) -> ParseError {
    let message = format!("must be \"{wanted}\" here, not \"{found}\"");
    ParseError::shape(vec![PathSegment::Key(key.to_owned())], message)
}

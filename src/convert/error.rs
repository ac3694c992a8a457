//! Errors of `turntree-core` as Python exceptions: documents and files that cannot be read or written.

use std::io::ErrorKind;

use crate::prelude::*;
use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyOSError, PyPermissionError, PyValueError,
};
use pyo3::types::{PyDict, PyList};

use crate::error::{ToException, build, class, named};
use turntree_core::json::{ParseError, PathSegment, without_position};
use turntree_core::message::files::MediaError;

/// `turntree.ValidationError` for a document; `input` is the document, for the excerpt in the error.
pub(crate) fn validation(py: Python<'_>, error: &ParseError, input: Option<&str>) -> PyErr {
    build(validation_exception(py, error, None, input))
}

/// The same error without line and column, for data that is not JSON text.
pub(crate) fn of_plain(error: ParseError) -> ParseError {
    ParseError { message: without_position(&error.message), ..error }
}

/// As [`validation`], for an argument of a call that is plain data: the message names it, and has no line and column.
pub(crate) fn argument(py: Python<'_>, error: ParseError, what: &str, input: &str) -> PyErr {
    build(validation_exception(py, &of_plain(error), Some(what), Some(input)))
}

/// As [`argument`], for a text that was not read.
pub(crate) fn refused_argument(py: Python<'_>, error: &ParseError, what: &str) -> PyErr {
    build(validation_exception(py, error, Some(what), None))
}

fn validation_exception<'py>(
    py: Python<'py>,
    error: &ParseError,
    argument: Option<&str>,
    input: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let message = match argument {
        Some(argument) => format!("{argument}{}: {}", error.pointer(), error.message),
        None => error.to_string(),
    };
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
    class(py, "ValidationError")?.call1((message, PyList::new(py, [detail])?))
}

/// The error of a class of which only one kind of value is a member.
pub(crate) fn wrong_kind(key: &str, expected: &str, actual: &str) -> ParseError {
    let message = format!("must be \"{expected}\" here, not \"{actual}\"");
    ParseError::shape(vec![PathSegment::Key(key.to_owned())], message)
}

/// `turntree.SerializationError`.
pub(crate) fn serialization(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    error.to_exception(py)
}

/// `turntree.SerializationError`.
impl ToException for serde_json::Error {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        named(py, "SerializationError", &self.to_string())
    }
}

/// `turntree.ValidationError`.
impl ToException for ParseError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        validation(py, self, None)
    }

    fn to_exception_in(&self, py: Python<'_>, input: &str) -> PyErr {
        validation(py, self, Some(input))
    }
}

/// The exception that Python's own file functions raise; `ValueError` for other errors.
impl ToException for MediaError {
    fn to_exception(&self, _py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            Self::NotAFile { is_directory: true, .. } => PyIsADirectoryError::new_err(message),
            Self::Unreadable { source, .. } => match source.kind() {
                ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
                ErrorKind::PermissionDenied => PyPermissionError::new_err(message),
                _ => PyOSError::new_err(message),
            },
            _ => PyValueError::new_err(message),
        }
    }
}

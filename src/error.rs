//! The exception classes of the package by name, and the conversion of Rust errors to exceptions.
//!
//! The classes are written in Python (`turntree.exceptions`): with the stable ABI a native class cannot extend
//! `Exception`, and these have typed attributes. The bindings of each crate implement [`ToException`] for that crate's
//! errors: [`crate::convert::error`], [`crate::upp::error`], [`crate::thread_protocol::error`], [`crate::agents::error`].
//!
//! ```text
//! TurntreeError
//! ├── ValidationError (ValueError)
//! ├── SerializationError
//! ├── SessionError
//! ├── ApprovalRequired
//! ├── BudgetExceeded
//! ├── GuardrailError
//! ├── StoreError
//! │   ├── ConflictError
//! │   └── CorruptDataError
//! └── UPPError
//! ```

use std::fmt::Display;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::bridge::gil;

/// A Rust error with an exception of its own.
pub(crate) trait ToException {
    /// The exception that Python raises for the error.
    fn to_exception(&self, py: Python<'_>) -> PyErr;

    /// As [`Self::to_exception`], for an error in the document `input`. A validation error has an excerpt of it.
    fn to_exception_in(&self, py: Python<'_>, _input: &str) -> PyErr {
        self.to_exception(py)
    }
}

impl<E: ToException> ToException for &E {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        (*self).to_exception(py)
    }

    fn to_exception_in(&self, py: Python<'_>, input: &str) -> PyErr {
        (*self).to_exception_in(py, input)
    }
}

/// Raises the exception of a failed result: `core.call().or_raise(py)?`.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;

    /// As [`Self::or_raise`], for an error in the document `input`.
    fn or_raise_in(self, py: Python<'_>, input: &str) -> PyResult<T>;

    /// As [`Self::or_raise`], for futures that are polled with the GIL held.
    fn or_raise_held(self) -> PyResult<T>;
}

impl<T, E: ToException> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.to_exception(py))
    }

    fn or_raise_in(self, py: Python<'_>, input: &str) -> PyResult<T> {
        self.map_err(|error| error.to_exception_in(py, input))
    }

    fn or_raise_held(self) -> PyResult<T> {
        self.or_else(|error| gil::require_held(|py| Err(error.to_exception(py))))
    }
}

/// `ValueError` with the text of an error: `text.parse().map_err(value_error)?`.
pub(crate) fn value_error(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A class of `turntree.exceptions` by its name.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    gil::protect_thread();
    py.import(intern!(py, "turntree.exceptions"))?.getattr(name)
}

/// The exception that was built, or the one that building it raised.
pub(crate) fn build(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|error| error, PyErr::from_value)
}

/// An exception of a class by its name, with this message.
pub(crate) fn named(py: Python<'_>, name: &str, message: &str) -> PyErr {
    build(class(py, name).and_then(|class| class.call1((message,))))
}

/// `TypeError` for an argument of the wrong type: "`what` must be `expected`, not int".
pub(crate) fn wrong_type(value: &Bound<'_, PyAny>, what: &str, expected: &str) -> PyErr {
    let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!("{what} must be {expected}, not {found}"))
}

/// The one of `all` that has this name.
///
/// # Errors
/// `ValueError`: "`what` must be one of "a", "b", not "c"".
pub(crate) fn choose<T: Copy>(
    what: &str,
    name: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> PyResult<T> {
    all.iter().copied().find(|value| name_of(*value) == name).ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|value| format!("\"{}\"", name_of(*value))).collect();
        PyValueError::new_err(format!("{what} must be one of {}, not \"{name}\"", known.join(", ")))
    })
}

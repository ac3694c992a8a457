//! [`Raised`]: a Python exception on its way through the core and back to Python.

use std::fmt;

use crate::prelude::*;
use pyo3::exceptions::PyBaseException;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::bridge::gc::Collect;

/// A Python exception of a tool, hook or key function, carried as the error of a Rust function.
#[derive(Debug)]
pub(crate) struct Raised {
    value: Py<PyBaseException>,
    /// Class and message, for use without the GIL.
    text: String,
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Wraps an exception with its traceback.
    pub(crate) fn new(py: Python<'_>, error: PyErr) -> Self {
        Self { text: error.to_string(), value: error.into_value(py) }
    }

    /// The exception object.
    pub(crate) fn value<'py>(&self, py: Python<'py>) -> &Bound<'py, PyBaseException> {
        self.value.bind(py)
    }

    /// The exception as a `PyErr`.
    pub(crate) fn error(&self, py: Python<'_>) -> PyErr {
        PyErr::from_value(self.value(py).clone().into_any())
    }
}

impl Collect for Raised {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.value)
    }
}

//! The exception classes of the package, by name.
//!
//! The classes are written in Python (`turntree.exceptions`): with the stable ABI a native class cannot extend
//! `Exception`, and these have typed attributes. The bindings of each crate convert that crate's errors:
//! [`crate::convert::error`], [`crate::upp::error`], [`crate::thread_protocol::error`], [`crate::agents::error`].
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

use pyo3::intern;
use pyo3::prelude::*;

/// A class of `turntree.exceptions` by its name.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
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
    pyo3::exceptions::PyTypeError::new_err(format!("{what} must be {expected}, not {found}"))
}

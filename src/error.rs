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

use crate::prelude::*;
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::types::PyString;
// The constructors that `turntree-macros` writes name them here.
pub(crate) use pyo3::types::{PyDict, PyTuple};

use crate::bridge::gil;
use crate::convert::text::text_of;

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

/// An argument that must be a function.
///
/// # Errors
/// `TypeError` that names it.
pub(crate) fn function<'a, 'py>(value: &'a Bound<'py, PyAny>, what: &str) -> PyResult<&'a Bound<'py, PyAny>> {
    if value.is_callable() { Ok(value) } else { Err(wrong_type(value, what, "a function")) }
}

/// The argument of a constructor that must be given.
///
/// # Errors
/// `TypeError` with the call to write.
pub(crate) fn required<T>(value: Option<T>, class: &str, argument: &str, call: &str) -> PyResult<T> {
    value.ok_or_else(|| PyTypeError::new_err(format!("{class}() needs {argument}; write {call}")))
}

/// A required argument of a constructor, as the attribute `#[pymethods]` makes it: `None` stands for an absent one.
pub(crate) struct Given<T>(pub(crate) Option<T>);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Given<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        value.extract().map(|value| Self(Some(value))).map_err(Into::into)
    }
}

/// `TypeError` for a constructor that was called without required arguments. Each is given with its name, whether the
/// call has it, and whether it is passed by keyword.
pub(crate) fn missing_arguments<T: PyClass>(required: &[(&str, bool, bool)]) -> PyErr {
    let class = <T as PyClass>::NAME;
    let mut missing: Vec<&str> =
        required.iter().filter(|(_, is_given, _)| !is_given).map(|(name, ..)| *name).collect();
    let last = missing.pop().unwrap_or_default();
    let needs =
        if missing.is_empty() { last.to_owned() } else { format!("{} and {last}", missing.join(", ")) };
    let arguments =
        required.iter().map(|(name, _, by_keyword)| format!("{name}{}", if *by_keyword { "=…" } else { "" }));
    let call = format!("{class}({})", arguments.collect::<Vec<_>>().join(", "));
    let call = match class {
        "Audio" | "Video" => format!("{class}.from_path(path) or {call}"),
        "ModelReference" => {
            "turntree.models.openai(model), or call the function of another vendor".to_owned()
        }
        _ => call,
    };
    PyTypeError::new_err(format!("{class}() needs {needs}; write {call}"))
}

/// Refuses the arguments that a constructor does not take. Each parameter is given with its name, and whether it is
/// passed by keyword alone.
///
/// # Errors
/// `TypeError` with the most similar parameter, or with all of them.
pub(crate) fn refuse_arguments<T: PyClass>(
    more: &Bound<'_, PyTuple>,
    unknown: Option<&Bound<'_, PyDict>>,
    known: &[(&str, bool)],
) -> PyResult<()> {
    if more.is_empty() && unknown.is_none_or(PyDictMethods::is_empty) {
        return Ok(());
    }
    let py = more.py();
    let refused =
        py.import(intern!(py, "turntree._argument_errors"))?.getattr(intern!(py, "refused_arguments"))?;
    Err(build(refused.call1((<T as PyClass>::NAME, known.to_vec(), more.len(), unknown))))
}

/// `TypeError` for a call of the constructor of a class that only the core creates; `how` says what to write instead.
pub(crate) fn not_created<T: PyClass>(how: &str) -> PyErr {
    let class = <T as PyClass>::NAME;
    PyTypeError::new_err(format!("{class}() is not called by applications; {how}"))
}

/// Gives a class that only the core creates a constructor that says how to get an object of it. The constructor is native:
/// one that Python sets lets `object.__new__` make an object without a value, whose use ends the process.
macro_rules! not_constructible {
    ($class:ty, $how:literal) => {
        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (*_arguments, **_keywords))]
            fn refuse(
                _arguments: &Bound<'_, pyo3::types::PyTuple>,
                _keywords: Option<&Bound<'_, pyo3::types::PyDict>>,
            ) -> PyResult<Self> {
                Err(crate::error::not_created::<Self>($how))
            }
        }
    };
}

pub(crate) use not_constructible;

/// The text of an argument of `call` that must be a `str`.
///
/// # Errors
/// `TypeError` with the call and the name of the argument; `turntree.ValidationError` for lone surrogates.
pub(crate) fn required_text(value: &Bound<'_, PyAny>, call: &str, what: &str) -> PyResult<String> {
    let text = value.cast::<PyString>();
    text_of(text.map_err(|_| wrong_type(value, &format!("{call}: {what}"), "a str"))?, what)
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

//! Converts Pydantic AI's Python objects to the Rust model, attribute by attribute, and back.
//!
//! ```text
//! list[ModelMessage] ── reader ──► ReadMessages ──► History     classes   the classes and the types of their members
//! list[ModelMessage] ◄─ builder ─────────────────── History     plain     plain Python values as JSON text, and back
//! ```
//!
//! There are no intermediate dicts. A message with an unknown class (a subclass, a part of a later version, a value of
//! an unusual type) is converted through Pydantic's own JSON. Each class is verified at its first use: it is trusted only
//! if the result equals that of `dump_json` or `validate_json`. Other versions of pydantic-ai can therefore make the
//! conversion slower, but not incorrect.

mod builder;
mod classes;
mod plain;
mod reader;

use crate::prelude::*;

pub(crate) use builder::build;
pub(crate) use reader::read;

/// A value that only Pydantic itself can convert.
#[derive(Debug)]
struct Unknown;

/// On any error, the conversion falls back to Pydantic, which reports it more precisely.
impl From<PyErr> for Unknown {
    fn from(_: PyErr) -> Self {
        Self
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for Unknown {
    fn from(_: pyo3::CastError<'a, 'py>) -> Self {
        Self
    }
}

/// An exception with its `__cause__`.
fn caused_by(py: Python<'_>, exception: PyErr, cause: PyErr) -> PyErr {
    exception.set_cause(py, Some(cause));
    exception
}

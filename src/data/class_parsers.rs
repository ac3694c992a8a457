//! The data classes by their Python types: how each reads JSON, its schema, whether it is hashable.

use std::collections::HashMap;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::handle::{Data, DataClass};
use crate::bridge::gil;
use crate::convert::error::{argument, of_plain};
use crate::convert::json::document_raw;
use crate::error::OrRaise as _;
use turntree_core::json::ParseError;
use turntree_core::limits::Limits;

/// Reads a value from JSON text.
///
/// # Errors
/// `turntree.ValidationError`.
pub(crate) fn parse<C: DataClass>(py: Python<'_>, text: &str) -> PyResult<C::Value> {
    gil::protect_thread();
    parse_checked::<C>(text).or_raise_in(py, text)
}

/// As [`parse`], for plain data that was converted to JSON text: errors have no line and column.
fn parse_plain<C: DataClass>(py: Python<'_>, text: &str) -> PyResult<C::Value> {
    parse_checked::<C>(text).map_err(of_plain).or_raise_in(py, text)
}

fn parse_checked<C: DataClass>(text: &str) -> Result<C::Value, ParseError> {
    let value = turntree_core::json::parse::<C::Value>(text, &Limits::of_part(C::OUTER_LEVELS))?;
    C::accept(&value).map(|()| value)
}

/// A value from an instance of the class or from plain data.
///
/// # Errors
/// `TypeError` with the argument's name if the value is not JSON; `turntree.ValidationError` if it has another shape.
pub(crate) fn extract<C: DataClass>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Arc<C::Value>> {
    if let Ok(data) = value.cast::<Data>()
        && let Some(shared) = data.get().share::<C::Value>()
    {
        C::accept(&shared).or_raise(value.py())?;
        return Ok(shared);
    }
    let raw = document_raw(value, what)?;
    let read = parse_checked::<C>(raw.get());
    read.map(Arc::new).map_err(|error| argument(value.py(), error, what, raw.get()))
}

/// The functions and properties of one data class.
pub(super) struct ClassEntry {
    pub(super) parse: fn(Python<'_>, &str) -> PyResult<Py<PyAny>>,
    /// Parses plain data that was converted to JSON text.
    pub(super) parse_plain: fn(Python<'_>, &str) -> PyResult<Py<PyAny>>,
    pub(super) schema: fn() -> serde_json::Value,
    pub(super) frozen: bool,
}

static REGISTRY: PyOnceLock<HashMap<usize, ClassEntry>> = PyOnceLock::new();

/// The data classes of the module, collected while it is initialised.
#[derive(Default)]
pub(crate) struct ClassRegistry(HashMap<usize, ClassEntry>);

impl ClassRegistry {
    /// Adds a class.
    pub(crate) fn add<C: DataClass>(&mut self, py: Python<'_>) {
        let entry = ClassEntry {
            parse: |py, text| C::wrap(py, Arc::new(parse::<C>(py, text)?)),
            parse_plain: |py, text| C::wrap(py, Arc::new(parse_plain::<C>(py, text)?)),
            schema: C::json_schema,
            frozen: C::FROZEN,
        };
        self.0.insert(py.get_type::<C>().as_type_ptr() as usize, entry);
    }

    /// Makes the classes available, once per process.
    pub(crate) fn install(self, py: Python<'_>) {
        REGISTRY.get_or_init(py, || self.0);
    }
}

pub(super) fn entry_of(class: &Bound<'_, PyType>) -> PyResult<&'static ClassEntry> {
    REGISTRY.get(class.py()).and_then(|entries| entries.get(&(class.as_type_ptr() as usize))).ok_or_else(
        || PyTypeError::new_err(format!("{class} is not a data class; use one of its subclasses")),
    )
}

/// Restore a pickled value.
#[pyfunction]
pub(crate) fn _restore(class: &Bound<'_, PyType>, text: &str) -> PyResult<Py<PyAny>> {
    (entry_of(class)?.parse)(class.py(), text)
}

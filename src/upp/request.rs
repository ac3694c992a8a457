//! Requests to models as the application's functions see them.

use crate::error::not_constructible;
use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::types::PyString;

use crate::convert::error::serialization;
use crate::convert::json::to_raw;
use crate::convert::text::text_of;
use crate::to_python::ToPython;
use turntree_core::json::RawJson;
use turntree_upp::{ModelRequest as CoreRequest, System};

/// The request to a model, as the function of `scripted` and ``ModelReference.requests`` have it.
#[pyclass(frozen, module = "turntree.upp", skip_from_py_object)]
#[derive(Clone)]
pub(crate) struct ModelRequest(pub(crate) CoreRequest);

not_constructible!(ModelRequest, "the function for scripted(…) receives it");

#[pymethods]
impl ModelRequest {
    /// The conversation, oldest first.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.messages.iter().cloned().collect::<Vec<_>>().to_python(py)
    }

    /// The system prompt: a text, or a list of blocks.
    #[getter]
    fn system<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.system.as_deref() {
            Some(System::Text(text)) => text.to_python(py),
            Some(System::Blocks(blocks)) => blocks.to_python(py),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// The model's own parameters.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.params.to_python(py)
    }

    /// The tools as dicts with ``name``, ``description``, ``parameters`` and optionally ``metadata``.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tools = RawJson::from_value(&*self.0.tools).map_err(|error| serialization(py, &error))?;
        tools.to_python(py)
    }

    /// JSON Schema of the structured answer, or None.
    #[getter]
    fn structure<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.structure.as_deref().cloned().to_python(py)
    }

    fn __repr__(&self) -> String {
        format!("ModelRequest({} messages, {} tools)", self.0.messages.len(), self.0.tools.len())
    }
}

/// The system prompt from a text or a list of blocks.
///
/// # Errors
/// `TypeError` for anything else.
pub(crate) fn system_from(value: &Bound<'_, PyAny>) -> PyResult<System> {
    if value.is_instance_of::<PyString>() {
        return text_of(value, "system").map(System::Text);
    }
    let raw = to_raw(value, "system")?;
    if raw.is_array() {
        return Ok(System::Blocks(raw));
    }
    Err(PyTypeError::new_err("system must be a str or a list of blocks"))
}

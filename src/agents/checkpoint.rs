//! `turntree.Checkpoint`.
//!
//! Spec: UAP-1.0 §6.4.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::state::PyExecutionState;
use crate::convert::json::json_to_python;
use crate::data::{Data, DataClass, value_of};
use crate::to_python::ToPython;
use turntree_agents::Checkpoint as CoreCheckpoint;
use turntree_agents::session::checkpoint::SubAgentStates;
use turntree_core::json;

/// A point of a run that a session can be restored to. Created by sessions.
///
/// Spec: UAP-1.0 §6.4, §13.3.
#[pyclass(frozen, extends = Data, module = "turntree")]
pub(crate) struct Checkpoint;

impl DataClass for Checkpoint {
    type Value = CoreCheckpoint;
    fn wrap(py: Python<'_>, value: Arc<CoreCheckpoint>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, PyClassInitializer::from(Data::new(value)).add_subclass(Self))?.into_any())
    }
}

impl Checkpoint {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreCheckpoint> {
        value_of(slf.as_super())
    }
}

/// Returns sessions of sub-agents as plain data, by the ids of the tool calls that started them.
///
/// # Errors
/// `turntree.SerializationError`, or if Python fails, for example out of memory.
pub(super) fn sub_agents<'py>(py: Python<'py>, states: &SubAgentStates) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    for (call, state) in states.iter() {
        let text = json::write(&**state).map_err(|error| crate::convert::error::serialization(py, &error))?;
        shown.set_item(call, json_to_python(py, &text)?)?;
    }
    Ok(shown)
}

#[pymethods]
impl Checkpoint {
    /// The id: a UUIDv4, or any text if the session was read from JSON.
    #[getter]
    fn id<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a str> {
        Ok(&Self::of(slf)?.id)
    }

    /// The id of the session.
    #[getter]
    fn session_id<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a str> {
        Ok(&Self::of(slf)?.session_id)
    }

    /// When the checkpoint was created, in UTC.
    #[getter]
    fn timestamp<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.timestamp.to_python(slf.py())
    }

    /// The step of the run. Each run counts from 1.
    #[getter]
    fn step(slf: &Bound<'_, Self>) -> PyResult<u32> {
        Ok(Self::of(slf)?.step())
    }

    /// The id of the node that the run started from.
    #[getter]
    fn thread_id<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a str> {
        Ok(Self::of(slf)?.position.node.as_str())
    }

    /// The state of the run.
    #[getter]
    fn state(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        PyExecutionState::wrap(slf.py(), Arc::new(Self::of(slf)?.state()))
    }

    /// The sessions of the run's sub-agents as plain data, by tool call id. ``Session.from_json`` reads one.
    #[getter]
    fn sub_agent_states<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        sub_agents(slf.py(), &Self::of(slf)?.sub_agent_states)
    }

    /// The metadata of the checkpoint, as a new dict.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.metadata.to_python(slf.py())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let checkpoint = Self::of(slf)?;
        let messages = checkpoint.state().messages.len();
        Ok(format!("Checkpoint(id={:?}, step={}, messages={messages})", &*checkpoint.id, checkpoint.step()))
    }
}

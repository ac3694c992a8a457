//! `turntree.Checkpoint`.
//!
//! Spec: UAP-1.0 §6.4.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::types::PyDict;

use crate::convert::json::json_to_python;
use crate::data::DataClass as _;
use crate::error::OrRaise as _;
use crate::to_python::{ToPython, attributes, data_class};
use turntree_agents::Checkpoint as CoreCheckpoint;
use turntree_agents::session::checkpoint::SubAgentStates;
use turntree_core::json;

data_class! {
    /// A point of a run that a session can be restored to. Created by sessions.
    ///
    /// Spec: UAP-1.0 §6.4, §13.3.
    Checkpoint as "Checkpoint" in "turntree" over CoreCheckpoint, inside CHECKPOINT {
        /// The id: a UUIDv4, or any text if the session was read from JSON.
        id,
        /// The id of the session.
        session_id,
        /// When the checkpoint was created, in UTC.
        timestamp,
        /// The metadata of the checkpoint, as a new dict.
        metadata,
    }

    /// The sessions of the run's sub-agents as plain data, by tool call id. ``Session.from_json`` reads one.
    #[getter]
    fn sub_agent_states<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        sub_agents(slf.py(), &Self::of(slf)?.sub_agent_states)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let checkpoint = Self::of(slf)?;
        let messages = checkpoint.state().messages.len();
        Ok(format!("Checkpoint(id={:?}, step={}, messages={messages})", &*checkpoint.id, checkpoint.step()))
    }
}

attributes! { Checkpoint(slf) {
    /// The step of the run. Each run counts from 1.
    step = Self::of(slf)?.step();

    /// The id of the node that the run started from.
    thread_id = Self::of(slf)?.position.node;

    /// The state of the run.
    state = Self::of(slf)?.state();
} }

impl ToPython for Arc<CoreCheckpoint> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Checkpoint::wrap(py, Self::clone(self))?.into_bound(py))
    }
}

/// Returns sessions of sub-agents as plain data, by the ids of the tool calls that started them.
///
/// # Errors
/// `turntree.SerializationError`, or if Python fails, for example out of memory.
pub(super) fn sub_agents<'py>(py: Python<'py>, states: &SubAgentStates) -> PyResult<Bound<'py, PyDict>> {
    let by_call = PyDict::new(py);
    for (call, state) in states.iter() {
        let text = json::write(&**state).or_raise(py)?;
        by_call.set_item(call, json_to_python(py, &text)?)?;
    }
    Ok(by_call)
}

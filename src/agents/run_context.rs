//! `turntree.RunContext`: a run, for toolsets, for the function of the system prompt, and for validators of the output.

use std::sync::Arc;

use crate::error::not_constructible;
use crate::prelude::*;
use pyo3::types::{PyDict, PyType};
use tokio_util::sync::CancellationToken;

use crate::bridge::gc::garbage_collected;
use crate::to_python::{attributes, generic_alias};
use turntree_agents::types::{RunIdentity, RunView};
use turntree_core::message::message::History;

/// A run, for the functions that it asks: toolsets, the function of the system prompt, and validators of the output.
///
/// Created by the run for each call. ``ToolsetContext`` is the same class.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct RunContext {
    // Not the core's context: that keeps the host of the run alive, which the garbage collector cannot see from here.
    identity: Arc<RunIdentity>,
    agent_name: Option<Arc<str>>,
    step: u32,
    messages: History,
    cancellation: CancellationToken,
    metadata: Py<PyDict>,
    deps: Option<Py<PyAny>>,
}

impl RunContext {
    /// Creates the context of a request. `metadata` and `deps` are those of the run.
    pub(super) fn new(run: &RunView, metadata: Py<PyDict>, deps: Option<Py<PyAny>>) -> Self {
        Self {
            identity: Arc::clone(&run.identity),
            agent_name: run.agent_name.clone(),
            step: run.step,
            messages: run.messages.clone(),
            cancellation: run.cancellation.clone(),
            metadata,
            deps,
        }
    }
}

attributes! { RunContext(slf) {
    /// The id of the agent that runs, a UUIDv4.
    agent_id = slf.get().identity.agent_id;

    /// The name of the agent that runs, or None.
    agent_name = slf.get().agent_name;

    /// The id of the run, a UUIDv4.
    turn_id = slf.get().identity.turn_id;

    /// The id of the agent that called this agent as a tool, or None.
    parent_agent_id = slf.get().identity.parent.as_ref().map(|parent| Arc::clone(&parent.agent_id));

    /// The id of the run that called this agent as a tool, or None.
    parent_turn_id = slf.get().identity.parent.as_ref().map(|parent| Arc::clone(&parent.turn_id));

    /// The id of the session, or None.
    session_id = slf.get().identity.session_id;

    /// The step of the run, from 1. 0 before the first step, when `plan` makes a plan.
    step = slf.get().step;

    /// The history and the messages of the run so far, as a new list.
    messages = slf.get().messages;

    /// Whether the run was aborted. Work that continues in a thread should stop.
    cancelled = slf.get().cancellation.is_cancelled();

    /// The number of runs that contain this run. 0 if no agent started it.
    depth = slf.get().identity.depth;
} }

not_constructible!(
    RunContext,
    "functions for system=, toolsets and validators receive it as their first argument"
);

#[pymethods]
impl RunContext {
    /// Return an annotation with the type of `deps`, for type checkers.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic_alias(cls, item)
    }

    /// The dependencies: the object that the application passed to the run as ``deps``, or None.
    #[getter]
    fn deps(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.deps.as_ref().map(|deps| deps.clone_ref(py))
    }

    /// The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("RunContext(agent_id={:?}, step={})", &*self.identity.agent_id, self.step)
    }
}

garbage_collected!(RunContext: metadata, deps);

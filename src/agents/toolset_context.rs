//! `turntree.ToolsetContext`: the run that asks a toolset for its tools.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio_util::sync::CancellationToken;

use crate::bridge::gc::garbage_collected;
use crate::to_python::attributes;
use turntree_agents::host::ToolsetContext as CoreContext;
use turntree_agents::types::RunIdentity;
use turntree_core::message::message::History;

/// The run that asks a toolset for its tools.
///
/// Created by the run before each model call.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct ToolsetContext {
    // Not the core's context: that keeps the host of the run alive, which the garbage collector cannot see from here.
    identity: Arc<RunIdentity>,
    agent_name: Option<Arc<str>>,
    step: u32,
    messages: History,
    cancellation: CancellationToken,
    metadata: Py<PyDict>,
}

impl ToolsetContext {
    /// Creates the context of a request. `metadata` is that of the run.
    pub(super) fn new(context: &CoreContext, metadata: Py<PyDict>) -> Self {
        Self {
            identity: Arc::clone(&context.identity),
            agent_name: context.agent_name.clone(),
            step: context.step,
            messages: context.messages.clone(),
            cancellation: context.cancellation.clone(),
            metadata,
        }
    }
}

attributes! { ToolsetContext(slf) {
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

#[pymethods]
impl ToolsetContext {
    /// The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("ToolsetContext(agent_id={:?}, step={})", &*self.identity.agent_id, self.step)
    }
}

garbage_collected!(ToolsetContext: metadata);

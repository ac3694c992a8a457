//! `turntree.ToolContext`: the context of a tool call.
//!
//! Spec: UAP-1.0 §8.4.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bridge::gc::garbage_collected;
use crate::convert::json::to_raw;
use crate::to_python::attributes;
use turntree_agents::host::ToolInvocation;
use turntree_core::time::{Clock, SystemClock};

/// The context of one tool call.
///
/// A parameter of a tool that is annotated ``ToolContext`` receives it and is not part of the tool's schema.
/// Created by the run.
///
/// Spec: UAP-1.0 §8.4.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct ToolContext {
    invocation: Arc<ToolInvocation>,
    metadata: Py<PyDict>,
}

impl ToolContext {
    /// Creates the context of a call. `metadata` is that of the run.
    pub(crate) const fn new(invocation: Arc<ToolInvocation>, metadata: Py<PyDict>) -> Self {
        Self { invocation, metadata }
    }
}

attributes! { ToolContext(slf) {
    /// The id of the agent that runs, a UUIDv4.
    agent_id = slf.get().invocation.identity.agent_id;

    /// The id of the run, a UUIDv4.
    turn_id = slf.get().invocation.identity.turn_id;

    /// The id of the agent that called this agent as a tool, or None.
    parent_agent_id = slf.get().invocation.identity.parent.as_ref().map(|parent| Arc::clone(&parent.agent_id));

    /// The id of the run that called this agent as a tool, or None.
    parent_turn_id = slf.get().invocation.identity.parent.as_ref().map(|parent| Arc::clone(&parent.turn_id));

    /// The id of the call, as the model assigned it.
    tool_call_id = slf.get().invocation.call.tool_call_id;

    /// The id of the session, or None.
    session_id = slf.get().invocation.identity.session_id;

    /// Whether the run was aborted. Work that continues in a thread should stop.
    cancelled = slf.get().invocation.cancellation.is_cancelled();

    /// The number of runs that contain this run. 0 if no agent started it.
    depth = slf.get().invocation.identity.depth;
} }

#[pymethods]
impl ToolContext {
    /// Report the progress of the tool to the run's stream.
    ///
    /// The stream yields a ``tool_execution_progress`` event between the start and the end of the call. Its `delta`
    /// has ``toolCallId``, ``toolName``, ``progress`` and ``timestamp``. Without a stream, or after the call,
    /// nothing happens. May be called from any thread.
    ///
    /// Args:
    ///     progress: JSON data such as ``{"done": 3, "of": 10}``.
    ///
    /// Raises:
    ///     TypeError: The value is not JSON data; the message names the path.
    fn report(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        self.invocation.report(to_raw(progress, "progress")?, SystemClock.now());
        Ok(())
    }

    /// The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("ToolContext(tool_call_id=\"{}\")", self.invocation.call.tool_call_id)
    }
}

garbage_collected!(ToolContext: metadata);

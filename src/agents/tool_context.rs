//! What a tool may know of its call: `turntree.ToolContext`. UAP-1.0 §8.4.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bridge::gc::garbage_collected;
use crate::convert::json::to_raw;
use turntree_agents::host::ToolInvocation;
use turntree_core::time::{Clock, SystemClock};

/// Who calls a tool, and whether the call is still wanted. Given to the parameter annotated `ToolContext`.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct ToolContext {
    invocation: Arc<ToolInvocation>,
    metadata: Py<PyDict>,
}

impl ToolContext {
    /// The context of a call; `metadata` are the run's.
    pub(crate) const fn new(invocation: Arc<ToolInvocation>, metadata: Py<PyDict>) -> Self {
        Self { invocation, metadata }
    }
}

#[pymethods]
impl ToolContext {
    /// The agent that runs.
    #[getter]
    fn agent_id(&self) -> &str {
        &self.invocation.identity.agent_id
    }

    /// This run of it.
    #[getter]
    fn turn_id(&self) -> &str {
        &self.invocation.identity.turn_id
    }

    /// The agent whose tool this agent is.
    #[getter]
    fn parent_agent_id(&self) -> Option<&str> {
        self.invocation.identity.parent.as_ref().map(|parent| &*parent.agent_id)
    }

    /// The run whose tool this run is.
    #[getter]
    fn parent_turn_id(&self) -> Option<&str> {
        self.invocation.identity.parent.as_ref().map(|parent| &*parent.turn_id)
    }

    /// The call.
    #[getter]
    fn tool_call_id(&self) -> &str {
        &self.invocation.call.tool_call_id
    }

    /// The session, where there is one.
    #[getter]
    fn session_id(&self) -> Option<&str> {
        self.invocation.identity.session_id.as_deref()
    }

    /// Whether the run was aborted: work that goes on in a thread should stop.
    #[getter]
    fn cancelled(&self) -> bool {
        self.invocation.cancellation.is_cancelled()
    }

    /// How many runs the run is inside of: 0 where no agent has started it.
    #[getter]
    fn depth(&self) -> u32 {
        self.invocation.identity.depth
    }

    /// Tells whoever listens to the run how far the tool is.
    fn report(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        self.invocation.report(to_raw(progress, "progress")?, SystemClock.now());
        Ok(())
    }

    /// What the application keeps with the run: a dict that hooks see as `state.metadata`; may be changed.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("ToolContext(tool_call_id=\"{}\")", self.invocation.call.tool_call_id)
    }
}

garbage_collected!(ToolContext: metadata);

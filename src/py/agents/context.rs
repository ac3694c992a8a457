//! What a tool may know of its call: `turntree.ToolContext`. UAP-1.0 §8.4.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::agents::run::ToolInvocation;

/// Who calls a tool, and whether the call is still wanted. Given to the parameter annotated `ToolContext`.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct ToolContext(pub(crate) Arc<ToolInvocation>);

#[pymethods]
impl ToolContext {
    /// The agent that runs.
    #[getter]
    fn agent_id(&self) -> &str {
        &self.0.identity.agent_id
    }

    /// This run of it.
    #[getter]
    fn turn_id(&self) -> &str {
        &self.0.identity.turn_id
    }

    /// The agent whose tool this agent is.
    #[getter]
    fn parent_agent_id(&self) -> Option<&str> {
        self.0.identity.parent.as_ref().map(|parent| &*parent.agent_id)
    }

    /// The run whose tool this run is.
    #[getter]
    fn parent_turn_id(&self) -> Option<&str> {
        self.0.identity.parent.as_ref().map(|parent| &*parent.turn_id)
    }

    /// The call.
    #[getter]
    fn tool_call_id(&self) -> &str {
        &self.0.call.tool_call_id
    }

    /// The session, where there is one.
    #[getter]
    fn session_id(&self) -> Option<&str> {
        self.0.identity.session_id.as_deref()
    }

    /// Whether the run was aborted: work that goes on in a thread should stop.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.cancellation.is_cancelled()
    }

    fn __repr__(&self) -> String {
        format!("ToolContext(tool_call_id=\"{}\")", self.0.call.tool_call_id)
    }
}

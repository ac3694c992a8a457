//! The hosts of other agents that work in a run: sub-agents, and agents that take over the conversation.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::PyList;

use super::{PyHost, no_function};
use crate::agents::agent_core::AgentCore;
use crate::agents::run_metadata::RunMetadata;
use crate::agents::tool_exceptions::ToolExceptions;
use crate::thread::history_from;
use crate::to_python::ToPython as _;
use turntree_agents::host::ToolInvocation;
use turntree_core::json::RawObject;
use turntree_core::message::Message;

impl PyHost {
    /// Creates the host of a sub-agent. It shares the call site and has its own functions and metadata.
    pub(super) fn host_of(
        &self,
        py: Python<'_>,
        invocation: &ToolInvocation,
        metadata: &Arc<RawObject>,
    ) -> PyResult<Self> {
        let agent = self.tool_function(py, invocation)?.agent.ok_or_else(no_function)?;
        let metadata = RunMetadata::new(py, self.metadata.roots(), Arc::clone(metadata))?;
        let start = self.within(py, invocation.span.as_ref(), self.call_site.start().clone());
        let exceptions = ToolExceptions::new(metadata.roots());
        let host = Self::new(agent.get().functions(), self.call_site.with_start(start), metadata, exceptions);
        // The sub-agent shares the roots.
        let approvers = self.approvers.of_sub_agent(self.on_approval(py), self.roots());
        Ok(host.with_ids(self.ids_of(invocation)).with_deps(self.deps).with_approvers(approvers))
    }

    /// Returns the agent of the handoff at an index of the agent's tools.
    pub(super) fn handoff_target(&self, py: Python<'_>, index: usize) -> PyResult<Py<AgentCore>> {
        let tool = self.look(|functions| functions.tools.get(index).map(|tool| tool.clone_ref(py)))?;
        if let Some(agent) = tool.agent {
            return Ok(agent);
        }
        let agent = tool.tool.bind(py).call_method0(intern!(py, "_handoff_target"))?;
        Ok(agent.cast_into::<AgentCore>()?.unbind())
    }

    /// Creates the host of an agent that takes over the conversation: that of the same run, with the agent's functions.
    pub(super) fn successor(&self, py: Python<'_>, tool: usize, metadata: &Arc<RawObject>) -> PyResult<Self> {
        let agent = self.handoff_target(py, tool)?;
        let metadata = RunMetadata::new(py, self.metadata.roots(), Arc::clone(metadata))?;
        let host =
            Self::new(agent.get().functions(), self.call_site.clone(), metadata, self.exceptions.clone());
        let ids = self.ids.as_ref().map(|ids| ids.nested(&format!("handoff/{tool}")));
        Ok(host.with_ids(ids).with_deps(self.deps).with_approvers(self.approvers.clone()))
    }

    /// Returns the messages that the agent of a handoff receives, or `None` if it has no filter.
    pub(super) fn filtered_input(
        &self,
        py: Python<'_>,
        index: usize,
        messages: &[Arc<Message>],
    ) -> PyResult<Option<Vec<Arc<Message>>>> {
        let tool = self.look(|functions| functions.tools.get(index).map(|tool| tool.tool.clone_ref(py)))?;
        let tool = tool.bind(py);
        let filter = tool.getattr_opt(intern!(py, "_input_filter"))?;
        if filter.is_none_or(|filter| filter.is_none()) {
            return Ok(None);
        }
        let messages = messages.iter().map(|message| message.to_python(py)).collect::<PyResult<Vec<_>>>()?;
        let filtered = tool.call_method1(intern!(py, "_filter_input"), (PyList::new(py, messages)?,))?;
        Ok(Some(history_from(&filtered, "the result of input_filter")?.iter().cloned().collect()))
    }
}

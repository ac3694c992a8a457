//! The port for agents that serve as tools of other agents.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::error::HostError;
use crate::host::event_queue::EventQueue;
use crate::host::host::Host;
use crate::host::recorder::RunRecorder;
use crate::host::tool_invocation::ToolInvocation;
use turntree_core::json::RawJson;

/// An agent that serves as a tool. The driver runs it inside the future of the calling run.
///
/// `Any` is a supertrait so that a [`RunRecorder`] can recognize the agents whose sessions it opens.
pub trait AgentTool: Any + Debug + Send + Sync {
    /// Runs the agent for one call.
    ///
    /// # Errors
    /// Arguments that do not match the tool's schema, a run that exceeds the depth limit, and errors of the run.
    ///
    /// # Cancel safety
    /// Dropping the future stops the run. A session stores its state.
    fn call<'a>(
        &'a self,
        caller: CallerRun<'a>,
        invocation: &'a ToolInvocation,
    ) -> BoxFuture<'a, Result<RawJson, HostError>>;
}

/// The data that an [`AgentTool`] receives from the calling run.
#[derive(Clone, Copy)]
pub struct CallerRun<'a> {
    /// The application behind the calling run.
    pub host: &'a Arc<dyn Host>,
    /// Stores the state of the calling run, if it belongs to a session.
    pub recorder: Option<&'a dyn RunRecorder>,
    /// The queue that receives the agent's events, if the caller streams events of sub-agents.
    pub events: Option<&'a EventQueue>,
    /// True if agents that this agent calls send their events too.
    pub sub_agent_events: bool,
}

impl fmt::Debug for CallerRun<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallerRun")
            .field("sub_agent_events", &self.sub_agent_events)
            .finish_non_exhaustive()
    }
}

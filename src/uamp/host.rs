//! Runs agents on the event loop of a server.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;

use crate::agents::agent_core::AgentCore;
use crate::agents::served_run;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::server::event_loop::ServerLoop;
use turntree_agents::Agent;
use turntree_core::json::RawObject;
use turntree_uamp::agent::{AgentHost, AgentWork, HostUnavailable};

/// The application behind an agent of a server: its tools, hooks and middleware are called on the server's event loop.
#[derive(Clone)]
pub(super) struct PyAgentHost {
    /// The agents of the server. The object that serves them shows them to the garbage collector.
    agents: GcRoots,
    index: usize,
    server_loop: ServerLoop,
}

impl PyAgentHost {
    /// The application behind the agent at `index` of `agents`.
    pub(super) const fn new(agents: GcRoots, index: usize, server_loop: ServerLoop) -> Self {
        Self { agents, index, server_loop }
    }

    /// Performs a run on the thread of the event loop.
    async fn perform(self, agent: Agent, metadata: Arc<RawObject>, work: AgentWork) -> PyResult<()> {
        let (served, caller) = gil::require_held(|py| {
            let served = self.agents.get(py, self.index)?.cast_into::<AgentCore>()?;
            Ok((served.unbind(), self.server_loop.caller(py)?))
        })?;
        served_run::perform(served, agent, caller, metadata, work).await
    }
}

impl fmt::Debug for PyAgentHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PyAgentHost").field("index", &self.index).finish_non_exhaustive()
    }
}

impl AgentHost for PyAgentHost {
    fn run(
        &self,
        agent: Agent,
        metadata: Arc<RawObject>,
        work: AgentWork,
    ) -> BoxFuture<'static, Result<(), HostUnavailable>> {
        let (host, server_loop) = (self.clone(), self.server_loop.clone());
        Box::pin(async move {
            let performed = host.perform(agent, metadata, work);
            match server_loop.run("agent", performed).await {
                Some(Ok(())) => Ok(()),
                Some(Err(error)) => Err(HostUnavailable { reason: error.to_string() }),
                None => Err(HostUnavailable { reason: "the event loop of the server is closed".to_owned() }),
            }
        })
    }
}

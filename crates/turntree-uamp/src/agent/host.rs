//! The port to the application behind an agent.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use turntree_agents::host::RunContext;
use turntree_agents::{Agent, FunctionHost};
use turntree_core::json::RawObject;

/// Work that runs an agent: it receives the context of the run.
pub type AgentWork = Box<dyn FnOnce(RunContext) -> BoxFuture<'static, ()> + Send>;

/// Why an agent cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent cannot run: {reason}")]
pub struct HostUnavailable {
    /// The reason, for example that the event loop is closed.
    pub reason: String,
}

/// The application behind an agent: makes the contexts of runs, and polls runs where the agent's tools can be called.
///
/// # Cancel safety
/// Dropping the future drops the work: the model call and the tools stop.
pub trait AgentHost: fmt::Debug + Send + Sync + 'static {
    /// Runs `work` to its end. `agent` is the agent of this run, which can have more tools than the one that is served;
    /// `metadata` is the metadata of the run at its start.
    ///
    /// # Errors
    /// The application has ended.
    fn run(
        &self,
        agent: Agent,
        metadata: Arc<RawObject>,
        work: AgentWork,
    ) -> BoxFuture<'static, Result<(), HostUnavailable>>;
}

/// The application of agents whose tools are Rust functions.
#[derive(Debug, Clone, Copy, Default)]
pub struct RustHost;

impl AgentHost for RustHost {
    fn run(
        &self,
        agent: Agent,
        metadata: Arc<RawObject>,
        work: AgentWork,
    ) -> BoxFuture<'static, Result<(), HostUnavailable>> {
        let host = FunctionHost::new(Arc::clone(agent.tools()));
        let work = work(RunContext { metadata, ..RunContext::new(Arc::new(host)) });
        Box::pin(async move {
            work.await;
            Ok(())
        })
    }
}

//! Toolsets: tools that can change between the steps of a run.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::host::error::HostError;
use crate::host::host::Host;
use crate::host::tool::Tool;
use crate::types::identity::RunIdentity;
use turntree_core::message::message::History;

/// A source of tools that can change between the steps of a run.
///
/// The driver asks every toolset of an agent before each model call. The model can call the tools that were returned for
/// that call, and no others. A run that is resumed in the middle of a round of tool calls asks again before the round
/// continues.
///
/// One toolset serves any number of concurrent runs. The agent neither opens nor closes it.
pub trait Toolset: fmt::Debug + Send + Sync {
    /// The name of the toolset, for errors.
    fn name(&self) -> &str;

    /// Returns the tools that the run has now.
    ///
    /// # Errors
    /// The error that the run fails with. A run that is being resumed stops and can be resumed again.
    ///
    /// # Cancel safety
    /// The future is dropped when the run is dropped or aborted, or when another toolset of the agent fails.
    fn tools<'a>(&'a self, context: &'a Arc<ToolsetContext>) -> BoxFuture<'a, Result<Vec<Tool>, HostError>>;
}

/// The run that asks a [`Toolset`] for its tools.
#[derive(Clone)]
pub struct ToolsetContext {
    /// The application behind the run.
    pub host: Arc<dyn Host>,
    /// The agent and the run.
    pub identity: Arc<RunIdentity>,
    /// The agent's name, if it has one.
    pub agent_name: Option<Arc<str>>,
    /// The step of the run; 0 before the first step, for the call that makes a plan.
    pub step: u32,
    /// The history and the messages of the run, as the model receives them.
    pub messages: History,
    /// Cancelled when the run is aborted or dropped.
    pub cancellation: CancellationToken,
}

impl fmt::Debug for ToolsetContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolsetContext")
            .field("identity", &self.identity)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

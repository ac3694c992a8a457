//! Toolsets: tools that can change between the steps of a run.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::error::HostError;
use crate::host::host::Host;
use crate::host::tool::Tool;
use crate::types::run_view::RunView;

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
    /// The run.
    pub run: RunView,
}

impl Deref for ToolsetContext {
    type Target = RunView;

    fn deref(&self) -> &RunView {
        &self.run
    }
}

impl fmt::Debug for ToolsetContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToolsetContext").field("run", &self.run).finish_non_exhaustive()
    }
}

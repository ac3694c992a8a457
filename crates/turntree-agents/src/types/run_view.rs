//! What the functions of the application see of a run.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::types::identity::RunIdentity;
use turntree_core::message::message::History;

/// A run at one moment, for the functions of the application that it asks: toolsets, the function of the system prompt, and
/// validators of the output.
#[derive(Clone)]
pub struct RunView {
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

impl fmt::Debug for RunView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RunView")
            .field("identity", &self.identity)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

//! The port through which a driver stores the state of a run. Sessions implement it.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
use crate::host::event_queue::EventQueue;
use crate::host::run_context::RunContext;
use crate::machine::state::RunState;
use crate::types::action::Boundary;
use crate::types::event::{AgentStreamEvent, SubAgentRun};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, ToolCall, Turn};
use turntree_upp::UppError;
use turntree_upp::llm::Input;

/// Receives the state of a run at every boundary, in addition to the host.
///
/// The methods without a future do not block and cannot fail.
pub trait RunRecorder: Send + Sync {
    /// Records the state at a boundary. Returns the id of the checkpoint if one was created.
    fn record(&self, boundary: Boundary, state: &RunState) -> Option<String>;

    /// Opens the session of a sub-agent: the session that an interrupted run of the same tool call left, or a new one.
    /// `message` is the response that contains the call. `None` if the call runs without a session.
    fn open_child(
        &self,
        agent: &dyn AgentTool,
        run: &SubAgentRun,
        message: &Message,
    ) -> Option<Box<dyn SubAgentSession>>;

    /// Records the state of a run that is about to fail and can be resumed from there.
    fn record_failure(&self, state: &RunState);

    /// Records that an approval handler has approved a call, before its tool is called, and saves the state, so that a
    /// crash during the call is noticed. `None` if the run is not saved.
    fn approved(&self, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>>;

    /// Writes the recorded state to the store if the session saves at this boundary.
    fn save(&self, boundary: Boundary, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>>;

    /// Sends the event of a checkpoint that was not saved at its boundary, when the session is saved the next time. Without
    /// a store it is sent at once.
    fn send_when_saved(&self, events: &Arc<EventQueue>, event: AgentStreamEvent);
}

/// The session of a sub-agent for one tool call.
pub trait SubAgentSession: Send {
    /// The metadata that the run starts with: those of the interrupted run, or none.
    fn run_metadata(&self) -> Arc<RawObject>;

    /// Runs the sub-agent, or resumes its interrupted run. Returns the result of the tool call.
    ///
    /// # Errors
    /// The errors of the run.
    ///
    /// # Cancel safety
    /// Dropping the future stops the run; the session can resume it.
    fn run(
        self: Box<Self>,
        task: String,
        context: RunContext,
    ) -> BoxFuture<'static, Result<RawJson, SubAgentFailure>>;

    /// Runs the agent for a strategy, resumes its interrupted run, or returns the turn of the run that has ended.
    ///
    /// # Errors
    /// The errors of the run.
    ///
    /// # Cancel safety
    /// As for [`Self::run`].
    fn run_turn(self: Box<Self>, task: ChildTask) -> BoxFuture<'static, Result<ChildTurn, SubAgentFailure>>;
}

/// A run of an agent that a strategy starts.
#[derive(Debug)]
pub struct ChildTask {
    /// The messages before the input. They are not stored with the run, because the strategy provides them again.
    pub history: History,
    /// The input.
    pub input: Input,
    /// Where the run starts.
    pub context: RunContext,
}

/// The turn of a run that a strategy has started.
#[derive(Debug)]
pub struct ChildTurn {
    /// The turn.
    pub turn: Arc<Turn>,
    /// True if the run had ended before the strategy was resumed.
    pub is_stored: bool,
}

/// Why a sub-agent's run has no result.
#[derive(Debug)]
pub struct SubAgentFailure {
    /// The error of the run.
    pub error: UppError,
    /// True if the error also ends the calling run, which can be resumed: the store failed, or a function
    /// that decides about calls raised.
    pub ends_caller: bool,
    /// Calls of the sub-agent that wait for approval. The calling run stops until they are decided.
    pub waits_for: Vec<Arc<ToolCall>>,
}

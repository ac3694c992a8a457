//! The run that a session can resume, or the checkpoint that it was restored to.

use crate::machine::state::RunState;
use crate::session::checkpoint::SubAgentStates;
use crate::tree::position::TreePosition;
use crate::types::execution_state::ExecutionState;
use turntree_core::message::message::History;

/// A run that has not finished, or a restored checkpoint. None of its messages are in the tree.
#[derive(Debug, Clone)]
pub struct UnfinishedRun {
    /// The tree position that the run started from.
    pub position: TreePosition,
    /// Messages between the tree position and the run's input: those of a restored run that never finished.
    pub uncommitted: History,
    /// The state to resume from. `None` for a restored checkpoint whose run had finished.
    pub(crate) run: Option<RunState>,
    /// True if the run is active, or was active when the process that ran it ended: the session was saved during the run.
    /// False if the run ended with an error, was cancelled or waits for approval.
    ///
    /// Spec: decision A112.
    pub active: bool,
    /// True for a restored checkpoint: the next run sees its messages. The next run does not see the messages of a failed
    /// run.
    ///
    /// Spec: decision A76.
    pub restored: bool,
    /// The sessions of the sub-agents that the run has called. Set in snapshots only; a live session stores them in
    /// its state.
    pub sub_agents: SubAgentStates,
}

impl UnfinishedRun {
    /// Returns the state of the run, or `None` for a restored checkpoint whose run had finished.
    pub fn state(&self) -> Option<ExecutionState> {
        self.run.as_ref().map(RunState::execution_state)
    }

    /// Returns true if calls of the run, or of its sub-agents, wait for a decision.
    pub fn is_waiting(&self) -> bool {
        self.run.as_ref().is_some_and(RunState::is_waiting)
    }

    /// About the size of the JSON of its messages in bytes.
    pub(crate) fn size_hint(&self) -> usize {
        let of_run = self.run.iter().flat_map(|run| run.messages().iter());
        let messages = self.uncommitted.iter().chain(of_run);
        messages.map(|message| message.size_hint()).fold(0, usize::saturating_add)
    }

    /// Returns all messages that are not in the tree.
    pub fn messages(&self) -> History {
        let mut messages = self.uncommitted.clone();
        let new = self.run.iter().flat_map(|run| run.messages().iter());
        messages.extend(new.cloned());
        messages
    }
}

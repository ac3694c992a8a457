//! The mutable state of a session beside its tree: checkpoints, the unfinished run, sub-agents, run tickets.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::machine::state::RunState;
use crate::session::checkpoint::{Checkpoint, CheckpointState, SubAgentStates};
use crate::session::session::Session;
use crate::tree::node::NodeId;
use crate::tree::position::TreePosition;
use crate::types::execution_state::ExecutionState;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// A run that has not finished, or a restored checkpoint. None of its messages are in the tree.
#[derive(Debug, Clone)]
pub struct UnfinishedRun {
    /// The tree position that the run started from.
    pub position: TreePosition,
    /// Messages between the tree position and the run's input: those of a restored run that never finished.
    pub uncommitted: History,
    /// The state to resume from. `None` for a restored checkpoint whose run had finished.
    pub(crate) run: Option<RunState>,
    /// Whether it comes from a restored checkpoint. The next run then sees its messages; the messages of a failed run
    /// are left out.
    ///
    /// Spec: decision A76.
    pub restored: bool,
    /// The sessions of the sub-agents that the run has called. Set in snapshots only; a live session stores them in
    /// [`SessionState::sub_agents`].
    pub sub_agents: SubAgentStates,
}

impl UnfinishedRun {
    /// Returns the state of the run, or `None` for a restored checkpoint whose run had finished.
    pub fn state(&self) -> Option<ExecutionState> {
        self.run.as_ref().map(RunState::execution_state)
    }

    /// Returns all messages that are not in the tree.
    pub fn messages(&self) -> History {
        let mut messages = self.uncommitted.clone();
        let new = self.run.iter().flat_map(|run| run.messages().iter());
        messages.extend(new.cloned());
        messages
    }
}

/// What a session changes while it runs.
#[derive(Debug)]
pub(super) struct SessionState {
    /// Oldest first.
    pub(super) checkpoints: Vec<Arc<Checkpoint>>,
    /// The index of the current checkpoint.
    pub(super) current: Option<usize>,
    pub(super) unfinished: Option<UnfinishedRun>,
    /// Sub-agents of the active or unfinished run that have finished or were stopped.
    pub(super) sub_agents: SubAgentStates,
    /// Sub-agents that run now, by the ids of the tool calls that started them.
    pub(super) running_sub_agents: Vec<(Arc<str>, Session)>,
    pub(super) updated_at: Timestamp,
    /// The current node when the session last looked. A checkout through the tree updates the session (decision A77).
    pub(super) last_current_node: NodeId,
    /// The last ticket that was issued.
    pub(super) last_ticket: u64,
    /// The ticket of the active run.
    pub(super) running: Option<u64>,
    /// The threads whose event loops poll active or queued runs.
    pub(super) event_loop_threads: Vec<ThreadId>,
}

impl SessionState {
    /// Adds a checkpoint and makes it current.
    pub(super) fn add_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.current = Some(self.checkpoints.len());
        self.updated_at = checkpoint.timestamp;
        self.checkpoints.push(Arc::new(checkpoint));
    }

    pub(super) fn current_checkpoint(&self) -> Option<&Arc<Checkpoint>> {
        self.current.and_then(|index| self.checkpoints.get(index))
    }

    /// Moves checkpoints to the node `tail` when a split has moved the messages of `node` after `at` there.
    pub(super) fn move_checkpoints(&mut self, node: &NodeId, at: usize, tail: &NodeId) {
        for checkpoint in &mut self.checkpoints {
            let Some(length) = checkpoint.position.length.filter(|length| *length > at) else { continue };
            if checkpoint.position.node == *node {
                let position = TreePosition { node: tail.clone(), length: Some(length - at) };
                Arc::make_mut(checkpoint).position = position;
            }
        }
    }

    /// Marks the checkpoint of a run's last step as finished: the turn is in the tree, and the thread has `length`
    /// messages. Restoring it then gives the history at the end of the run.
    pub(super) fn finish_checkpoint(&mut self, position: &TreePosition, turn: &Turn, length: usize) {
        let Some(checkpoint) = self.current.and_then(|current| self.checkpoints.get_mut(current)) else {
            return;
        };
        let CheckpointState::Resumable(snapshot, _) = &checkpoint.state else { return };
        let messages = snapshot.messages();
        let is_last = messages.len() == turn.messages.len()
            && messages.last().zip(turn.messages.last()).is_some_and(|(one, other)| Arc::ptr_eq(one, other));
        if checkpoint.position == *position && is_last {
            let checkpoint = Arc::make_mut(checkpoint);
            checkpoint.state = CheckpointState::Finished(Box::new(checkpoint.state.execution_state()));
            checkpoint.position.length = Some(length);
            checkpoint.uncommitted = History::new();
        }
    }
}

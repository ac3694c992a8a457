//! The mutable state of a session beside its tree: checkpoints, the unfinished run, sub-agents, run tickets.

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;

use crate::host::event_queue::EventQueue;
use crate::host::tool::Tool;
use crate::session::checkpoint::{Checkpoint, CheckpointState, Checkpoints, SubAgentStates};
use crate::session::json::SessionSnapshot;
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::node::NodeId;
use crate::tree::position::TreePosition;
use crate::types::event::AgentStreamEvent;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// A sub-agent's session while it runs.
pub(super) trait RunningSubAgent: fmt::Debug + Send + Sync {
    /// Returns the id of the sub-agent's session.
    fn session_id(&self) -> &Arc<str>;

    /// Returns its data as the calling session stores it, or `None` if it cannot be written.
    fn snapshot(&self) -> Option<Arc<SessionSnapshot>>;
}

/// The state that a session changes while it runs.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) checkpoints: Checkpoints,
    /// The index of the current checkpoint.
    pub(super) current: Option<usize>,
    pub(super) unfinished: Option<UnfinishedRun>,
    /// Sub-agents of the active or unfinished run that have finished or were stopped.
    pub(super) sub_agents: SubAgentStates,
    /// Sub-agents that run now, by the ids of the tool calls that started them.
    pub(super) running_sub_agents: Vec<(Arc<str>, Arc<dyn RunningSubAgent>)>,
    /// The tools that the unfinished run had when it was last resumed, with those of its toolsets. `None` before.
    pub(super) tools: Option<Arc<[Tool]>>,
    /// Events of checkpoints that are not in the store yet, and the queues to send them to.
    pub(super) unsent_events: Vec<(Arc<EventQueue>, AgentStreamEvent)>,
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
        self.checkpoints.push_back(Arc::new(checkpoint));
    }

    /// Takes the first events of those that wait for a save.
    pub(super) fn take_unsent_events(&mut self, count: usize) -> Vec<(Arc<EventQueue>, AgentStreamEvent)> {
        let later = self.unsent_events.split_off(count.min(self.unsent_events.len()));
        std::mem::replace(&mut self.unsent_events, later)
    }

    /// Returns the sub-agents of the active or unfinished run: finished, stopped and running ones.
    pub(super) fn all_sub_agents(&self) -> SubAgentStates {
        let mut states = self.sub_agents.clone();
        for (call, session) in &self.running_sub_agents {
            if let Some(snapshot) = session.snapshot() {
                states.insert(call, snapshot);
            }
        }
        states
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
            checkpoint.state = CheckpointState::Finished(checkpoint.state.execution_state().into());
            checkpoint.position.length = Some(length);
            checkpoint.uncommitted = History::new();
        }
    }
}

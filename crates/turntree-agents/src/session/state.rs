//! What a session writes down beside its tree: checkpoints, and the run that is not finished.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::machine::state::RunState;
use crate::session::checkpoint::{Checkpoint, Place, Stand, SubAgentStates};
use crate::session::session::Session;
use crate::tree::node::NodeId;
use crate::types::execution_state::ExecutionState;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// A run that has not ended, or what was restored: nothing of it is in the tree.
#[derive(Debug, Clone)]
pub struct Unfinished {
    /// Where the tree stood.
    pub place: Place,
    /// What the run went on from beside the thread.
    pub before: History,
    /// How far it is; none where a checkpoint was restored whose run was over.
    pub(crate) run: Option<RunState>,
    /// It was restored: the next run sees what it said. What a failed run said is left out (decision A76).
    pub restored: bool,
    /// The sub-agents that it has called; in snapshots only, the book has them beside the run.
    pub sub_agents: SubAgentStates,
}

impl Unfinished {
    /// The state of the run; none where a checkpoint was restored whose run was over.
    pub fn state(&self) -> Option<ExecutionState> {
        self.run.as_ref().map(RunState::execution_state)
    }

    /// What was said and is not in the thread.
    pub fn messages(&self) -> History {
        let mut messages = self.before.clone();
        let said = self.run.iter().flat_map(|run| run.messages().iter());
        messages.extend(said.cloned());
        messages
    }
}

#[derive(Debug)]
pub(super) struct Book {
    /// In the order they were made.
    pub(super) checkpoints: Vec<Arc<Checkpoint>>,
    /// The place of the current one.
    pub(super) current: Option<usize>,
    pub(super) unfinished: Option<Unfinished>,
    /// Sub-agents of the run that is under way or not finished; those that have ended or were stopped.
    pub(super) sub_agents: SubAgentStates,
    /// Those that run now, by the calls that started them.
    pub(super) children: Vec<(Arc<str>, Session)>,
    pub(super) updated_at: Timestamp,
    /// The current node when somebody last looked: checking out a node updates the session (decision A77).
    pub(super) seen: NodeId,
    /// The last ticket that was given out.
    pub(super) tickets: u64,
    /// The ticket of the run that is under way.
    pub(super) running: Option<u64>,
    /// The threads whose event loops poll the runs that are under way or in line.
    pub(super) loops: Vec<ThreadId>,
}

impl Book {
    pub(super) fn add(&mut self, checkpoint: Checkpoint) {
        self.current = Some(self.checkpoints.len());
        self.updated_at = checkpoint.timestamp;
        self.checkpoints.push(Arc::new(checkpoint));
    }

    pub(super) fn current(&self) -> Option<&Arc<Checkpoint>> {
        self.current.and_then(|place| self.checkpoints.get(place))
    }

    /// Messages of a node after `at` have become the thread of `tail`: what pointed at them follows.
    pub(super) fn follow(&mut self, node: &NodeId, at: usize, tail: &NodeId) {
        for checkpoint in &mut self.checkpoints {
            let Some(length) = checkpoint.place.length.filter(|length| *length > at) else { continue };
            if checkpoint.place.node == *node {
                let place = Place { node: tail.clone(), length: Some(length - at) };
                Arc::make_mut(checkpoint).place = place;
            }
        }
    }

    /// A run is over and in the thread, which has `length` messages now: the checkpoint of its last step says so.
    ///
    /// Going back to it is then no way back: the history is the one at the end of the run.
    pub(super) fn finish(&mut self, place: &Place, turn: &Turn, length: usize) {
        let Some(checkpoint) = self.current.and_then(|current| self.checkpoints.get_mut(current)) else {
            return;
        };
        let Stand::Unfinished(point, _) = &checkpoint.stand else { return };
        let said = point.messages();
        let is_last = said.len() == turn.messages.len()
            && said.last().zip(turn.messages.last()).is_some_and(|(one, other)| Arc::ptr_eq(one, other));
        if checkpoint.place == *place && is_last {
            let checkpoint = Arc::make_mut(checkpoint);
            checkpoint.stand = Stand::Told(Box::new(checkpoint.stand.state()));
            checkpoint.place.length = Some(length);
            checkpoint.before = History::new();
        }
    }
}

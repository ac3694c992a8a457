//! Checkpoints: points of a run that a session can be restored to.
//!
//! A [`Checkpoint`] stores a tree position and the state of the run, whose messages it shares with the run. Its cost does
//! not depend on the length of the conversation. Its JSON form ([`json`]) contains everything.
//!
//! Spec: UAP-1.0 §6.4, §13.3.

pub mod json;
pub(crate) mod shared_history;
pub(crate) mod shared_runs;

use std::collections::HashSet;
use std::sync::Arc;

use crate::session::checkpoint::shared_history::{RunSnapshot, SharedHistory};
use crate::session::json::SessionSnapshot;
use crate::tree::position::TreePosition;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// A point of a run that a session can be restored to.
///
/// Two checkpoints are equal when their JSON is equal.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The id: a UUIDv4 if turntree created it.
    pub id: Arc<str>,
    /// The id of the session.
    pub session_id: Arc<str>,
    /// When it was created.
    pub timestamp: Timestamp,
    /// The tree position that the run started from; the end of the turn for a finished run.
    pub position: TreePosition,
    /// Messages between the tree position and the run's input: those of a restored run that never finished.
    pub uncommitted: History,
    /// The sub-agents of the run that have finished, by the ids of the tool calls that started them.
    pub sub_agent_states: SubAgentStates,
    /// The application's metadata.
    pub metadata: RawObject,
    /// Members that this version does not know.
    pub extra: Extra,
    /// Members of [`RESERVED`](json::RESERVED) that a newer version has written.
    pub(crate) reserved: RawObject,
    pub(crate) state: CheckpointState,
}

/// The state of the run at a checkpoint.
#[derive(Debug, Clone)]
pub(crate) enum CheckpointState {
    /// The run can be resumed. The second field has the members of the state's JSON that this version does not know.
    Resumable(Box<RunSnapshot>, Extra),
    /// The run had finished and its messages are in the thread; or another implementation wrote the checkpoint.
    Finished(FinishedRun),
}

/// The state of a run that has finished.
#[derive(Debug, Clone)]
pub(crate) enum FinishedRun {
    /// A state with a step and messages only, in 24 bytes instead of 200: most turns of a long session have this state.
    Plain { step: u32, messages: Box<[Arc<Message>]> },
    /// A state with metadata, reasoning, a plan or unknown members.
    Complete(Box<ExecutionState>),
}

impl Default for FinishedRun {
    fn default() -> Self {
        Self::Plain { step: 0, messages: Box::default() }
    }
}

impl From<ExecutionState> for FinishedRun {
    fn from(state: ExecutionState) -> Self {
        let ExecutionState { step, messages, metadata, reasoning, plan, extra } = &state;
        let is_plain = metadata.is_empty() && reasoning.is_none() && plan.is_none() && extra.is_empty();
        if is_plain {
            return Self::Plain { step: *step, messages: messages.iter().cloned().collect() };
        }
        Self::Complete(Box::new(state))
    }
}

impl FinishedRun {
    fn step(&self) -> u32 {
        match self {
            Self::Plain { step, .. } => *step,
            Self::Complete(state) => state.step,
        }
    }

    fn execution_state(&self) -> ExecutionState {
        match self {
            Self::Plain { step, messages } => {
                let messages = messages.iter().cloned().collect();
                ExecutionState { step: *step, messages, ..ExecutionState::default() }
            }
            Self::Complete(state) => ExecutionState::clone(state),
        }
    }
}

impl CheckpointState {
    pub(crate) fn execution_state(&self) -> ExecutionState {
        match self {
            Self::Resumable(snapshot, extra) => {
                ExecutionState { extra: extra.clone(), ..snapshot.run_state().execution_state() }
            }
            Self::Finished(state) => state.execution_state(),
        }
    }
}

/// The checkpoints of a session, oldest first. Cloning copies none of them: each save has a copy of the list.
pub type Checkpoints = imbl::Vector<Arc<Checkpoint>>;

impl Checkpoint {
    /// Returns the step of the run. Each run counts from 1.
    pub fn step(&self) -> u32 {
        match &self.state {
            CheckpointState::Resumable(snapshot, _) => snapshot.step(),
            CheckpointState::Finished(state) => state.step(),
        }
    }

    /// Returns the state of the run, as strategy hooks see it.
    pub fn state(&self) -> ExecutionState {
        self.state.execution_state()
    }

    /// Returns true if a run can be resumed from here.
    pub const fn is_resumable(&self) -> bool {
        matches!(self.state, CheckpointState::Resumable(..))
    }

    /// Returns the history that the checkpoints of the run share, if the run can be resumed.
    pub(crate) fn shared_history(&self) -> Option<Arc<SharedHistory>> {
        match &self.state {
            CheckpointState::Resumable(snapshot, _) => Some(Arc::clone(snapshot.shared().0)),
            CheckpointState::Finished(_) => None,
        }
    }

    /// Returns the messages that are not in the thread and that the next run sees after it. `history` is the history
    /// at the checkpoint's position.
    pub(crate) fn messages_outside(&self, history: &History) -> History {
        let mut outside = self.uncommitted.clone();
        match &self.state {
            CheckpointState::Resumable(snapshot, _) => outside.extend(snapshot.messages()),
            CheckpointState::Finished(state) => {
                let messages = state.execution_state().messages;
                // The messages of a finished run are usually the end of its history: then nothing else is compared.
                if !is_end_of(&messages, history) {
                    let known: HashSet<&str> = history.iter().map(|message| &*message.id).collect();
                    outside.extend(messages.into_iter().filter(|message| !known.contains(&*message.id)));
                }
            }
        }
        outside
    }
}

fn is_end_of(messages: &History, history: &History) -> bool {
    let mut pairs = messages.iter().rev().zip(history.iter().rev());
    messages.len() <= history.len() && pairs.all(|(one, other)| one.id == other.id)
}

impl PartialEq for Checkpoint {
    fn eq(&self, other: &Self) -> bool {
        RawJson::from_value(self).ok() == RawJson::from_value(other).ok()
    }
}

/// Sessions of sub-agents, by the ids of the tool calls that started them, in the order they finished. Cloning shares
/// them.
#[derive(Debug, Clone, Default)]
pub struct SubAgentStates(Option<Arc<Vec<SubAgentState>>>);

/// The id of the tool call and the session.
type SubAgentState = (Box<str>, Arc<SessionSnapshot>);

impl SubAgentStates {
    /// Returns the sessions in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<SessionSnapshot>)> {
        self.0.iter().flat_map(|states| states.iter()).map(|(key, state)| (&**key, state))
    }

    /// Returns the session of one call.
    pub fn get(&self, tool_call_id: &str) -> Option<&Arc<SessionSnapshot>> {
        self.iter().find(|(key, _)| *key == tool_call_id).map(|(_, state)| state)
    }

    /// Returns the session under a key, to change it.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Arc<SessionSnapshot>> {
        let states = Arc::make_mut(self.0.as_mut()?);
        states.iter_mut().find(|(known, _)| **known == *key).map(|(_, state)| state)
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |states| states.len())
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Uses the list of `earlier` if it has the same sessions.
    pub(crate) fn share_with(&mut self, earlier: &Self) {
        let is_same = self.len() == earlier.len()
            && self
                .iter()
                .zip(earlier.iter())
                .all(|((one, state), (other, known))| one == other && Arc::ptr_eq(state, known));
        if is_same {
            self.0.clone_from(&earlier.0);
        }
    }

    /// Removes and returns the last session that satisfies the predicate.
    pub(crate) fn take(
        &mut self,
        predicate: impl Fn(&SessionSnapshot) -> bool,
    ) -> Option<Arc<SessionSnapshot>> {
        let states = self.0.as_mut()?;
        let index = states.iter().rposition(|(_, state)| predicate(state))?;
        Some(Arc::make_mut(states).remove(index).1)
    }

    /// Adds a session under the id of the call that started it, or under the session's id if that call id is taken:
    /// some vendors reuse call ids in each response.
    ///
    /// Spec: decision A73.
    pub fn insert(&mut self, tool_call_id: &str, state: Arc<SessionSnapshot>) {
        let key = if self.get(tool_call_id).is_none() { tool_call_id } else { &state.id };
        let key = Box::from(key);
        Arc::make_mut(self.0.get_or_insert_default()).push((key, state));
    }
}

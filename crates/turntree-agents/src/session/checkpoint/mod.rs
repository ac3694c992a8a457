//! Checkpoints: points of a run that can be gone back to. UAP-1.0 §6.4 and §13.3.
//!
//! A [`Checkpoint`] points: at a node, at how many messages its thread had, and at the state of the run, whose messages
//! are shared. So it costs the same however long the conversation is. Its JSON, [`json`], holds everything.

pub mod json;
pub(crate) mod shared_history;

use std::collections::HashSet;
use std::sync::Arc;

use self::shared_history::Point;
use crate::session::json::SessionSnapshot;
use crate::tree::node::NodeId;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// A place in a tree: after so many messages of a node's own thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// How many messages its thread had. `None` in a checkpoint that somebody else wrote and that is in no session yet:
    /// all that are there when it is loaded.
    pub length: Option<usize>,
}

/// A point of a run that can be gone back to.
///
/// Equal to another one when both are written alike.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// A UUIDv4 where it is made here.
    pub id: Arc<str>,
    /// The session.
    pub session_id: Arc<str>,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Where the tree stood.
    pub place: Place,
    /// What the run went on from beside the thread: messages of a run that was restored and not finished.
    pub before: History,
    /// The sub-agents of the run that have ended, by the tool calls that started them.
    pub sub_agent_states: SubAgentStates,
    /// Facts about it.
    pub metadata: RawObject,
    /// Members this version does not know.
    pub extra: Extra,
    /// What a newer version has written under [`RESERVED`](super::json::RESERVED).
    pub(crate) reserved: RawObject,
    pub(crate) stand: Stand,
}

/// How far the run was.
#[derive(Debug, Clone)]
pub(crate) enum Stand {
    /// It can go on from here. The members of its state that this version does not know stay with it.
    Unfinished(Box<Point>, Extra),
    /// It was over, and its messages are in the thread; or somebody else wrote the checkpoint, and only this is known.
    Told(Box<ExecutionState>),
}

impl Stand {
    pub(crate) fn state(&self) -> ExecutionState {
        match self {
            Self::Unfinished(point, extra) => {
                ExecutionState { extra: extra.clone(), ..point.run().execution_state() }
            }
            Self::Told(state) => ExecutionState::clone(state),
        }
    }
}

impl Checkpoint {
    /// The step of the run, from 1; each run counts anew.
    pub fn step(&self) -> u32 {
        match &self.stand {
            Stand::Unfinished(point, _) => point.step(),
            Stand::Told(state) => state.step,
        }
    }

    /// The state of the run, as hooks saw it.
    pub fn state(&self) -> ExecutionState {
        self.stand.state()
    }

    /// Whether a run can go on from it.
    pub const fn is_resumable(&self) -> bool {
        matches!(self.stand, Stand::Unfinished(..))
    }

    /// What was said and is not in the thread: what the next run sees beside it. `history` is that of the place.
    pub(crate) fn pending(&self, history: &History) -> History {
        let mut pending = self.before.clone();
        match &self.stand {
            Stand::Unfinished(point, _) => pending.extend(point.messages()),
            // What a finished run said is the end of its history: seen so, the rest need not be read.
            Stand::Told(state) if is_end_of(&state.messages, history) => {}
            Stand::Told(state) => {
                let known: HashSet<&str> = history.iter().map(|message| &*message.id).collect();
                let new = state.messages.iter().filter(|message| !known.contains(&*message.id));
                pending.extend(new.cloned());
            }
        }
        pending
    }
}

fn is_end_of(messages: &History, history: &History) -> bool {
    let mut pairs = messages.iter().rev().zip(history.iter().rev());
    messages.len() <= history.len() && pairs.all(|(message, said)| message.id == said.id)
}

impl PartialEq for Checkpoint {
    fn eq(&self, other: &Self) -> bool {
        RawJson::from_value(self).ok() == RawJson::from_value(other).ok()
    }
}

/// Sessions of sub-agents by the tool calls that started them, in the order they ended. Cloning it shares them.
#[derive(Debug, Clone, Default)]
pub struct SubAgentStates(Option<Arc<Vec<SubAgentState>>>);

/// The call, and the session.
type SubAgentState = (Box<str>, Arc<SessionSnapshot>);

impl SubAgentStates {
    /// The sessions, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<SessionSnapshot>)> {
        self.0.iter().flat_map(|states| states.iter()).map(|(key, state)| (&**key, state))
    }

    /// The session of one call.
    pub fn get(&self, tool_call_id: &str) -> Option<&Arc<SessionSnapshot>> {
        self.iter().find(|(key, _)| *key == tool_call_id).map(|(_, state)| state)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |states| states.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the last session out that is the one looked for.
    pub(crate) fn take(&mut self, is_it: impl Fn(&SessionSnapshot) -> bool) -> Option<Arc<SessionSnapshot>> {
        let states = self.0.as_mut()?;
        let place = states.iter().rposition(|(_, state)| is_it(state))?;
        Some(Arc::make_mut(states).remove(place).1)
    }

    /// Keeps a session under the id of the call that started it; under its own where that call is there already, as
    /// some vendors number their calls anew in each answer (decision A73).
    pub fn keep(&mut self, tool_call_id: &str, state: Arc<SessionSnapshot>) {
        let key = if self.get(tool_call_id).is_none() { tool_call_id } else { &state.id };
        let key = Box::from(key);
        Arc::make_mut(self.0.get_or_insert_default()).push((key, state));
    }
}

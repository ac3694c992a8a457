//! Checkpoints as JSON. UAP-1.0 §13.3.
//!
//! What the specification has no member for stands in `metadata` under [`RESERVED`]:
//!
//! | member | what |
//! |---|---|
//! | `messages` | how many messages the thread of `threadId` had |
//! | `before` | messages that the run went on from and that are not in the thread; only where there are some |
//! | `run` | the state of the run that is not in `state`, to go on from; not there when the run was over |

use std::sync::Arc;

use imbl::Vector;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::machine::state::{RunState, StateError};
use crate::session::checkpoint::shared_history::RunSnapshot;
use crate::session::checkpoint::{Checkpoint, CheckpointState, SubAgentStates};
use crate::session::json::{SessionSnapshot, within};
use crate::tree::position::{PositionPart, TreePosition};
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{Extra, ParseError, PathSegment, RawJson, RawObject, json_object};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

/// The member of the metadata of checkpoints and sessions that turntree writes.
pub const RESERVED: &str = "turntree";

json_object! {
    /// A checkpoint as JSON, not yet known to be one: [`Self::into_checkpoint`] tells.
    #[derive(Debug, Clone)]
    pub struct CheckpointJson {
        /// See [`Checkpoint::id`].
        pub id: String = "id",
        /// See [`Checkpoint::session_id`].
        pub session_id: String = "sessionId",
        /// See [`Checkpoint::timestamp`].
        pub timestamp: Timestamp = "timestamp",
        /// See [`Checkpoint::step`].
        pub step: u32 = "step",
        /// The node that was current.
        pub thread_id: String = "threadId",
        /// See [`Checkpoint::state`].
        pub state: ExecutionState = "state",
        /// See [`Checkpoint::sub_agent_states`]; each value is a session.
        pub sub_agent_states: Option<RawObject> = "subAgentStates",
        /// See [`Checkpoint::metadata`]; `turntree` is kept by the session.
        pub metadata: Option<RawObject> = "metadata",
    }
}

impl Field for CheckpointJson {}

/// The reserved member.
#[derive(Debug, Default, Deserialize)]
struct Reserved {
    messages: Option<usize>,
    #[serde(default)]
    before: Vec<Arc<Message>>,
    run: Option<RawJson>,
}

/// A member of an object in a path.
pub(crate) fn key(name: &str) -> PathSegment {
    PathSegment::Key(name.to_owned())
}

fn flaw(path: &[&str], message: impl Into<String>) -> ParseError {
    ParseError::shape(path.iter().map(|name| key(name)).collect(), message)
}

impl CheckpointJson {
    /// The checkpoint alone; [`Checkpoint::settle`] looks whether it fits a tree.
    ///
    /// # Errors
    /// The place in the checkpoint, and the rule: the id is not empty, `step` is that of the state, the state of the run
    /// is of this version and does not contradict itself.
    pub fn into_checkpoint(self) -> Result<Checkpoint, ParseError> {
        if self.id.is_empty() {
            return Err(flaw(&["id"], "an id must not be empty"));
        }
        if self.step != self.state.step {
            let message = format!("the step is {} and that of the state is {}", self.step, self.state.step);
            return Err(flaw(&["step"], message));
        }
        let mut metadata = self.metadata.unwrap_or_default();
        let raw = metadata.remove(RESERVED);
        let unknown = unknown(raw.as_ref(), &["messages", "before", "run"]);
        let reserved = raw.map(|raw| read_reserved(&raw)).transpose()?.unwrap_or_default();
        let state = match reserved.run {
            Some(raw) => {
                let (run, extra) = read_run(&raw, self.state)
                    .map_err(|error| within(error, &["metadata", RESERVED, "run"].map(key)))?;
                CheckpointState::Resumable(Box::new(RunSnapshot::new(&run)), extra)
            }
            None => CheckpointState::Finished(Box::new(self.state)),
        };
        let sub_agent_states = read_sub_agents(self.sub_agent_states.as_ref())?;
        Ok(Checkpoint {
            id: self.id.into(),
            session_id: self.session_id.into(),
            timestamp: self.timestamp,
            position: TreePosition { node: self.thread_id.into(), length: reserved.messages },
            uncommitted: reserved.before.into(),
            sub_agent_states,
            metadata,
            extra: self.extra,
            reserved: unknown,
            state,
        })
    }
}

/// The sessions of sub-agents by the calls that started them.
///
/// # Errors
/// Those of [`SessionSnapshot::read`], under `subAgentStates`.
pub(crate) fn read_sub_agents(states: Option<&RawObject>) -> Result<SubAgentStates, ParseError> {
    let mut read = SubAgentStates::default();
    for (call, raw) in states.into_iter().flat_map(RawObject::iter) {
        let place = [key("subAgentStates"), key(call)];
        let state = SessionSnapshot::read(raw.get()).map_err(|error| within(error, &place))?;
        read.insert(call, Arc::new(state));
    }
    Ok(read)
}

impl Checkpoint {
    /// Ties the checkpoint to a tree.
    ///
    /// # Errors
    /// The place in the checkpoint: its node is not in the tree, or has fewer messages.
    pub fn settle(&mut self, tree: &ThreadTree) -> Result<(), ParseError> {
        let length = self.position.resolve(tree).map_err(|(member, message)| match member {
            PositionPart::Node => flaw(&["threadId"], message),
            PositionPart::Length => flaw(&["metadata", RESERVED, "messages"], message),
        })?;
        self.position.length = Some(length);
        Ok(())
    }
}

/// The members of a reserved object that this version does not know.
pub(crate) fn unknown(raw: Option<&RawJson>, known: &[&str]) -> RawObject {
    let mut members = raw.and_then(RawObject::from_raw).unwrap_or_default();
    for name in known {
        members.remove(name);
    }
    members
}

fn read_reserved(raw: &RawJson) -> Result<Reserved, ParseError> {
    raw.to().map_err(|error| flaw(&["metadata", RESERVED], error.to_string()))
}

/// A state that was written by [`bare`], with the messages and the metadata of `state`.
///
/// # Errors
/// Another version, another shape, or a contradiction, with its place in the state.
pub(crate) fn read_run(raw: &RawJson, state: ExecutionState) -> Result<(RunState, Extra), ParseError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: Option<u32>,
    }
    let Versioned { version } = raw.to().map_err(|error| flaw(&[], error.to_string()))?;
    if version != Some(RunState::VERSION) {
        let found = StateError::Version { found: version.unwrap_or_default() };
        let remedy = "load it with the version that wrote it and end the run there, or remove this member to keep the \
                      checkpoint without going on from it";
        return Err(flaw(&["version"], format!("{found}; {remedy}")));
    }
    let mut run: RunState = raw.to().map_err(|error| flaw(&[], error.to_string()))?;
    if run.step() != state.step {
        return Err(flaw(
            &["step"],
            format!("the step is {} and that of the state is {}", run.step(), state.step),
        ));
    }
    run.collected.messages = state.messages;
    run.metadata = state.metadata;
    run.collected.reasoning = state.reasoning.unwrap_or_default();
    run.check().map_err(|error| flaw(&[], error.to_string()))?;
    Ok((run, state.extra))
}

/// The state of a run without what stands beside it in an [`ExecutionState`].
pub(crate) fn bare(run: &RunState) -> RunState {
    let mut bare = run.clone();
    bare.collected.messages = History::new();
    bare.collected.reasoning = Vector::new();
    bare.metadata = Arc::default();
    bare
}

/// The members that [`RESERVED`] holds of a checkpoint.
struct ReservedOf<'a>(&'a Checkpoint);

impl Serialize for ReservedOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(length) = self.0.position.length {
            map.serialize_entry("messages", &length)?;
        }
        if !self.0.uncommitted.is_empty() {
            map.serialize_entry("before", &Listed(&self.0.uncommitted))?;
        }
        if let CheckpointState::Resumable(snapshot, _) = &self.0.state {
            map.serialize_entry("run", &bare(&snapshot.run_state()))?;
        }
        for (name, value) in self.0.reserved.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A history as a list, without a copy of it.
pub(crate) struct Listed<'a>(pub(crate) &'a History);

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

/// Metadata with the reserved member after it, where there is one.
pub(crate) struct WithReserved<'a, R>(pub(crate) &'a RawObject, pub(crate) Option<R>);

impl<R: Serialize> Serialize for WithReserved<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter() {
            map.serialize_entry(key, value)?;
        }
        if let Some(reserved) = &self.1 {
            map.serialize_entry(RESERVED, reserved)?;
        }
        map.end()
    }
}

impl Serialize for SubAgentStates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// The members of UAP-1.0 §13.3 in its order.
impl Serialize for Checkpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("sessionId", &self.session_id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("step", &self.step())?;
        map.serialize_entry("threadId", &self.position.node)?;
        map.serialize_entry("state", &self.state())?;
        map.serialize_entry("subAgentStates", &self.sub_agent_states)?;
        let is_needed = self.position.length.is_some() || self.is_resumable() || !self.reserved.is_empty();
        let reserved = is_needed.then_some(ReservedOf(self));
        map.serialize_entry("metadata", &WithReserved(&self.metadata, reserved))?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl JsonSchema for Checkpoint {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        CheckpointJson::schema(definitions)
    }
}

impl<'de> Deserialize<'de> for Checkpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CheckpointJson::deserialize(deserializer)?.into_checkpoint().map_err(serde::de::Error::custom)
    }
}

//! Reads and writes checkpoints as JSON.
//!
//! Data that the specification has no member for is written to `metadata`, as members of [`RESERVED`]:
//!
//! | member | content |
//! |---|---|
//! | `messages` | the number of messages that the thread of `threadId` had |
//! | `before` | messages between that thread and the run's input; absent if there are none |
//! | `run` | the part of the run's state that is not in `state`, for resuming; absent if the run had finished |
//!
//! Spec: UAP-1.0 §13.3.

use std::sync::Arc;

use imbl::Vector;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::machine::state::{RunState, StateError};
use crate::session::checkpoint::shared_history::RunSnapshot;
use crate::session::checkpoint::{Checkpoint, CheckpointState, SubAgentStates};
use crate::session::json::SessionSnapshot;
use crate::session::reserved::{
    MessageList, MetadataWithReserved, RESERVED, error_at, key, unknown_members, within,
};
use crate::tree::position::{PositionPart, TreePosition};
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{Extra, ParseError, RawJson, RawObject, json_object};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;

json_object! {
    /// A checkpoint as JSON, before validation by [`Self::into_checkpoint`].
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
        /// See [`Checkpoint::metadata`]; the member `turntree` is reserved for the session.
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

impl CheckpointJson {
    /// Validates the checkpoint by itself. [`Checkpoint::attach_to`] validates it against a tree.
    ///
    /// # Errors
    /// The path in the checkpoint and the rule: the id is not empty, `step` equals that of the state, and the state of the
    /// run has this version and is consistent.
    pub fn into_checkpoint(self) -> Result<Checkpoint, ParseError> {
        if self.id.is_empty() {
            return Err(error_at(&["id"], "an id must not be empty"));
        }
        if self.step != self.state.step {
            let message = format!("the step is {} and that of the state is {}", self.step, self.state.step);
            return Err(error_at(&["step"], message));
        }
        let mut metadata = self.metadata.unwrap_or_default();
        let raw = metadata.remove(RESERVED);
        let unknown = unknown_members(raw.as_ref(), &["messages", "before", "run"]);
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

/// Reads the sessions of sub-agents, by the ids of the calls that started them.
///
/// # Errors
/// Those of [`SessionSnapshot::from_json`], below `subAgentStates`.
pub(crate) fn read_sub_agents(states: Option<&RawObject>) -> Result<SubAgentStates, ParseError> {
    let mut read = SubAgentStates::default();
    for (call, raw) in states.into_iter().flat_map(RawObject::iter) {
        let path = [key("subAgentStates"), key(call)];
        let state = SessionSnapshot::read(raw.get()).map_err(|error| within(error, &path))?;
        read.insert(call, Arc::new(state));
    }
    Ok(read)
}

impl Checkpoint {
    /// Validates the checkpoint against the session's tree and sets its message count.
    ///
    /// # Errors
    /// The path in the checkpoint: its node is not in the tree, or has fewer messages.
    pub fn attach_to(&mut self, tree: &ThreadTree) -> Result<(), ParseError> {
        let length = self.position.resolve(tree).map_err(|(member, message)| match member {
            PositionPart::Node => error_at(&["threadId"], message),
            PositionPart::Length => error_at(&["metadata", RESERVED, "messages"], message),
        })?;
        self.position.length = Some(length);
        Ok(())
    }
}

fn read_reserved(raw: &RawJson) -> Result<Reserved, ParseError> {
    raw.to().map_err(|error| error_at(&["metadata", RESERVED], error.to_string()))
}

/// Reads a state that [`without_execution_state`] wrote, and adds the messages, metadata and reasoning of `state`.
///
/// # Errors
/// Another version, another shape, or an inconsistent state, with its path in the state.
pub(crate) fn read_run(raw: &RawJson, state: ExecutionState) -> Result<(RunState, Extra), ParseError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: Option<u32>,
    }
    let Versioned { version } = raw.to().map_err(|error| error_at(&[], error.to_string()))?;
    if version != Some(RunState::VERSION) {
        let found = StateError::Version { found: version.unwrap_or_default() };
        let remedy = "load it with the version that wrote it and finish the run there, or remove this member: the \
                      checkpoint remains and cannot be resumed";
        return Err(error_at(&["version"], format!("{found}; {remedy}")));
    }
    let mut run: RunState = raw.to().map_err(|error| error_at(&[], error.to_string()))?;
    if run.step() != state.step {
        return Err(error_at(
            &["step"],
            format!("the step is {} and that of the state is {}", run.step(), state.step),
        ));
    }
    run.collected.messages = state.messages;
    run.metadata = state.metadata;
    run.collected.reasoning = state.reasoning.unwrap_or_default();
    run.check().map_err(|error| error_at(&[], error.to_string()))?;
    Ok((run, state.extra))
}

/// Returns the state of a run without the members that its [`ExecutionState`] has.
pub(crate) fn without_execution_state(run: &RunState) -> RunState {
    let mut rest = run.clone();
    rest.collected.messages = History::new();
    rest.collected.reasoning = Vector::new();
    rest.metadata = Arc::default();
    rest
}

/// Writes the members of [`RESERVED`] for a checkpoint.
struct ReservedMembers<'a>(&'a Checkpoint);

impl Serialize for ReservedMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(length) = self.0.position.length {
            map.serialize_entry("messages", &length)?;
        }
        if !self.0.uncommitted.is_empty() {
            map.serialize_entry("before", &MessageList(&self.0.uncommitted))?;
        }
        if let CheckpointState::Resumable(snapshot, _) = &self.0.state {
            map.serialize_entry("run", &without_execution_state(&snapshot.run_state()))?;
        }
        for (name, value) in self.0.reserved.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for SubAgentStates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Writes the members in the order of the specification.
///
/// Spec: UAP-1.0 §13.3.
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
        let reserved = is_needed.then_some(ReservedMembers(self));
        map.serialize_entry("metadata", &MetadataWithReserved(&self.metadata, reserved))?;
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

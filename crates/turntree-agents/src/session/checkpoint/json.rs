//! Reads and writes checkpoints as JSON.
//!
//! Data that the specification has no member for is written to `metadata`, as members of [`RESERVED`]:
//!
//! | member | content |
//! |---|---|
//! | `messages` | the number of messages that the thread of `threadId` had |
//! | `before` | messages between that thread and the run's input; absent if there are none |
//! | `run` | the part of the run's state that is not in `state`, for resuming; absent if the run had finished |
//! | `snapshot` | in the JSON of a session instead of `run`: the part that the checkpoints of the run do not share, see [`shared_runs`](super::shared_runs) |
//!
//! Spec: UAP-1.0 §13.3.

use std::sync::Arc;

use imbl::Vector;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::machine::state::{RunState, StateError};
use crate::session::checkpoint::shared_history::RunSnapshot;
use crate::session::checkpoint::shared_runs::SnapshotJson;
use crate::session::checkpoint::{Checkpoint, CheckpointState, FinishedRun, SubAgentStates};
use crate::session::interner::Interner;
use crate::session::reserved::{
    MessageList, MetadataWithReserved, RESERVED, error_at, key, unknown_members, within,
};
use crate::tree::position::TreePosition;
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{Extra, ParseError, RawJson, RawObject, describe_part, json_object};
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
        pub state: StateJson = "state",
        /// See [`Checkpoint::sub_agent_states`]; each value is a session.
        pub sub_agent_states: Option<RawObject> = "subAgentStates",
        /// See [`Checkpoint::metadata`]; the member `turntree` is reserved for the session.
        pub metadata: Option<RawObject> = "metadata",
    }
}

impl Field for CheckpointJson {}

/// The JSON of an [`ExecutionState`], read by an [`Interner`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateJson(RawJson);

impl Field for StateJson {}

impl JsonSchema for StateJson {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ExecutionState::schema(definitions)
    }
}

impl StateJson {
    /// Reads the state.
    ///
    /// # Errors
    /// Those of [`Interner::state`].
    pub(crate) fn read<'a>(&'a self, interner: &mut Interner<'a>) -> Result<ExecutionState, ParseError> {
        interner.state(&self.0)
    }
}

/// The reserved member.
#[derive(Debug, Default, Deserialize)]
struct Reserved {
    messages: Option<usize>,
    before: Option<Vec<Message>>,
    run: Option<RawJson>,
    snapshot: Option<RawJson>,
}

/// The members of a checkpoint that an [`Interner`] reads. It borrows them.
#[derive(Debug, Default)]
pub(crate) struct SharedMembers {
    state: StateJson,
    sub_agent_states: Option<RawObject>,
}

/// A checkpoint that was read, except for the state that it shares with other checkpoints.
#[derive(Debug)]
pub(crate) struct ParsedCheckpoint {
    /// The checkpoint; its state is that of a finished run.
    checkpoint: Checkpoint,
    /// The state of the run.
    pub(crate) state: ExecutionState,
    /// False if the messages before the run are those of the shared run.
    pub(crate) has_own_messages_before: bool,
    /// The state to resume from.
    pub(crate) run: Option<RawJson>,
    /// The part of the state to resume from that is not shared.
    pub(crate) snapshot: Option<RawJson>,
}

impl CheckpointJson {
    /// Validates the checkpoint by itself. [`Checkpoint::attach_to`] validates it against a tree.
    ///
    /// # Errors
    /// The path in the checkpoint and the rule: the id is not empty, `step` equals that of the state, and the state of the
    /// run has this version and is consistent.
    pub fn into_checkpoint(mut self) -> Result<Checkpoint, ParseError> {
        let members = self.take_shared_members();
        let mut parsed = self.parse(&members, &mut Interner::default())?;
        match parsed.run.take() {
            Some(raw) => parsed.into_resumable(&raw, |run| RunSnapshot::new(&run)),
            None => Ok(parsed.into_finished()),
        }
    }

    /// Removes and returns the members that an interner reads.
    pub(crate) fn take_shared_members(&mut self) -> SharedMembers {
        let (state, sub_agent_states) = (std::mem::take(&mut self.state), self.sub_agent_states.take());
        SharedMembers { state, sub_agent_states }
    }

    /// Reads the checkpoint with the members that were taken from it.
    ///
    /// # Errors
    /// The path in the checkpoint and the rule.
    pub(crate) fn parse<'a>(
        self,
        members: &'a SharedMembers,
        interner: &mut Interner<'a>,
    ) -> Result<ParsedCheckpoint, ParseError> {
        if self.id.is_empty() {
            return Err(error_at(&["id"], "an id must not be empty"));
        }
        let state = members.state.read(interner).map_err(|error| within(error, &[key("state")]))?;
        if self.step != state.step {
            let message = format!("the step is {} and that of the state is {}", self.step, state.step);
            return Err(error_at(&["step"], message));
        }
        let mut metadata = self.metadata.unwrap_or_default();
        let raw = metadata.remove(RESERVED);
        let unknown = unknown_members(raw.as_ref(), &["messages", "before", "run", "snapshot"]);
        let reserved = raw.map(|raw| read_reserved(&raw)).transpose()?.unwrap_or_default();
        let sub_agent_states = read_sub_agents(members.sub_agent_states.as_ref(), interner)?;
        let has_own_messages_before = reserved.before.is_some();
        let checkpoint = Checkpoint {
            id: self.id.into(),
            session_id: self.session_id.into(),
            timestamp: self.timestamp,
            position: TreePosition { node: self.thread_id.into(), length: reserved.messages },
            uncommitted: interner.share_all(reserved.before.unwrap_or_default()),
            sub_agent_states,
            metadata,
            extra: self.extra,
            reserved: unknown,
            state: CheckpointState::Finished(FinishedRun::default()),
        };
        let Reserved { run, snapshot, .. } = reserved;
        Ok(ParsedCheckpoint { checkpoint, state, has_own_messages_before, run, snapshot })
    }
}

impl ParsedCheckpoint {
    /// Returns the checkpoint of a finished run. A snapshot whose shared part is missing is written back unchanged.
    pub(crate) fn into_finished(self) -> Checkpoint {
        let mut checkpoint = self.checkpoint;
        if let Some(snapshot) = self.snapshot {
            checkpoint.reserved.insert("snapshot", snapshot);
        }
        checkpoint.state = CheckpointState::Finished(self.state.into());
        checkpoint
    }

    /// Returns the checkpoint of a run whose complete state is `raw`.
    ///
    /// # Errors
    /// Those of [`read_run`], below `metadata`.
    pub(crate) fn into_resumable(
        self,
        raw: &RawJson,
        snapshot: impl FnOnce(RunState) -> RunSnapshot,
    ) -> Result<Checkpoint, ParseError> {
        let at = ["metadata", RESERVED, "run"].map(key);
        let (run, extra) = read_run(raw, self.state).map_err(|error| within(error, &at))?;
        let state = CheckpointState::Resumable(Box::new(snapshot(run)), extra);
        Ok(Checkpoint { state, ..self.checkpoint })
    }

    /// Returns the checkpoint of a run whose data before the input and snapshot are known.
    pub(crate) fn with_snapshot(self, snapshot: RunSnapshot, before: &History) -> Checkpoint {
        let state = CheckpointState::Resumable(Box::new(snapshot), self.state.extra);
        let uncommitted =
            if self.has_own_messages_before { self.checkpoint.uncommitted } else { before.clone() };
        Checkpoint { uncommitted, state, ..self.checkpoint }
    }
}

/// Reads the sessions of sub-agents, by the ids of the calls that started them.
///
/// # Errors
/// Those of [`SessionSnapshot::from_json`](crate::session::json::SessionSnapshot::from_json), below `subAgentStates`.
pub(crate) fn read_sub_agents<'a>(
    states: Option<&'a RawObject>,
    interner: &mut Interner<'a>,
) -> Result<SubAgentStates, ParseError> {
    let mut read = SubAgentStates::default();
    for (call, raw) in states.into_iter().flat_map(RawObject::iter) {
        let path = [key("subAgentStates"), key(call)];
        let state = interner.session(raw.get()).map_err(|error| within(error, &path))?;
        read.insert(call, state);
    }
    Ok(read)
}

impl Checkpoint {
    /// Validates the checkpoint against the session's tree and sets its message count.
    ///
    /// # Errors
    /// The path in the checkpoint: its node is not in the tree.
    pub fn attach_to(&mut self, tree: &ThreadTree) -> Result<(), ParseError> {
        let length = self.position.resolve(tree).map_err(|message| error_at(&["threadId"], message))?;
        self.position.length = Some(length);
        Ok(())
    }
}

fn read_reserved(raw: &RawJson) -> Result<Reserved, ParseError> {
    raw.to().map_err(|error| error_at(&["metadata", RESERVED], describe_part(&error)))
}

/// Reads a state that [`without_execution_state`] wrote, and adds the messages, metadata and reasoning of `state`.
///
/// # Errors
/// Another version, another shape, or an inconsistent state, with its path in the state.
pub(crate) fn read_run(raw: &RawJson, state: ExecutionState) -> Result<(RunState, Extra), ParseError> {
    let mut run = read_run_state(raw)?;
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

/// Reads the state of a run and checks its version first.
///
/// # Errors
/// Another version or another shape.
pub(crate) fn read_run_state(raw: &RawJson) -> Result<RunState, ParseError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: Option<u32>,
    }
    let Versioned { version } = raw.to().map_err(|error| error_at(&[], describe_part(&error)))?;
    if version == Some(RunState::VERSION) {
        return raw.to().map_err(|error| error_at(&[], describe_part(&error)));
    }
    let found = StateError::Version { found: version.unwrap_or_default() };
    let remedy = "load it with the version that wrote it and finish the run there, or remove this member: the checkpoint \
                  remains and cannot be resumed";
    Err(error_at(&["version"], format!("{found}; {remedy}")))
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
struct ReservedMembers<'a>(CheckpointEntry<'a>);

impl Serialize for ReservedMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CheckpointEntry { checkpoint, shared } = &self.0;
        let mut map = serializer.serialize_map(None)?;
        if let Some(length) = checkpoint.position.length {
            map.serialize_entry("messages", &length)?;
        }
        let before = &checkpoint.uncommitted;
        if shared.as_ref().map_or(!before.is_empty(), |shared| !shared.has_messages_before(before)) {
            map.serialize_entry("before", &MessageList(before))?;
        }
        match (&checkpoint.state, shared) {
            (CheckpointState::Resumable(..), Some(shared)) => map.serialize_entry("snapshot", shared)?,
            (CheckpointState::Resumable(snapshot, _), None) => {
                map.serialize_entry("run", &without_execution_state(&snapshot.run_state()))?;
            }
            (CheckpointState::Finished(_), _) => {}
        }
        for (name, value) in checkpoint.reserved.iter() {
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

/// A checkpoint in the JSON of a session: it refers to the data that the checkpoints of its run share.
#[derive(Clone)]
pub(crate) struct CheckpointEntry<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    /// `None` for a checkpoint by itself, which contains everything, and for a finished run.
    pub(crate) shared: Option<SnapshotJson<'a>>,
}

/// Writes the members in the order of the specification.
///
/// Spec: UAP-1.0 §13.3.
impl Serialize for CheckpointEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let checkpoint = self.checkpoint;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &checkpoint.id)?;
        map.serialize_entry("sessionId", &checkpoint.session_id)?;
        map.serialize_entry("timestamp", &checkpoint.timestamp)?;
        map.serialize_entry("step", &checkpoint.step())?;
        map.serialize_entry("threadId", &checkpoint.position.node)?;
        map.serialize_entry("state", &checkpoint.state())?;
        map.serialize_entry("subAgentStates", &checkpoint.sub_agent_states)?;
        let is_needed = checkpoint.position.length.is_some()
            || checkpoint.is_resumable()
            || !checkpoint.reserved.is_empty();
        let reserved = is_needed.then(|| ReservedMembers(self.clone()));
        map.serialize_entry("metadata", &MetadataWithReserved(&checkpoint.metadata, reserved))?;
        checkpoint.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl Serialize for Checkpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CheckpointEntry { checkpoint: self, shared: None }.serialize(serializer)
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

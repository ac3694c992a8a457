//! Reads and writes sessions as JSON.
//!
//! Data that the specification has no member for is written to `metadata`, as members of `turntree`:
//!
//! | member | content |
//! |---|---|
//! | `checkpoints` | the checkpoint interval, `"turn"` or `"off"`; absent for `"step"` |
//! | `currentCheckpointId` | the current checkpoint; absent if it is the last one |
//! | `middleware` | the values that the agent's middleware stores with the session, by name |
//! | `runs` | the data that checkpoints share; see [`shared_runs`](crate::session::checkpoint) |
//! | `unfinished` | the run to resume: `threadId`, `messages`, `before`, `state`, `run`, `subAgentStates` as in checkpoints; `active`, `restored` |
//!
//! Spec: UAP-1.0 §13.1.

use std::collections::HashMap;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::session::checkpoint::json::{
    CheckpointEntry, CheckpointJson, SharedMembers, StateJson, read_run, read_sub_agents,
    without_execution_state,
};
use crate::session::checkpoint::shared_runs::{RunJson, RunReader, SharedRuns};
use crate::session::checkpoint::{Checkpoint, Checkpoints};
use crate::session::interner::Interner;
use crate::session::interval::CheckpointInterval;
use crate::session::reserved::{
    MessageList, MetadataWithReserved, RESERVED, error_at, key, unknown_members, within,
};
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::json::ThreadTreeJson;
use crate::tree::part_depth::{check, check_messages, check_tree, is_shallow};
use crate::tree::position::TreePosition;
use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{
    self, Extra, ParseError, PathSegment, RawJson, RawObject, describe_part, json_object,
};
use turntree_core::limits::Limits;
use turntree_core::message::Message;
use turntree_core::time::Timestamp;

/// The version of UAP that is written. Versions with the same first two numbers can be read.
pub const VERSION: &str = "1.0.0";

impl Field for ThreadTreeJson {}

json_object! {
    /// A session as JSON, before validation by [`Self::into_snapshot`].
    #[derive(Debug, Clone)]
    pub struct SessionJson {
        /// The version of UAP.
        pub version: String = "version",
        /// See [`SessionSnapshot::id`].
        pub id: String = "id",
        /// See [`SessionSnapshot::agent_id`].
        pub agent_id: String = "agentId",
        /// See [`SessionSnapshot::created_at`].
        pub created_at: Timestamp = "createdAt",
        /// See [`SessionSnapshot::updated_at`].
        pub updated_at: Timestamp = "updatedAt",
        /// See [`SessionSnapshot::tree`].
        pub thread_tree: ThreadTreeJson = "threadTree",
        /// See [`SessionSnapshot::checkpoints`].
        pub checkpoints: Vec<CheckpointJson> = "checkpoints",
        /// See [`SessionSnapshot::metadata`]; the member `turntree` is reserved for the session.
        pub metadata: Option<RawObject> = "metadata",
    }
}

/// The data of a session at one moment, without its agent: everything that is saved. Cloning shares everything.
///
/// Two snapshots are equal when their JSON is equal.
#[derive(Debug, Clone)]
pub struct SessionSnapshot {
    /// The id: a UUIDv4 if turntree created it.
    pub id: Arc<str>,
    /// The id of the agent that the session was created with.
    pub agent_id: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The conversation.
    pub tree: ThreadTree,
    /// Oldest first.
    pub checkpoints: Checkpoints,
    /// The index of the current checkpoint; `None` if there are no checkpoints.
    pub current: Option<usize>,
    /// The run to resume.
    pub unfinished: Option<UnfinishedRun>,
    /// When checkpoints are created.
    pub interval: CheckpointInterval,
    /// The values that the agent's middleware stores with the session, by name.
    pub middleware: RawObject,
    /// The application's metadata.
    pub metadata: RawObject,
    /// Members that this version does not know.
    pub extra: Extra,
    /// Members of [`RESERVED`] that a newer version has written.
    pub(crate) reserved: RawObject,
}

/// The reserved member.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reserved {
    checkpoints: Option<CheckpointInterval>,
    current_checkpoint_id: Option<String>,
    #[serde(default)]
    middleware: RawObject,
    #[serde(default)]
    runs: Vec<RunJson>,
    unfinished: Option<RawJson>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnfinishedJson {
    thread_id: String,
    messages: usize,
    #[serde(default)]
    before: Vec<Message>,
    state: Option<StateJson>,
    run: Option<RawJson>,
    #[serde(default)]
    active: bool,
    #[serde(default)]
    restored: bool,
    sub_agent_states: Option<RawObject>,
}

impl SessionSnapshot {
    /// About the size of the JSON of all messages in bytes, without those of sub-agents.
    pub fn size_hint(&self) -> usize {
        let unfinished = self.unfinished.as_ref().map_or(0, UnfinishedRun::size_hint);
        self.tree.size_hint().saturating_add(unfinished)
    }

    /// Reads a session.
    ///
    /// # Errors
    /// The path and the reason: invalid JSON, an exceeded limit, another version, a broken rule of
    /// [`SessionJson::into_snapshot`], or a message or metadata that is too deep to be read on its own.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        // Check the version first: another version may have a different structure.
        check_version(json::parse::<Versioned>(text, limits)?)?;
        let snapshot = json::parse::<SessionJson>(text, limits)?.into_snapshot()?;
        if !is_shallow(text, limits) {
            check_depth(&snapshot)?;
        }
        Ok(snapshot)
    }

    /// Reads a session that is part of a document whose limits were checked.
    pub(crate) fn read(text: &str) -> Result<Self, ParseError> {
        Self::from_json(text, &Limits::default())
    }

    /// Checks that the ids of the session, its nodes and its checkpoints are UUIDv4, as the specification requires for new
    /// ones. Reading only requires that they are unique and not empty: the specification's own sample has other ids.
    ///
    /// # Errors
    /// The path of the first id that is not a UUIDv4.
    ///
    /// Spec: UAP-1.0 §3.4, decision A70.
    pub fn check_ids(&self) -> Result<(), ParseError> {
        let check = |path: Vec<PathSegment>, id: &str| {
            let message = format!("\"{id}\" is not a UUIDv4");
            if is_uuid_v4(id) { Ok(()) } else { Err(ParseError::shape(path, message)) }
        };
        check(vec![key("id")], &self.id)?;
        for (index, node) in self.tree.nodes().enumerate() {
            let path = vec![key("threadTree"), key("nodes"), PathSegment::Index(index), key("id")];
            check(path, node.id.as_str())?;
        }
        for (index, checkpoint) in self.checkpoints.iter().enumerate() {
            check(vec![key("checkpoints"), PathSegment::Index(index), key("id")], &checkpoint.id)?;
        }
        Ok(())
    }
}

/// Checks that the messages and the metadata of a session are not too deep to be read on their own.
///
/// # Errors
/// The path of the first part that is too deep.
///
/// Spec: decision A116.
fn check_depth(session: &SessionSnapshot) -> Result<(), ParseError> {
    check(&session.metadata, Limits::PAYLOAD.depth, || vec![key("metadata")])?;
    check_tree(&session.tree).map_err(|error| within(error, &[key("threadTree")]))?;
    for (index, checkpoint) in session.checkpoints.iter().enumerate() {
        check_checkpoint(checkpoint)
            .map_err(|error| within(error, &[key("checkpoints"), PathSegment::Index(index)]))?;
    }
    let unfinished = session.unfinished.iter().flat_map(UnfinishedRun::messages);
    let unfinished: Vec<_> = unfinished.collect();
    check_messages(unfinished.iter().map(AsRef::as_ref), &["metadata", RESERVED, "unfinished"].map(key))
}

fn check_checkpoint(checkpoint: &Checkpoint) -> Result<(), ParseError> {
    let messages = checkpoint.state().messages;
    check_messages(messages.iter().map(AsRef::as_ref), &[key("state"), key("messages")])?;
    check_messages(checkpoint.uncommitted.iter().map(AsRef::as_ref), &[key("metadata"), key(RESERVED)])
}

/// Returns true for a UUIDv4 in the usual form with hyphens.
fn is_uuid_v4(id: &str) -> bool {
    let parsed = uuid::Uuid::try_parse(id).ok().filter(|_| id.len() == 36);
    parsed.is_some_and(|id| id.get_version_num() == 4 && id.get_variant() == uuid::Variant::RFC4122)
}

#[derive(Deserialize)]
struct Versioned {
    version: Option<RawJson>,
}

fn check_version(Versioned { version }: Versioned) -> Result<(), ParseError> {
    let Some(version) = version else {
        return Err(error_at(
            &["version"],
            format!("the version of UAP is missing; this version writes \"{VERSION}\""),
        ));
    };
    let text = version.as_string().unwrap_or_default();
    let same = |text: &str| text.splitn(3, '.').map(str::to_owned).take(2).collect::<Vec<_>>();
    if text.splitn(3, '.').count() == 3 && same(&text) == same(VERSION) {
        return Ok(());
    }
    let message = format!("the session is of UAP {version}; this version of turntree reads \"1.0.x\"");
    Err(error_at(&["version"], message))
}

impl SessionJson {
    /// Validates the document and returns the session.
    ///
    /// # Errors
    /// The path and the first broken rule: ids are not empty, the ids of checkpoints are unique, the tree is valid
    /// ([`ThreadTreeJson::into_tree`]), checkpoints belong to this session and fit the tree
    /// ([`CheckpointJson::into_checkpoint`], [`Checkpoint::attach_to`]).
    pub fn into_snapshot(mut self) -> Result<SessionSnapshot, ParseError> {
        check_version(Versioned { version: Some(RawJson::from_str_value(&self.version)) })?;
        if self.id.is_empty() {
            return Err(error_at(&["id"], "an id must not be empty"));
        }
        let tree = self.thread_tree.into_tree().map_err(|error| within(error, &[key("threadTree")]))?;
        let mut metadata = self.metadata.unwrap_or_default();
        let raw = metadata.remove(RESERVED);
        let unknown = unknown_members(
            raw.as_ref(),
            &["checkpoints", "currentCheckpointId", "middleware", "runs", "unfinished"],
        );
        let mut reserved = match raw {
            Some(raw) => raw.to().map_err(|error| reserved_error(&[], describe_part(&error)))?,
            None => Reserved::default(),
        };
        let unfinished = reserved.unfinished.take().map(|raw| parse_unfinished(&raw)).transpose()?;
        let members: Vec<_> = self.checkpoints.iter_mut().map(CheckpointJson::take_shared_members).collect();
        let mut interner = Interner::with_tree(&tree);
        let runs = std::mem::take(&mut reserved.runs);
        let (checkpoints, indexes) =
            read_checkpoints(self.checkpoints, &members, runs, &mut interner, (&self.id, &tree))?;
        let current = match reserved.current_checkpoint_id {
            None => checkpoints.len().checked_sub(1),
            Some(id) => Some(*indexes.get(&*id).ok_or_else(|| {
                reserved_error(&["currentCheckpointId"], format!("no checkpoint has the id \"{id}\""))
            })?),
        };
        let newest = current.and_then(|current| checkpoints.get(current));
        let read = |json| read_unfinished(json, &tree, &mut interner, newest);
        let unfinished = unfinished.as_ref().map(read).transpose()?;
        Ok(SessionSnapshot {
            id: self.id.into(),
            agent_id: self.agent_id.into(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            tree,
            checkpoints,
            current,
            unfinished,
            interval: reserved.checkpoints.unwrap_or_default(),
            middleware: reserved.middleware,
            metadata,
            extra: self.extra,
            reserved: unknown,
        })
    }
}

fn reserved_error(path: &[&str], message: impl Into<String>) -> ParseError {
    within(error_at(path, message), &[key("metadata"), key(RESERVED)])
}

/// The indexes of checkpoints by their ids.
type CheckpointIndexes = HashMap<Arc<str>, usize>;

/// Reads checkpoints and validates them against the session. Returns their indexes by their ids.
fn read_checkpoints<'a>(
    json: Vec<CheckpointJson>,
    members: &'a [SharedMembers],
    runs: Vec<RunJson>,
    interner: &mut Interner<'a>,
    (session, tree): (&str, &ThreadTree),
) -> Result<(Checkpoints, CheckpointIndexes), ParseError> {
    let at = |index: usize| [key("checkpoints"), PathSegment::Index(index)];
    let mut reader = RunReader::new(runs, interner);
    let mut linked = Vec::with_capacity(json.len());
    for (index, (json, members)) in json.into_iter().zip(members).enumerate() {
        let parsed = json.parse(members, interner).and_then(|parsed| reader.link(parsed));
        linked.push(parsed.map_err(|error| within(error, &at(index)))?);
    }
    reader.read_entries(interner).map_err(|error| {
        let runs = within(error, &[key("runs")]);
        within(runs, &[key("metadata"), key(RESERVED)])
    })?;
    let mut checkpoints = Checkpoints::new();
    let mut indexes: CheckpointIndexes = HashMap::with_capacity(linked.len());
    for (index, linked) in linked.into_iter().enumerate() {
        let mut checkpoint = reader.checkpoint(linked).map_err(|error| within(error, &at(index)))?;
        checkpoint.attach_to(tree).map_err(|error| within(error, &at(index)))?;
        if *checkpoint.session_id != *session {
            let message =
                format!("\"{}\" is another session than this one, \"{session}\"", checkpoint.session_id);
            return Err(within(error_at(&["sessionId"], message), &at(index)));
        }
        if let Some(first) = indexes.insert(Arc::clone(&checkpoint.id), index) {
            let message =
                format!("\"{}\" is the id of checkpoints/{first} too; ids are unique", checkpoint.id);
            return Err(within(error_at(&["id"], message), &at(index)));
        }
        if let Some(earlier) = checkpoints.last() {
            checkpoint.sub_agent_states.share_with(&earlier.sub_agent_states);
        }
        checkpoints.push_back(Arc::new(checkpoint));
    }
    Ok((checkpoints, indexes))
}

fn parse_unfinished(raw: &RawJson) -> Result<UnfinishedJson, ParseError> {
    raw.to().map_err(|error| reserved_error(&["unfinished"], describe_part(&error)))
}

/// Reads the run to resume. It shares the data that is equal to that of the newest checkpoint.
fn read_unfinished<'a>(
    json: &'a UnfinishedJson,
    tree: &ThreadTree,
    interner: &mut Interner<'a>,
    newest: Option<&Arc<Checkpoint>>,
) -> Result<UnfinishedRun, ParseError> {
    let mut position = TreePosition { node: json.thread_id.as_str().into(), length: Some(json.messages) };
    let length = position.resolve(tree);
    position.length = Some(length.map_err(|message| reserved_error(&["unfinished", "threadId"], message))?);
    let within_unfinished =
        |error, member: &str| within(error, &["metadata", RESERVED, "unfinished", member].map(key));
    let run = match (&json.run, &json.state) {
        (Some(raw), Some(state)) => {
            let state = state.read(interner).map_err(|error| within_unfinished(error, "state"))?;
            let mut run = read_run(raw, state).map_err(|error| within_unfinished(error, "run"))?.0;
            RunReader::share(&mut run, newest);
            Some(run)
        }
        (None, None) => None,
        _ => {
            return Err(reserved_error(
                &["unfinished"],
                "`run` and `state` must both be present or both be absent",
            ));
        }
    };
    let at = ["metadata", RESERVED, "unfinished"].map(key);
    let sub_agents =
        read_sub_agents(json.sub_agent_states.as_ref(), interner).map_err(|error| within(error, &at))?;
    let uncommitted = interner.share_all(json.before.clone());
    let (active, restored) = (json.active, json.restored);
    Ok(UnfinishedRun { position, uncommitted, run, active, restored, sub_agents })
}

/// Writes the members of [`RESERVED`] for a session.
struct ReservedMembers<'a>(&'a SessionSnapshot, &'a SharedRuns<'a>);

impl ReservedMembers<'_> {
    fn is_last_current(&self) -> bool {
        self.0.current.is_none_or(|current| current + 1 == self.0.checkpoints.len())
    }

    fn is_needed(&self) -> bool {
        self.0.interval != CheckpointInterval::Step
            || !self.is_last_current()
            || self.0.unfinished.is_some()
            || !self.1.is_empty()
            || !self.0.middleware.is_empty()
            || !self.0.reserved.is_empty()
    }
}

impl Serialize for ReservedMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.0.interval != CheckpointInterval::Step {
            map.serialize_entry("checkpoints", &self.0.interval)?;
        }
        let current = self.0.current.and_then(|index| self.0.checkpoints.get(index));
        if let (false, Some(current)) = (self.is_last_current(), current) {
            map.serialize_entry("currentCheckpointId", &current.id)?;
        }
        if !self.0.middleware.is_empty() {
            map.serialize_entry("middleware", &self.0.middleware)?;
        }
        if !self.1.is_empty() {
            map.serialize_entry("runs", self.1)?;
        }
        if let Some(unfinished) = &self.0.unfinished {
            map.serialize_entry("unfinished", unfinished)?;
        }
        for (name, value) in self.0.reserved.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for UnfinishedRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("threadId", &self.position.node)?;
        map.serialize_entry("messages", &self.position.length.unwrap_or_default())?;
        if !self.uncommitted.is_empty() {
            map.serialize_entry("before", &MessageList(&self.uncommitted))?;
        }
        if let Some(run) = &self.run {
            map.serialize_entry("state", &run.execution_state())?;
            map.serialize_entry("run", &without_execution_state(run))?;
        }
        if self.active {
            map.serialize_entry("active", &true)?;
        }
        if self.restored {
            map.serialize_entry("restored", &true)?;
        }
        if !self.sub_agents.is_empty() {
            map.serialize_entry("subAgentStates", &self.sub_agents)?;
        }
        map.end()
    }
}

/// Writes checkpoints that refer to the data that they share.
struct CheckpointList<'a>(&'a Checkpoints, &'a SharedRuns<'a>);

impl Serialize for CheckpointList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |checkpoint| CheckpointEntry { checkpoint, shared: self.1.snapshot(checkpoint) };
        serializer.collect_seq(self.0.iter().map(|checkpoint| entry(checkpoint)))
    }
}

/// Writes the members in the order of the specification.
///
/// Spec: UAP-1.0 §13.1.
impl Serialize for SessionSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", VERSION)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("agentId", &self.agent_id)?;
        map.serialize_entry("createdAt", &self.created_at)?;
        map.serialize_entry("updatedAt", &self.updated_at)?;
        map.serialize_entry("threadTree", &self.tree)?;
        let runs = SharedRuns::of(&self.checkpoints);
        map.serialize_entry("checkpoints", &CheckpointList(&self.checkpoints, &runs))?;
        let reserved = ReservedMembers(self, &runs);
        let reserved = reserved.is_needed().then_some(reserved);
        map.serialize_entry("metadata", &MetadataWithReserved(&self.metadata, reserved))?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl PartialEq for SessionSnapshot {
    fn eq(&self, other: &Self) -> bool {
        RawJson::from_value(self).ok() == RawJson::from_value(other).ok()
    }
}

impl JsonSchema for SessionSnapshot {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        SessionJson::schema(definitions)
    }
}

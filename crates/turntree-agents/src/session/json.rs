//! Sessions as JSON. UAP-1.0 §13.1.
//!
//! What the specification has no member for stands in `metadata` under `turntree`:
//!
//! | member | what |
//! |---|---|
//! | `checkpoints` | `"turn"` or `"off"`; not there where it is `"step"` |
//! | `currentCheckpointId` | the current checkpoint, where that is not the last one |
//! | `middleware` | what the agent's middleware keeps with the session, by name |
//! | `unfinished` | the run to go on with: `threadId`, `messages`, `before`, `state`, `run`, `subAgentStates` as in checkpoints; `restored` |

use std::collections::HashMap;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::session::checkpoint::Checkpoint;
use crate::session::checkpoint::json::{
    CheckpointJson, Listed, RESERVED, WithReserved, bare, key, read_run, read_sub_agents, unknown,
};
use crate::session::options::CheckpointInterval;
use crate::session::state::UnfinishedRun;
use crate::tree::json::ThreadTreeJson;
use crate::tree::position::{PositionPart, TreePosition};
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{self, Extra, ParseError, PathSegment, RawJson, RawObject, json_object};
use turntree_core::limits::Limits;
use turntree_core::message::Message;
use turntree_core::time::Timestamp;

/// The version of UAP that is written. Others with the same first two numbers are read.
pub const VERSION: &str = "1.0.0";

impl Field for ThreadTreeJson {}

json_object! {
    /// A session as JSON, not yet known to be one: [`Self::into_snapshot`] tells.
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
        /// See [`SessionSnapshot::metadata`]; `turntree` is kept by the session.
        pub metadata: Option<RawObject> = "metadata",
    }
}

/// A session at one moment, without its agent: all that is saved. Cloning it shares everything.
///
/// Equal to another one when both are written alike.
#[derive(Debug, Clone)]
pub struct SessionSnapshot {
    /// Unique; a UUIDv4 where it is made here.
    pub id: Arc<str>,
    /// The agent that the session was made with.
    pub agent_id: Arc<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The conversation.
    pub tree: ThreadTree,
    /// In the order they were made.
    pub checkpoints: Vec<Arc<Checkpoint>>,
    /// The place of the current checkpoint; none where there are no checkpoints.
    pub current: Option<usize>,
    /// The run to go on with.
    pub unfinished: Option<UnfinishedRun>,
    /// When checkpoints are made.
    pub interval: CheckpointInterval,
    /// What the agent's middleware keeps with it, by name.
    pub middleware: RawObject,
    /// The application's facts.
    pub metadata: RawObject,
    /// Members this version does not know.
    pub extra: Extra,
    /// What a newer version has written under [`RESERVED`].
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
    unfinished: Option<RawJson>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnfinishedJson {
    thread_id: String,
    messages: usize,
    #[serde(default)]
    before: Vec<Arc<Message>>,
    state: Option<ExecutionState>,
    run: Option<RawJson>,
    #[serde(default)]
    restored: bool,
    sub_agent_states: Option<RawObject>,
}

/// An error of a part, with its place in the whole.
pub(crate) fn within(mut error: ParseError, place: &[PathSegment]) -> ParseError {
    error.path.splice(0..0, place.iter().cloned());
    error
}

fn flaw(path: &[&str], message: impl Into<String>) -> ParseError {
    ParseError::shape(path.iter().map(|name| key(name)).collect(), message)
}

impl SessionSnapshot {
    /// Reads a session.
    ///
    /// # Errors
    /// Not JSON, over a limit, of another version, or a rule of [`SessionJson::into_snapshot`], with its place.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, ParseError> {
        // The version first: in another one everything else may look different.
        check_version(json::parse::<Versioned>(text, limits)?)?;
        json::parse::<SessionJson>(text, limits)?.into_snapshot()
    }

    /// Reads a session that stands in a document whose limits were checked.
    pub(crate) fn read(text: &str) -> Result<Self, ParseError> {
        Self::from_json(text, &Limits::default())
    }

    /// Checks that the ids of session, nodes and checkpoints are UUIDv4, as UAP-1.0 §3.4 wants of new ones. Reading asks
    /// only that they are not empty and unique: the specification's own sample has others (decision A70).
    ///
    /// # Errors
    /// The first id that is not, with its place.
    pub fn check_ids(&self) -> Result<(), ParseError> {
        let wrong = |path: Vec<PathSegment>, id: &str| {
            let message = format!("\"{id}\" is not a UUIDv4");
            if is_uuid_v4(id) { Ok(()) } else { Err(ParseError::shape(path, message)) }
        };
        wrong(vec![key("id")], &self.id)?;
        for (place, node) in self.tree.nodes().enumerate() {
            let path = vec![key("threadTree"), key("nodes"), PathSegment::Index(place), key("id")];
            wrong(path, node.id.as_str())?;
        }
        for (place, checkpoint) in self.checkpoints.iter().enumerate() {
            wrong(vec![key("checkpoints"), PathSegment::Index(place), key("id")], &checkpoint.id)?;
        }
        Ok(())
    }
}

/// Whether a text is a UUIDv4 in the usual spelling.
pub(crate) fn is_uuid_v4(id: &str) -> bool {
    let parsed = uuid::Uuid::try_parse(id).ok().filter(|_| id.len() == 36);
    parsed.is_some_and(|id| id.get_version_num() == 4 && id.get_variant() == uuid::Variant::RFC4122)
}

#[derive(Deserialize)]
struct Versioned {
    version: Option<RawJson>,
}

fn check_version(Versioned { version }: Versioned) -> Result<(), ParseError> {
    let Some(version) = version else {
        return Err(flaw(
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
    Err(flaw(&["version"], message))
}

impl SessionJson {
    /// The session that the document describes.
    ///
    /// # Errors
    /// The first rule that is broken, with its place: ids are not empty and those of checkpoints unique, the tree is one
    /// ([`ThreadTreeJson::into_tree`]), checkpoints are of this session and fit the tree
    /// ([`CheckpointJson::into_checkpoint`], [`Checkpoint::settle`]).
    pub fn into_snapshot(self) -> Result<SessionSnapshot, ParseError> {
        check_version(Versioned { version: Some(RawJson::from_str_value(&self.version)) })?;
        if self.id.is_empty() {
            return Err(flaw(&["id"], "an id must not be empty"));
        }
        let tree = self.thread_tree.into_tree().map_err(|error| within(error, &[key("threadTree")]))?;
        let mut checkpoints = Vec::with_capacity(self.checkpoints.len());
        let mut places = HashMap::with_capacity(self.checkpoints.len());
        for (place, json) in self.checkpoints.into_iter().enumerate() {
            let at = [key("checkpoints"), PathSegment::Index(place)];
            let mut checkpoint = json.into_checkpoint().map_err(|error| within(error, &at))?;
            checkpoint.settle(&tree).map_err(|error| within(error, &at))?;
            if *checkpoint.session_id != *self.id {
                let message = format!("\"{}\" is not this session, \"{}\"", checkpoint.session_id, self.id);
                return Err(within(flaw(&["sessionId"], message), &at));
            }
            if let Some(first) = places.insert(Arc::clone(&checkpoint.id), place) {
                let message =
                    format!("\"{}\" is the id of checkpoints/{first} too; ids are unique", checkpoint.id);
                return Err(within(flaw(&["id"], message), &at));
            }
            checkpoints.push(Arc::new(checkpoint));
        }
        let mut metadata = self.metadata.unwrap_or_default();
        let raw = metadata.remove(RESERVED);
        let unknown =
            unknown(raw.as_ref(), &["checkpoints", "currentCheckpointId", "middleware", "unfinished"]);
        let reserved = match raw {
            Some(raw) => raw.to().map_err(|error| reserved_flaw(&[], error.to_string()))?,
            None => Reserved::default(),
        };
        let current = match reserved.current_checkpoint_id {
            None => checkpoints.len().checked_sub(1),
            Some(id) => Some(*places.get(&*id).ok_or_else(|| {
                reserved_flaw(&["currentCheckpointId"], format!("no checkpoint has the id \"{id}\""))
            })?),
        };
        let unfinished = reserved.unfinished.map(|raw| read_unfinished(&raw, &tree)).transpose()?;
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

fn reserved_flaw(path: &[&str], message: impl Into<String>) -> ParseError {
    within(flaw(path, message), &[key("metadata"), key(RESERVED)])
}

fn read_unfinished(raw: &RawJson, tree: &ThreadTree) -> Result<UnfinishedRun, ParseError> {
    let json: UnfinishedJson = raw.to().map_err(|error| reserved_flaw(&["unfinished"], error.to_string()))?;
    let mut position = TreePosition { node: json.thread_id.into(), length: Some(json.messages) };
    position.length = Some(position.resolve(tree).map_err(|(member, message)| match member {
        PositionPart::Node => reserved_flaw(&["unfinished", "threadId"], message),
        PositionPart::Length => reserved_flaw(&["unfinished", "messages"], message),
    })?);
    let run = match (json.run, json.state) {
        (Some(raw), Some(state)) => {
            let at = ["metadata", RESERVED, "unfinished", "run"].map(key);
            Some(read_run(&raw, state).map_err(|error| within(error, &at))?.0)
        }
        (None, None) => None,
        _ => return Err(reserved_flaw(&["unfinished"], "`run` and `state` stand together or not at all")),
    };
    let at = ["metadata", RESERVED, "unfinished"].map(key);
    let sub_agents = read_sub_agents(json.sub_agent_states.as_ref()).map_err(|error| within(error, &at))?;
    Ok(UnfinishedRun { position, uncommitted: json.before.into(), run, restored: json.restored, sub_agents })
}

/// The members that are written under [`RESERVED`].
struct ReservedOf<'a>(&'a SessionSnapshot);

impl ReservedOf<'_> {
    fn is_current_the_last(&self) -> bool {
        self.0.current.is_none_or(|current| current + 1 == self.0.checkpoints.len())
    }

    fn is_needed(&self) -> bool {
        self.0.interval != CheckpointInterval::Step
            || !self.is_current_the_last()
            || self.0.unfinished.is_some()
            || !self.0.middleware.is_empty()
            || !self.0.reserved.is_empty()
    }
}

impl Serialize for ReservedOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.0.interval != CheckpointInterval::Step {
            map.serialize_entry("checkpoints", &self.0.interval)?;
        }
        let current = self.0.current.and_then(|place| self.0.checkpoints.get(place));
        if let (false, Some(current)) = (self.is_current_the_last(), current) {
            map.serialize_entry("currentCheckpointId", &current.id)?;
        }
        if !self.0.middleware.is_empty() {
            map.serialize_entry("middleware", &self.0.middleware)?;
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
            map.serialize_entry("before", &Listed(&self.uncommitted))?;
        }
        if let Some(run) = &self.run {
            map.serialize_entry("state", &run.execution_state())?;
            map.serialize_entry("run", &bare(run))?;
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

/// The members of UAP-1.0 §13.1 in its order.
impl Serialize for SessionSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", VERSION)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("agentId", &self.agent_id)?;
        map.serialize_entry("createdAt", &self.created_at)?;
        map.serialize_entry("updatedAt", &self.updated_at)?;
        map.serialize_entry("threadTree", &self.tree)?;
        map.serialize_entry("checkpoints", &self.checkpoints)?;
        let reserved = ReservedOf(self);
        let reserved = reserved.is_needed().then_some(reserved);
        map.serialize_entry("metadata", &WithReserved(&self.metadata, reserved))?;
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

//! The document: a thread, its agents and its actions.
//!
//! Spec: ThreadProtocol 1.0.0, "Thread".

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::error::ThreadError;
use turntree_core::json::object::Field;
use turntree_core::json::{RawJson, RawObject, json_object};
use turntree_core::limits::Limits;

/// The protocol version that this crate reads and writes.
pub const VERSION: &str = "1.0.0";

json_object! {
    /// A conversation as one document.
    ///
    /// Actions are shared: clones and branches copy no text. Timestamps are preserved as written.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Thread {
        /// The version of the protocol, `1.0.0`.
        pub version: String = "version",
        /// The id, a UUID.
        pub thread_id: String = "thread_id",
        /// The id of the thread that this one branched from.
        pub parent_thread_id: Option<String> = "parent_thread_id",
        /// The creation time.
        pub created_at: String = "created_at",
        /// The time of the last change.
        pub updated_at: String = "updated_at",
        /// The title.
        pub title: String = "title",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
        /// The agents, by id.
        pub agents: AgentRegistry = "agents",
        /// The actions, in order.
        pub actions: Actions = "actions",
    }
}

json_object! {
    /// One agent of a thread.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AgentConfig {
        /// The id, equal to the key in the registry.
        pub agent_id: String = "agent_id",
        /// The identifier, unique in the thread: `fred_v1`.
        pub agent_identifier: String = "agent_identifier",
        /// The display name: `Fred`.
        pub agent_name: String = "agent_name",
        /// The creation time.
        pub created_at: String = "created_at",
        /// A reference to the full configuration.
        pub config_ref: Option<String> = "config_ref",
    }
}

impl Thread {
    /// Creates a thread without actions.
    pub fn new(
        thread_id: impl Into<String>,
        created_at: impl Into<String>,
        title: impl Into<String>,
    ) -> Self {
        let created_at = created_at.into();
        Self {
            version: VERSION.to_owned(),
            thread_id: thread_id.into(),
            parent_thread_id: None,
            updated_at: created_at.clone(),
            created_at,
            title: title.into(),
            metadata: None,
            agents: AgentRegistry::default(),
            actions: Actions::default(),
            extra: turntree_core::json::Extra::new(),
        }
    }

    /// Reads a document and checks its structure. [`Self::validate`] checks the rules of the protocol.
    ///
    /// # Errors
    /// [`ThreadError::Parse`] for text that is not UTF-8, not JSON, over a limit, or of another shape. The error has
    /// the JSON pointer.
    pub fn from_json(bytes: &[u8], limits: &Limits) -> Result<Self, ThreadError> {
        Ok(turntree_core::json::parse_bytes(bytes, limits)?)
    }

    /// Writes the document as compact JSON, with the members in the order of the specification.
    pub fn to_json(&self) -> Vec<u8> {
        // Serialization cannot fail: keys are strings, numbers are integers or verbatim.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Appends an action: sets its sequence, sets `updated_at` to its time, and returns it.
    ///
    /// It does not check the rules of the protocol; [`Self::validate`] does. A thread is recorded while it runs: agents
    /// may be registered after their first action, and real conversations may break a rule.
    pub fn append(&mut self, mut action: Action) -> Arc<Action> {
        let sequence = self.actions.0.last().map_or(1, |last| last.sequence().saturating_add(1));
        action.set_sequence(sequence);
        action.timestamp().clone_into(&mut self.updated_at);
        let action = Arc::new(action);
        self.actions.0.push_back(Arc::clone(&action));
        action
    }

    /// Adds an action at the end under its own sequence; [`Self::append`] if that is 0.
    pub fn push(&mut self, action: Arc<Action>) {
        if action.sequence() == 0 {
            self.append(Arc::unwrap_or_clone(action));
            return;
        }
        action.timestamp().clone_into(&mut self.updated_at);
        self.actions.0.push_back(action);
    }

    /// The agent of an id.
    ///
    /// # Errors
    /// [`ThreadError::UnknownAgent`].
    pub fn agent(&self, agent_id: &str) -> Result<&AgentConfig, ThreadError> {
        self.agents.get(agent_id).ok_or_else(|| {
            let known = self.agents.iter().map(|(key, _)| format!("\"{key}\"")).collect();
            ThreadError::UnknownAgent { agent_id: agent_id.to_owned(), known }
        })
    }

    /// Stores the sequence of the last action that a branch shares with its parent.
    pub(crate) fn set_branch_point(&mut self, parent_sequence: u64) {
        let point = RawJson::from_text(format!("{{\"parent_sequence\":{parent_sequence}}}"));
        self.metadata.get_or_insert_default().insert("branch", point.unwrap_or_default());
    }

    /// Creates a thread that continues this one. It shares all actions so far and stores the branch point (decision
    /// 16).
    ///
    /// The caller passes the id and the time, so that a replay gives the same branch.
    #[must_use]
    pub fn branch(
        &self,
        thread_id: impl Into<String>,
        created_at: impl Into<String>,
        title: Option<String>,
    ) -> Self {
        let created_at = created_at.into();
        let mut branch = self.clone();
        branch.parent_thread_id = Some(std::mem::replace(&mut branch.thread_id, thread_id.into()));
        branch.updated_at.clone_from(&created_at);
        branch.created_at = created_at;
        if let Some(title) = title {
            branch.title = title;
        }
        branch.set_branch_point(self.actions.0.last().map_or(0, |last| last.sequence()));
        if let Some(metadata) = &mut branch.metadata {
            // The merge record describes the parent, not the branch.
            metadata.remove("merge");
        }
        branch
    }
}

/// The actions of a thread: shared, cheap to clone and to append to.
#[derive(Clone, PartialEq, Default)]
pub struct Actions(pub imbl::Vector<Arc<Action>>);

impl std::ops::Deref for Actions {
    type Target = imbl::Vector<Arc<Action>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        Self(actions.into_iter().map(Arc::new).collect())
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter()).finish()
    }
}

impl Field for Actions {}

impl Serialize for Actions {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|action| &**action))
    }
}

impl<'de> Deserialize<'de> for Actions {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Actions;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of actions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Actions, A::Error> {
                let mut actions = Vec::new();
                while let Some(action) = sequence.next_element::<Action>()? {
                    actions.push(Arc::new(action));
                }
                Ok(Actions(actions.into()))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl AgentConfig {
    /// Derives an identifier from a display name: `weather_assistant` from `Weather Assistant`.
    pub fn identifier_of(agent_name: &str) -> String {
        let parts =
            agent_name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        parts.map(str::to_lowercase).collect::<Vec<_>>().join("_")
    }
}

/// The agents of a thread by id, in document order.
#[derive(Debug, Clone, Default)]
pub struct AgentRegistry {
    agents: Vec<(String, AgentConfig)>,
    indices: HashMap<String, usize>,
}

impl AgentRegistry {
    /// The agent with this key.
    pub fn get(&self, key: &str) -> Option<&AgentConfig> {
        self.indices.get(key).and_then(|index| self.agents.get(*index)).map(|(_, agent)| agent)
    }

    /// True if an agent has this key.
    pub fn contains(&self, key: &str) -> bool {
        self.indices.contains_key(key)
    }

    /// Inserts an agent under a key; replaces the agent that has the key.
    pub fn insert(&mut self, key: impl Into<String>, agent: AgentConfig) {
        let key = key.into();
        if let Some(entry) = self.indices.get(&key).and_then(|index| self.agents.get_mut(*index)) {
            entry.1 = agent;
            return;
        }
        self.indices.insert(key.clone(), self.agents.len());
        self.agents.push((key, agent));
    }

    /// Inserts an agent under its own id.
    pub fn add(&mut self, agent: AgentConfig) {
        self.insert(agent.agent_id.clone(), agent);
    }

    /// Keys and agents, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AgentConfig)> {
        self.agents.iter().map(|(key, agent)| (key.as_str(), agent))
    }

    /// Agents in order, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut AgentConfig> {
        self.agents.iter_mut().map(|(_, agent)| agent)
    }

    /// The number of agents.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// True if there are no agents.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }
}

/// The order of the keys is ignored.
impl PartialEq for AgentRegistry {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, agent)| other.get(key) == Some(agent))
    }
}

impl Field for AgentRegistry {}

impl Serialize for AgentRegistry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, agent) in self.iter() {
            map.serialize_entry(key, agent)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for AgentRegistry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Registry;
        impl<'de> Visitor<'de> for Registry {
            type Value = AgentRegistry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of agents by id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AgentRegistry, A::Error> {
                let mut registry = AgentRegistry::default();
                while let Some(key) = map.next_key::<String>()? {
                    registry.insert(key, map.next_value()?);
                }
                Ok(registry)
            }
        }
        deserializer.deserialize_map(Registry)
    }
}

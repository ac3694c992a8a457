//! Threads: ordered conversations.
//!
//! Spec: UPP-1.2 §7

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::message::{History, Message, MessageKind, SharedMessages};
use super::turn::Turn;
use crate::ids::IdSource;
use crate::json::object::Field;
use crate::json::schema::{Definitions, JsonSchema};
use crate::json::{Extra, json_object};
use crate::time::{Clock, Timestamp};

json_object! {
    /// A thread as JSON. Times may be missing: UAP-1.0 §13 shows threads without them.
    #[derive(Debug, Clone)]
    struct ThreadJson {
        /// The id: a UUIDv4.
        pub id: String = "id",
        /// The messages, oldest first.
        pub messages: SharedMessages = "messages",
        /// The time of creation.
        pub created_at: Option<Timestamp> = "createdAt",
        /// The time of the last change.
        pub updated_at: Option<Timestamp> = "updatedAt",
    }
}

/// An ordered conversation. Cloning shares the messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// UUIDv4.
    pub id: String,
    /// The messages, oldest first.
    pub messages: History,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// Unknown members.
    pub extra: Extra,
}

impl Field for Thread {}

impl Thread {
    /// A thread with the given messages.
    pub fn new(messages: History, ids: &dyn IdSource, clock: &dyn Clock) -> Self {
        let now = clock.now();
        Self { id: ids.string(), messages, created_at: now, updated_at: now, extra: Extra::new() }
    }

    /// Adds all messages of a turn.
    pub fn append(&mut self, turn: &Turn, clock: &dyn Clock) {
        self.push(turn.messages.iter().map(Arc::clone), clock);
    }

    /// Adds messages.
    pub fn push(&mut self, messages: impl IntoIterator<Item = Arc<Message>>, clock: &dyn Clock) {
        self.messages.extend(messages);
        self.updated_at = clock.now();
    }

    /// Removes all messages.
    pub fn clear(&mut self, clock: &dyn Clock) {
        self.messages = History::new();
        self.updated_at = clock.now();
    }

    /// Messages of one kind, in order.
    pub fn filter(&self, kind: MessageKind) -> impl Iterator<Item = &Arc<Message>> {
        self.messages.iter().filter(move |message| message.kind() == kind)
    }

    /// The last `count` messages; none for 0.
    pub fn tail(&self, count: usize) -> History {
        self.messages.skip(self.messages.len().saturating_sub(count))
    }

    /// The messages from `start` to before `end` as a new thread. Negative indices count from the end, as in Python.
    #[must_use]
    pub fn slice(
        &self,
        start: Option<isize>,
        end: Option<isize>,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Self {
        let length = self.messages.len();
        let place = |index: isize| match usize::try_from(index) {
            Ok(forward) => forward.min(length),
            Err(_) => length.saturating_sub(index.unsigned_abs()),
        };
        let start = start.map_or(0, place);
        let end = end.map_or(length, place).max(start);
        Self::new(self.messages.take(end).skip(start), ids, clock)
    }
}

/// Serializes a history as a list without copying it.
struct InOrder<'a>(&'a History);

impl Serialize for InOrder<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

impl Serialize for Thread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("messages", &InOrder(&self.messages))?;
        map.serialize_entry("createdAt", &self.created_at)?;
        map.serialize_entry("updatedAt", &self.updated_at)?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Thread {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = ThreadJson::deserialize(deserializer)?;
        let first = json.messages.0.first().map(|message| message.timestamp);
        let created_at = json.created_at.or(first).unwrap_or(Timestamp::from_microseconds(0));
        Ok(Self {
            id: json.id,
            messages: json.messages.0.into_iter().collect(),
            created_at,
            updated_at: json.updated_at.unwrap_or(created_at),
            extra: json.extra,
        })
    }
}

impl JsonSchema for Thread {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        ThreadJson::schema(definitions)
    }
}

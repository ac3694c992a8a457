//! Shares equal parts of a session's JSON while it is read.
//!
//! The specification requires all messages of a run in each of its checkpoints, and the finished sub-agents too. A live
//! session has each of them once. An [`Interner`] reads each different text once and returns the same object for all
//! occurrences, so that a session that was read needs as much memory as the live one.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::session::json::SessionSnapshot;
use crate::tree::thread_tree::ThreadTree;
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{self, ParseError, RawJson, RawObject, describe_error, without_position};
use turntree_core::limits::Limits;
use turntree_core::message::Message;
use turntree_core::message::message::History;

/// The parts of a document that were read, by their text, and messages by their ids.
#[derive(Debug, Default)]
pub(crate) struct Interner<'a> {
    texts: HashMap<&'a str, Arc<Message>>,
    messages: HashMap<Box<str>, Arc<Message>>,
    sessions: HashMap<&'a str, Arc<SessionSnapshot>>,
}

impl<'a> Interner<'a> {
    /// Returns an interner with the messages of a tree.
    pub(crate) fn with_tree(tree: &ThreadTree) -> Self {
        let messages = tree.nodes().flat_map(|node| &node.thread.messages);
        let messages = messages.map(|message| (message.id.as_str().into(), Arc::clone(message)));
        Self { messages: messages.collect(), ..Self::default() }
    }

    /// Reads a message, or returns the known message with the same text.
    fn message(&mut self, text: &'a str) -> Result<Arc<Message>, serde_json::Error> {
        if let Some(known) = self.texts.get(text) {
            return Ok(Arc::clone(known));
        }
        let message = match self.known(text)? {
            Some(known) => known,
            None => self.share(serde_json::from_str(text)?),
        };
        self.texts.insert(text, Arc::clone(&message));
        Ok(message)
    }

    /// Returns the message with the id of this text if it is written in the same way.
    fn known(&self, text: &'a str) -> Result<Option<Arc<Message>>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Identified<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
        }
        let Identified { id } = serde_json::from_str(text)?;
        let id = id.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        let known = id.and_then(|id| self.messages.get(&*id));
        Ok(known.filter(|known| has_text(known, text)).map(Arc::clone))
    }

    /// Returns the known message that is equal to `message`, or adds it.
    pub(crate) fn share(&mut self, message: Message) -> Arc<Message> {
        let known = self.messages.get(&*message.id);
        let text = known.and_then(|_| serde_json::to_string(&message).ok());
        if let Some(known) = known.zip(text).filter(|(known, text)| has_text(known, text)) {
            return Arc::clone(known.0);
        }
        let message = Arc::new(message);
        self.messages.insert(message.id.as_str().into(), Arc::clone(&message));
        message
    }

    /// Returns a list of the known messages that are equal to `messages`.
    pub(crate) fn share_all(&mut self, messages: Vec<Message>) -> History {
        messages.into_iter().map(|message| self.share(message)).collect()
    }

    /// Reads the state of a checkpoint.
    ///
    /// # Errors
    /// The path in the state and the reason.
    pub(crate) fn state(&mut self, raw: &'a RawJson) -> Result<ExecutionState, ParseError> {
        self.read_state(raw).map_err(|error| located::<ExecutionState>(raw.get(), &error))
    }

    fn read_state(&mut self, raw: &'a RawJson) -> Result<ExecutionState, serde_json::Error> {
        let StateMembers { messages, rest } = serde_json::from_str(raw.get())?;
        let mut state: ExecutionState = RawJson::from_value(&rest)?.to()?;
        let messages = messages.into_iter().map(|message| self.message(message.get()));
        state.messages = messages.collect::<Result<_, _>>()?;
        Ok(state)
    }

    /// Reads the session of a sub-agent, or returns the known session with the same text.
    ///
    /// # Errors
    /// Those of [`SessionSnapshot::from_json`].
    pub(crate) fn session(&mut self, text: &'a str) -> Result<Arc<SessionSnapshot>, ParseError> {
        if let Some(known) = self.sessions.get(text) {
            return Ok(Arc::clone(known));
        }
        let session = Arc::new(SessionSnapshot::read(text)?);
        self.sessions.insert(text, Arc::clone(&session));
        Ok(session)
    }
}

fn has_text(message: &Message, text: &str) -> bool {
    serde_json::to_string(message).is_ok_and(|known| known == text)
}

/// Returns the error of a part with its path. The part was read as raw JSON before; its line and column would be relative
/// to it.
fn located<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> ParseError {
    let limits = Limits { bytes: usize::MAX, depth: usize::MAX, values: usize::MAX };
    let located = json::parse::<T>(text, &limits).err();
    let mut located = located.unwrap_or_else(|| ParseError::shape(Vec::new(), describe_error(error)));
    located.message = without_position(&located.message);
    located
}

/// The members of a state, with the texts of its messages.
struct StateMembers<'a> {
    messages: Vec<&'a RawValue>,
    /// The other members, and an empty list of messages if the state has a list.
    rest: RawObject,
}

impl<'de: 'a, 'a> Deserialize<'de> for StateMembers<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = StateMembers<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut messages, mut rest) = (Vec::new(), Vec::new());
                while let Some(key) = map.next_key::<String>()? {
                    if key == "messages" {
                        messages = map.next_value()?;
                        rest.push((key, RawJson::from_value(&[(); 0]).unwrap_or_default()));
                    } else {
                        rest.push((key, map.next_value()?));
                    }
                }
                Ok(StateMembers { messages, rest: rest.into_iter().collect() })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

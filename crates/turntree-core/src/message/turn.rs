//! Turns: the result of one run of a model with its tools.
//!
//! Spec: UPP-1.2 §6

use std::sync::Arc;

use serde::Deserialize;
use serde::de::Error;

use super::message::{Message, MessageKind, SharedMessages};
use super::tool::ToolExecution;
use super::usage::TokenUsage;
use crate::json::schema::{Definitions, JsonSchema};
use crate::json::{Extra, RawJson, json_object};

/// The error of messages that do not form a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The messages do not contain an assistant message.
    #[error("Turn must contain at least one assistant message")]
    NoResponse,
}

json_object! {
    /// A turn as JSON: the response is not written, it is the last assistant message.
    #[derive(Debug, Clone, PartialEq)]
    struct TurnJson {
        /// The new messages, starting with the user's.
        pub messages: SharedMessages = "messages",
        /// The tool executions, in the order in which they finished.
        pub tool_executions: Vec<ToolExecution> = "toolExecutions", default,
        /// The tokens of all model calls.
        pub usage: TokenUsage = "usage", default,
        /// The number of model calls.
        pub cycles: u32 = "cycles", default,
        /// The structured output, if a structure was requested.
        pub data: Option<RawJson> = "data",
    }
}

/// The messages and tool executions of one run. Contains at least one assistant message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The new messages, starting with the user's.
    pub messages: Vec<Arc<Message>>,
    /// The tool executions, in the order in which they finished.
    pub tool_executions: Vec<ToolExecution>,
    /// The tokens of all model calls.
    pub usage: TokenUsage,
    /// The number of model calls.
    pub cycles: u32,
    /// The structured output, if a structure was requested.
    pub data: Option<RawJson>,
    /// Unknown members.
    pub extra: Extra,
    response: Arc<Message>,
}

impl Turn {
    /// Creates a turn.
    ///
    /// # Errors
    /// [`TurnError::NoResponse`] if `messages` does not contain an assistant message.
    pub fn new(
        messages: Vec<Arc<Message>>,
        tool_executions: Vec<ToolExecution>,
        usage: TokenUsage,
        cycles: u32,
        data: Option<RawJson>,
    ) -> Result<Self, TurnError> {
        let response = messages
            .iter()
            .rfind(|message| message.kind() == MessageKind::Assistant)
            .map(Arc::clone)
            .ok_or(TurnError::NoResponse)?;
        Ok(Self { messages, tool_executions, usage, cycles, data, extra: Extra::new(), response })
    }

    /// The last assistant message.
    pub const fn response(&self) -> &Arc<Message> {
        &self.response
    }
}

impl serde::Serialize for Turn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("messages", &self.messages)?;
        map.serialize_entry("toolExecutions", &self.tool_executions)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("cycles", &self.cycles)?;
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = TurnJson::deserialize(deserializer)?;
        let turn = Self::new(json.messages.0, json.tool_executions, json.usage, json.cycles, json.data);
        turn.map(|turn| Self { extra: json.extra, ..turn }).map_err(D::Error::custom)
    }
}

impl JsonSchema for Turn {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        TurnJson::schema(definitions)
    }
}

//! Actions: the five core actions, system actions, and actions of unknown types.
//!
//! Every action may have a `metadata` object (decision 2). Unknown members are preserved in `extra`.
//!
//! Spec: ThreadProtocol 1.0.0, "Action".

use serde::de::MapAccess;
use serde::{Deserialize, Serialize};

use super::content::{Attachment, MessageContent};
use turntree_core::intern::InternedStr;
use turntree_core::json::object::Field;
use turntree_core::json::tagged::{self, Tagged};
use turntree_core::json::{RawJson, RawObject, json_object};

json_object! {
    /// A message of the user.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct UserMessageAction {
        tag "action_type" = "user_message",
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The content of the message.
        pub content: MessageContent = "content",
        /// Files attached to the message.
        pub attachments: Option<Vec<Attachment>> = "attachments",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A message of an agent.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AssistantMessageAction {
        tag "action_type" = "assistant_message",
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The agent: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// The content of the message.
        pub content: MessageContent = "content",
        /// Why the model stopped: `stop`, `tool_call`, `length` or `content_filter`.
        pub finish_reason: Option<InternedStr> = "finish_reason",
        /// Tokens of the response.
        pub usage: Option<Box<Usage>> = "usage",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// The thinking of an agent.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ThinkingAction {
        tag "action_type" = "thinking",
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The agent: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// The text, if the provider returns it.
        pub content: Option<String> = "content",
        /// The provider's signature, to be sent back with later requests.
        pub signature: Option<Box<str>> = "signature",
        /// The provider that signed it; `unknown` if the source does not say.
        pub provider_name: InternedStr = "provider_name",
        /// The provider's id.
        pub thinking_id: Option<InternedStr> = "thinking_id",
        /// Tokens used for thinking.
        pub usage: Option<Box<ThinkingUsage>> = "usage",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A tool call of an agent.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ToolCallAction {
        tag "action_type" = "tool_call",
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The agent: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// The name of the tool.
        pub tool_name: InternedStr = "tool_name",
        /// The id that the tool return repeats.
        pub tool_call_id: InternedStr = "tool_call_id",
        /// The arguments, usually an object.
        pub args: RawJson = "args",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// The result of a tool call.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ToolReturnAction {
        tag "action_type" = "tool_return",
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The id of the call.
        pub tool_call_id: InternedStr = "tool_call_id",
        /// The name of the tool, as in the call.
        pub tool_name: InternedStr = "tool_name",
        /// `success`, `error` or `validation_error`.
        pub status: InternedStr = "status",
        /// The result, or the error.
        pub content: RawJson = "content",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A system event: `system.*`.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct SystemAction {
        /// The type, with the `system.` prefix.
        pub action_type: InternedStr = "action_type", default,
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The data of the event.
        pub data: RawJson = "data",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An action whose type breaks the naming rule or belongs to a later version. It is preserved as read.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct OtherAction {
        /// The type.
        pub action_type: InternedStr = "action_type", default,
        /// The id, if the action has one.
        pub action_id: Option<InternedStr> = "action_id",
        /// The timestamp, as written.
        pub timestamp: InternedStr = "timestamp",
        /// The position in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// Application metadata, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// Token usage of a model response.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Usage {
        /// Input tokens.
        pub input_tokens: u64 = "input_tokens",
        /// Output tokens.
        pub output_tokens: u64 = "output_tokens",
        /// The sum of both.
        pub total_tokens: Option<u64> = "total_tokens",
    }
}

json_object! {
    /// Token usage of thinking.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ThinkingUsage {
        /// Thinking tokens, if the provider counts them separately.
        pub thinking_tokens: Option<u64> = "thinking_tokens",
    }
}

/// One event of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A message of the user.
    UserMessage(UserMessageAction),
    /// A message of an agent.
    AssistantMessage(AssistantMessageAction),
    /// The thinking of an agent.
    Thinking(ThinkingAction),
    /// A tool call of an agent.
    ToolCall(ToolCallAction),
    /// The result of a tool call.
    ToolReturn(ToolReturnAction),
    /// A system event.
    System(SystemAction),
    /// A type that breaks the naming rule or belongs to a later version.
    Other(OtherAction),
}

/// Accesses a member that every variant has.
macro_rules! each {
    ($value:expr, $action:ident => $body:expr) => {
        match $value {
            Action::UserMessage($action) => $body,
            Action::AssistantMessage($action) => $body,
            Action::Thinking($action) => $body,
            Action::ToolCall($action) => $body,
            Action::ToolReturn($action) => $body,
            Action::System($action) => $body,
            Action::Other($action) => $body,
        }
    };
}

impl Action {
    /// The type, as in `action_type`.
    pub fn action_type(&self) -> &str {
        match self {
            Self::UserMessage(_) => "user_message",
            Self::AssistantMessage(_) => "assistant_message",
            Self::Thinking(_) => "thinking",
            Self::ToolCall(_) => "tool_call",
            Self::ToolReturn(_) => "tool_return",
            Self::System(action) => &action.action_type,
            Self::Other(action) => &action.action_type,
        }
    }

    /// The id, if the action has one.
    pub fn action_id(&self) -> Option<&str> {
        each!(self, action => action.action_id.as_deref())
    }

    /// The timestamp, as written.
    pub fn timestamp(&self) -> &str {
        each!(self, action => &action.timestamp)
    }

    /// The position in the thread, from 1.
    pub fn sequence(&self) -> u64 {
        each!(self, action => action.sequence)
    }

    /// Application metadata, by namespace.
    pub fn metadata(&self) -> Option<&RawObject> {
        each!(self, action => action.metadata.as_ref())
    }

    /// The id of the agent, for messages, thinking and tool calls. A tool return has none: it belongs to the agent of
    /// its call.
    pub fn agent_id(&self) -> Option<&str> {
        match self {
            Self::AssistantMessage(action) => Some(&action.agent_id),
            Self::Thinking(action) => Some(&action.agent_id),
            Self::ToolCall(action) => Some(&action.agent_id),
            Self::UserMessage(_) | Self::ToolReturn(_) | Self::System(_) | Self::Other(_) => None,
        }
    }

    /// Sets the position in the thread.
    pub fn set_sequence(&mut self, sequence: u64) {
        each!(self, action => action.sequence = sequence);
    }

    /// Sets the timestamp.
    pub fn set_timestamp(&mut self, timestamp: InternedStr) {
        each!(self, action => action.timestamp = timestamp);
    }

    /// The metadata, mutable.
    pub fn metadata_mut(&mut self) -> &mut Option<RawObject> {
        each!(self, action => &mut action.metadata)
    }
}

impl Field for Action {}

impl<'de> Tagged<'de> for Action {
    const TAG: &'static str = "action_type";

    fn variant<A: MapAccess<'de>>(tag: &str, members: A) -> Result<Self, A::Error> {
        Ok(match tag {
            "user_message" => Self::UserMessage(UserMessageAction::from_members(members)?),
            "assistant_message" => Self::AssistantMessage(AssistantMessageAction::from_members(members)?),
            "thinking" => Self::Thinking(ThinkingAction::from_members(members)?),
            "tool_call" => Self::ToolCall(ToolCallAction::from_members(members)?),
            "tool_return" => Self::ToolReturn(ToolReturnAction::from_members(members)?),
            _ if tag.starts_with("system.") => {
                Self::System(SystemAction { action_type: tag.into(), ..SystemAction::from_members(members)? })
            }
            _ => Self::Other(OtherAction { action_type: tag.into(), ..OtherAction::from_members(members)? }),
        })
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer)
    }
}

impl Serialize for Action {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        each!(self, action => action.serialize(serializer))
    }
}

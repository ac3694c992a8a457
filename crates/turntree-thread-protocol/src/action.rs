//! What happened: the five core actions, system actions, and actions of types that no version defines.
//! ThreadProtocol 1.0.0, "Action".
//!
//! Every action may carry a `metadata` object (decision 2). Members this version does not know are kept in `extra`.

use serde::de::MapAccess;
use serde::{Deserialize, Serialize};

use super::content::{Attachment, MessageContent};
use turntree_core::intern::InternedStr;
use turntree_core::json::object::Field;
use turntree_core::json::tagged::{self, Tagged};
use turntree_core::json::{RawJson, RawObject, json_object};

json_object! {
    /// A user said something.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct UserMessageAction {
        tag "action_type" = "user_message",
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// What was said.
        pub content: MessageContent = "content",
        /// What came with it.
        pub attachments: Option<Vec<Attachment>> = "attachments",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An agent said something.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct AssistantMessageAction {
        tag "action_type" = "assistant_message",
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// Who: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// What was said.
        pub content: MessageContent = "content",
        /// Why the model ended: `stop`, `tool_call`, `length` or `content_filter`.
        pub finish_reason: Option<InternedStr> = "finish_reason",
        /// What it cost.
        pub usage: Option<Box<Usage>> = "usage",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An agent thought.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ThinkingAction {
        tag "action_type" = "thinking",
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// Who: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// The thinking, as far as the provider shows it.
        pub content: Option<String> = "content",
        /// The provider's proof of it, to be sent back.
        pub signature: Option<Box<str>> = "signature",
        /// Whose signature it is; `unknown` when nobody said.
        pub provider_name: InternedStr = "provider_name",
        /// The provider's id of it.
        pub thinking_id: Option<InternedStr> = "thinking_id",
        /// What it cost.
        pub usage: Option<Box<ThinkingUsage>> = "usage",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An agent called a tool.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ToolCallAction {
        tag "action_type" = "tool_call",
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// Who: a key of the registry.
        pub agent_id: InternedStr = "agent_id",
        /// Which tool.
        pub tool_name: InternedStr = "tool_name",
        /// The id that the return repeats.
        pub tool_call_id: InternedStr = "tool_call_id",
        /// The arguments, usually an object.
        pub args: RawJson = "args",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A tool answered.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ToolReturnAction {
        tag "action_type" = "tool_return",
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// The id of the call.
        pub tool_call_id: InternedStr = "tool_call_id",
        /// Which tool, as the call says.
        pub tool_name: InternedStr = "tool_name",
        /// `success`, `error` or `validation_error`.
        pub status: InternedStr = "status",
        /// The value, or what went wrong.
        pub content: RawJson = "content",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An event of a system: `system.*`.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct SystemAction {
        /// Its type, with the `system.` prefix.
        pub action_type: InternedStr = "action_type", default,
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// What the system says about it.
        pub data: RawJson = "data",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// An action whose type breaks the naming rule, or belongs to a later version; carried as it was read.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct OtherAction {
        /// Its type.
        pub action_type: InternedStr = "action_type", default,
        /// Its id, if it was given one.
        pub action_id: Option<InternedStr> = "action_id",
        /// When, as it was written.
        pub timestamp: InternedStr = "timestamp",
        /// Its place in the thread, from 1.
        pub sequence: u64 = "sequence",
        /// Facts of applications, by namespace.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// Tokens of a model's answer.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Usage {
        /// Tokens read.
        pub input_tokens: u64 = "input_tokens",
        /// Tokens written.
        pub output_tokens: u64 = "output_tokens",
        /// Both.
        pub total_tokens: Option<u64> = "total_tokens",
    }
}

json_object! {
    /// Tokens of thinking.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ThinkingUsage {
        /// Tokens thought, where the provider counts them apart.
        pub thinking_tokens: Option<u64> = "thinking_tokens",
    }
}

/// One thing that happened in a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A user said something.
    UserMessage(UserMessageAction),
    /// An agent said something.
    AssistantMessage(AssistantMessageAction),
    /// An agent thought.
    Thinking(ThinkingAction),
    /// An agent called a tool.
    ToolCall(ToolCallAction),
    /// A tool answered.
    ToolReturn(ToolReturnAction),
    /// A system event.
    System(SystemAction),
    /// A type that breaks the naming rule or belongs to a later version.
    Other(OtherAction),
}

/// Reads or writes a member that every variant has.
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
    /// Its type.
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

    /// Its id, if it was given one.
    pub fn action_id(&self) -> Option<&str> {
        each!(self, action => action.action_id.as_deref())
    }

    /// When, as it was written.
    pub fn timestamp(&self) -> &str {
        each!(self, action => &action.timestamp)
    }

    /// Its place in the thread, from 1.
    pub fn sequence(&self) -> u64 {
        each!(self, action => action.sequence)
    }

    /// Facts of applications, by namespace.
    pub fn metadata(&self) -> Option<&RawObject> {
        each!(self, action => action.metadata.as_ref())
    }

    /// Who acted, for the actions of agents. A tool return belongs to whoever called.
    pub fn agent_id(&self) -> Option<&str> {
        match self {
            Self::AssistantMessage(action) => Some(&action.agent_id),
            Self::Thinking(action) => Some(&action.agent_id),
            Self::ToolCall(action) => Some(&action.agent_id),
            Self::UserMessage(_) | Self::ToolReturn(_) | Self::System(_) | Self::Other(_) => None,
        }
    }

    /// Gives it a place.
    pub fn set_sequence(&mut self, sequence: u64) {
        each!(self, action => action.sequence = sequence);
    }

    /// Gives it a time.
    pub fn set_timestamp(&mut self, timestamp: InternedStr) {
        each!(self, action => action.timestamp = timestamp);
    }

    /// Its metadata, to be changed.
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

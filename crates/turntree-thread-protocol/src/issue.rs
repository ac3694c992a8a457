//! Validation issues: the broken rule, the JSON pointer and the remedy.

use std::fmt;

use turntree_core::json::{Extra, json_object};

/// A rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// `version` is `1.0.0`.
    Version,
    /// Ids are not empty.
    Id,
    /// Timestamps are in ISO 8601.
    Timestamp,
    /// Rule 1: `sequence` is unique and sequential, from 1.
    Sequence,
    /// Rule 2: a tool return has an open call with its id.
    ToolCallId,
    /// Rule 2: a tool return has the tool name of its call.
    ToolName,
    /// `status` and `finish_reason` have one of their allowed values.
    Value,
    /// Rule 3: `agent_id` is a key of the registry.
    AgentId,
    /// Rule 3: the key of an agent is its id.
    AgentKey,
    /// Rule 4: core types are in `snake_case`; all others start with `system.`.
    ActionType,
    /// Rule 5: timestamps do not decrease.
    Chronology,
    /// Rule 2: every call has a return.
    OpenCall,
    /// Rule 2: the id of an open call is not used again.
    DuplicateCall,
    /// `agent_identifier` is unique within the thread.
    AgentIdentifier,
    /// `action_id` is unique within the thread.
    ActionId,
    /// Strict: ids are UUIDs.
    Uuid,
    /// Strict: only members that the specification defines, and `metadata`.
    UnknownMember,
    /// Strict: numbers that JavaScript reads without loss.
    Number,
    /// Strict: no member is named `__proto__`.
    Key,
}

impl Rule {
    /// The name in error lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Id => "id",
            Self::Timestamp => "timestamp",
            Self::Sequence => "sequence",
            Self::ToolCallId => "tool_call_id",
            Self::ToolName => "tool_name",
            Self::Value => "value",
            Self::AgentId => "agent_id",
            Self::AgentKey => "agent_key",
            Self::ActionType => "action_type",
            Self::Chronology => "chronology",
            Self::OpenCall => "open_call",
            Self::DuplicateCall => "duplicate_call",
            Self::AgentIdentifier => "agent_identifier",
            Self::ActionId => "action_id",
            Self::Uuid => "uuid",
            Self::UnknownMember => "unknown_member",
            Self::Number => "number",
            Self::Key => "key",
        }
    }

    /// The remedy.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Version => "write \"1.0.0\", or read the document with a later turntree",
            Self::Id => "give it a UUID",
            Self::Timestamp => "write it like 2025-01-15T10:00:00Z",
            Self::Sequence => "number the actions from 1 in their order, without gaps",
            Self::ToolCallId => "add the tool_call before its tool_return, or remove the tool_return",
            Self::ToolName => "use the name of the call",
            Self::Value => "use one of the allowed values",
            Self::AgentId => "add the agent to agents",
            Self::AgentKey => "make the key and agent_id equal",
            Self::ActionType => "use a core type, or name an extension \"system.…\"",
            Self::Chronology => {
                "order the actions by time, or import with profile=\"portable\", which clamps times"
            }
            Self::OpenCall => "add the tool_return when there is one",
            Self::DuplicateCall => "give each call a unique id",
            Self::AgentIdentifier => "give each agent a unique identifier",
            Self::ActionId => "give each action a unique id, or none",
            Self::Uuid => "use a UUID",
            Self::UnknownMember => "move it into the metadata of the thread or the action",
            Self::Number => "write large or exact numbers as strings",
            Self::Key => "rename the member \"__proto__\"",
        }
    }
}

/// The severity of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The document breaks a rule.
    Error,
    /// The document is usable, but a reader may not expect this.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The rule.
    pub rule: Rule,
    /// The JSON pointer.
    pub pointer: String,
    /// The problem and the remedy.
    pub message: String,
    /// The severity.
    pub severity: Severity,
}

impl fmt::Display for Issue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.pointer, self.message)
    }
}

json_object! {
    /// One place where a document breaks a rule.
    #[derive(Debug, Clone, PartialEq)]
    pub struct IssueRecord {
        /// Which rule.
        pub rule: String = "rule",
        /// Where, as a JSON pointer.
        pub pointer: String = "pointer",
        /// Description of the problem and its remedy.
        pub message: String = "message",
        /// `error` or `warning`.
        pub severity: String = "severity",
        /// How to fix the problem.
        pub remedy: String = "remedy", default,
    }
}

impl From<Issue> for IssueRecord {
    fn from(issue: Issue) -> Self {
        Self {
            rule: issue.rule.name().to_owned(),
            pointer: issue.pointer,
            message: issue.message,
            severity: issue.severity.name().to_owned(),
            remedy: issue.rule.remedy().to_owned(),
            extra: Extra::new(),
        }
    }
}

/// Escapes a key as a segment of a JSON pointer (RFC 6901).
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

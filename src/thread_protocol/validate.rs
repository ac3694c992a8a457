//! The rules of the protocol, beyond its structure. ThreadProtocol 1.0.0, "Validation Rules".
//!
//! One pass, no recursion, never a panic: every document that could be read gets a list of issues, each with a place,
//! a rule and a remedy.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::action::{Action, ToolReturnAction};
use super::document::{Thread, VERSION};
use super::error::ThreadError;
use crate::core::time::Timestamp;

/// A rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// `version` is `1.0.0`.
    Version,
    /// Ids are not empty.
    Id,
    /// Timestamps are ISO 8601.
    Timestamp,
    /// Rule 1: `sequence` is unique and sequential, from 1.
    Sequence,
    /// Rule 2: a tool return answers an open call of its id.
    ToolCallId,
    /// Rule 2: a tool return names the tool of its call.
    ToolName,
    /// `status` and `finish_reason` have one of their values.
    Value,
    /// Rule 3: `agent_id` is a key of the registry.
    AgentId,
    /// Rule 3: the key of an agent is its id.
    AgentKey,
    /// Rule 4: core types are in `snake_case`, the others begin with `system.`.
    ActionType,
    /// Rule 5: timestamps do not run backwards.
    Chronology,
}

impl Rule {
    /// Its name in error lists.
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
        }
    }
}

/// How bad an issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The document breaks a rule.
    Error,
    /// The document is usable, but somebody may be surprised.
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

/// One place where a document breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Which rule.
    pub rule: Rule,
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What is wrong and what to do.
    pub message: String,
    /// How bad it is.
    pub severity: Severity,
}

impl fmt::Display for Issue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.pointer, self.message)
    }
}

impl Thread {
    /// Every place where the document breaks a rule of the protocol, in document order. Never fails.
    pub fn validate(&self) -> Vec<Issue> {
        let mut checker =
            Checker { thread: self, issues: Vec::new(), open: HashMap::new(), latest: None, expected: 1 };
        checker.header();
        checker.agents();
        for (place, action) in self.actions.iter().enumerate() {
            checker.action(place, action);
        }
        checker.issues
    }

    /// Checks the document; warnings pass.
    ///
    /// # Errors
    /// [`ThreadError::Invalid`] with every issue that is an error.
    pub fn check(&self) -> Result<(), ThreadError> {
        let mut issues = self.validate();
        issues.retain(|issue| issue.severity == Severity::Error);
        if issues.is_empty() { Ok(()) } else { Err(ThreadError::Invalid { issues }) }
    }
}

struct Checker<'a> {
    thread: &'a Thread,
    issues: Vec<Issue>,
    /// Calls that wait for their return: tool names by call id, first in, first out. Ids do repeat in real histories.
    open: HashMap<&'a str, VecDeque<&'a str>>,
    /// The latest time so far, and the sequence it belongs to.
    latest: Option<(Timestamp, u64)>,
    /// The sequence that the next action should have.
    expected: u64,
}

impl<'a> Checker<'a> {
    fn report(&mut self, rule: Rule, pointer: String, message: String) {
        self.issues.push(Issue { rule, pointer, message, severity: Severity::Error });
    }

    fn header(&mut self) {
        let thread = self.thread;
        if thread.version != VERSION {
            let message = format!("version \"{}\" is not known; this is for \"{VERSION}\"", thread.version);
            self.report(Rule::Version, "/version".to_owned(), message);
        }
        if thread.thread_id.is_empty() {
            self.report(
                Rule::Id,
                "/thread_id".to_owned(),
                "the id is empty; give the thread a UUID".to_owned(),
            );
        }
        self.timestamp("/created_at".to_owned(), &thread.created_at);
        self.timestamp("/updated_at".to_owned(), &thread.updated_at);
    }

    fn timestamp(&mut self, pointer: String, text: &str) -> Option<Timestamp> {
        match text.parse::<Timestamp>() {
            Ok(timestamp) => Some(timestamp),
            Err(error) => {
                self.report(Rule::Timestamp, pointer, error.to_string());
                None
            }
        }
    }

    fn agents(&mut self) {
        let thread = self.thread;
        for (key, agent) in thread.agents.iter() {
            let place = format!("/agents/{}", escape(key));
            if key.is_empty() {
                self.report(Rule::Id, place.clone(), "the id is empty; give the agent a UUID".to_owned());
            }
            if agent.agent_id != key {
                let message =
                    format!("the key is \"{key}\" but agent_id is \"{}\"; make them equal", agent.agent_id);
                self.report(Rule::AgentKey, format!("{place}/agent_id"), message);
            }
            self.timestamp(format!("{place}/created_at"), &agent.created_at);
        }
    }

    fn action(&mut self, place: usize, action: &'a Action) {
        let pointer = format!("/actions/{place}");
        self.sequence(&pointer, action);
        if let Some(timestamp) = self.timestamp(format!("{pointer}/timestamp"), action.timestamp()) {
            self.chronology(&pointer, timestamp, action.sequence());
        }
        if let Some(agent_id) = action.agent_id()
            && !self.thread.agents.contains(agent_id)
        {
            let message = format!("no agent \"{agent_id}\" in the registry; add it to agents");
            self.report(Rule::AgentId, format!("{pointer}/agent_id"), message);
        }
        match action {
            Action::ToolCall(call) => {
                self.open.entry(&call.tool_call_id).or_default().push_back(&call.tool_name);
            }
            Action::ToolReturn(returned) => self.tool_return(&pointer, returned),
            Action::AssistantMessage(message) => {
                let known = ["stop", "tool_call", "length", "content_filter"];
                if let Some(reason) = &message.finish_reason
                    && !known.contains(&reason.as_str())
                {
                    let message = format!("finish_reason \"{reason}\" is not one of {}", known.join(", "));
                    self.report(Rule::Value, format!("{pointer}/finish_reason"), message);
                }
            }
            Action::System(action) => self.system_type(&pointer, &action.action_type),
            Action::Other(action) => {
                let name = &action.action_type;
                let message = format!("\"{name}\" is no core action; name extensions \"system.{name}\"");
                self.report(Rule::ActionType, format!("{pointer}/action_type"), message);
            }
            Action::UserMessage(_) | Action::Thinking(_) => {}
        }
    }

    fn sequence(&mut self, pointer: &str, action: &Action) {
        let sequence = action.sequence();
        // Counted from the action before, so that one gap is one issue.
        let expected = std::mem::replace(&mut self.expected, sequence.saturating_add(1));
        if sequence != expected {
            let message = format!(
                "sequence {sequence} should be {expected}; number the actions from 1 in their order, without gaps"
            );
            self.report(Rule::Sequence, format!("{pointer}/sequence"), message);
        }
    }

    fn chronology(&mut self, pointer: &str, timestamp: Timestamp, sequence: u64) {
        match self.latest {
            Some((latest, holder)) if timestamp < latest => {
                let message = format!(
                    "{timestamp} is before {latest} of sequence {holder}; real histories may run backwards, \
                     the portable profile clamps them"
                );
                self.issues.push(Issue {
                    rule: Rule::Chronology,
                    pointer: format!("{pointer}/timestamp"),
                    message,
                    severity: Severity::Warning,
                });
            }
            _ => self.latest = Some((timestamp, sequence)),
        }
    }

    fn tool_return(&mut self, pointer: &str, returned: &'a ToolReturnAction) {
        let known = ["success", "error", "validation_error"];
        if !known.contains(&returned.status.as_str()) {
            let message = format!("status \"{}\" is not one of {}", returned.status, known.join(", "));
            self.report(Rule::Value, format!("{pointer}/status"), message);
        }
        let call_id = &returned.tool_call_id;
        match self.open.get_mut(call_id.as_str()).and_then(VecDeque::pop_front) {
            None => {
                let message = format!("no open call \"{call_id}\"; add the tool_call before its tool_return");
                self.report(Rule::ToolCallId, format!("{pointer}/tool_call_id"), message);
            }
            Some(name) if name != returned.tool_name => {
                let message = format!(
                    "call \"{call_id}\" is of tool \"{name}\", not \"{}\"; use the name of the call",
                    returned.tool_name
                );
                self.report(Rule::ToolName, format!("{pointer}/tool_name"), message);
            }
            Some(_) => {}
        }
    }

    fn system_type(&mut self, pointer: &str, name: &str) {
        let suffix = name.strip_prefix("system.").unwrap_or_default();
        if suffix.is_empty() || suffix.contains(char::is_whitespace) {
            let message =
                format!("\"{name}\" has no name after \"system.\"; write it like \"system.tool_grant\"");
            self.report(Rule::ActionType, format!("{pointer}/action_type"), message);
        }
    }
}

/// A key as a step of a JSON pointer (RFC 6901).
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

//! Validation of the protocol's rules, beyond the structure of the document.
//!
//! Validation is one pass without recursion and never panics. Every issue has a JSON pointer, a rule and a remedy.
//!
//! Spec: ThreadProtocol 1.0.0, "Validation Rules".

use std::collections::{HashMap, HashSet, VecDeque};

use super::action::{Action, ToolCallAction, ToolReturnAction};
use super::document::{Actions, Thread, VERSION};
use super::error::ThreadError;
use super::issue::{Issue, Rule, Severity, escape};
use super::roundtrip_metadata::has_history;
use super::strict;
use turntree_core::time::Timestamp;

impl Thread {
    /// Returns every violation of a rule, in document order. Never fails.
    ///
    /// Returns without a call and tool names that differ are errors, except in threads that were made from a history:
    /// the programs that write histories accept both there, so they are warnings (decision P34).
    pub fn validate(&self) -> Vec<Issue> {
        let mut checker = Checker {
            thread: self,
            issues: Vec::new(),
            from_history: has_history(self),
            open: OpenCalls::default(),
            action_ids: HashSet::new(),
            latest: None,
            expected: 1,
        };
        checker.header();
        checker.agents();
        for (index, action) in self.actions.iter().enumerate() {
            checker.action(index, action);
        }
        checker.open_calls();
        checker.issues
    }

    /// As [`Self::validate`], strictly: warnings become errors, ids must be UUIDs, times must have a UTC offset,
    /// members must be defined by the specification, and JavaScript must read all numbers without loss.
    pub fn validate_strictly(&self) -> Vec<Issue> {
        let mut issues = self.validate();
        issues.extend(strict::issues(self));
        for issue in &mut issues {
            issue.severity = Severity::Error;
        }
        issues
    }

    /// As [`Self::check`], with the rules of [`Self::validate_strictly`].
    ///
    /// # Errors
    /// [`ThreadError::Invalid`] with every issue.
    pub fn check_strictly(&self) -> Result<(), ThreadError> {
        let issues = self.validate_strictly();
        if issues.is_empty() { Ok(()) } else { Err(ThreadError::Invalid { issues }) }
    }

    /// Checks the document. Warnings are ignored.
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
    /// True if the thread was made from a history.
    from_history: bool,
    open: OpenCalls<'a>,
    action_ids: HashSet<&'a str>,
    /// The latest time so far, and the sequence of its action.
    latest: Option<(Timestamp, u64)>,
    /// The expected sequence of the next action.
    expected: u64,
}

/// Open calls: tool names by call id, first in, first out. Ids are not unique in real histories.
#[derive(Default)]
struct OpenCalls<'a> {
    calls: HashMap<&'a str, VecDeque<(usize, &'a str)>>,
}

/// The call of a return.
enum ReturnMatch<'a> {
    /// An open call of the same tool.
    Matched,
    /// No open call has the id.
    NoCall,
    /// The open call with the id is of this tool.
    OtherTool(&'a str),
}

impl<'a> OpenCalls<'a> {
    /// Opens a call and returns the number of open calls with its id.
    fn call(&mut self, index: usize, call: &'a ToolCallAction) -> usize {
        let open = self.calls.entry(&call.tool_call_id).or_default();
        open.push_back((index, &call.tool_name));
        open.len()
    }

    /// Closes the call of a return.
    fn answer(&mut self, returned: &ToolReturnAction) -> ReturnMatch<'a> {
        match self.calls.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front) {
            None => ReturnMatch::NoCall,
            Some((_, name)) if returned.tool_name != name => ReturnMatch::OtherTool(name),
            Some(_) => ReturnMatch::Matched,
        }
    }
}

/// True if a return has no open call, or the tool name of another call.
pub(super) fn has_unmatched_return(actions: &Actions) -> bool {
    let mut open = OpenCalls::default();
    actions.iter().enumerate().any(|(index, action)| match &**action {
        Action::ToolCall(call) => {
            open.call(index, call);
            false
        }
        Action::ToolReturn(returned) => !matches!(open.answer(returned), ReturnMatch::Matched),
        _ => false,
    })
}

impl<'a> Checker<'a> {
    fn report(&mut self, rule: Rule, pointer: String, message: String) {
        self.issues.push(Issue { rule, pointer, message, severity: Severity::Error });
    }

    fn warn(&mut self, rule: Rule, pointer: String, message: String) {
        self.issues.push(Issue { rule, pointer, message, severity: Severity::Warning });
    }

    /// Reports calls without a return, in document order.
    fn open_calls(&mut self) {
        let mut open: Vec<(usize, &str)> = self
            .open
            .calls
            .iter()
            .flat_map(|(id, calls)| calls.iter().map(|(index, _)| (*index, *id)))
            .collect();
        open.sort_unstable();
        for (index, id) in open {
            let message = format!("call \"{id}\" has no tool_return; {}", Rule::OpenCall.remedy());
            self.warn(Rule::OpenCall, format!("/actions/{index}/tool_call_id"), message);
        }
    }

    fn header(&mut self) {
        let thread = self.thread;
        if thread.version != VERSION {
            let message = format!("version \"{}\" is not supported; expected \"{VERSION}\"", thread.version);
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
            Ok(timestamp) if is_date_and_time(text.as_bytes()) => Some(timestamp),
            _ => {
                let text: String = text.chars().take(64).collect();
                let message =
                    format!("\"{text}\" is not an ISO 8601 date and time; {}", Rule::Timestamp.remedy());
                self.report(Rule::Timestamp, pointer, message);
                None
            }
        }
    }

    fn agents(&mut self) {
        let thread = self.thread;
        let mut identifiers = HashSet::new();
        for (key, agent) in thread.agents.iter() {
            let index = format!("/agents/{}", escape(key));
            if key.is_empty() {
                self.report(Rule::Id, index.clone(), "the id is empty; give the agent a UUID".to_owned());
            }
            if agent.agent_id != key {
                let message =
                    format!("the key is \"{key}\" but agent_id is \"{}\"; make them equal", agent.agent_id);
                self.report(Rule::AgentKey, format!("{index}/agent_id"), message);
            }
            self.timestamp(format!("{index}/created_at"), &agent.created_at);
            if !identifiers.insert(&agent.agent_identifier) {
                let identifier = &agent.agent_identifier;
                let message = format!(
                    "two agents have the identifier \"{identifier}\"; {}",
                    Rule::AgentIdentifier.remedy()
                );
                self.warn(Rule::AgentIdentifier, format!("{index}/agent_identifier"), message);
            }
        }
    }

    fn action(&mut self, index: usize, action: &'a Action) {
        let pointer = format!("/actions/{index}");
        self.sequence(&pointer, action);
        if let Some(timestamp) = self.timestamp(format!("{pointer}/timestamp"), action.timestamp()) {
            self.chronology(&pointer, timestamp, action.sequence());
        }
        if let Some(action_id) = action.action_id()
            && !self.action_ids.insert(action_id)
        {
            let message = format!("action_id \"{action_id}\" is used twice; {}", Rule::ActionId.remedy());
            self.warn(Rule::ActionId, format!("{pointer}/action_id"), message);
        }
        if let Some(agent_id) = action.agent_id()
            && !self.thread.agents.contains(agent_id)
        {
            let message = format!("no agent \"{agent_id}\" in the registry; add it to agents");
            self.report(Rule::AgentId, format!("{pointer}/agent_id"), message);
        }
        match action {
            Action::ToolCall(call) => {
                if self.open.call(index, call) > 1 {
                    let message = format!(
                        "call \"{}\" is still open; returns are matched in the order of the calls",
                        call.tool_call_id
                    );
                    self.warn(Rule::DuplicateCall, format!("{pointer}/tool_call_id"), message);
                }
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
                let message = format!("\"{name}\" is not a core action; name extensions \"system.{name}\"");
                self.report(Rule::ActionType, format!("{pointer}/action_type"), message);
            }
            Action::UserMessage(_) | Action::Thinking(_) => {}
        }
    }

    fn sequence(&mut self, pointer: &str, action: &Action) {
        let sequence = action.sequence();
        // Counted from the previous action, so that one gap gives one issue.
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
                    "{timestamp} is before {latest} of sequence {holder}; order the actions by time, or import with \
                     profile=\"portable\", which clamps times"
                );
                self.warn(Rule::Chronology, format!("{pointer}/timestamp"), message);
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
        let severity = if self.from_history { Severity::Warning } else { Severity::Error };
        let (rule, member, message) = match self.open.answer(returned) {
            ReturnMatch::Matched => return,
            ReturnMatch::NoCall => {
                let message = format!("no open call \"{call_id}\"; add the tool_call before its tool_return");
                (Rule::ToolCallId, "tool_call_id", message)
            }
            ReturnMatch::OtherTool(name) => {
                let message = format!(
                    "call \"{call_id}\" has tool \"{name}\", not \"{}\"; use the name of the call",
                    returned.tool_name
                );
                (Rule::ToolName, "tool_name", message)
            }
        };
        self.issues.push(Issue { rule, pointer: format!("{pointer}/{member}"), message, severity });
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

/// True if a text has the form of [`TIMESTAMP`](super::schema::TIMESTAMP). Days per month are not checked.
fn is_date_and_time(text: &[u8]) -> bool {
    let Some((clock, rest)) = text.split_at_checked("2025-01-15T10:00:00".len()) else { return false };
    let pair = |text: &[u8], most: u8| match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => (tens - b'0') * 10 + (ones - b'0') <= most,
        _ => false,
    };
    let field = |index: usize, most: u8| clock.get(index..index + 2).is_some_and(|text| pair(text, most));
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let is_clock = [(0, 99), (2, 99), (5, 12), (8, 31), (11, 23), (14, 59), (17, 59)]
        .into_iter()
        .all(|(index, most)| field(index, most))
        && marks.iter().all(|(index, mark)| clock.get(*index) == Some(mark));
    let zone = match rest {
        [b'.', digits @ ..] => {
            let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
            if !(1..=9).contains(&length) {
                return false;
            }
            digits.get(length..).unwrap_or_default()
        }
        zone => zone,
    };
    let is_zone = match zone {
        [] | b"Z" => true,
        [b'+' | b'-', hour @ .., b':', m1, m2] if hour.len() == 2 => pair(hour, 23) && pair(&[*m1, *m2], 59),
        [b'+' | b'-', h1, h2, b':', m1, m2, b':', s1, s2] => {
            pair(&[*h1, *h2], 23) && pair(&[*m1, *m2], 59) && pair(&[*s1, *s2], 59)
        }
        _ => false,
    };
    is_clock && is_zone
}

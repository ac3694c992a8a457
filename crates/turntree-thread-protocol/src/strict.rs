//! The additional rules of strict validation.
//!
//! `metadata` is a defined member of actions as of threads: "metadata fields provide extension points" (decision P35).

use uuid::Uuid;

use super::action::Action;
use super::canonical::has_offset;
use super::content::{ContentPart, MessageContent};
use super::document::Thread;
use super::issue::{Issue, Rule, Severity, escape};
use turntree_core::json::lossy::{LossyConversion, LossyKind, lossy_conversions};
use turntree_core::json::{Extra, RawJson, pointer as json_pointer};

/// Returns every violation of a strict rule.
pub(super) fn issues(thread: &Thread) -> Vec<Issue> {
    let mut checker = StrictChecker(Vec::new());
    checker.uuid("/thread_id", &thread.thread_id);
    if let Some(parent) = &thread.parent_thread_id {
        checker.uuid("/parent_thread_id", parent);
    }
    checker.time("/created_at", &thread.created_at);
    checker.time("/updated_at", &thread.updated_at);
    checker.extra("", &thread.extra);
    for (key, agent) in thread.agents.iter() {
        let index = format!("/agents/{}", escape(key));
        checker.uuid(&format!("{index}/agent_id"), &agent.agent_id);
        checker.time(&format!("{index}/created_at"), &agent.created_at);
        checker.extra(&index, &agent.extra);
    }
    for (index, action) in thread.actions.iter().enumerate() {
        checker.action(&format!("/actions/{index}"), action);
    }
    checker.0
}

struct StrictChecker(Vec<Issue>);

impl StrictChecker {
    fn report(&mut self, rule: Rule, pointer: String, what: &str) {
        let message = format!("{what}; {}", rule.remedy());
        self.0.push(Issue { rule, pointer, message, severity: Severity::Error });
    }

    fn uuid(&mut self, pointer: &str, id: &str) {
        if Uuid::parse_str(id).is_err() {
            let id: String = id.chars().take(64).collect();
            self.report(Rule::Uuid, pointer.to_owned(), &format!("invalid id \"{id}\": expected a UUID"));
        }
    }

    fn time(&mut self, pointer: &str, text: &str) {
        if !has_offset(text) {
            self.report(Rule::Timestamp, pointer.to_owned(), "the time has no offset from UTC");
        }
    }

    fn extra(&mut self, pointer: &str, extra: &Extra) {
        for (key, _) in extra.iter() {
            let index = format!("{pointer}/{}", escape(key));
            self.report(Rule::UnknownMember, index, &format!("the specification has no \"{key}\" here"));
        }
    }

    fn action(&mut self, pointer: &str, action: &Action) {
        self.time(&format!("{pointer}/timestamp"), action.timestamp());
        if let Some(id) = action.action_id() {
            self.uuid(&format!("{pointer}/action_id"), id);
        }
        match action {
            Action::UserMessage(action) => {
                self.extra(pointer, &action.extra);
                self.content(pointer, &action.content);
                for (index, attachment) in action.attachments.iter().flatten().enumerate() {
                    self.extra(&format!("{pointer}/attachments/{index}"), &attachment.extra);
                }
            }
            Action::AssistantMessage(action) => {
                self.extra(pointer, &action.extra);
                self.content(pointer, &action.content);
                if let Some(usage) = &action.usage {
                    self.extra(&format!("{pointer}/usage"), &usage.extra);
                }
            }
            Action::Thinking(action) => {
                self.extra(pointer, &action.extra);
                if let Some(usage) = &action.usage {
                    self.extra(&format!("{pointer}/usage"), &usage.extra);
                }
            }
            Action::ToolCall(action) => {
                self.extra(pointer, &action.extra);
                self.payload(&format!("{pointer}/args"), &action.args);
            }
            Action::ToolReturn(action) => {
                self.extra(pointer, &action.extra);
                self.payload(&format!("{pointer}/content"), &action.content);
            }
            Action::System(action) => {
                self.extra(pointer, &action.extra);
                self.payload(&format!("{pointer}/data"), &action.data);
            }
            // Its type is an error already.
            Action::Other(_) => {}
        }
    }

    fn content(&mut self, pointer: &str, content: &MessageContent) {
        let MessageContent::Parts(parts) = content else { return };
        for (index, part) in parts.iter().enumerate() {
            let index = format!("{pointer}/content/{index}");
            match part {
                ContentPart::Text(part) => self.extra(&index, &part.extra),
                ContentPart::Image(part) => self.extra(&index, &part.extra),
                ContentPart::File(part) => self.extra(&index, &part.extra),
                ContentPart::Audio(part) => self.extra(&index, &part.extra),
                ContentPart::Video(part) => self.extra(&index, &part.extra),
                ContentPart::Unknown(part) => {
                    let what = format!("the specification has no content of type \"{}\"", part.kind);
                    self.report(Rule::UnknownMember, format!("{index}/type"), &what);
                }
            }
        }
    }

    /// Reports values that JavaScript would change.
    fn payload(&mut self, pointer: &str, value: &RawJson) {
        for loss in lossy_conversions(value.get()) {
            self.0.push(issue_of(&loss, pointer, Severity::Error));
        }
    }
}

/// Converts a lossy conversion to an issue; `pointer` is the location of the checked value.
pub(super) fn issue_of(loss: &LossyConversion, pointer: &str, severity: Severity) -> Issue {
    let (rule, what) = match &loss.kind {
        LossyKind::Digits(digits) => (Rule::Number, format!("JavaScript would change {digits}")),
        LossyKind::Prototype => (Rule::Key, "JavaScript would lose the member".to_owned()),
    };
    let pointer = format!("{pointer}{}", json_pointer(&loss.path));
    Issue { rule, pointer, message: format!("{what}; {}", rule.remedy()), severity }
}

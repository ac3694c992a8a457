//! What only readers that take the specification by its letter mind. Part of strict validation.

use uuid::Uuid;

use super::action::Action;
use super::canonical::has_offset;
use super::content::{ContentPart, MessageContent};
use super::document::Thread;
use super::validate::{Issue, Rule, Severity, escape};
use crate::core::json::{Extra, RawJson, Token};

/// Every place that breaks one of the strict rules.
pub(super) fn issues(thread: &Thread) -> Vec<Issue> {
    let mut found = Found(Vec::new());
    found.uuid("/thread_id", &thread.thread_id);
    if let Some(parent) = &thread.parent_thread_id {
        found.uuid("/parent_thread_id", parent);
    }
    found.time("/created_at", &thread.created_at);
    found.time("/updated_at", &thread.updated_at);
    found.extra("", &thread.extra);
    for (key, agent) in thread.agents.iter() {
        let place = format!("/agents/{}", escape(key));
        found.uuid(&format!("{place}/agent_id"), &agent.agent_id);
        found.time(&format!("{place}/created_at"), &agent.created_at);
        found.extra(&place, &agent.extra);
    }
    for (place, action) in thread.actions.iter().enumerate() {
        found.action(&format!("/actions/{place}"), action);
    }
    found.0
}

struct Found(Vec<Issue>);

impl Found {
    fn report(&mut self, rule: Rule, pointer: String, what: &str) {
        let message = format!("{what}; {}", rule.remedy());
        self.0.push(Issue { rule, pointer, message, severity: Severity::Error });
    }

    fn uuid(&mut self, pointer: &str, id: &str) {
        if Uuid::parse_str(id).is_err() {
            let id: String = id.chars().take(64).collect();
            self.report(Rule::Uuid, pointer.to_owned(), &format!("\"{id}\" is no UUID"));
        }
    }

    fn time(&mut self, pointer: &str, text: &str) {
        if !has_offset(text) {
            self.report(Rule::Timestamp, pointer.to_owned(), "the time has no offset from UTC");
        }
    }

    fn extra(&mut self, pointer: &str, extra: &Extra) {
        for (key, _) in extra.iter() {
            let place = format!("{pointer}/{}", escape(key));
            self.report(Rule::UnknownMember, place, &format!("the specification has no \"{key}\" here"));
        }
    }

    fn action(&mut self, pointer: &str, action: &Action) {
        self.time(&format!("{pointer}/timestamp"), action.timestamp());
        if let Some(id) = action.action_id() {
            self.uuid(&format!("{pointer}/action_id"), id);
        }
        if action.metadata().is_some() {
            let place = format!("{pointer}/metadata");
            self.report(Rule::UnknownMember, place, "the specification has no \"metadata\" here");
        }
        match action {
            Action::UserMessage(action) => {
                self.extra(pointer, &action.extra);
                self.content(pointer, &action.content);
                for (place, attachment) in action.attachments.iter().flatten().enumerate() {
                    self.extra(&format!("{pointer}/attachments/{place}"), &attachment.extra);
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
                self.numbers(&format!("{pointer}/args"), &action.args);
            }
            Action::ToolReturn(action) => {
                self.extra(pointer, &action.extra);
                self.numbers(&format!("{pointer}/content"), &action.content);
            }
            Action::System(action) => {
                self.extra(pointer, &action.extra);
                self.numbers(&format!("{pointer}/data"), &action.data);
            }
            // Its type is an error already.
            Action::Other(_) => {}
        }
    }

    fn content(&mut self, pointer: &str, content: &MessageContent) {
        let MessageContent::Parts(parts) = content else { return };
        for (place, part) in parts.iter().enumerate() {
            let place = format!("{pointer}/content/{place}");
            match part {
                ContentPart::Text(part) => self.extra(&place, &part.extra),
                ContentPart::Image(part) => self.extra(&place, &part.extra),
                ContentPart::File(part) => self.extra(&place, &part.extra),
                ContentPart::Audio(part) => self.extra(&place, &part.extra),
                ContentPart::Video(part) => self.extra(&place, &part.extra),
                ContentPart::Unknown(part) => {
                    let what = format!("the specification has no content of type \"{}\"", part.kind);
                    self.report(Rule::UnknownMember, format!("{place}/type"), &what);
                }
            }
        }
    }

    /// Numbers that a reader that holds doubles would change.
    fn numbers(&mut self, pointer: &str, value: &RawJson) {
        let mut path: Vec<String> = Vec::new();
        for token in value.reader() {
            match token {
                Token::ObjectStart => path.push(String::new()),
                Token::ArrayStart => path.push("0".to_owned()),
                Token::ObjectEnd | Token::ArrayEnd => {
                    path.pop();
                    next(&mut path);
                }
                Token::Key(key) => {
                    if let Some(last) = path.last_mut() {
                        *last = escape(&key.decode());
                    }
                }
                Token::Number(digits) => {
                    if !survives(digits) {
                        let steps = path.iter().fold(String::new(), |steps, step| steps + "/" + step);
                        let what = format!("a JavaScript reader would change {digits}");
                        self.report(Rule::Number, format!("{pointer}{steps}"), &what);
                    }
                    next(&mut path);
                }
                Token::String(_) | Token::Bool(_) | Token::Null => next(&mut path),
            }
        }
    }
}

/// Counts on in a list; in an object the next key says where the next value is.
fn next(path: &mut [String]) {
    if let Some(last) = path.last_mut()
        && let Ok(index) = last.parse::<usize>()
    {
        *last = (index + 1).to_string();
    }
}

/// The largest integer up to which every integer is a double.
const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;

fn survives(digits: &str) -> bool {
    let Ok(value) = digits.parse::<f64>() else { return false };
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    value.is_finite() && (!is_integer || value.abs() <= LARGEST_SAFE)
}

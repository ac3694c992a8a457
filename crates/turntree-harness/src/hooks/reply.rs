//! What a harness reads: exit status, output, error output.

use serde_json::json;

use super::adapter::ReplyForm;
use super::event::{EventKind, HookEvent};
use crate::policy::decision::Outcome;

/// A reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookReply {
    /// The exit status.
    pub exit: i32,
    /// The output.
    pub stdout: String,
    /// The error output.
    pub stderr: String,
}

/// The reply to a tool call, or to a stop.
pub(super) fn decision(form: ReplyForm, outcome: Outcome, event_name: &str, message: &str) -> HookReply {
    let json =
        |exit, value: serde_json::Value| HookReply { exit, stdout: value.to_string(), stderr: String::new() };
    match (form, outcome) {
        (ReplyForm::Claude | ReplyForm::Codex, Outcome::Allow) => HookReply::default(),
        (ReplyForm::Claude | ReplyForm::Codex, Outcome::Deny) | (ReplyForm::Codex, Outcome::Ask) => {
            HookReply { exit: 2, stdout: String::new(), stderr: message.to_owned() }
        }
        (ReplyForm::Claude, Outcome::Ask) => json(
            0,
            json!({"hookSpecificOutput": {"hookEventName": event_name, "permissionDecision": "ask", "permissionDecisionReason": message}}),
        ),
        (ReplyForm::Claude | ReplyForm::Codex, Outcome::Warn) => json(
            0,
            json!({"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": message}}),
        ),
        (ReplyForm::Cursor, _) => {
            let permission = match outcome {
                Outcome::Allow | Outcome::Warn => "allow",
                Outcome::Ask => "ask",
                Outcome::Deny => "deny",
            };
            let mut reply = json!({"permission": permission});
            if let Some(object) = reply.as_object_mut().filter(|_| !message.is_empty()) {
                object.insert("user_message".to_owned(), message.into());
                object.insert("agent_message".to_owned(), message.into());
            }
            json(if outcome == Outcome::Deny { 2 } else { 0 }, reply)
        }
        // The plugin cannot ask.
        (ReplyForm::Plugin, _) => {
            let decision = if outcome >= Outcome::Ask { "deny" } else { outcome.as_str() };
            json(
                if outcome >= Outcome::Ask { 2 } else { 0 },
                json!({"decision": decision, "reason": message}),
            )
        }
        (ReplyForm::Generic, _) => {
            let exit = if outcome == Outcome::Deny { 2 } else { 0 };
            json(exit, json!({"decision": outcome.as_str(), "reason": message}))
        }
    }
}

/// The reply that gives the model a text.
pub(super) fn context(form: ReplyForm, event: &HookEvent, text: &str) -> HookReply {
    if text.is_empty() {
        return HookReply::default();
    }
    let stdout = match form {
        ReplyForm::Claude | ReplyForm::Codex if event.kind == EventKind::SessionStart => text.to_owned(),
        ReplyForm::Claude | ReplyForm::Codex => {
            json!({"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}})
                .to_string()
        }
        ReplyForm::Cursor => json!({"additional_context": text}).to_string(),
        ReplyForm::Plugin | ReplyForm::Generic => json!({"context": text}).to_string(),
    };
    HookReply { exit: 0, stdout, stderr: String::new() }
}

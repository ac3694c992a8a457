//! Sentences and lists of errors. They repeat little of the input: a client may have sent anything.

use serde_json::{Value, json};
use turntree_agents::types::Violation;

use crate::engine::{Failure, Refusal};

/// Maximum number of characters of one name from a request.
const MAX_NAME: usize = 100;

/// Maximum number of errors in a list.
const MAX_ERRORS: usize = 8;

/// Maximum number of characters of one message in a list. Validators repeat the value in it.
const MAX_MESSAGE: usize = 90;

/// Maximum number of characters of the path to a value.
const MAX_PATH: usize = 30;

/// Shortens text from a request.
pub(super) fn clip(text: &str) -> String {
    shorten(text, MAX_NAME)
}

fn shorten(text: &str, limit: usize) -> String {
    let mut shortened: String = text.chars().take(limit).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    shortened
}

/// The names, each of them shortened.
pub(super) fn names(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<String> = names.iter().take(MAX_ERRORS).map(|name| shorten(name, MAX_MESSAGE)).collect();
    let more = names.len().saturating_sub(MAX_ERRORS);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// Violations as `[{loc, msg, type}]`.
pub(super) fn errors(violations: &[Violation]) -> Value {
    let listed = violations.iter().take(MAX_ERRORS).map(|violation| {
        json!({
            "loc": location(&violation.pointer),
            "msg": shorten(&violation.message, MAX_MESSAGE),
            "type": violation.rule,
        })
    });
    listed.collect()
}

/// A JSON Pointer as a list of member names and indexes.
fn location(pointer: &str) -> Vec<Value> {
    let parts = pointer.split('/').skip(1).enumerate();
    let parts = parts.map(|(depth, part)| {
        let part = part.replace("~1", "/").replace("~0", "~");
        let index = part.parse::<u32>().ok().filter(|_| depth > 0);
        index.map_or_else(|| json!(shorten(&part, MAX_PATH)), |index| json!(index))
    });
    parts.take(MAX_ERRORS).collect()
}

/// The first violations as one sentence.
pub(super) fn sentence(violations: &[Violation]) -> String {
    let first = violations.iter().take(3).map(|violation| {
        let message = shorten(&violation.message, MAX_MESSAGE);
        let place = violation.pointer.strip_prefix('/').unwrap_or_default();
        if place.is_empty() { message } else { format!("{}: {message}", shorten(place, MAX_PATH)) }
    });
    first.collect::<Vec<_>>().join("; ")
}

/// Why an action is refused, for people and models.
pub(super) fn refusal(stage: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::TaskNotInStage { task, allowed } => {
            format!("Task '{}' is not in stage '{stage}'. Tasks: {}", clip(task), names(allowed))
        }
        Refusal::InvalidArgs { task, violations } => {
            format!("Invalid arguments of task '{}': {}", clip(task), sentence(violations))
        }
        Refusal::InvalidTransition { to, allowed } => {
            format!(
                "Cannot transition from '{stage}' to '{}'. Stages that may follow: {}",
                clip(to),
                names(allowed)
            )
        }
        Refusal::MissingPrerequisites { stage, missing, violations } if violations.is_empty() => {
            format!("Stage '{stage}' requires state that is missing: {}", names(missing))
        }
        Refusal::MissingPrerequisites { stage, missing, violations } if missing.is_empty() => {
            format!("Stage '{stage}' requires other values: {}", sentence(violations))
        }
        Refusal::MissingPrerequisites { stage, missing, violations } => {
            let (missing, invalid) = (names(missing), sentence(violations));
            format!("Stage '{stage}' requires state that is missing: {missing}; and other values: {invalid}")
        }
        Refusal::TransitionDenied { to } => {
            format!("The transition from '{stage}' to '{to}' is not allowed in the current state")
        }
        Refusal::KeyNotWritable { keys, allowed } => {
            format!("State keys that you may not write: {}. You may write: {}", names(keys), names(allowed))
        }
        Refusal::InvalidStateValue { violations } => format!("Invalid state: {}", sentence(violations)),
        Refusal::NotTerminal { terminal } => {
            format!(
                "The session cannot end in stage '{stage}'; go to one of these stages first: {}",
                names(terminal)
            )
        }
    }
}

/// Why a function of the application has failed, for the agent: no text of exceptions that are not meant for it.
pub(super) fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Message(message) => shorten(message, 4_000),
        Failure::Internal { correlation_id } => {
            format!("the application has failed; nothing was stored (correlation id {correlation_id})")
        }
        Failure::InvalidResult { task, .. } => {
            format!("task '{task}' has returned a value that its schema forbids; nothing was stored")
        }
        Failure::InvalidState { .. } => {
            "the application has written state that its schema or a limit forbids; nothing was stored"
                .to_owned()
        }
        Failure::Timeout { limit } => {
            format!("Task timed out after {} s; nothing was stored", limit.as_secs_f64())
        }
    }
}

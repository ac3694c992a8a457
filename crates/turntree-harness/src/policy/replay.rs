//! Recorded decisions, decided again: what a change of the policies would change.

use serde_json::{Value, json};

use super::action::Action;
use super::audit::Entry;
use super::context::Alone;
use super::gate::Gate;

/// What a replay has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    /// The decisions that were made again.
    pub count: u64,
    /// Those that cannot be: the action had a secret, or depended on other agents.
    pub skipped: u64,
    /// Those that end in another way now.
    pub changes: Vec<Change>,
}

/// A decision that ends in another way.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The number of the entry.
    pub number: i64,
    /// What was done: the command, or the paths.
    pub subject: String,
    /// The outcome that was recorded.
    pub before: String,
    /// The outcome now.
    pub after: String,
    /// The rules that say so now.
    pub rules: Vec<String>,
}

/// Decides about recorded actions by the rules of a gate. Nothing is recorded.
///
/// Rules that look at the repository see it as it is now. The contents of edited files are not recorded, and other agents
/// are not looked at.
pub fn replay(gate: &Gate, entries: &[Entry]) -> Replay {
    let mut found = Replay::default();
    for entry in entries {
        let Some(action) = action_of(&entry.facts, gate).filter(|_| !depends_on_others(entry)) else {
            found.skipped += 1;
            continue;
        };
        found.count += 1;
        let decision = gate.decide(&action, &[], &Alone);
        if decision.outcome.as_str() != entry.outcome {
            found.changes.push(Change {
                number: entry.number,
                subject: subject(&entry.facts),
                before: entry.outcome.clone(),
                after: decision.outcome.as_str().to_owned(),
                rules: decision.rules.iter().map(|matched| matched.finding.rule.to_string()).collect(),
            });
        }
    }
    found
}

fn depends_on_others(entry: &Entry) -> bool {
    let rules = entry.rules.as_array().into_iter().flatten();
    rules.filter_map(|rule| rule.get("id")?.as_str()).any(|id| id.starts_with("coordination."))
}

fn subject(facts: &Value) -> String {
    let command = facts.get("command").and_then(Value::as_str).map(str::to_owned);
    let paths = || {
        let paths = facts.get("paths").and_then(Value::as_array).into_iter().flatten();
        paths.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    command.unwrap_or_else(paths)
}

/// The action of recorded facts. `None` if they do not have it.
fn action_of(facts: &Value, gate: &Gate) -> Option<Action> {
    let text = |key: &str| facts.get(key).and_then(Value::as_str);
    let (kind, cwd) = (text("kind")?, text("cwd")?);
    let action = match (kind, facts.get("mcp"), facts.get("arguments")) {
        ("shell", ..) => json!({"kind": "shell", "command": text("command")?}),
        ("edit" | "read", ..) => json!({"kind": kind, "paths": facts.get("paths")?}),
        (_, Some(mcp), _) => {
            let mut mcp = mcp.clone();
            mcp.as_object_mut()?.insert("kind".to_owned(), "mcp".into());
            mcp
        }
        (_, _, Some(arguments)) => json!({"kind": "other", "tool": kind, "arguments": arguments}),
        _ => return None,
    };
    Action::from_json(&action, cwd, gate.home()).ok()
}

//! Recorded decisions, decided again: what a change of the policies would change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::action::Action;
use super::audit::Entry;
use super::commit::GIT;
use super::context::Alone;
use super::decision::Matched;
use super::gate::Gate;

/// What a replay has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    /// The decisions that were made again.
    pub count: u64,
    /// Those that cannot be: the action had a secret, or the decision depended on other agents or was that of a hook of git.
    pub skipped: u64,
    /// The ids of rules that have found something then and were not asked now: those of decisions that are left out, rules
    /// that are gone, and functions in Python that the caller does not have.
    pub not_asked: Vec<String>,
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

/// Rules that the caller asks itself, such as functions in Python.
#[derive(Debug, Clone, Default)]
pub struct CallersRules {
    /// Their ids.
    pub ids: Vec<String>,
    /// What they find in the action of each entry, in the order of the entries.
    pub found: Vec<Vec<Matched>>,
}

/// The actions of entries, as [`Action::from_json`] reads them; `None` for those that cannot be decided again.
pub fn actions(entries: &[Entry]) -> Vec<Option<Value>> {
    entries.iter().map(|entry| if is_replayable(entry) { action_of(entry) } else { None }).collect()
}

/// Decides about recorded actions by the rules of a gate and of the caller. Nothing is recorded.
///
/// Rules that look at the repository see it as it is now. The contents of edited files are not recorded, and other agents
/// are not looked at.
pub fn replay(gate: &Gate, entries: &[Entry], callers: &CallersRules) -> Replay {
    let mut found = Replay::default();
    let rules = gate.rules();
    let is_known =
        |id: &str| rules.iter().any(|(rule, _)| rule.id == id) || callers.ids.iter().any(|own| own == id);
    let mut not_asked = BTreeSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let is_replayable = is_replayable(entry);
        let unasked = ids(entry).filter(|id| !is_replayable || !is_known(id));
        not_asked.extend(unasked.map(str::to_owned));
        let action = action_of(entry).filter(|_| is_replayable);
        let Some(action) = action.and_then(|action| Action::from_json(&action, "/", gate.home()).ok()) else {
            found.skipped += 1;
            continue;
        };
        found.count += 1;
        let mut decision = gate.decide(&action, &[], &Alone);
        decision.rules.extend(callers.found.get(at).into_iter().flatten().cloned());
        decision.settle();
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
    found.not_asked = not_asked.into_iter().collect();
    found
}

/// Whether the decision depended on the action alone, and not on other agents or on what a commit was about to take.
fn is_replayable(entry: &Entry) -> bool {
    entry.harness != GIT && ids(entry).all(is_alone)
}

fn is_alone(id: &str) -> bool {
    !id.starts_with("coordination.")
}

/// The ids of the rules that have found something.
fn ids(entry: &Entry) -> impl Iterator<Item = &str> {
    let rules = entry.rules.as_array().into_iter().flatten();
    rules.filter_map(|rule| rule.get("id")?.as_str())
}

fn subject(facts: &Value) -> String {
    let command = facts.get("command").and_then(Value::as_str).map(str::to_owned);
    let paths = || {
        let paths = facts.get("paths").and_then(Value::as_array).into_iter().flatten();
        paths.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    command.unwrap_or_else(paths)
}

/// The action of an entry. `None` if its facts do not have it.
fn action_of(entry: &Entry) -> Option<Value> {
    let facts = &entry.facts;
    let text = |key: &str| facts.get(key).and_then(Value::as_str);
    let kind = text("kind")?;
    let mut action = match (kind, facts.get("mcp"), facts.get("arguments")) {
        ("shell", ..) => json!({"kind": "shell", "command": text("command")?}),
        ("edit" | "read", ..) => {
            let paths = facts.get("paths")?;
            json!({"kind": kind, "path": paths.get(0)?, "paths": paths})
        }
        (_, Some(mcp), _) => {
            let mut mcp = mcp.clone();
            mcp.as_object_mut()?.insert("kind".to_owned(), "mcp".into());
            mcp
        }
        (_, _, Some(arguments)) => json!({"kind": "other", "tool": kind, "arguments": arguments}),
        _ => return None,
    };
    let known = action.as_object_mut()?;
    known.insert("cwd".to_owned(), text("cwd")?.into());
    for (key, value) in [("agent", &entry.agent), ("session", &entry.session), ("harness", &entry.harness)] {
        known.insert(key.to_owned(), value.as_str().into());
    }
    Some(action)
}

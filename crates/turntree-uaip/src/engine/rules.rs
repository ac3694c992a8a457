//! The rules of single steps: arguments, prerequisites, writable keys, values.

use serde_json::{Map, Value};
use turntree_agents::types::Violation;

use super::limits::Limits;
use super::outcome::Refusal;
use super::session::Session;
use crate::definition::{Prerequisite, Stage, Task, Workflow};
use crate::state::{MAX_KEY, State, WorkingState, json_length};

/// Escapes a key as a part of a JSON Pointer (RFC 6901).
pub(super) fn pointer(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Checks values by key against the limits.
fn over_limits(values: &Map<String, Value>, limits: Limits) -> Vec<Violation> {
    let broken = values.iter().filter_map(|(key, value)| {
        let (rule, message) = limits.check(value)?;
        Some(Violation::new(pointer(key), rule, &message))
    });
    broken.collect()
}

pub(super) fn check_args(task: &Task, args: &Map<String, Value>, limits: Limits) -> Result<(), Refusal> {
    let mut violations = over_limits(args, limits);
    if violations.is_empty() {
        violations = task.parameters.violations(&Value::Object(args.clone()));
    }
    if violations.is_empty() {
        return Ok(());
    }
    Err(Refusal::InvalidArgs { task: task.name.clone(), violations })
}

/// Checks what a stage needs before it is entered.
pub(super) fn check_prerequisites(stage: &Stage, state: &WorkingState) -> Result<(), Refusal> {
    let mut missing: Vec<String> = Vec::new();
    let mut violations = Vec::new();
    for prerequisite in &stage.prerequisites {
        let absent = prerequisite.required_keys().into_iter().filter(|key| state.get(key).is_none());
        let absent: Vec<String> = absent.map(str::to_owned).collect();
        let is_complete = absent.is_empty();
        missing.extend(absent.into_iter().filter(|key| !missing.contains(key)).collect::<Vec<_>>());
        if let Prerequisite::Model { schema, .. } = prerequisite
            && is_complete
        {
            let fields =
                schema.properties().filter_map(|(key, _)| Some((key.clone(), state.get(key)?.clone())));
            violations.extend(schema.violations(&Value::Object(fields.collect())));
        }
    }
    if missing.is_empty() && violations.is_empty() {
        return Ok(());
    }
    Err(Refusal::MissingPrerequisites { stage: stage.name.clone(), missing, violations })
}

pub(super) fn check_updates(
    workflow: &Workflow,
    updates: &Map<String, Value>,
    limits: Limits,
) -> Result<(), Refusal> {
    let denied = updates.keys().filter(|key| !workflow.is_agent_writable(key));
    let keys: Vec<String> = denied.cloned().collect();
    if !keys.is_empty() {
        let allowed = workflow.agent_writable_keys().unwrap_or_default();
        let allowed = allowed.into_iter().map(str::to_owned).collect();
        return Err(Refusal::KeyNotWritable { keys, allowed });
    }
    let bad_keys = updates.keys().filter(|key| key.is_empty() || key.len() > MAX_KEY);
    let mut violations: Vec<Violation> = bad_keys
        .map(|key| {
            let shown: String = key.chars().take(40).collect();
            Violation::new(pointer(&shown), "key", &format!("a key has 1 to {MAX_KEY} bytes"))
        })
        .collect();
    violations.extend(over_limits(updates, limits));
    if violations.is_empty()
        && let Some(schema) = workflow.state_schema()
    {
        violations = schema.violations(&Value::Object(updates.clone()));
    }
    if violations.is_empty() { Ok(()) } else { Err(Refusal::InvalidStateValue { violations }) }
}

/// Checks the size of the state.
pub(super) fn check_size(session: &Session, limits: Limits) -> Result<(), Violation> {
    let (found, limit) = (session.state_bytes(), limits.state_bytes);
    if found <= limit {
        return Ok(());
    }
    let message =
        format!("the state has {found} bytes, more than the limit of {limit}; delete or shorten values");
    Err(Violation::new("", "state_size", &message))
}

/// Checks what a task or a hook has written: the schema of the state, the limits, and the size.
pub(super) fn check_written(
    workflow: &Workflow,
    before: &Session,
    after: &Session,
    limits: Limits,
) -> Vec<Violation> {
    let empty = State::default();
    let own = after
        .stages
        .iter()
        .flat_map(|(stage, state)| state.changes_since(before.stages.get(stage).unwrap_or(&empty)));
    let changes = after.state.changes_since(&before.state).into_iter().chain(own);
    let written: Map<String, Value> =
        changes.filter_map(|change| Some((change.key.to_string(), (*change.value?).clone()))).collect();
    if written.is_empty() {
        return Vec::new();
    }
    let mut violations = over_limits(&written, limits);
    violations.extend(
        written
            .keys()
            .filter(|key| key.is_empty() || key.len() > MAX_KEY)
            .map(|_| Violation::new("", "key", &format!("a key has 1 to {MAX_KEY} bytes"))),
    );
    violations.extend(check_size(after, limits).err());
    if violations.is_empty()
        && let Some(schema) = workflow.state_schema()
    {
        violations = schema.violations(&Value::Object(written));
    }
    violations
}

/// Checks the result of a task.
pub(super) fn check_result(task: &Task, result: &Value, limits: Limits) -> Vec<Violation> {
    let size = json_length(result);
    if size > limits.result_bytes {
        let limit = limits.result_bytes;
        let message = format!("the result has {size} bytes, more than the limit of {limit}; return less");
        return vec![Violation::new("", "result_size", &message)];
    }
    task.returns.as_ref().map(|schema| schema.violations(result)).unwrap_or_default()
}

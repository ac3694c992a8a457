//! Workflows and steps that several tests use.

pub(crate) mod service;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use turntree_uaip::engine::{Call, CallKind, CallResult};
use turntree_uaip::{Action, DefinitionError, Execution, Limits, Outcome, Session, Step, Workflow};

/// Compiles a definition.
pub(crate) fn compile(definition: Value) -> Result<Workflow, DefinitionError> {
    Workflow::new(serde_json::from_value(definition).unwrap())
}

/// Compiles a definition that is valid.
pub(crate) fn workflow(definition: Value) -> Arc<Workflow> {
    Arc::new(compile(definition).unwrap_or_else(|error| panic!("{error}")))
}

/// A shop: browse, cart, checkout, done. `total` is private; checkout needs an e-mail address and a quantity.
pub(crate) fn shop() -> Value {
    json!({
        "name": "store",
        "description": "A shop",
        "stages": [
            {"name": "browse", "description": "Find products", "tasks": [
                {"name": "search", "description": "Finds products", "parameters": {
                    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
            ]},
            {"name": "cart", "tasks": [
                {"name": "add_to_cart", "description": "Adds a product", "parameters": {
                    "type": "object",
                    "properties": {"product_id": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
                    "required": ["product_id"]},
                 "returns": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}},
            ]},
            {"name": "checkout", "prerequisites": ["user.email", {"model": "Order", "schema": {
                "type": "object", "required": ["quantity"],
                "properties": {"quantity": {"type": "integer", "minimum": 1}, "note": {"type": "string"}}}}],
             "tasks": [{"name": "pay", "description": "Pays"}]},
            {"name": "done", "complete_on_enter": true},
        ],
        "transitions": [
            {"from": "browse", "to": "cart"},
            {"from": "cart", "to": "browse"},
            {"from": "cart", "to": "checkout"},
            {"from": "checkout", "to": "done"},
        ],
        "private": ["total"],
    })
}

/// The outcome of a step without a call.
pub(crate) fn done(step: Step) -> Outcome {
    match step {
        Step::Done(outcome) => *outcome,
        Step::Call(call) => panic!("expected an outcome, got the call {call:?}"),
    }
}

/// A new session of a workflow without a hook at the start.
pub(crate) fn open(workflow: &Arc<Workflow>) -> Session {
    done(Execution::initialize(workflow, Limits::default()).1).session
}

/// Executes an action; the function answers the calls.
pub(crate) fn execute(
    workflow: &Arc<Workflow>,
    session: &Session,
    action: Action,
    mut answer: impl FnMut(Call) -> CallResult,
) -> Outcome {
    let (mut execution, mut step) =
        Execution::begin(workflow, session.clone(), action, Limits::default()).unwrap();
    loop {
        match step {
            Step::Done(outcome) => return *outcome,
            Step::Call(call) => step = execution.feed(answer(*call)).unwrap(),
        }
    }
}

/// Tasks return `null` and write nothing; guards agree.
pub(crate) fn no_op(call: Call) -> CallResult {
    match call.kind {
        CallKind::Guard { .. } => CallResult::Guard { allowed: true },
        CallKind::Prerequisites { .. } => CallResult::Prerequisites { violations: Vec::new() },
        _ => CallResult::Done { value: Value::Null, state: call.state },
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn call(task: &str, args: Value) -> Action {
    Action::MethodCall { task: task.to_owned(), args: object(args) }
}

pub(crate) fn go(stage: &str) -> Action {
    Action::StageTransition { stage: stage.to_owned() }
}

pub(crate) fn provide(updates: Value) -> Action {
    Action::StateInput { updates: object(updates) }
}

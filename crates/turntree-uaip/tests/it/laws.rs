//! Laws of the engine over random workflows and random sequences of actions.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree_uaip::engine::{CallFailure, CallKind, CallResult, Refusal, Reply, SessionStatus};
use turntree_uaip::{Action, Session, Workflow};

use crate::support::{call, compile, execute, go, open, provide};

/// What the application answers to a call.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Done,
    Write(u8),
    Delete(u8),
    Fail,
    Deny,
}

fn definitions() -> impl Strategy<Value = Value> {
    let stage = (any::<[bool; 3]>(), prop::collection::vec(0..4_u8, 0..2));
    let stages = prop::collection::vec(stage, 2..6);
    let transitions = prop::collection::vec((0..6_usize, 0..6_usize, any::<bool>()), 1..14);
    (stages, transitions, any::<bool>()).prop_map(|(stages, transitions, has_stores)| {
        let count = stages.len();
        let stages = stages.into_iter().enumerate().map(|(index, ([enter, exit, complete], keys))| {
            let keys: Vec<String> =
                keys.into_iter().filter(|_| index > 0).map(|key| format!("k{key}")).collect();
            json!({"name": format!("s{index}"), "tasks": [{"name": format!("t{index}")}, {"name": "shared"}],
                "prerequisites": keys, "on_enter": enter && index > 0, "on_exit": exit, "complete_on_enter": complete})
        });
        // A chain makes all stages reachable.
        let mut edges: Vec<(usize, usize, bool)> = (1..count).map(|to| (to - 1, to, false)).collect();
        for (from, to, guarded) in transitions {
            let (from, to) = (from % count, to % count);
            if !edges.iter().any(|edge| (edge.0, edge.1) == (from, to)) {
                edges.push((from, to, guarded));
            }
        }
        let edges: Vec<Value> = edges
            .into_iter()
            .map(|(from, to, guarded)| json!({"from": format!("s{from}"), "to": format!("s{to}"), "guarded": guarded}))
            .collect();
        let stores = if has_stores { json!([]) } else { Value::Null };
        json!({"name": "random", "stages": stages.collect::<Vec<_>>(), "transitions": edges,
            "private": ["k3"], "state_management": stores})
    })
}

fn actions() -> impl Strategy<Value = (Action, Answer)> {
    let action = prop_oneof![
        (0..6_u8).prop_map(|index| call(&format!("t{index}"), json!({}))),
        Just(call("shared", json!({}))),
        Just(call("shared", json!({"unknown": 1}))),
        (0..7_u8).prop_map(|index| go(&format!("s{index}"))),
        (0..5_u8, any::<i16>()).prop_map(|(key, value)| provide(json!({format!("k{key}"): value}))),
        Just(Action::Handshake),
    ];
    let answer = prop_oneof![
        Just(Answer::Done),
        (0..4_u8).prop_map(Answer::Write),
        (0..4_u8).prop_map(Answer::Delete),
        Just(Answer::Fail),
        Just(Answer::Deny),
    ];
    (action, answer)
}

fn perform(answer: Answer, mut call: turntree_uaip::engine::Call) -> CallResult {
    if matches!(call.kind, CallKind::Guard { .. }) {
        return CallResult::Guard { allowed: !matches!(answer, Answer::Deny) };
    }
    match answer {
        Answer::Fail => return CallResult::Failed(CallFailure::Task("no".to_owned())),
        Answer::Write(key) => call.state.set(format!("k{key}"), json!(1)),
        Answer::Delete(key) => drop(call.state.delete(&format!("k{key}"))),
        Answer::Done | Answer::Deny => {}
    }
    CallResult::Done { value: Value::Null, state: call.state }
}

/// Checks one action against the laws, and returns the next session.
fn check(workflow: &Arc<Workflow>, before: &Session, action: &Action, answer: Answer) -> Session {
    let stage = workflow.stage(&before.stage).unwrap();
    let mut calls = Vec::new();
    let outcome = execute(workflow, before, action.clone(), |call| {
        calls.push(call.kind.clone());
        perform(answer, call)
    });
    let after = outcome.session;

    if outcome.is_changed {
        assert_eq!(after.version, before.version + 1, "a version grows by one");
    } else {
        assert_eq!(after, *before, "what is refused or fails changes nothing");
    }
    for call in &calls {
        if let CallKind::Task { stage: called, task, .. } = call {
            assert!(*called == before.stage && stage.task(task).is_some(), "I1");
        }
    }
    if after.stage != before.stage || matches!(outcome.reply, Reply::Moved { .. }) {
        assert!(stage.transition(&after.stage).is_some(), "I2");
        let entered = workflow.stage(&after.stage).unwrap();
        let state = before.working_state(workflow);
        for key in entered.prerequisites.iter().flat_map(|item| item.required_keys()) {
            assert!(state.get(key).is_some(), "I3: {key} was missing");
        }
        if calls.is_empty() {
            for (key, value) in before.state.iter() {
                assert_eq!(after.state.get(key), Some(&**value), "I4");
            }
        }
    }
    if let (Action::StateInput { updates }, Reply::Updated { .. }) = (action, &outcome.reply) {
        assert!(!updates.contains_key("k3"), "agents do not write private keys");
    }
    if let Reply::Refused(Refusal::TaskNotInStage { task, allowed }) = &outcome.reply {
        assert!(!allowed.contains(task) && calls.is_empty());
    }
    assert_ne!(after.status, SessionStatus::Terminated);
    after
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_action_keeps_the_invariants(
        definition in definitions(),
        actions in prop::collection::vec(actions(), 1..40),
    ) {
        let workflow = Arc::new(compile(definition).unwrap());
        let mut session = open(&workflow);
        let other = session.clone();
        for (action, answer) in actions {
            session = check(&workflow, &session, &action, answer);
        }

        // I5: another session of the same workflow is where it was.
        prop_assert_eq!(&other, &open(&workflow));
    }

    #[test]
    fn a_stored_session_goes_on_as_the_original(
        definition in definitions(),
        actions in prop::collection::vec(actions(), 1..20),
    ) {
        let workflow = Arc::new(compile(definition).unwrap());
        let mut session = open(&workflow);
        for (action, answer) in actions {
            let text = serde_json::to_string(&session).unwrap();
            let restored: Session = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&restored, &session);
            session = execute(&workflow, &restored, action, |call| perform(answer, call)).session;
        }
    }
}

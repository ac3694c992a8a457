//! Actions of a session, without a server.

use serde_json::{Value, json};
use turntree_agents::types::Violation;
use turntree_uaip::engine::{CallFailure, CallKind, CallResult, Failure, Refusal, Reply, SessionStatus};
use turntree_uaip::{Action, Execution, Limits, Step};

use crate::support::{call, done, execute, go, no_op, object, open, provide, shop, workflow};

fn never(call: turntree_uaip::engine::Call) -> CallResult {
    let kind = call.kind;
    panic!("unexpected call {kind:?}")
}

#[test]
fn a_task_of_the_current_stage_runs_and_its_writes_are_stored() {
    let workflow = workflow(shop());
    let session = open(&workflow);

    let outcome = execute(&workflow, &session, call("search", json!({"text": "tea"})), |mut call| {
        assert_eq!(
            call.kind,
            CallKind::Task {
                stage: "browse".to_owned(),
                task: "search".to_owned(),
                args: object(json!({"text": "tea"}))
            }
        );
        call.state.set("found", json!(["SKU-1"]));
        CallResult::Done { value: json!(1), state: call.state }
    });

    assert_eq!(outcome.reply, Reply::TaskDone { task: "search".to_owned(), result: json!(1) });
    assert_eq!((outcome.session.version, outcome.session.state.get("found")), (1, Some(&json!(["SKU-1"]))));
}

#[test]
fn i1_a_task_of_another_stage_is_refused() {
    let workflow = workflow(shop());

    let outcome = execute(&workflow, &open(&workflow), call("pay", json!({})), never);

    let refusal = Refusal::TaskNotInStage { task: "pay".to_owned(), allowed: vec!["search".to_owned()] };
    assert_eq!(outcome.reply, Reply::Refused(refusal));
}

#[test]
fn i2_only_listed_transitions_are_possible_a12_also_to_the_same_stage() {
    let shop = workflow(shop());
    let refusal = |to: &str| {
        let allowed = vec!["cart".to_owned()];
        Reply::Refused(Refusal::InvalidTransition { to: to.to_owned(), allowed })
    };
    assert_eq!(execute(&shop, &open(&shop), go("done"), never).reply, refusal("done"));
    assert_eq!(execute(&shop, &open(&shop), go("browse"), never).reply, refusal("browse"));

    let looped = workflow(json!({"name": "w", "stages": [{"name": "a", "on_enter": true, "on_exit": true}],
        "transitions": [{"from": "a", "to": "a"}]}));
    let (mut execution, first) = Execution::initialize(&looped, Limits::default());
    let Step::Call(entered) = first else { panic!("the hook must be called") };
    let step = execution.feed(CallResult::Done { value: Value::Null, state: entered.state }).unwrap();
    let session = done(step).session;
    let mut hooks = Vec::new();
    let outcome = execute(&looped, &session, go("a"), |call| {
        hooks.push(call.kind.clone());
        no_op(call)
    });
    let stage = || "a".to_owned();
    assert_eq!(hooks, [CallKind::OnExit { stage: stage() }, CallKind::OnEnter { stage: stage() }]);
    assert_eq!(outcome.reply, Reply::Moved { from: stage(), to: stage() });
}

#[test]
fn i3_prerequisites_are_checked_on_entry_with_their_values() {
    let workflow = workflow(shop());
    let cart = execute(&workflow, &open(&workflow), go("cart"), never).session;

    let Reply::Refused(Refusal::MissingPrerequisites { missing, .. }) =
        execute(&workflow, &cart, go("checkout"), never).reply
    else {
        panic!("the prerequisites are missing")
    };
    assert_eq!(missing, ["user.email", "quantity"]);

    let filled = provide(json!({"user.email": "a@b.c", "quantity": -5}));
    let filled = execute(&workflow, &cart, filled, never).session;
    let Reply::Refused(Refusal::MissingPrerequisites { missing, violations, .. }) =
        execute(&workflow, &filled, go("checkout"), never).reply
    else {
        panic!("the quantity is not valid")
    };
    assert!(missing.is_empty());
    assert_eq!((violations[0].pointer.as_str(), violations[0].rule.as_str()), ("/quantity", "minimum"));

    let filled = execute(&workflow, &filled, provide(json!({"quantity": 2})), never).session;
    let moved = execute(&workflow, &filled, go("checkout"), never);
    assert_eq!(moved.session.stage, "checkout");
}

#[test]
fn a8_keys_are_literal_and_reads_also_follow_paths() {
    let definition = json!({"name": "w", "stages": [{"name": "a"}, {"name": "b", "prerequisites": ["cart.items"]}],
        "transitions": [{"from": "a", "to": "b"}], "agent_writable": ["cart"]});
    let workflow = workflow(definition);
    let session = open(&workflow);

    let literal = execute(&workflow, &session, provide(json!({"cart.items": [1]})), never).session;
    assert_eq!(literal.state.iter().count(), 1);
    assert_eq!(literal.state.get("cart.items"), Some(&json!([1])));
    assert_eq!(literal.state.get("cart"), None);

    let nested = execute(&workflow, &session, provide(json!({"cart": {"items": [2]}})), never).session;
    assert_eq!(nested.state.get("cart.items"), Some(&json!([2])));
    assert_eq!(execute(&workflow, &nested, go("b"), never).session.stage, "b");
}

#[test]
fn a10_agents_write_prerequisites_and_declared_keys_but_no_private_ones() {
    let shop = workflow(shop());
    let session = open(&shop);
    let denied = |key: &str| {
        let reply = execute(&shop, &session, provide(json!({key: 1})), never).reply;
        matches!(reply, Reply::Refused(Refusal::KeyNotWritable { keys, .. }) if keys == [key])
    };
    assert!(denied("total"));
    assert!(denied("total.net"));
    assert!(denied("discount"));
    assert!(!denied("user.email"));

    let undeclared = workflow(json!({"name": "w", "stages": [{"name": "a"}]}));
    let outcome = execute(&undeclared, &open(&undeclared), provide(json!({"any": 1})), never);
    assert_eq!(outcome.reply, Reply::Updated { keys: vec!["any".to_owned()] });
}

#[test]
fn a_key_around_a_private_one_cannot_be_written_or_seen() {
    let definition = json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": "t"}]}],
        "private": ["cart.total"]});
    let workflow = workflow(definition);
    let outcome = execute(&workflow, &open(&workflow), provide(json!({"cart": {"total": 1}})), never);
    assert!(matches!(outcome.reply, Reply::Refused(Refusal::KeyNotWritable { .. })));

    let written = execute(&workflow, &open(&workflow), call("t", json!({})), |mut call| {
        call.state.set("cart", json!({"total": 9, "items": 1}));
        CallResult::Done { value: Value::Null, state: call.state }
    });
    assert_eq!(Value::Object(written.session.visible_state(&workflow)), json!({"cart": {"items": 1}}));
}

#[test]
fn values_are_validated_against_the_schema_of_the_state() {
    let definition = json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": "t"}]}],
        "agent_writable": ["email"],
        "state_schema": {"type": "object", "required": ["email"], "properties": {
            "email": {"type": "string"}, "count": {"type": "integer"}}}});
    let workflow = workflow(definition);
    let session = open(&workflow);

    let outcome = execute(&workflow, &session, provide(json!({"email": 1})), never);
    assert!(
        matches!(outcome.reply, Reply::Refused(Refusal::InvalidStateValue { .. })),
        "{:?}",
        outcome.reply
    );

    let outcome = execute(&workflow, &session, call("t", json!({})), |mut call| {
        call.state.set("count", json!("many"));
        CallResult::Done { value: Value::Null, state: call.state }
    });
    assert!(matches!(outcome.reply, Reply::Failed(Failure::InvalidState { .. })), "{:?}", outcome.reply);
    assert_eq!(outcome.session, session);
}

#[test]
fn d8_arguments_and_results_are_validated() {
    let workflow = workflow(shop());
    let cart = execute(&workflow, &open(&workflow), go("cart"), never).session;
    for args in [json!({}), json!({"product_id": 1}), json!({"product_id": "a", "size": 1})] {
        let outcome = execute(&workflow, &cart, call("add_to_cart", args.clone()), never);
        assert!(matches!(outcome.reply, Reply::Refused(Refusal::InvalidArgs { .. })), "{args}");
    }

    let add = call("add_to_cart", json!({"product_id": "a"}));
    let outcome = execute(&workflow, &cart, add, |mut call| {
        call.state.set("items", json!(1));
        CallResult::Done { value: json!({"count": "one"}), state: call.state }
    });
    assert!(matches!(outcome.reply, Reply::Failed(Failure::InvalidResult { .. })));
    assert_eq!(outcome.session, cart);
}

#[test]
fn d6_a_task_that_fails_writes_nothing_and_d7_deletions_persist() {
    let workflow = workflow(shop());
    let session = open(&workflow);
    let search = || call("search", json!({"text": "tea"}));
    let written = execute(&workflow, &session, search(), |mut call| {
        call.state.set("found", json!(1));
        CallResult::Done { value: Value::Null, state: call.state }
    });
    let failed = execute(&workflow, &written.session, search(), |mut call| {
        call.state.delete("found");
        CallResult::Failed(CallFailure::Task("out of stock".to_owned()))
    });
    assert_eq!(failed.reply, Reply::Failed(Failure::Message("out of stock".to_owned())));
    assert_eq!(failed.session, written.session);

    let deleted = execute(&workflow, &failed.session, search(), |mut call| {
        assert!(call.state.delete("found"));
        CallResult::Done { value: Value::Null, state: call.state }
    });
    assert!(deleted.session.state.is_empty());
}

#[test]
fn a23_guards_deny_and_hooks_roll_back() {
    let definition = json!({"name": "w",
        "stages": [{"name": "a", "on_exit": true}, {"name": "b", "on_enter": true}],
        "transitions": [{"from": "a", "to": "b", "guarded": true}]});
    let workflow = workflow(definition);
    let session = open(&workflow);

    let denied = execute(&workflow, &session, go("b"), |_| CallResult::Guard { allowed: false });
    assert_eq!(denied.reply, Reply::Refused(Refusal::TransitionDenied { to: "b".to_owned() }));

    let failed = execute(&workflow, &session, go("b"), |mut call| match &call.kind {
        CallKind::Guard { .. } => CallResult::Guard { allowed: true },
        CallKind::OnEnter { .. } => CallResult::Failed(CallFailure::Task("closed".to_owned())),
        _ => {
            call.state.set("left", json!(true));
            CallResult::Done { value: Value::Null, state: call.state }
        }
    });
    assert_eq!(failed.reply, Reply::Failed(Failure::Message("closed".to_owned())));
    assert_eq!(failed.session, session);
}

#[test]
fn a7_the_application_validates_the_values_of_models_before_the_guard() {
    let schema =
        json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]});
    let definition = json!({"name": "w",
        "stages": [{"name": "a"},
            {"name": "b", "prerequisites": [{"model": "Count", "schema": schema, "validated": true}]}],
        "transitions": [{"from": "a", "to": "b", "guarded": true}]});
    let workflow = workflow(definition);
    let session = execute(&workflow, &open(&workflow), provide(json!({"count": 3})), never).session;

    let odd = || Violation::new("/count".to_owned(), "value_error", "must be even");
    let refused = execute(&workflow, &session, go("b"), |call| {
        assert_eq!(call.kind, CallKind::Prerequisites { stage: "b".to_owned() });
        assert_eq!(call.state.get("count"), Some(&json!(3)));
        CallResult::Prerequisites { violations: vec![odd()] }
    });
    let expected =
        Refusal::MissingPrerequisites { stage: "b".to_owned(), missing: Vec::new(), violations: vec![odd()] };
    assert_eq!((refused.is_changed, refused.reply), (false, Reply::Refused(expected)));

    let mut asked = Vec::new();
    let moved = execute(&workflow, &session, go("b"), |call| {
        asked.push(call.kind.clone());
        no_op(call)
    });
    assert_eq!(moved.session.stage, "b");
    assert!(matches!(asked[..], [CallKind::Prerequisites { .. }, CallKind::Guard { .. }]), "{asked:?}");
}

#[test]
fn a9_a29_stores_of_stages_are_kept_and_merged() {
    let definition = json!({"name": "w",
        "stages": [{"name": "a", "tasks": [{"name": "t"}]}, {"name": "b", "tasks": [{"name": "t"}]},
            {"name": "c", "prerequisites": ["email"]}],
        "transitions": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}, {"from": "b", "to": "c"}],
        "state_management": [{"from": "a", "to": "b", "copies": {"keys": ["kept"]}},
            {"from": "b", "to": "a", "copies": "none"}, {"from": "b", "to": "c", "copies": "none"}]});
    let workflow = workflow(definition);
    let write = |session: &_, key: &'static str, value: i32| {
        let outcome = execute(&workflow, session, call("t", json!({})), |mut call| {
            call.state.set(key, json!(value));
            CallResult::Done { value: Value::Null, state: call.state }
        });
        outcome.session
    };
    let session = write(&write(&open(&workflow), "kept", 1), "own", 2);
    let session = execute(&workflow, &session, go("b"), never).session;
    let state = session.working_state(&workflow);
    assert_eq!((state.get("kept"), state.get("own")), (Some(&json!(1)), None));

    let session = execute(&workflow, &write(&session, "kept", 5), go("a"), never).session;
    let state = session.working_state(&workflow);
    assert_eq!((state.get("kept"), state.get("own")), (Some(&json!(1)), Some(&json!(2))));

    // D11: what the agent provides is in the store of the session, whatever is propagated.
    let session = execute(&workflow, &session, go("b"), never).session;
    let session = execute(&workflow, &session, provide(json!({"email": "a@b.c"})), never).session;
    assert_eq!(session.state.get("email"), Some(&json!("a@b.c")));
    let session = execute(&workflow, &session, go("c"), never).session;
    assert_eq!(session.stage, "c");
    assert_eq!(session.working_state(&workflow).get("email"), Some(&json!("a@b.c")));
}

#[test]
fn a11_require_terminal_refuses_an_early_end() {
    let mut definition = shop();
    definition["require_terminal"] = json!(true);
    let workflow = workflow(definition);
    let session = open(&workflow);
    let end = || Action::TerminateSession { reason: None };

    let refusal = Refusal::NotTerminal { terminal: vec!["done".to_owned()] };
    assert_eq!(execute(&workflow, &session, end(), never).reply, Reply::Refused(refusal));

    let mut session = execute(&workflow, &session, go("cart"), never).session;
    let filled = provide(json!({"user.email": "a@b.c", "quantity": 1}));
    for action in [filled, go("checkout"), go("done")] {
        session = execute(&workflow, &session, action, never).session;
    }
    assert_eq!(session.status, SessionStatus::Completed);
    let ended = execute(&workflow, &session, end(), never);
    assert_eq!((ended.reply, ended.session.status), (Reply::Terminated, SessionStatus::Terminated));
}

#[test]
fn limits_on_arguments_and_state_are_refusals() {
    let workflow = workflow(json!({"name": "w", "stages": [{"name": "a"}]}));
    let limits = Limits { state_bytes: 100, depth: 3, string_bytes: 50, ..Limits::default() };
    let refused = |updates: Value| {
        let (_, step) = Execution::begin(&workflow, open(&workflow), provide(updates), limits).unwrap();
        match done(step).reply {
            Reply::Refused(Refusal::InvalidStateValue { violations }) => violations[0].rule.clone(),
            other => panic!("{other:?}"),
        }
    };

    assert_eq!(refused(json!({"a": [[[[1]]]]})), "depth");
    assert_eq!(refused(json!({"a": "x".repeat(51)})), "string_length");
    assert_eq!(refused(json!({"a": "x".repeat(50), "b": "x".repeat(50)})), "state_size");
    assert_eq!(refused(json!({"": 1})), "key");
}

#[test]
fn a_result_that_was_not_asked_for_is_an_error() {
    let workflow = workflow(shop());
    let action = call("search", json!({"text": "tea"}));
    let (mut execution, _) = Execution::begin(&workflow, open(&workflow), action, Limits::default()).unwrap();

    let error = execution.feed(CallResult::Guard { allowed: true }).unwrap_err();

    assert!(error.to_string().contains("the result of a task or a hook"));
}

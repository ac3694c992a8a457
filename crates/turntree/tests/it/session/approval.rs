//! Calls that a person decides about: the run stops, and goes on after the decision, here or in another process.

use std::sync::Arc;

use futures_util::StreamExt as _;
use turntree::agents::host::{Approval, BeforeCall, HookSet};
use turntree::agents::session::CheckpointInterval;
use turntree::agents::types::Verdict;
use turntree::agents::types::approval_required;
use turntree::agents::{Session, SessionError};
use turntree::message::Turn;
use turntree::upp::UppError;

use super::runs::Shelf;
use super::{World, options, poll_at_most, said};
use crate::support::agents::{Answer, ScriptModel, TestHost, block_on, one_round, raw, records, told};

/// A session whose model answers by the script, and whose host leaves calls of `guarded` to a person.
fn world(script: &[Answer], host: TestHost) -> World {
    let world = World::new(CheckpointInterval::Step);
    let host = Arc::new(TestHost { approval: Approval::Ask, ..host });
    let agent = world.agent.with(&*world.ids, |options| {
        options.model = Some(Arc::new(ScriptModel::new(script.to_vec())));
    });
    let session = Session::new(agent.clone(), options(&world.ids, CheckpointInterval::Step)).unwrap();
    World { host, agent, session, ..world }
}

fn two_guarded() -> World {
    let script = [Answer::calls(&["guarded", "slow", "guarded"]), Answer::text("Done.")];
    world(&script, TestHost::default())
}

fn denied(reason: &str) -> Verdict {
    Verdict::Denied { reason: Some(reason.to_owned()) }
}

fn waiting(outcome: Result<Arc<Turn>, SessionError>) -> (Vec<String>, UppError) {
    let Err(SessionError::Run(error)) = outcome else { panic!("{outcome:?}") };
    let required = approval_required(&error).unwrap_or_else(|| panic!("{error:?}"));
    assert!(required.session_id.is_some());
    (required.calls.iter().map(|call| call.tool_call_id.clone()).collect(), error)
}

fn pending(session: &Session) -> Vec<String> {
    session.pending().iter().map(|call| call.tool_call_id.clone()).collect()
}

#[test]
fn a_run_stops_once_the_other_calls_have_settled() {
    let world = two_guarded();

    let (calls, error) = waiting(block_on(world.session.run("go", world.context())));

    assert_eq!(calls, ["call-1-0", "call-1-2"]);
    assert_eq!(pending(&world.session), calls);
    assert_eq!(world.tools_run(), ["call-1-1"]);
    assert!(said(&world.session).is_empty());
    assert_eq!(
        error.message,
        "calls wait for approval: guarded (call-1-0), guarded (call-1-2); `approve` or `deny` them in the session, then \
         `resume`"
    );
    let partial = turntree::agents::types::partial_turn(&error).unwrap();
    assert_eq!((partial.turn.messages.len(), partial.turn.tool_executions.len()), (2, 1));
}

#[test]
fn decisions_are_carried_out_in_another_process_and_every_call_runs_once() {
    let world = two_guarded();
    waiting(block_on(world.session.run("go", world.context())));
    let loaded = world.reloaded();
    assert_eq!(loaded.to_json().unwrap(), world.session.to_json().unwrap());
    loaded.decide("call-1-0", Verdict::Approved, None).unwrap();
    loaded.decide("call-1-2", denied("too dear"), None).unwrap();
    assert!(pending(&loaded).is_empty());
    let decided = world.load(&loaded.to_json().unwrap());
    assert_eq!(decided.to_json().unwrap(), loaded.to_json().unwrap());

    let turn = block_on(decided.resume(world.context())).unwrap();

    assert_eq!(world.tools_run(), ["call-1-1", "call-1-0"]);
    assert_eq!(told(&turn), ["{}", "{}", "\"Tool execution denied: too dear\""]);
    assert_eq!(
        records(&turn),
        [
            ("call-1-1", "{}", false, None),
            ("call-1-2", "\"Tool execution denied: too dear\"", true, Some(false)),
            ("call-1-0", "{}", false, Some(true)),
        ]
    );
    assert_eq!(said(&decided).len(), 4);
    assert!(matches!(block_on(decided.resume(world.context())), Err(SessionError::NothingToResume { .. })));
}

#[test]
fn what_is_decided_runs_and_what_is_not_waits_on() {
    let world = two_guarded();
    waiting(block_on(world.session.run("go", world.context())));
    assert_eq!(waiting(block_on(world.session.resume(world.context()))).0, ["call-1-0", "call-1-2"]);

    world.session.decide("call-1-2", Verdict::Approved, None).unwrap();
    let (left, _) = waiting(block_on(world.session.resume(world.context())));
    assert_eq!((left, world.tools_run().len()), (vec!["call-1-0".to_owned()], 2));
    world.session.decide("call-1-0", Verdict::Denied { reason: None }, None).unwrap();
    let turn = block_on(world.session.resume(world.context())).unwrap();

    assert_eq!(world.tools_run(), ["call-1-1", "call-1-2"]);
    assert_eq!(told(&turn), ["\"Tool execution denied by approval handler\"", "{}", "{}"]);
}

#[test]
fn a_person_may_change_the_arguments() {
    let world = two_guarded();
    waiting(block_on(world.session.run("go", world.context())));

    world.session.decide("call-1-0", Verdict::Approved, Some(raw(r#"{"amount":1.50}"#))).unwrap();
    world.session.decide("call-1-2", Verdict::Approved, None).unwrap();
    let turn = block_on(world.reloaded().resume(world.context())).unwrap();

    assert_eq!(told(&turn), [r#"{"amount":1.50}"#, "{}", "{}"]);
    let changed = turn.tool_executions.iter().find(|record| record.tool_call_id == "call-1-0").unwrap();
    assert_eq!(changed.arguments, raw(r#"{"amount":1.50}"#));
}

#[test]
fn a_person_sees_what_the_hooks_made_of_a_call_and_they_are_not_asked_again() {
    let before = BeforeCall::ProceedWith(raw(r#"{"safe":true}"#));
    let hooks = HookSet::BEFORE_CALL | HookSet::TOOL_CALL | HookSet::AFTER_CALL;
    let world = world(&one_round("guarded"), TestHost { hooks, before, ..TestHost::default() });
    waiting(block_on(world.session.run("go", world.context())));
    assert_eq!(world.session.pending()[0].arguments, raw(r#"{"safe":true}"#));

    world.session.decide("call-1-0", Verdict::Approved, None).unwrap();
    let turn = block_on(world.session.resume(world.context())).unwrap();

    assert_eq!(told(&turn), [r#"{"safe":true}"#]);
    let log = world.host.log();
    let count = |name: &str| log.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (count("on_before_call"), count("on_tool_call"), count("approve"), count("on_after_call")),
        (1, 1, 1, 1)
    );
}

#[test]
fn wrong_decisions_are_refused_and_change_nothing() {
    let world = two_guarded();
    let nothing = world.session.decide("call-1-0", Verdict::Approved, None).unwrap_err();
    assert!(nothing.to_string().ends_with("has no call \"call-1-0\" that waits for a decision; none does"));
    waiting(block_on(world.session.run("go", world.context())));
    world.session.decide("call-1-0", Verdict::Approved, None).unwrap();
    let before = world.session.to_json().unwrap();

    let again = world.session.decide("call-1-0", denied("no"), None);
    let unknown = world.session.decide("call-9", Verdict::Approved, None).unwrap_err();
    let answered = world.session.decide("call-1-1", Verdict::Approved, None);
    let another = block_on(world.session.run("more", world.context())).unwrap_err();

    assert!(matches!(again, Err(SessionError::AlreadyDecided { .. })));
    assert!(matches!(answered, Err(SessionError::AlreadyDecided { .. })));
    assert!(unknown.to_string().ends_with("; these do: guarded (call-1-2)"), "{unknown}");
    assert!(
        another.to_string().ends_with(
            "has a run whose calls wait for approval: guarded (call-1-2); are decided and have not run: guarded (call-1-0); \
             `approve` or `deny` the waiting calls and `resume` the run, or `discard` it"
        ),
        "{another}"
    );
    assert_eq!(world.session.to_json().unwrap(), before);
}

#[test]
fn a_run_under_way_takes_no_decisions_and_a_discarded_one_is_gone() {
    let world = two_guarded();
    let mut run = Box::pin(world.session.run("go", world.context()));
    assert!(poll_at_most(run.as_mut(), 8).is_none());
    assert!(matches!(
        world.session.decide("call-1-0", Verdict::Approved, None),
        Err(SessionError::RunActive { .. })
    ));
    assert!(matches!(world.session.discard(), Err(SessionError::RunActive { .. })));
    waiting(block_on(run));

    assert!(world.session.discard().unwrap());

    assert!(!world.session.discard().unwrap());
    assert!(pending(&world.session).is_empty());
    assert_eq!(waiting(block_on(world.session.run("another", world.context()))).0.len(), 2);
}

#[test]
fn runs_in_line_behind_one_that_stops_are_told_and_a_resume_goes_on() {
    let world = two_guarded();
    let first = world.session.run("go", world.context());
    let second = world.session.run("more", world.context());
    let (first, second) = block_on(futures_util::future::join(first, second));
    waiting(first);
    assert!(matches!(second, Err(SessionError::OpenApprovals { .. })));

    for call in world.session.pending() {
        world.session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    let resumed = world.session.resume(world.context());
    let later = world.session.resume(world.context());
    let (resumed, later) = block_on(futures_util::future::join(resumed, later));

    assert_eq!(resumed.unwrap().tool_executions.len(), 3);
    assert!(matches!(later, Err(SessionError::NothingToResume { .. })));
}

#[test]
fn the_stream_of_a_run_that_waits_ends_and_its_turn_tells_why() {
    let world = two_guarded();
    let mut stream = world.session.stream("go", world.context()).unwrap();
    while let Some(event) = block_on(stream.next()) {
        event.unwrap();
    }
    waiting(block_on(stream.turn()).map_err(SessionError::Run));

    for call in world.session.pending() {
        world.session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    let mut stream = world.session.resume_stream(world.context()).unwrap();
    let mut ended = Vec::new();
    while let Some(event) = block_on(stream.next()) {
        if let Some(event) = event.unwrap().as_upp()
            && event.delta.kind() == "tool_execution_end"
        {
            ended.push(event.index);
        }
    }

    assert_eq!(ended, [0, 2]);
    assert_eq!(block_on(stream.turn()).unwrap().messages.len(), 4);
}

#[test]
fn without_a_session_a_run_ends_and_says_what_it_needs() {
    let world = two_guarded();

    let error = block_on(world.agent.run("go", world.context())).unwrap_err();

    let required = approval_required(&error).unwrap();
    assert_eq!((required.calls.len(), required.session_id.clone()), (2, None));
    assert!(error.message.ends_with("; only a session can go on after that: run the agent in one"));
    let mut stream = world.agent.stream("go", world.context()).unwrap();
    let last = block_on(async {
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event);
        }
        last
    });
    assert!(matches!(last, Some(Err(_))), "nothing goes on after it, so its listener is told");
}

#[test]
fn decisions_are_saved_before_they_are_carried_out_and_each_approved_call_after_it() {
    let world = two_guarded();
    let shelf = Arc::new(Shelf::default());
    let session = world.session.with_persistence(Some(Arc::clone(&shelf) as _));
    waiting(block_on(session.run("go", world.context())));
    assert_eq!(shelf.count(), 1);
    session.decide("call-1-0", Verdict::Approved, None).unwrap();
    session.decide("call-1-2", Verdict::Approved, None).unwrap();

    block_on(session.resume(world.context())).unwrap();

    let saved: Vec<_> = shelf.texts()[1..].iter().map(|text| world.load(text)).collect();
    // Before, after each of the two, and at the end.
    assert_eq!(saved.len(), 4);
    let runs_of = |killed: &Session| {
        let before = world.tools_run().len();
        block_on(killed.resume(world.context())).unwrap();
        world.tools_run().len() - before
    };
    assert_eq!(saved[..3].iter().map(runs_of).collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn a_store_that_fails_before_a_decision_is_carried_out_stops_the_run_and_loses_nothing() {
    let world = two_guarded();
    let shelf = Arc::new(Shelf::default());
    let session = world.session.with_persistence(Some(Arc::clone(&shelf) as _));
    waiting(block_on(session.run("go", world.context())));
    for call in session.pending() {
        session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    shelf.fail(true);

    let failure = block_on(session.resume(world.context()));

    assert!(matches!(failure, Err(SessionError::Store(_))), "{failure:?}");
    assert_eq!(world.tools_run(), ["call-1-1"]);
    shelf.fail(false);
    assert_eq!(block_on(session.resume(world.context())).unwrap().tool_executions.len(), 3);
    assert_eq!(world.tools_run().len(), 3);
}

#[test]
fn a_saved_round_that_is_not_that_of_its_answer_is_refused() {
    let world = two_guarded();
    waiting(block_on(world.session.run("go", world.context())));
    let text = world.session.to_json().unwrap();
    let asked = r#"{"asked":{"toolCallId":"call-1-0","toolName":"guarded""#;
    assert!(text.contains(asked), "{text}");

    for other in [asked.replace("guarded", "echo"), asked.replace("call-1-0", "call-1-1")] {
        let read = turntree::agents::session::SessionSnapshot::from_json(
            &text.replace(asked, &other),
            &turntree::core::limits::Limits::default(),
        );
        let error = read.unwrap_err().to_string();
        assert!(error.starts_with("/metadata/turntree/unfinished/run: "), "{error}");
    }
}

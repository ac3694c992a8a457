//! Tool calls that need approval: the run stops, and resumes after the decision in the same or in another process.

use std::sync::Arc;

use futures_util::StreamExt as _;
use turntree::agents::host::{Approval, BeforeCall, HookSet};
use turntree::agents::session::CheckpointInterval;
use turntree::agents::types::{Resolution, Verdict, approval_required};
use turntree::agents::{Session, SessionError};
use turntree::message::{ToolResult, Turn};
use turntree::upp::UppError;

use super::runs::{MemoryStore, key_value};
use super::{Fixture, options, poll_at_most, texts};
use crate::support::agents::{
    Answer, ScriptModel, TestHost, block_on, one_round, raw, records, tool_results,
};

/// A session with this script; calls of `guarded` need approval.
fn fixture(script: &[Answer], host: TestHost) -> Fixture {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let host = Arc::new(TestHost { approval: Approval::Ask, ..host });
    let agent = fixture.agent.with(&*fixture.ids, |options| {
        options.model = Some(Arc::new(ScriptModel::new(script.to_vec())));
    });
    let session = Session::new(agent.clone(), options(&fixture.ids, CheckpointInterval::Step)).unwrap();
    Fixture { host, agent, session, ..fixture }
}

fn two_guarded() -> Fixture {
    let script = [Answer::calls(&["guarded", "slow", "guarded"]), Answer::text("Done.")];
    fixture(&script, TestHost::default())
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
fn a_run_waits_for_approval_after_the_other_calls_finish() {
    let fixture = two_guarded();

    let (calls, error) = waiting(block_on(fixture.session.run("go", fixture.context())));

    assert_eq!(calls, ["call-1-0", "call-1-2"]);
    assert_eq!(pending(&fixture.session), calls);
    assert_eq!(fixture.tools_run(), ["call-1-1"]);
    assert!(texts(&fixture.session).is_empty());
    assert_eq!(
        error.message,
        "calls wait for approval: guarded (call-1-0), guarded (call-1-2); `approve` or `deny` them in the session, then \
         `resume`"
    );
    // The calls that wait have error results in the partial turn, so that it is a valid history.
    let partial = turntree::agents::types::partial_turn(&error).unwrap();
    assert_eq!((partial.turn.messages.len(), partial.turn.tool_executions.len()), (3, 1));
    let failed: Vec<_> = partial.turn.messages[2].results().iter().map(ToolResult::failed).collect();
    assert_eq!(failed, [true, false, true]);
}

#[test]
fn decisions_take_effect_in_another_process_and_every_call_runs_once() {
    let fixture = two_guarded();
    waiting(block_on(fixture.session.run("go", fixture.context())));
    let loaded = fixture.reloaded();
    assert_eq!(loaded.to_json().unwrap(), fixture.session.to_json().unwrap());
    loaded.decide("call-1-0", Verdict::Approved, None).unwrap();
    loaded.decide("call-1-2", denied("too dear"), None).unwrap();
    assert!(pending(&loaded).is_empty());
    let decided = fixture.load(&loaded.to_json().unwrap());
    assert_eq!(decided.to_json().unwrap(), loaded.to_json().unwrap());

    let turn = block_on(decided.resume(fixture.context())).unwrap();

    assert_eq!(fixture.tools_run(), ["call-1-1", "call-1-0"]);
    assert_eq!(tool_results(&turn), ["{}", "{}", "\"Tool execution denied: too dear\""]);
    assert_eq!(
        records(&turn),
        [
            ("call-1-1", "{}", false, None),
            ("call-1-2", "\"Tool execution denied: too dear\"", true, Some(false)),
            ("call-1-0", "{}", false, Some(true)),
        ]
    );
    assert_eq!(texts(&decided).len(), 4);
    assert!(matches!(block_on(decided.resume(fixture.context())), Err(SessionError::NothingToResume { .. })));
}

#[test]
fn a_resume_runs_decided_calls_and_waits_for_undecided_ones() {
    let fixture = two_guarded();
    waiting(block_on(fixture.session.run("go", fixture.context())));
    assert_eq!(waiting(block_on(fixture.session.resume(fixture.context()))).0, ["call-1-0", "call-1-2"]);

    fixture.session.decide("call-1-2", Verdict::Approved, None).unwrap();
    let (left, _) = waiting(block_on(fixture.session.resume(fixture.context())));
    assert_eq!((left, fixture.tools_run().len()), (vec!["call-1-0".to_owned()], 2));
    fixture.session.decide("call-1-0", Verdict::Denied { reason: None }, None).unwrap();
    let turn = block_on(fixture.session.resume(fixture.context())).unwrap();

    assert_eq!(fixture.tools_run(), ["call-1-1", "call-1-2"]);
    assert_eq!(tool_results(&turn), ["\"Tool execution denied by approval handler\"", "{}", "{}"]);
}

#[test]
fn an_approval_can_replace_the_arguments() {
    let fixture = two_guarded();
    waiting(block_on(fixture.session.run("go", fixture.context())));

    fixture.session.decide("call-1-0", Verdict::Approved, Some(raw(r#"{"amount":1.50}"#))).unwrap();
    fixture.session.decide("call-1-2", Verdict::Approved, None).unwrap();
    let turn = block_on(fixture.reloaded().resume(fixture.context())).unwrap();

    assert_eq!(tool_results(&turn), [r#"{"amount":1.50}"#, "{}", "{}"]);
    let changed = turn.tool_executions.iter().find(|record| record.tool_call_id == "call-1-0").unwrap();
    assert_eq!(changed.arguments, raw(r#"{"amount":1.50}"#));
}

#[test]
fn pending_calls_show_arguments_after_hooks_and_hooks_run_once() {
    let before = BeforeCall::ProceedWith(raw(r#"{"safe":true}"#));
    let hooks = HookSet::BEFORE_CALL | HookSet::TOOL_CALL | HookSet::AFTER_CALL;
    let fixture = fixture(&one_round("guarded"), TestHost { hooks, before, ..TestHost::default() });
    waiting(block_on(fixture.session.run("go", fixture.context())));
    assert_eq!(fixture.session.pending()[0].arguments, raw(r#"{"safe":true}"#));

    fixture.session.decide("call-1-0", Verdict::Approved, None).unwrap();
    let turn = block_on(fixture.session.resume(fixture.context())).unwrap();

    assert_eq!(tool_results(&turn), [r#"{"safe":true}"#]);
    let log = fixture.host.log();
    let count = |name: &str| log.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (count("on_before_call"), count("on_tool_call"), count("approve"), count("on_after_call")),
        (1, 1, 1, 1)
    );
}

#[test]
fn a_call_can_be_decided_by_its_key_and_as_an_object() {
    let fixture = two_guarded();
    assert!(fixture.session.pending_by_key().is_empty());
    waiting(block_on(fixture.session.run("go", fixture.context())));
    let [first, second] = fixture.session.pending_by_key().try_into().unwrap();
    assert_ne!(first.key, second.key);
    let shown = [&first, &second].map(|pending| (pending.shown_id.clone(), pending.shares_id));
    assert_eq!(shown, [("call-1-0".to_owned(), false), ("call-1-2".to_owned(), false)]);
    let loaded = fixture.reloaded();
    assert_eq!(loaded.pending_by_key(), [first.clone(), second.clone()]);

    let key = second.key.to_string();
    loaded.decide(&key, Verdict::Approved, None).unwrap();
    loaded.decide_call(&first.call, denied("too dear"), None).unwrap();
    let by_key = loaded.decide(&key, denied("no"), None);
    let by_call = loaded.decide_call(&first.call, Verdict::Approved, None);
    let by_shown_id = loaded.decide_shown("call-1-0", Verdict::Approved);

    for again in [by_key, by_call, by_shown_id] {
        assert!(matches!(again, Err(SessionError::AlreadyDecided { .. })), "{again:?}");
    }
    let turn = block_on(loaded.resume(fixture.context())).unwrap();
    assert_eq!(tool_results(&turn), ["\"Tool execution denied: too dear\"", "{}", "{}"]);
}

#[test]
fn invalid_decisions_are_refused_and_leave_the_session_unchanged() {
    let fixture = two_guarded();
    let without_run = fixture.session.decide("call-1-0", Verdict::Approved, None).unwrap_err();
    assert!(
        without_run.to_string().ends_with("has no call \"call-1-0\" that waits for a decision; none does")
    );
    waiting(block_on(fixture.session.run("go", fixture.context())));
    fixture.session.decide("call-1-0", Verdict::Approved, None).unwrap();
    let before = fixture.session.to_json().unwrap();

    let again = fixture.session.decide("call-1-0", denied("no"), None);
    let unknown = fixture.session.decide("call-9", Verdict::Approved, None).unwrap_err();
    let answered = fixture.session.decide("call-1-1", Verdict::Approved, None);
    let another = block_on(fixture.session.run("more", fixture.context())).unwrap_err();

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
    assert_eq!(fixture.session.to_json().unwrap(), before);
}

#[test]
fn decisions_are_refused_during_a_run_and_discard_removes_the_pending_run() {
    let fixture = two_guarded();
    let mut run = Box::pin(fixture.session.run("go", fixture.context()));
    assert!(poll_at_most(run.as_mut(), 8).is_none());
    assert!(matches!(
        fixture.session.decide("call-1-0", Verdict::Approved, None),
        Err(SessionError::RunActive { .. })
    ));
    assert!(matches!(fixture.session.discard(), Err(SessionError::RunActive { .. })));
    waiting(block_on(run));

    assert!(fixture.session.discard().unwrap());

    assert!(!fixture.session.discard().unwrap());
    assert!(pending(&fixture.session).is_empty());
    assert_eq!(waiting(block_on(fixture.session.run("another", fixture.context()))).0.len(), 2);
}

#[test]
fn runs_queued_behind_pending_approvals_are_refused_and_a_resume_continues() {
    let fixture = two_guarded();
    let first = fixture.session.run("go", fixture.context());
    let second = fixture.session.run("more", fixture.context());
    let (first, second) = block_on(futures_util::future::join(first, second));
    waiting(first);
    assert!(matches!(second, Err(SessionError::OpenApprovals { .. })));

    for call in fixture.session.pending() {
        fixture.session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    let resumed = fixture.session.resume(fixture.context());
    let later = fixture.session.resume(fixture.context());
    let (resumed, later) = block_on(futures_util::future::join(resumed, later));

    assert_eq!(resumed.unwrap().tool_executions.len(), 3);
    assert!(matches!(later, Err(SessionError::NothingToResume { .. })));
}

#[test]
fn the_stream_of_a_waiting_run_ends_and_its_turn_is_the_approval_error() {
    let fixture = two_guarded();
    let mut stream = fixture.session.stream("go", fixture.context()).unwrap();
    while let Some(event) = block_on(stream.next()) {
        event.unwrap();
    }
    waiting(block_on(stream.turn()).map_err(SessionError::Run));

    for call in fixture.session.pending() {
        fixture.session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    let mut stream = fixture.session.resume_stream(fixture.context()).unwrap();
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
fn without_a_session_the_approval_error_ends_the_run() {
    let fixture = two_guarded();

    let error = block_on(fixture.agent.run("go", fixture.context())).unwrap_err();

    let required = approval_required(&error).unwrap();
    assert_eq!((required.calls.len(), required.session_id.clone()), (2, None));
    assert!(error.message.ends_with("; only a session can resume such a run: run the agent in a session"));
    let mut stream = fixture.agent.stream("go", fixture.context()).unwrap();
    let last = block_on(async {
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event);
        }
        last
    });
    assert!(matches!(last, Some(Err(_))), "the last event is the approval error");
}

#[test]
fn decisions_are_saved_before_the_calls_run_and_after_each_approved_call() {
    let fixture = two_guarded();
    let store = Arc::new(MemoryStore::default());
    let session = fixture.session.with_persistence(Some(key_value(&store)));
    waiting(block_on(session.run("go", fixture.context())));
    assert_eq!(store.count(), 1);
    session.decide("call-1-0", Verdict::Approved, None).unwrap();
    session.decide("call-1-2", Verdict::Approved, None).unwrap();

    block_on(session.resume(fixture.context())).unwrap();

    let saved: Vec<_> = store.texts()[1..].iter().map(|text| fixture.load(text)).collect();
    // Before the calls, after each of the two, and at the end.
    assert_eq!(saved.len(), 4);
    // The saved run was active: a call that had not returned may have been executed.
    let count_runs = |killed: &Session| {
        let before = fixture.tools_run().len();
        let in_doubt = killed.in_doubt();
        for call in &in_doubt {
            killed.resolve(&call.tool_call_id, Resolution::Retry).unwrap();
        }
        block_on(killed.resume(fixture.context())).unwrap();
        (in_doubt.len(), fixture.tools_run().len() - before)
    };
    assert_eq!(saved[..3].iter().map(count_runs).collect::<Vec<_>>(), [(2, 2), (1, 1), (0, 0)]);
}

#[test]
fn a_failing_store_stops_the_run_before_the_approved_calls_run() {
    let fixture = two_guarded();
    let store = Arc::new(MemoryStore::default());
    let session = fixture.session.with_persistence(Some(key_value(&store)));
    waiting(block_on(session.run("go", fixture.context())));
    for call in session.pending() {
        session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
    store.fail(true);

    let failure = block_on(session.resume(fixture.context()));

    assert!(matches!(failure, Err(SessionError::Store { .. })), "{failure:?}");
    assert_eq!(fixture.tools_run(), ["call-1-1"]);
    store.fail(false);
    assert_eq!(block_on(session.resume(fixture.context())).unwrap().tool_executions.len(), 3);
    assert_eq!(fixture.tools_run().len(), 3);
}

#[test]
fn a_saved_round_that_does_not_match_its_response_is_refused() {
    let fixture = two_guarded();
    waiting(block_on(fixture.session.run("go", fixture.context())));
    let text = fixture.session.to_json().unwrap();
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

//! Runs that are dropped at every await point and resumed, in the same process and through JSON in another one.

use std::collections::HashSet;

use turntree::agents::Session;
use turntree::agents::session::CheckpointInterval;

use super::{Fixture, ids_of, poll_at_most, reachable, texts};
use crate::support::agents::{assert_valid_history, block_on};

/// More polls than the run of these tests needs.
const POLLS: usize = 120;

/// A session whose second run was dropped after `polls` polls; `None` if the run ended before.
fn dropped_after(polls: usize) -> Option<Fixture> {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    let mut run = Box::pin(fixture.session.run("2", fixture.context()));
    let ended = poll_at_most(run.as_mut(), polls).is_some();
    drop(run);
    (!ended).then_some(fixture)
}

fn finish(fixture: &Fixture, session: &Session) {
    let turn = if session.is_resumable() {
        block_on(session.resume(fixture.context())).unwrap()
    } else {
        block_on(session.run("2", fixture.context())).unwrap()
    };
    assert_valid_history(&turn.messages);
    assert_eq!((turn.messages.len(), turn.cycles, turn.tool_executions.len()), (6, 3, 4));
    let history = session.tree().snapshot().history();
    assert_eq!(history.len(), 2 + 6);
    assert_eq!(ids_of(&history)[2..], ids_of(&turn.messages.iter().cloned().collect()));
}

#[test]
fn a_run_dropped_anywhere_resumes_in_the_same_process() {
    let mut dropped = 0;
    for polls in 0..POLLS {
        let Some(fixture) = dropped_after(polls) else { break };
        dropped += 1;
        assert_eq!(texts(&fixture.session), ["one", "answer to one"]);
        assert_eq!(reachable(&fixture.session).len(), 2);
        assert_eq!(fixture.session.is_resumable(), polls > 0);

        finish(&fixture, &fixture.session);
    }
    assert!((20..POLLS).contains(&dropped), "the run waited {dropped} times");
}

#[test]
fn a_run_killed_anywhere_resumes_in_another_process() {
    for polls in 0..POLLS {
        let Some(fixture) = dropped_after(polls) else { break };
        let text = fixture.session.to_json().unwrap();
        let loaded = fixture.load(&text);
        assert_eq!(loaded.to_json().unwrap(), text);

        finish(&fixture, &loaded);
    }
}

#[test]
fn finished_tools_are_not_called_again_after_a_resume() {
    for polls in 0..POLLS {
        let Some(fixture) = dropped_after(polls) else { break };
        let left = fixture.session.unfinished();
        let answered: Vec<_> = left
            .iter()
            .flat_map(turntree::agents::session::UnfinishedRun::messages)
            .flat_map(|message| message.results().to_vec())
            .map(|result| result.tool_call_id)
            .collect();
        let calls_before = fixture.tools_run().len();

        finish(&fixture, &fixture.reloaded());

        let again = &fixture.tools_run()[calls_before..];
        assert!(!again.iter().any(|call| answered.contains(call)), "{again:?} after {answered:?}");
        // One of the two tools of a round finishes first; a run dropped then calls only the other tool again.
        let unique: HashSet<_> = again.iter().collect();
        assert_eq!(unique.len(), again.len());
    }
}

#[test]
fn a_queued_restore_that_is_dropped_has_no_effect() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    block_on(fixture.session.run("two", fixture.context())).unwrap();
    let first = fixture.session.checkpoints()[0].id.clone();
    let mut run = Box::pin(fixture.session.run("2", fixture.context()));
    assert!(poll_at_most(run.as_mut(), 3).is_none());

    let mut restore = Box::pin(fixture.session.restore(&first));
    assert!(poll_at_most(restore.as_mut(), 3).is_none());
    drop(restore);
    block_on(run).unwrap();

    assert_eq!(texts(&fixture.session).len(), 2 + 2 + 6);
}

//! Runs that are dropped at every place where they wait: in this process, and through JSON in another one.

use std::collections::HashSet;

use turntree::agents::Session;
use turntree::agents::session::CheckpointInterval;

use super::{World, ids_of, poll_at_most, reachable, said};
use crate::support::agents::{assert_valid_history, block_on};

/// Polls after which the run of these tests has ended.
const POLLS: usize = 120;

/// A session whose second run was dropped after so many polls; `None` when the run had ended by then.
fn dropped_after(polls: usize) -> Option<World> {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    let mut run = Box::pin(world.session.run("2", world.context()));
    let ended = poll_at_most(run.as_mut(), polls).is_some();
    drop(run);
    (!ended).then_some(world)
}

fn finish(world: &World, session: &Session) {
    let turn = if session.is_resumable() {
        block_on(session.resume(world.context())).unwrap()
    } else {
        block_on(session.run("2", world.context())).unwrap()
    };
    assert_valid_history(&turn.messages);
    assert_eq!((turn.messages.len(), turn.cycles, turn.tool_executions.len()), (6, 3, 4));
    let history = session.tree().snapshot().history();
    assert_eq!(history.len(), 2 + 6);
    assert_eq!(ids_of(&history)[2..], ids_of(&turn.messages.iter().cloned().collect()));
}

#[test]
fn a_run_dropped_anywhere_leaves_a_session_that_goes_on() {
    let mut dropped = 0;
    for polls in 0..POLLS {
        let Some(world) = dropped_after(polls) else { break };
        dropped += 1;
        assert_eq!(said(&world.session), ["one", "answer to one"]);
        assert_eq!(reachable(&world.session).len(), 2);
        assert_eq!(world.session.is_resumable(), polls > 0);

        finish(&world, &world.session);
    }
    assert!((20..POLLS).contains(&dropped), "the run waited {dropped} times");
}

#[test]
fn a_run_killed_anywhere_goes_on_in_another_process() {
    for polls in 0..POLLS {
        let Some(world) = dropped_after(polls) else { break };
        let text = world.session.to_json().unwrap();
        let loaded = world.load(&text);
        assert_eq!(loaded.to_json().unwrap(), text);

        finish(&world, &loaded);
    }
}

#[test]
fn tools_that_have_answered_are_not_called_again() {
    for polls in 0..POLLS {
        let Some(world) = dropped_after(polls) else { break };
        let left = world.session.unfinished();
        let answered: Vec<_> = left
            .iter()
            .flat_map(turntree::agents::session::UnfinishedRun::messages)
            .flat_map(|message| message.results().to_vec())
            .map(|result| result.tool_call_id)
            .collect();
        let calls_before = world.tools_run().len();

        finish(&world, &world.reloaded());

        let again = &world.tools_run()[calls_before..];
        assert!(!again.iter().any(|call| answered.contains(call)), "{again:?} after {answered:?}");
        // Of the two tools of a round one answers at once: dropped while the other runs, only that one is called again.
        let unique: HashSet<_> = again.iter().collect();
        assert_eq!(unique.len(), again.len());
    }
}

#[test]
fn a_restore_dropped_in_line_changes_nothing() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    block_on(world.session.run("two", world.context())).unwrap();
    let first = world.session.checkpoints()[0].id.clone();
    let mut run = Box::pin(world.session.run("2", world.context()));
    assert!(poll_at_most(run.as_mut(), 3).is_none());

    let mut restore = Box::pin(world.session.restore(&first));
    assert!(poll_at_most(restore.as_mut(), 3).is_none());
    drop(restore);
    block_on(run).unwrap();

    assert_eq!(said(&world.session).len(), 2 + 2 + 6);
}

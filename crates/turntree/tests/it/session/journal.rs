//! Sessions in a store of logs: what an entry costs, and conflicts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;

use turntree::agents::Session;
use turntree::agents::session::journal::Journal;
use turntree::agents::session::{CheckpointInterval, SaveInterval, SessionOptions};
use turntree::agents::types::{AgentStreamEvent, UapData, UapEvent};
use turntree::core::ids::IdSource;
use turntree::store::engines::memory::MemoryEngine;
use turntree::store::{Engine, JournalStore};

use super::Fixture;
use crate::support::agents::block_on;

fn sizes(engine: &MemoryEngine, id: &str) -> Vec<usize> {
    let log = block_on(engine.read(id)).unwrap().unwrap();
    log.entries.iter().map(|entry| entry.data.len()).collect()
}

fn session_in(fixture: &Fixture, engine: &Arc<MemoryEngine>, interval: SaveInterval) -> Session {
    session_with(fixture, engine, interval, CheckpointInterval::Step)
}

fn session_with(
    fixture: &Fixture,
    engine: &Arc<MemoryEngine>,
    interval: SaveInterval,
    checkpoints: CheckpointInterval,
) -> Session {
    let store = JournalStore::new(Arc::clone(engine) as _);
    let options = SessionOptions {
        persistence: Some(Arc::new(store)),
        save_interval: interval,
        ..super::options(&fixture.ids, checkpoints)
    };
    Session::new(fixture.agent.clone(), options).unwrap()
}

/// The ids of the checkpoints that the store has.
fn stored_checkpoints(engine: &Arc<MemoryEngine>, id: &str) -> Vec<String> {
    let store = JournalStore::new(Arc::clone(engine) as _);
    let log = block_on(store.read_log(id)).unwrap();
    let journal = log.map(|log| log.journal).unwrap_or_default();
    let snapshot = journal.snapshot();
    let checkpoints = snapshot.iter().flat_map(|snapshot| &snapshot.checkpoints);
    checkpoints.map(|checkpoint| checkpoint.id.to_string()).collect()
}

#[test]
fn the_event_of_a_checkpoint_is_sent_when_the_store_has_it() {
    for interval in [SaveInterval::Tool, SaveInterval::Step, SaveInterval::Turn] {
        for checkpoints in [CheckpointInterval::Step, CheckpointInterval::Turn] {
            let (fixture, engine) = (Fixture::new(checkpoints), Arc::new(MemoryEngine::new()));
            let session = session_with(&fixture, &engine, interval, checkpoints);
            let mut stream = session.stream("2", fixture.context()).unwrap();

            let mut sent = Vec::new();
            while let Some(event) = block_on(stream.next()) {
                let AgentStreamEvent::Uap(event) = event.unwrap() else { continue };
                if let UapData::Checkpoint(made) = event.data {
                    let stored = stored_checkpoints(&engine, session.id());
                    assert!(stored.contains(&made.checkpoint_id), "{interval:?} {checkpoints:?}");
                    sent.push(made.checkpoint_id);
                }
            }

            assert_eq!(sent, stored_checkpoints(&engine, session.id()), "{interval:?} {checkpoints:?}");
            assert_eq!(sent.len(), if checkpoints == CheckpointInterval::Step { 3 } else { 1 });
        }
    }
}

#[test]
fn the_events_of_a_failed_run_are_sent_when_it_is_saved() {
    let (fixture, engine) = (Fixture::new(CheckpointInterval::Step), Arc::new(MemoryEngine::new()));
    let session = session_in(&fixture, &engine, SaveInterval::Turn);
    fixture.model.failing.store(true, Ordering::Relaxed);
    let mut stream = session.stream("2!", fixture.context()).unwrap();

    let mut sent = Vec::new();
    while let Some(Ok(event)) = block_on(stream.next()) {
        if let AgentStreamEvent::Uap(UapEvent { data: UapData::Checkpoint(made), .. }) = event {
            sent.push(made.checkpoint_id);
        }
    }

    assert_eq!(sent.len(), 2);
    assert_eq!(sent, stored_checkpoints(&engine, session.id()));
}

#[test]
fn a_turn_costs_the_same_however_long_the_session_is() {
    let (fixture, engine) = (Fixture::new(CheckpointInterval::Step), Arc::new(MemoryEngine::new()));
    let session = session_in(&fixture, &engine, SaveInterval::Tool);

    for _ in 0..200 {
        block_on(session.run("0", fixture.context())).unwrap();
    }

    let sizes = sizes(&engine, session.id());
    assert_eq!(sizes.len(), 600, "a turn without tools has three entries");
    let (early, late) = (sizes[30..60].iter().sum::<usize>(), sizes[570..].iter().sum::<usize>());
    assert!(early < 10 * 600, "{early}");
    assert!(late * 10 <= early * 11, "{early} {late}");
}

#[test]
fn a_branch_and_a_merge_do_not_copy_messages() {
    let (fixture, engine) = (Fixture::new(CheckpointInterval::Step), Arc::new(MemoryEngine::new()));
    let session = session_in(&fixture, &engine, SaveInterval::Turn);
    let root = session.tree().snapshot().root().id.to_string();
    let (one, other) = (session.fork(&root).unwrap(), session.fork(&root).unwrap());
    session.tree().lock().checkout(one.as_str()).unwrap();
    for _ in 0..20 {
        block_on(session.run("0", fixture.context())).unwrap();
    }

    session.tree().lock().merge(one.as_str(), other.as_str(), &crate::support::agents::clock()).unwrap();
    block_on(session.save()).unwrap();

    let sizes = sizes(&engine, session.id());
    assert!(*sizes.last().unwrap() < 300, "{sizes:?}");
    let store = JournalStore::new(engine);
    let entries = block_on(store.entries(session.id())).unwrap().unwrap();
    assert!(!entries.last().unwrap().contains("answer to"));
    let read = Journal::read(entries.iter().map(String::as_str)).unwrap();
    assert_eq!(read.snapshot().unwrap().tree.message_count(), 80);
    assert_eq!(read.turns(), 40);
}

#[test]
fn a_log_of_an_earlier_version_is_read_and_continued() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sessions/journal_1.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut log: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut journal = Journal::read(log.iter().map(String::as_str)).unwrap();
    let fixture = Fixture::new(CheckpointInterval::Step);
    // Those of the log are in use.
    (0..100).for_each(|_| drop(fixture.ids.string()));
    let session = fixture.continued(journal.snapshot().unwrap().clone());
    assert_eq!(journal.turns(), 3);
    assert_eq!(session.checkpoints().len(), 7);
    assert_eq!(session.unfinished().unwrap().messages().len(), 5);

    block_on(session.resume(fixture.context())).unwrap();
    for checkpoint in session.checkpoints() {
        block_on(session.restore(&checkpoint.id)).unwrap();
        if session.is_resumable() {
            block_on(session.resume(fixture.context())).unwrap();
        }
        let prepared = journal.prepare(session.snapshot().unwrap()).unwrap();
        log.push(prepared.text().to_owned());
        journal.commit(prepared);
        let read = Journal::read(log.iter().map(String::as_str)).unwrap();
        let read = fixture.continued(read.snapshot().unwrap().clone());
        assert_eq!(read.to_json().unwrap(), session.to_json().unwrap());
    }
    assert_eq!(session.tree().snapshot().node_count(), 8);
}

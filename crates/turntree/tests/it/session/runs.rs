//! What sessions do, one behaviour at a time.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use turntree::agents::session::{CheckpointInterval, SessionMetadata};
use turntree::agents::types::AgentStreamEvent;
use turntree::agents::{Session, SessionError, SessionOptions};
use turntree::core::ids::CountingIds;
use turntree::core::persistence::{PersistenceAdapter, PersistenceError};
use turntree::message::Thread;
use turntree::upp::ErrorCode;

use super::{World, ids_of, poll_at_most, reachable, said, texts_of};
use crate::support::agents::{block_on, clock, is_marked_aborted, raw};

#[test]
fn turns_go_into_the_tree_and_are_seen_by_the_next_run() {
    let world = World::new(CheckpointInterval::Step);

    let first = block_on(world.session.run("one", world.context())).unwrap();
    let second = block_on(world.session.run("two", world.context())).unwrap();

    assert_eq!(said(&world.session), ["one", "answer to one", "two", "answer to two"]);
    assert_eq!((first.messages.len(), second.messages.len()), (2, 2));
    let requests = world.model.requests.lock().unwrap();
    assert_eq!(
        requests[1][..2],
        requests[0].iter().cloned().chain([first.response().id.clone()]).collect::<Vec<_>>()
    );
}

#[test]
fn a_checkpoint_is_made_after_every_step_or_every_turn_or_never() {
    let made = |interval| {
        let world = World::new(interval);
        block_on(world.session.run("2", world.context())).unwrap();
        world.session.checkpoints().iter().map(|checkpoint| checkpoint.step()).collect::<Vec<_>>()
    };

    assert_eq!(made(CheckpointInterval::Step), [1, 2, 3]);
    assert_eq!(made(CheckpointInterval::Turn), [3]);
    assert!(made(CheckpointInterval::Off).is_empty());
}

#[test]
fn restoring_the_last_checkpoint_of_a_run_gives_the_history_at_its_end() {
    for interval in [CheckpointInterval::Step, CheckpointInterval::Turn] {
        let world = World::new(interval);
        block_on(world.session.run("1", world.context())).unwrap();
        let (checkpoint, before) = (world.session.current_checkpoint().unwrap(), said(&world.session));
        block_on(world.session.run("two", world.context())).unwrap();
        let everything = reachable(&world.session);

        block_on(world.session.restore(&checkpoint.id)).unwrap();

        assert_eq!(said(&world.session), before);
        assert_eq!(reachable(&world.session), everything);
        assert_eq!(*world.session.current_checkpoint().unwrap(), *checkpoint);
        assert!(world.session.unfinished().is_none());
        block_on(world.session.run("other", world.context())).unwrap();
        assert_eq!(said(&world.session)[before.len()..], ["other", "answer to other"]);
        let abandoned = world.session.tree().snapshot();
        let abandoned = abandoned.leaves().next().unwrap();
        assert_eq!(abandoned.name.as_deref(), Some("abandoned"));
        assert_eq!(texts_of(&abandoned.thread.messages), ["two", "answer to two"]);
    }
}

#[test]
fn restoring_the_middle_of_a_run_lets_the_next_one_see_what_it_had_said() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    block_on(world.session.run("2", world.context())).unwrap();
    let middle = Arc::clone(&world.session.checkpoints()[1]);
    assert_eq!((middle.step(), middle.state().messages.len()), (1, 3));

    block_on(world.session.restore(&middle.id)).unwrap();

    assert_eq!(said(&world.session), ["one", "answer to one"]);
    assert_eq!(ids_of(&world.session.unfinished().unwrap().messages()), ids_of(&middle.state().messages));
    let turn = block_on(world.session.run("other", world.context())).unwrap();
    assert_eq!(turn.messages.len(), 2);
    let history = world.session.tree().snapshot().history();
    assert_eq!(history.len(), 2 + 3 + 2);
    assert_eq!(world.model.requests.lock().unwrap().last().unwrap()[..], ids_of(&history)[..6]);
}

#[test]
fn resuming_a_restored_run_ends_it_as_it_would_have_ended() {
    let world = World::new(CheckpointInterval::Step);
    let whole = block_on(world.session.run("2", world.context())).unwrap();
    let ran = world.tools_run().len();
    block_on(world.session.restore(&world.session.checkpoints()[0].id)).unwrap();

    let again = block_on(world.session.resume(world.context())).unwrap();

    assert_eq!(again.messages[..3], whole.messages[..3]);
    assert_eq!(again.messages.len(), whole.messages.len());
    assert_eq!(world.tools_run().len(), ran + 2);
    assert_eq!(world.session.tree().snapshot().history().len(), 6);
    assert_eq!(world.session.checkpoints().len(), 5);
    assert!(matches!(
        block_on(world.session.resume(world.context())),
        Err(SessionError::NothingToResume { .. })
    ));
}

#[test]
fn a_failed_run_adds_nothing_and_can_be_taken_up_without_doing_anything_twice() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    world.model.failing.store(true, Ordering::Relaxed);
    let before = said(&world.session);

    let failure = block_on(world.session.run("2!", world.context()));

    assert!(matches!(failure, Err(SessionError::Run(error)) if error.code == ErrorCode::ProviderError));
    assert_eq!(said(&world.session), before);
    assert_eq!(world.session.checkpoints().len(), 1 + 2);
    world.model.failing.store(false, Ordering::Relaxed);
    let ran = world.tools_run();
    let turn = block_on(world.session.resume(world.context())).unwrap();
    assert_eq!(world.tools_run(), ran);
    assert_eq!((turn.cycles, turn.tool_executions.len()), (3, 4));
    assert_eq!(said(&world.session).len(), before.len() + 6);
}

#[test]
fn a_new_run_after_a_failed_one_does_not_see_what_that_had_said() {
    let world = World::new(CheckpointInterval::Step);
    world.model.failing.store(true, Ordering::Relaxed);
    block_on(world.session.run("1!", world.context())).unwrap_err();

    block_on(world.session.run("two", world.context())).unwrap();

    assert_eq!(said(&world.session), ["two", "answer to two"]);
}

#[test]
fn checkpoints_of_what_was_left_behind_stay_good() {
    let world = World::new(CheckpointInterval::Step);
    for text in ["one", "two", "three"] {
        block_on(world.session.run(text, world.context())).unwrap();
    }
    let points = world.session.checkpoints();
    let whole = said(&world.session);
    block_on(world.session.restore(&points[0].id)).unwrap();
    block_on(world.session.run("other", world.context())).unwrap();

    block_on(world.session.restore(&points[2].id)).unwrap();

    assert_eq!(said(&world.session), whole);
    block_on(world.session.restore(&points[1].id)).unwrap();
    assert_eq!(said(&world.session), whole[..4]);
    block_on(world.session.restore(&world.session.checkpoints()[3].id)).unwrap();
    assert_eq!(said(&world.session), ["one", "answer to one", "other", "answer to other"]);
}

#[test]
fn restoring_to_where_the_session_is_changes_no_node() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    let tree = world.session.tree().snapshot();

    block_on(world.session.restore(&world.session.current_checkpoint().unwrap().id)).unwrap();

    assert_eq!(world.session.tree().snapshot(), tree);
}

#[test]
fn fork_branches_and_does_not_move() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    let root = world.session.tree().snapshot().root().id.clone();

    let branch = world.session.fork(root.as_str()).unwrap();

    let tree = world.session.tree().snapshot();
    assert_eq!(tree.current().id, root);
    assert_eq!(tree.history_of(branch.as_str()).unwrap().len(), 2);
    assert!(matches!(world.session.fork("nowhere"), Err(SessionError::Tree(_))));
    assert!(matches!(
        block_on(world.session.restore("nothing")),
        Err(SessionError::UnknownCheckpoint { .. })
    ));
}

#[test]
fn runs_come_in_the_order_they_were_asked_for() {
    let world = World::new(CheckpointInterval::Step);
    let runs = ["a", "2", "c", "1", "e"].map(|text| world.session.run(text, world.context()));

    let turns = block_on(futures_util::future::join_all(runs));

    assert!(turns.iter().all(Result::is_ok));
    let inputs: Vec<_> = said(&world.session).into_iter().filter(|text| text.len() == 1).collect();
    assert_eq!(inputs, ["a", "2", "c", "1", "e"]);
}

#[test]
fn a_run_from_inside_a_run_of_the_same_session_is_refused() {
    let world = World::new(CheckpointInterval::Step);
    let mut context = world.context();
    context.session_id = Some(Arc::clone(world.session.id()));

    assert!(matches!(block_on(world.session.run("x", context.clone())), Err(SessionError::Reentrant { .. })));
    assert!(matches!(world.session.stream("x", context.clone()), Err(SessionError::Reentrant { .. })));
    assert!(matches!(block_on(world.session.resume(context)), Err(SessionError::Reentrant { .. })));
}

#[test]
fn a_stream_commits_at_its_end_and_tells_of_checkpoints() {
    for interval in [CheckpointInterval::Step, CheckpointInterval::Turn] {
        let world = World::new(interval);
        let mut stream = world.session.stream("1", world.context()).unwrap();

        let mut told = Vec::new();
        while let Some(event) = block_on(stream.next()) {
            if let AgentStreamEvent::Uap(event) = event.unwrap() {
                told.push(event.data.kind().to_owned());
            }
        }

        let checkpoints = told.iter().filter(|kind| *kind == "checkpoint").count();
        assert_eq!(checkpoints, world.session.checkpoints().len());
        assert_eq!(said(&world.session).len(), 4);
        assert_eq!(block_on(stream.turn()).unwrap().messages.len(), 4);
    }
}

#[test]
fn an_aborted_stream_commits_what_there_is() {
    let world = World::new(CheckpointInterval::Step);
    let mut stream = world.session.stream("3", world.context()).unwrap();
    while world.session.checkpoints().is_empty() {
        block_on(stream.next()).unwrap().unwrap();
    }

    stream.abort();
    let turn = block_on(stream.turn()).unwrap();

    assert!(is_marked_aborted(&turn));
    assert_eq!(
        ids_of(&world.session.tree().snapshot().history()),
        ids_of(&turn.messages.iter().cloned().collect())
    );
    assert!(world.session.unfinished().is_none());
}

#[test]
fn a_run_that_is_stopped_in_line_changes_nothing() {
    let world = World::new(CheckpointInterval::Step);
    let mut first = Box::pin(world.session.run("2", world.context()));
    assert!(poll_at_most(first.as_mut(), 2).is_none());
    let mut second = world.session.stream("two", world.context()).unwrap();
    assert!(poll_at_most(pin!(second.next()), 2).is_none());

    second.abort();
    let turned_away = block_on(second.turn()).unwrap();
    block_on(first).unwrap();

    assert!(is_marked_aborted(&turned_away));
    assert_eq!(said(&world.session).len(), 6);
}

#[test]
fn a_side_conversation_is_kept_and_never_current() {
    let world = World::new(CheckpointInterval::Step);
    block_on(world.session.run("one", world.context())).unwrap();
    let messages = block_on(world.agent.run("aside", world.context())).unwrap().messages.clone();
    let thread = Thread::new(messages.into(), &CountingIds::default(), &clock());

    let node =
        world.session.add_side_thread(thread, [("kind", raw("\"query\""))].into_iter().collect()).unwrap();

    let tree = world.session.tree().snapshot();
    assert_eq!(texts_of(&tree.history_of(node.as_str()).unwrap()), ["aside", "answer to aside"]);
    assert_ne!(tree.current().id, node);
    assert_eq!(tree.node(node.as_str()).unwrap().parent_id.as_ref(), Some(&tree.root().id));
}

#[test]
fn ids_that_are_no_uuids_and_reserved_metadata_are_refused() {
    let world = World::new(CheckpointInterval::Step);
    let named = SessionOptions { id: Some("mine".into()), ..SessionOptions::default() };
    assert!(matches!(Session::new(world.agent.clone(), named), Err(SessionError::InvalidId { .. })));

    let metadata: Arc<dyn SessionMetadata> = Arc::new(Mutex::new(
        [("turntree", raw("{}"))].into_iter().collect::<turntree::core::json::RawObject>(),
    ));
    let reserved = SessionOptions { metadata, ..SessionOptions::default() };
    let error = Session::new(world.agent.clone(), reserved).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata of a session: the key \"turntree\" is reserved for the session; remove it"
    );
}

/// Keeps what it is given, unless it is told to fail.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    saved: Mutex<Vec<(String, String)>>,
    failing: std::sync::atomic::AtomicBool,
}

impl Shelf {
    pub(super) fn count(&self) -> usize {
        self.saved.lock().unwrap().len()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.saved.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }

    pub(super) fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }
}

impl PersistenceAdapter for Shelf {
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        Box::pin(async move {
            if self.failing.load(Ordering::Relaxed) {
                return Err(PersistenceError::new("disk full"));
            }
            self.saved.lock().unwrap().push((key, data));
            Ok(())
        })
    }

    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        let saved = self.saved.lock().unwrap();
        let found = saved.iter().rfind(|(name, _)| *name == key).map(|(_, data)| data.clone());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.saved.lock().unwrap().retain(|(name, _)| *name != key);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[test]
fn every_run_is_saved_where_there_is_a_store_and_a_store_that_fails_loses_no_turn() {
    let world = World::new(CheckpointInterval::Step);
    let shelf = Arc::new(Shelf::default());
    let session = world.session.with_persistence(Some(Arc::clone(&shelf) as _));

    block_on(session.run("one", world.context())).unwrap();
    world.model.failing.store(true, Ordering::Relaxed);
    block_on(session.run("1!", world.context())).unwrap_err();

    let saved = shelf.saved.lock().unwrap().clone();
    assert_eq!(saved.len(), 2);
    assert_eq!(saved[0].0, format!("session:{}", session.id()));
    assert!(world.load(&saved[1].1).is_resumable());
    shelf.failing.store(true, Ordering::Relaxed);
    let failure = block_on(session.run("two", world.context())).unwrap_err();
    assert!(
        matches!(&failure, SessionError::NotSaved { turn, .. } if turn.response().text() == "answer to two")
    );
    assert_eq!(said(&session), ["one", "answer to one", "two", "answer to two"]);
    shelf.failing.store(false, Ordering::Relaxed);
    block_on(session.save()).unwrap();
    assert_eq!(block_on(shelf.load(saved[0].0.clone())).unwrap().unwrap(), session.to_json().unwrap());
}

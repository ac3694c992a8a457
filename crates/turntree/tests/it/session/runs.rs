//! Runs of sessions: checkpoints, restore, resume, fork, queueing, streams, persistence.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use turntree::agents::session::{CheckpointInterval, KeyValueStore, SessionMetadata, SessionStore};
use turntree::agents::types::AgentStreamEvent;
use turntree::agents::{Session, SessionError, SessionOptions};
use turntree::core::ids::CountingIds;
use turntree::core::persistence::{PersistenceAdapter, PersistenceError};
use turntree::message::Thread;
use turntree::upp::ErrorCode;

use super::{Fixture, ids_of, poll_at_most, reachable, texts, texts_of};
use crate::support::agents::{block_on, clock, is_marked_aborted, raw, yield_times};

#[test]
fn turns_are_committed_to_the_tree_and_sent_with_the_next_run() {
    let fixture = Fixture::new(CheckpointInterval::Step);

    let first = block_on(fixture.session.run("one", fixture.context())).unwrap();
    let second = block_on(fixture.session.run("two", fixture.context())).unwrap();

    assert_eq!(texts(&fixture.session), ["one", "answer to one", "two", "answer to two"]);
    assert_eq!((first.messages.len(), second.messages.len()), (2, 2));
    let requests = fixture.model.requests.lock().unwrap();
    assert_eq!(
        requests[1][..2],
        requests[0].iter().cloned().chain([first.response().id.clone()]).collect::<Vec<_>>()
    );
}

#[test]
fn checkpoints_follow_the_interval() {
    let steps = |interval| {
        let fixture = Fixture::new(interval);
        block_on(fixture.session.run("2", fixture.context())).unwrap();
        fixture.session.checkpoints().iter().map(|checkpoint| checkpoint.step()).collect::<Vec<_>>()
    };

    assert_eq!(steps(CheckpointInterval::Step), [1, 2, 3]);
    assert_eq!(steps(CheckpointInterval::Turn), [3]);
    assert!(steps(CheckpointInterval::Off).is_empty());
}

#[test]
fn restoring_the_last_checkpoint_of_a_run_restores_the_history_at_its_end() {
    for interval in [CheckpointInterval::Step, CheckpointInterval::Turn] {
        let fixture = Fixture::new(interval);
        block_on(fixture.session.run("1", fixture.context())).unwrap();
        let (checkpoint, before) = (fixture.session.current_checkpoint().unwrap(), texts(&fixture.session));
        block_on(fixture.session.run("two", fixture.context())).unwrap();
        let everything = reachable(&fixture.session);

        block_on(fixture.session.restore(&checkpoint.id)).unwrap();

        assert_eq!(texts(&fixture.session), before);
        assert_eq!(reachable(&fixture.session), everything);
        assert_eq!(*fixture.session.current_checkpoint().unwrap(), *checkpoint);
        assert!(fixture.session.unfinished().is_none());
        block_on(fixture.session.run("other", fixture.context())).unwrap();
        assert_eq!(texts(&fixture.session)[before.len()..], ["other", "answer to other"]);
        let abandoned = fixture.session.tree().snapshot();
        let abandoned = abandoned.leaves().next().unwrap();
        assert_eq!(abandoned.name.as_deref(), Some("abandoned"));
        assert_eq!(texts_of(&abandoned.thread.messages), ["two", "answer to two"]);
    }
}

#[test]
fn a_run_after_restoring_a_step_sees_the_messages_of_that_step() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    block_on(fixture.session.run("2", fixture.context())).unwrap();
    let middle = Arc::clone(&fixture.session.checkpoints()[1]);
    assert_eq!((middle.step(), middle.state().messages.len()), (1, 3));

    block_on(fixture.session.restore(&middle.id)).unwrap();

    assert_eq!(texts(&fixture.session), ["one", "answer to one"]);
    assert_eq!(ids_of(&fixture.session.unfinished().unwrap().messages()), ids_of(&middle.state().messages));
    let turn = block_on(fixture.session.run("other", fixture.context())).unwrap();
    assert_eq!(turn.messages.len(), 2);
    let history = fixture.session.tree().snapshot().history();
    assert_eq!(history.len(), 2 + 3 + 2);
    assert_eq!(fixture.model.requests.lock().unwrap().last().unwrap()[..], ids_of(&history)[..6]);
}

#[test]
fn resuming_a_restored_run_ends_with_the_same_messages() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let whole = block_on(fixture.session.run("2", fixture.context())).unwrap();
    let ran = fixture.tools_run().len();
    block_on(fixture.session.restore(&fixture.session.checkpoints()[0].id)).unwrap();

    let again = block_on(fixture.session.resume(fixture.context())).unwrap();

    assert_eq!(again.messages[..3], whole.messages[..3]);
    assert_eq!(again.messages.len(), whole.messages.len());
    assert_eq!(fixture.tools_run().len(), ran + 2);
    assert_eq!(fixture.session.tree().snapshot().history().len(), 6);
    assert_eq!(fixture.session.checkpoints().len(), 5);
    assert!(matches!(
        block_on(fixture.session.resume(fixture.context())),
        Err(SessionError::NothingToResume { .. })
    ));
}

#[test]
fn a_failed_run_commits_no_messages_and_resumes_without_repeated_work() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    fixture.model.failing.store(true, Ordering::Relaxed);
    let before = texts(&fixture.session);

    let failure = block_on(fixture.session.run("2!", fixture.context()));

    assert!(matches!(failure, Err(SessionError::Run(error)) if error.code == ErrorCode::ProviderError));
    assert_eq!(texts(&fixture.session), before);
    assert_eq!(fixture.session.checkpoints().len(), 1 + 2);
    fixture.model.failing.store(false, Ordering::Relaxed);
    let ran = fixture.tools_run();
    let turn = block_on(fixture.session.resume(fixture.context())).unwrap();
    assert_eq!(fixture.tools_run(), ran);
    assert_eq!((turn.cycles, turn.tool_executions.len()), (3, 4));
    assert_eq!(texts(&fixture.session).len(), before.len() + 6);
}

#[test]
fn a_new_run_after_a_failed_one_does_not_see_its_messages() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    fixture.model.failing.store(true, Ordering::Relaxed);
    block_on(fixture.session.run("1!", fixture.context())).unwrap_err();

    block_on(fixture.session.run("two", fixture.context())).unwrap();

    assert_eq!(texts(&fixture.session), ["two", "answer to two"]);
}

#[test]
fn checkpoints_of_abandoned_branches_can_be_restored() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    for text in ["one", "two", "three"] {
        block_on(fixture.session.run(text, fixture.context())).unwrap();
    }
    let points = fixture.session.checkpoints();
    let whole = texts(&fixture.session);
    block_on(fixture.session.restore(&points[0].id)).unwrap();
    block_on(fixture.session.run("other", fixture.context())).unwrap();

    block_on(fixture.session.restore(&points[2].id)).unwrap();

    assert_eq!(texts(&fixture.session), whole);
    block_on(fixture.session.restore(&points[1].id)).unwrap();
    assert_eq!(texts(&fixture.session), whole[..4]);
    block_on(fixture.session.restore(&fixture.session.checkpoints()[3].id)).unwrap();
    assert_eq!(texts(&fixture.session), ["one", "answer to one", "other", "answer to other"]);
}

#[test]
fn restoring_the_current_checkpoint_leaves_the_tree_unchanged() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    let tree = fixture.session.tree().snapshot();

    block_on(fixture.session.restore(&fixture.session.current_checkpoint().unwrap().id)).unwrap();

    assert_eq!(fixture.session.tree().snapshot(), tree);
}

#[test]
fn fork_creates_a_branch_and_does_not_check_it_out() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    let root = fixture.session.tree().snapshot().root().id.clone();

    let branch = fixture.session.fork(root.as_str()).unwrap();

    let tree = fixture.session.tree().snapshot();
    assert_eq!(tree.current().id, root);
    assert_eq!(tree.history_of(branch.as_str()).unwrap().len(), 2);
    assert!(matches!(fixture.session.fork("nowhere"), Err(SessionError::Tree(_))));
    assert!(matches!(
        block_on(fixture.session.restore("nothing")),
        Err(SessionError::UnknownCheckpoint { .. })
    ));
}

#[test]
fn runs_execute_in_the_order_of_their_calls() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let runs = ["a", "2", "c", "1", "e"].map(|text| fixture.session.run(text, fixture.context()));

    let turns = block_on(futures_util::future::join_all(runs));

    assert!(turns.iter().all(Result::is_ok));
    let inputs: Vec<_> = texts(&fixture.session).into_iter().filter(|text| text.len() == 1).collect();
    assert_eq!(inputs, ["a", "2", "c", "1", "e"]);
}

#[test]
fn a_run_within_a_run_of_the_same_session_is_refused() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let mut context = fixture.context();
    context.session_id = Some(Arc::clone(fixture.session.id()));

    assert!(matches!(
        block_on(fixture.session.run("x", context.clone())),
        Err(SessionError::Reentrant { .. })
    ));
    assert!(matches!(fixture.session.stream("x", context.clone()), Err(SessionError::Reentrant { .. })));
    assert!(matches!(block_on(fixture.session.resume(context)), Err(SessionError::Reentrant { .. })));
}

#[test]
fn a_stream_commits_at_its_end_and_has_checkpoint_events() {
    for interval in [CheckpointInterval::Step, CheckpointInterval::Turn] {
        let fixture = Fixture::new(interval);
        let mut stream = fixture.session.stream("1", fixture.context()).unwrap();

        let mut kinds = Vec::new();
        while let Some(event) = block_on(stream.next()) {
            if let AgentStreamEvent::Uap(event) = event.unwrap() {
                kinds.push(event.data.kind().to_owned());
            }
        }

        let checkpoints = kinds.iter().filter(|kind| *kind == "checkpoint").count();
        assert_eq!(checkpoints, fixture.session.checkpoints().len());
        assert_eq!(texts(&fixture.session).len(), 4);
        assert_eq!(block_on(stream.turn()).unwrap().messages.len(), 4);
    }
}

#[test]
fn an_aborted_stream_commits_its_partial_turn() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let mut stream = fixture.session.stream("3", fixture.context()).unwrap();
    while fixture.session.checkpoints().is_empty() {
        block_on(stream.next()).unwrap().unwrap();
    }

    stream.abort();
    let turn = block_on(stream.turn()).unwrap();

    assert!(is_marked_aborted(&turn));
    assert_eq!(
        ids_of(&fixture.session.tree().snapshot().history()),
        ids_of(&turn.messages.iter().cloned().collect())
    );
    assert!(fixture.session.unfinished().is_none());
}

#[test]
fn a_queued_run_that_is_aborted_has_no_effect() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let mut first = Box::pin(fixture.session.run("2", fixture.context()));
    assert!(poll_at_most(first.as_mut(), 2).is_none());
    let mut second = fixture.session.stream("two", fixture.context()).unwrap();
    assert!(poll_at_most(pin!(second.next()), 2).is_none());

    second.abort();
    let aborted = block_on(second.turn()).unwrap();
    block_on(first).unwrap();

    assert!(is_marked_aborted(&aborted));
    assert_eq!(texts(&fixture.session).len(), 6);
}

#[test]
fn a_side_thread_becomes_a_branch_that_is_never_current() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();
    let messages = block_on(fixture.agent.run("aside", fixture.context())).unwrap().messages.clone();
    let thread = Thread::new(messages.into(), &CountingIds::default(), &clock());

    let node =
        fixture.session.add_side_thread(thread, [("kind", raw("\"query\""))].into_iter().collect()).unwrap();

    let tree = fixture.session.tree().snapshot();
    assert_eq!(texts_of(&tree.history_of(node.as_str()).unwrap()), ["aside", "answer to aside"]);
    assert_ne!(tree.current().id, node);
    assert_eq!(tree.node(node.as_str()).unwrap().parent_id.as_ref(), Some(&tree.root().id));
}

#[test]
fn ids_are_short_printable_texts() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let create = |id: &str| {
        Session::new(
            fixture.agent.clone(),
            SessionOptions { id: Some(id.into()), ..SessionOptions::default() },
        )
    };

    for id in ["mine", "ticket 7/../\"x\" 'y' \\", "Größe", "日本", "e\u{301}", "\u{301}e", &"🦀".repeat(200)]
    {
        assert_eq!(&**create(id).unwrap().id(), id);
    }
    let long = "x".repeat(201);
    for id in ["", "a\nb", "\u{0}", "a\u{a0}b", "\u{200b}", "\u{2028}", "\u{e000}", &long] {
        assert!(matches!(create(id), Err(SessionError::InvalidId { .. })), "{id:?}");
    }
}

#[test]
fn reserved_metadata_are_refused() {
    let fixture = Fixture::new(CheckpointInterval::Step);

    let metadata: Arc<dyn SessionMetadata> = Arc::new(Mutex::new(
        [("turntree", raw("{}"))].into_iter().collect::<turntree::core::json::RawObject>(),
    ));
    let reserved = SessionOptions { metadata, ..SessionOptions::default() };
    let error = Session::new(fixture.agent.clone(), reserved).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata of a session: the key \"turntree\" is reserved for the session; remove it"
    );
}

/// A store that receives sessions as texts.
pub(super) fn key_value(store: &Arc<MemoryStore>) -> Arc<dyn SessionStore> {
    Arc::new(KeyValueStore::new(Arc::clone(store) as _))
}

/// A store in memory that fails while `failing` is set, or after a number of saves.
#[derive(Debug, Default)]
pub(super) struct MemoryStore {
    saved: Mutex<Vec<(String, String)>>,
    failing: std::sync::atomic::AtomicBool,
    limit: Mutex<Option<usize>>,
    is_slow: bool,
}

impl MemoryStore {
    pub(super) fn count(&self) -> usize {
        self.saved.lock().unwrap().len()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.saved.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }

    /// A store whose saves yield.
    pub(super) fn slow() -> Self {
        Self { is_slow: true, ..Self::default() }
    }

    pub(super) fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
        *self.limit.lock().unwrap() = None;
    }

    /// Fails after this number of saves.
    pub(super) fn fail_after(&self, saves: usize) {
        *self.limit.lock().unwrap() = Some(saves);
    }
}

impl PersistenceAdapter for MemoryStore {
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        Box::pin(async move {
            yield_times(if self.is_slow { 7 } else { 0 }).await;
            let is_full = self.limit.lock().unwrap().is_some_and(|limit| self.count() >= limit);
            if is_full || self.failing.load(Ordering::Relaxed) {
                return Err(PersistenceError::new("disk full"));
            }
            self.saved.lock().unwrap().push((key, data));
            Ok(())
        })
    }

    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        let saved = self.saved.lock().unwrap();
        let data = saved.iter().rfind(|(name, _)| *name == key).map(|(_, data)| data.clone());
        Box::pin(std::future::ready(Ok(data)))
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.saved.lock().unwrap().retain(|(name, _)| *name != key);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[test]
fn every_run_is_saved_and_a_failing_store_loses_no_turn() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let store = Arc::new(MemoryStore::default());
    let session = fixture.session.with_persistence(Some(key_value(&store)));

    block_on(session.run("one", fixture.context())).unwrap();
    fixture.model.failing.store(true, Ordering::Relaxed);
    block_on(session.run("1!", fixture.context())).unwrap_err();

    let saved = store.saved.lock().unwrap().clone();
    assert_eq!(saved.len(), 2);
    assert_eq!(saved[0].0, format!("session:{}", session.id()));
    assert_eq!(Session::key_of("../a:ü"), "session:..%2Fa%3A%C3%BC");
    assert!(fixture.load(&saved[1].1).is_resumable());
    store.failing.store(true, Ordering::Relaxed);
    let failure = block_on(session.run("two", fixture.context())).unwrap_err();
    assert!(
        matches!(&failure, SessionError::NotSaved { turn, .. } if turn.response().text() == "answer to two")
    );
    assert_eq!(texts(&session), ["one", "answer to one", "two", "answer to two"]);
    store.failing.store(false, Ordering::Relaxed);
    block_on(session.save()).unwrap();
    assert_eq!(block_on(store.load(saved[0].0.clone())).unwrap().unwrap(), session.to_json().unwrap());
}

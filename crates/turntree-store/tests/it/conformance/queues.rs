//! Queues: order, leases, fencing tokens, retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use turntree_core::runtime;
use turntree_core::time::{Clock as _, SystemClock, Timestamp};
use turntree_store::engine::{Engine, SessionStatus};
use turntree_store::error::StoreError;
use turntree_store::queue::{Claim, Claimed, Finish, NewRun, Outcome, Queue, RunQuery, RunStatus, RunTexts};

use crate::support::{Fixture, append_after, head_of, time};

const LEASE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn queue(engine: &Arc<dyn Engine>) -> &dyn Queue {
    engine.queue().unwrap()
}

fn new(id: &str, session: &str) -> NewRun {
    NewRun {
        id: id.into(),
        session: session.into(),
        input: Some(format!("\"input of {id}\"")),
        agent: None,
        priority: 0,
        not_before: None,
    }
}

async fn add(engine: &Arc<dyn Engine>, run: NewRun) {
    queue(engine).enqueue(run).await.unwrap();
}

async fn claim_for(engine: &Arc<dyn Engine>, lease: Duration) -> Option<Claimed> {
    let claim = Claim { worker: "w".to_owned(), agents: vec!["helper".to_owned()], lease };
    queue(engine).claim(claim).await.unwrap()
}

async fn claim(engine: &Arc<dyn Engine>) -> Option<Claimed> {
    claim_for(engine, LEASE).await
}

async fn claimed_id(engine: &Arc<dyn Engine>) -> Option<String> {
    claim(engine).await.map(|claimed| claimed.run.id.to_string())
}

/// Claims again and again until there is a run.
async fn claim_at_last(engine: &Arc<dyn Engine>) -> Claimed {
    let start = Instant::now();
    loop {
        if let Some(claimed) = claim(engine).await {
            return claimed;
        }
        assert!(start.elapsed() < PATIENCE, "there is no run");
        runtime::sleep(Duration::from_millis(10)).await;
    }
}

async fn finish(engine: &Arc<dyn Engine>, claimed: &Claimed, outcome: Outcome) -> Result<(), StoreError> {
    let (run, session) = (Arc::clone(&claimed.run.id), Arc::clone(&claimed.run.session));
    queue(engine).finish(Finish { run, session, token: claimed.token, outcome }).await
}

/// The first operation makes the tables, which takes time.
async fn make_tables(engine: &Arc<dyn Engine>) {
    assert!(queue(engine).run("none").await.unwrap().is_none());
}

fn retry(delay: Duration) -> Outcome {
    Outcome::Retry { error: "no answer".to_owned(), delay }
}

fn soon(milliseconds: i64) -> Timestamp {
    time(SystemClock.now().microseconds() + milliseconds * 1_000)
}

async fn wait_until(time: Timestamp) {
    while SystemClock.now() < time {
        runtime::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn a_run_is_claimed_once_and_done(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    assert_eq!(queue(engine).run("a").await.unwrap().unwrap().status, RunStatus::Queued);

    let claimed = claim(engine).await.unwrap();

    assert_eq!((&*claimed.run.id, &*claimed.run.session, claimed.run.attempts), ("a", "s", 1));
    assert!(!claimed.was_started);
    assert_eq!(claimed.run.input.as_deref(), Some("\"input of a\""));
    assert!(claim(engine).await.is_none());
    assert_eq!(queue(engine).run("a").await.unwrap().unwrap().status, RunStatus::Running);
    finish(engine, &claimed, Outcome::Done(Some("{}".to_owned()))).await.unwrap();
    let run = queue(engine).run("a").await.unwrap().unwrap();
    assert_eq!((run.status, run.turn.as_deref(), run.error), (RunStatus::Done, Some("{}"), None));
    assert!(claim(engine).await.is_none());
    assert!(queue(engine).run("b").await.unwrap().is_none());
}

pub(crate) async fn an_id_is_added_once(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    add(engine, new("a", "s")).await;

    let claimed = claim(engine).await.unwrap();
    finish(engine, &claimed, Outcome::Done(None)).await.unwrap();

    assert!(claim(engine).await.is_none());
}

pub(crate) async fn the_runs_of_a_session_are_in_order(fixture: Fixture) {
    let engine = &fixture.engine;
    for id in ["a1", "a2"] {
        add(engine, new(id, "a")).await;
    }
    add(engine, NewRun { priority: 9, ..new("a3", "a") }).await;
    add(engine, new("b1", "b")).await;

    let first = claim(engine).await.unwrap();
    assert_eq!(&*first.run.id, "a1");
    assert_eq!(claimed_id(engine).await.as_deref(), Some("b1"));
    assert!(claim(engine).await.is_none(), "the session of a2 is leased");
    finish(engine, &first, Outcome::Done(None)).await.unwrap();
    let second = claim(engine).await.unwrap();
    assert_eq!(&*second.run.id, "a2");
    assert!(second.token > first.token);
}

pub(crate) async fn a_session_with_a_higher_priority_is_first(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "a")).await;
    add(engine, NewRun { priority: -1, ..new("b", "b") }).await;
    add(engine, NewRun { priority: 5, ..new("c", "c") }).await;

    let order = [claimed_id(engine).await, claimed_id(engine).await, claimed_id(engine).await];

    assert_eq!(order.map(Option::unwrap), ["c", "a", "b"]);
}

pub(crate) async fn a_run_does_not_start_before_its_time_and_blocks_nothing(fixture: Fixture) {
    let engine = &fixture.engine;
    make_tables(engine).await;
    add(engine, NewRun { not_before: Some(soon(600_000)), ..new("later", "s") }).await;
    add(engine, new("now", "s")).await;

    let first = claim(engine).await.unwrap();
    assert_eq!(&*first.run.id, "now");
    finish(engine, &first, Outcome::Done(None)).await.unwrap();
    assert!(claim(engine).await.is_none());

    let not_before = soon(300);
    add(engine, NewRun { not_before: Some(not_before), ..new("soon", "t") }).await;
    let claimed = claim_at_last(engine).await;
    assert_eq!(&*claimed.run.id, "soon");
    assert!(SystemClock.now() >= not_before, "it was claimed before its time");
}

pub(crate) async fn a_run_of_another_agent_is_left_to_its_workers(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, NewRun { agent: Some("other".to_owned()), ..new("a", "a") }).await;
    add(engine, NewRun { agent: Some("helper".to_owned()), ..new("b", "b") }).await;

    assert_eq!(claimed_id(engine).await.as_deref(), Some("b"));
    assert!(claim(engine).await.is_none());
}

pub(crate) async fn an_expired_lease_is_taken_over_and_its_worker_fenced(fixture: Fixture) {
    let engine = &fixture.engine;
    let append = append_after(None, "s", b"one");
    let head = head_of(&append);
    engine.append(append).await.unwrap();
    add(engine, new("a", "s")).await;
    add(engine, new("b", "s")).await;
    let lost = claim_for(engine, SHORT).await.unwrap();
    runtime::sleep(SHORT * 2).await;

    let taken = claim(engine).await.unwrap();

    assert_eq!((&*taken.run.id, taken.run.attempts), ("a", 2));
    assert!(taken.was_started);
    assert!(taken.token > lost.token);
    assert!(!queue(engine).heartbeat("s", lost.token, LEASE).await.unwrap());
    let refused = finish(engine, &lost, Outcome::Done(None)).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    let mut append = append_after(Some(head), "s", b"two");
    append.fence = Some(lost.token);
    let refused = engine.append(append.clone()).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    append.fence = Some(taken.token);
    engine.append(append).await.unwrap();
    finish(engine, &taken, Outcome::Done(None)).await.unwrap();
    let again = finish(engine, &taken, Outcome::Done(None)).await;
    assert!(matches!(again, Err(StoreError::Fenced { .. })), "{again:?}");
}

pub(crate) async fn a_heartbeat_extends_a_lease(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    let claimed = claim_for(engine, SHORT).await.unwrap();

    assert!(queue(engine).heartbeat("s", claimed.token, LEASE).await.unwrap());

    runtime::sleep(SHORT * 2).await;
    assert!(claim(engine).await.is_none());
}

pub(crate) async fn a_started_run_comes_before_an_earlier_one(fixture: Fixture) {
    let engine = &fixture.engine;
    make_tables(engine).await;
    // The first runs of the sessions have not come when the second ones start.
    let not_before = soon(4_000);
    for session in ["s", "t"] {
        let first = NewRun { not_before: Some(not_before), ..new(&format!("{session}1"), session) };
        add(engine, first).await;
        add(engine, new(&format!("{session}2"), session)).await;
    }
    let (s, t) = (claim(engine).await.unwrap(), claim(engine).await.unwrap());
    assert_eq!((&*s.run.id, &*t.run.id), ("s2", "t2"));
    finish(engine, &s, retry(LEASE)).await.unwrap();
    wait_until(not_before).await;

    assert!(claim(engine).await.is_none(), "s2 pauses, and s1 must not run between its attempts");
    finish(engine, &t, retry(Duration::ZERO)).await.unwrap();
    assert_eq!(claimed_id(engine).await.as_deref(), Some("t2"));
    assert!(claim(engine).await.is_none());
}

pub(crate) async fn attempts_and_failures_are_counted(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    let claimed = claim(engine).await.unwrap();
    finish(engine, &claimed, Outcome::Released).await.unwrap();
    let run = queue(engine).run("a").await.unwrap().unwrap();
    assert_eq!((run.status, run.attempts, run.failures), (RunStatus::Queued, 0, 0));

    let claimed = claim(engine).await.unwrap();
    finish(engine, &claimed, retry(Duration::ZERO)).await.unwrap();
    let claimed = claim(engine).await.unwrap();

    assert_eq!((claimed.run.attempts, claimed.run.failures), (2, 1));
    assert_eq!(claimed.run.error.as_deref(), Some("no answer"));
    finish(engine, &claimed, Outcome::Failed("gave up\0".to_owned())).await.unwrap();
    let run = queue(engine).run("a").await.unwrap().unwrap();
    assert_eq!((run.status, run.failures), (RunStatus::Failed, 2));
    assert!(run.error.unwrap().starts_with("gave up"));
    assert!(claim(engine).await.is_none());
}

pub(crate) async fn a_waiting_run_goes_on_when_its_session_was_changed(fixture: Fixture) {
    let engine = &fixture.engine;
    let mut append = append_after(None, "s", b"one");
    append.info.status = SessionStatus::Waiting;
    let (head, updated_at) = (head_of(&append), append.info.updated_at);
    engine.append(append).await.unwrap();
    add(engine, new("a", "s")).await;
    add(engine, new("b", "s")).await;
    let claimed = claim(engine).await.unwrap();
    let outcome = Outcome::Waiting { error: "call c".to_owned(), updated_at };
    finish(engine, &claimed, outcome).await.unwrap();
    let run = queue(engine).run("a").await.unwrap().unwrap();
    assert_eq!((run.status, run.attempts), (RunStatus::Waiting, 0));
    assert!(claim(engine).await.is_none());

    let mut append = append_after(Some(head), "s", b"two");
    append.info.updated_at = time(updated_at.microseconds() + 1);
    engine.append(append).await.unwrap();

    assert_eq!(claimed_id(engine).await.as_deref(), Some("a"));
}

pub(crate) async fn a_waiting_run_goes_on_when_it_is_resumed(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    let claimed = claim(engine).await.unwrap();
    let outcome = Outcome::Waiting { error: "call c".to_owned(), updated_at: time(1) };
    finish(engine, &claimed, outcome).await.unwrap();
    assert!(claim(engine).await.is_none());

    assert_eq!(queue(engine).resume("s").await.unwrap().as_deref(), Some("a"));

    assert_eq!(claimed_id(engine).await.as_deref(), Some("a"));
    assert_eq!(queue(engine).resume("s").await.unwrap(), None);
}

pub(crate) async fn concurrent_workers_claim_each_run_once(fixture: Fixture) {
    let engines: Vec<Arc<dyn Engine>> = match &fixture.reopen {
        Some(reopen) => (0..4).map(|_| reopen()).collect(),
        None => vec![Arc::clone(&fixture.engine); 4],
    };
    for number in 0..30 {
        add(&fixture.engine, new(&format!("r{number}"), &format!("s{}", number % 10))).await;
    }

    let finished = Arc::new(AtomicUsize::new(0));
    let work = |engine: Arc<dyn Engine>| {
        let finished = Arc::clone(&finished);
        async move {
            let (start, mut done) = (Instant::now(), Vec::new());
            while finished.load(Ordering::SeqCst) < 30 && start.elapsed() < PATIENCE {
                let Some(claimed) = claim(&engine).await else {
                    runtime::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                done.push(claimed.run.id.to_string());
                finish(&engine, &claimed, Outcome::Done(None)).await.unwrap();
                finished.fetch_add(1, Ordering::SeqCst);
            }
            done
        }
    };
    let tasks: Vec<_> = engines.into_iter().map(|engine| runtime::spawn(work(engine))).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.extend(task.await.unwrap());
    }

    done.sort_unstable();
    let mut expected: Vec<String> = (0..30).map(|number| format!("r{number}")).collect();
    expected.sort_unstable();
    assert_eq!(done, expected);
    assert!(claim(&fixture.engine).await.is_none());
}

pub(crate) async fn a_waiting_worker_wakes_up(fixture: Fixture) {
    let engine = Arc::clone(&fixture.engine);
    let waiting = Arc::clone(&engine);
    let started = Instant::now();
    let worker = runtime::spawn(async move {
        while claim(&waiting).await.is_none() {
            queue(&waiting).wait(Duration::from_secs(120)).await.unwrap();
        }
    });
    runtime::sleep(Duration::from_millis(300)).await;

    add(&engine, new("a", "s")).await;
    worker.await.unwrap();

    // Without a wake-up it waits for two minutes.
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

fn runs_of(status: Option<RunStatus>, session: Option<&str>, limit: usize) -> RunQuery {
    RunQuery { status, session: session.map(str::to_owned), limit, after: None }
}

pub(crate) async fn runs_are_listed_in_pages_the_newest_first(fixture: Fixture) {
    let engine = &fixture.engine;
    for number in 0..5 {
        add(engine, new(&format!("r{number}"), if number == 3 { "t" } else { "s" })).await;
    }
    let claimed = claim(engine).await.unwrap();
    finish(engine, &claimed, Outcome::Done(Some("{}".to_owned()))).await.unwrap();

    let mut query = runs_of(None, None, 2);
    let (mut ids, mut pages) = (Vec::new(), 0);
    loop {
        let page = queue(engine).runs(query.clone()).await.unwrap();
        ids.extend(page.runs.iter().map(|run| run.id.to_string()));
        pages += 1;
        // A run that is added meanwhile is in no later page.
        add(engine, new(&format!("late-{pages}"), "u")).await;
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }

    assert_eq!(ids, ["r4", "r3", "r2", "r1", "r0"]);
    assert_eq!(pages, 3);
    let done = queue(engine).runs(runs_of(Some(RunStatus::Done), None, 10)).await.unwrap();
    assert_eq!(done.runs.len(), 1);
    assert_eq!((&*done.runs[0].id, done.runs[0].turn.as_deref(), done.next), ("r0", Some("{}"), None));
    assert!(done.runs[0].updated_at >= done.runs[0].created_at);
    let of_session = queue(engine).runs(runs_of(None, Some("t"), 10)).await.unwrap();
    assert_eq!(of_session.runs.len(), 1);
    let wrong = RunQuery { after: Some("x".to_owned()), ..runs_of(None, None, 1) };
    assert!(matches!(queue(engine).runs(wrong).await, Err(StoreError::Invalid(_))));
    assert!(matches!(queue(engine).runs(runs_of(None, None, 0)).await, Err(StoreError::Invalid(_))));
}

pub(crate) async fn old_runs_that_are_done_or_failed_are_removed(fixture: Fixture) {
    let engine = &fixture.engine;
    for (id, session) in [("a", "s"), ("b", "t"), ("c", "u"), ("d", "u")] {
        add(engine, new(id, session)).await;
    }
    let (done, failed) = (claim(engine).await.unwrap(), claim(engine).await.unwrap());
    let running = claim(engine).await.unwrap();
    finish(engine, &done, Outcome::Done(None)).await.unwrap();
    finish(engine, &failed, Outcome::Failed("no answer".to_owned())).await.unwrap();

    assert_eq!(queue(engine).prune_runs(time(1_000_000)).await.unwrap(), 0);
    assert_eq!(queue(engine).prune_runs(soon(60_000)).await.unwrap(), 2);

    let left = queue(engine).runs(runs_of(None, None, 10)).await.unwrap();
    assert_eq!(left.runs.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["d", "c"]);
    assert!(queue(engine).run("a").await.unwrap().is_none());
    finish(engine, &running, Outcome::Done(None)).await.unwrap();
    assert_eq!(claimed_id(engine).await.unwrap(), "d");
}

pub(crate) async fn the_texts_of_a_run_are_replaced_if_they_are_the_expected_ones(fixture: Fixture) {
    let engine = &fixture.engine;
    add(engine, new("a", "s")).await;
    let texts = RunTexts::of(&queue(engine).run("a").await.unwrap().unwrap());
    let other = RunTexts { input: Some("\"other\"".to_owned()), error: Some("e".to_owned()), turn: None };

    assert!(!queue(engine).rewrite("a", other.clone(), texts.clone()).await.unwrap());
    assert!(!queue(engine).rewrite("b", texts.clone(), other.clone()).await.unwrap());
    assert!(queue(engine).rewrite("a", texts, other.clone()).await.unwrap());

    assert_eq!(RunTexts::of(&queue(engine).run("a").await.unwrap().unwrap()), other);
}

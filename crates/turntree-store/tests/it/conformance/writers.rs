//! Several writers: compare-and-swap, fencing tokens, dropped futures.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use futures_util::FutureExt;
use futures_util::future::join_all;
use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Engine, Head};
use turntree_store::error::StoreError;

use crate::support::{
    Fixture, append_after, assert_conflict, blob, block_on, head_of, query, read_texts, texts, write,
};

pub(crate) async fn a_stale_append_conflicts_and_stores_nothing(fixture: Fixture) {
    let engine = fixture.engine;
    let stale = write(&*engine, "s", &[b"one"]).await;
    let append = append_after(stale, "s", b"two");
    let head = Some(head_of(&append));
    engine.append(append).await.unwrap();

    let mut late = Append { blobs: vec![blob(b"late")], ..append_after(stale, "s", b"late") };
    late.info.turns = 99;
    assert_conflict(engine.append(late).await, "s", false);

    assert_eq!(engine.head("s").await.unwrap(), head);
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["one", "two"]);
    assert_eq!(engine.blobs("s", vec![Digest::of(b"late")]).await.unwrap(), [None]);
    assert_eq!(engine.read("s").await.unwrap().unwrap().info.turns, 1);
}

pub(crate) async fn an_append_to_a_new_session_conflicts_with_an_existing_one(fixture: Fixture) {
    let engine = fixture.engine;
    write(&*engine, "s", &[b"one"]).await;

    assert_conflict(engine.append(append_after(None, "s", b"one")).await, "s", false);

    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["one"]);
}

pub(crate) async fn an_append_to_a_deleted_session_conflicts(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"one"]).await;
    engine.delete("s").await.unwrap();

    assert_conflict(engine.append(append_after(head, "s", b"two")).await, "s", true);
    assert!(engine.read("s").await.unwrap().is_none());

    // Created again by another writer, at the same revision.
    write(&*engine, "s", &[b"other"]).await;
    assert_conflict(engine.append(append_after(head, "s", b"two")).await, "s", false);
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["other"]);
}

pub(crate) async fn a_head_has_the_right_revision_and_digest(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"one", b"two"]).await.unwrap();
    let wrong = [
        Head { revision: 1, ..head },
        Head { revision: 3, ..head },
        Head { revision: u64::MAX, ..head },
        Head { revision: 0, ..head },
        Head { digest: Digest::default(), ..head },
    ];

    for head in wrong {
        assert_conflict(engine.append(append_after(Some(head), "s", b"x")).await, "s", false);
    }

    assert_eq!(engine.head("s").await.unwrap(), Some(head));
}

/// Appends `count` entries, each after the stored head, again after each conflict.
async fn contend(engine: &dyn Engine, session: &str, writer: usize, count: usize) {
    let mut head = engine.head(session).await.unwrap();
    for number in 0..count {
        loop {
            let append = append_after(head, session, format!("{writer}.{number}").as_bytes());
            let after = head_of(&append);
            match engine.append(append).await {
                Ok(()) => {
                    head = Some(after);
                    break;
                }
                Err(StoreError::Conflict { .. }) => head = engine.head(session).await.unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(crate) async fn of_concurrent_writers_one_wins_each_revision(fixture: Fixture) {
    let engine = fixture.engine;

    thread::scope(|scope| {
        for writer in 0..8 {
            let engine = Arc::clone(&engine);
            scope.spawn(move || block_on(contend(&*engine, "s", writer, 8)));
        }
    });

    let log = engine.read("s").await.unwrap().unwrap();
    let found = texts("s", &log);
    assert_eq!((log.revision, found.len()), (64, 64));
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), 64);
    for writer in 0..8 {
        let own = found.iter().filter(|text| text.starts_with(&format!("{writer}.")));
        let expected: Vec<String> = (0..8).map(|number| format!("{writer}.{number}")).collect();
        assert!(own.eq(expected.iter()), "the entries of writer {writer} are not in order");
    }
}

pub(crate) async fn appends_that_wait_together_have_their_own_results(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"one"]).await;

    let racing = (0..10).map(|number| engine.append(append_after(head, "s", format!("{number}").as_bytes())));
    let others = (0..10).map(|number| engine.append(append_after(None, &format!("t{number}"), b"one")));
    let (racing, others) = futures_util::future::join(join_all(racing), join_all(others)).await;

    let winners: Vec<usize> = (0..10).filter(|&number| racing[number].is_ok()).collect();
    let [winner] = *winners else { panic!("{} appends won", winners.len()) };
    for (_, result) in racing.into_iter().enumerate().filter(|(number, _)| *number != winner) {
        assert_conflict(result, "s", false);
    }
    assert_eq!(others, vec![Ok(()); 10]);
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["one".to_owned(), winner.to_string()]);
}

pub(crate) async fn concurrent_writers_of_different_sessions_do_not_conflict(fixture: Fixture) {
    let engine = fixture.engine;

    thread::scope(|scope| {
        for writer in 0..8 {
            let engine = Arc::clone(&engine);
            scope.spawn(move || {
                let id = format!("s{writer}");
                block_on(write(&*engine, &id, &[b"1", b"2", b"3", b"4", b"5"]));
            });
        }
    });

    assert_eq!(engine.sessions(query(100)).await.unwrap().sessions.len(), 8);
    for writer in 0..8 {
        let found = read_texts(&*engine, &format!("s{writer}")).await.unwrap();
        assert_eq!(found, ["1", "2", "3", "4", "5"]);
    }
}

pub(crate) async fn two_open_stores_see_each_others_writes(fixture: Fixture) {
    let Some(reopen) = fixture.reopen else { return };
    let (first, second) = (fixture.engine, reopen());

    let stale = write(&*first, "s", &[b"one"]).await;
    assert_eq!(second.head("s").await.unwrap(), stale);
    let append = append_after(stale, "s", b"two");
    let head = Some(head_of(&append));
    second.append(append).await.unwrap();

    assert_conflict(first.append(append_after(stale, "s", b"late")).await, "s", false);
    assert_eq!(read_texts(&*first, "s").await.unwrap(), ["one", "two"]);
    first.append(append_after(head, "s", b"three")).await.unwrap();
    assert_eq!(read_texts(&*second, "s").await.unwrap(), ["one", "two", "three"]);
    thread::scope(|scope| {
        for (writer, engine) in [&first, &second, &first, &second].into_iter().enumerate() {
            scope.spawn(move || block_on(contend(&**engine, "t", writer, 10)));
        }
    });
    let log = first.read("t").await.unwrap().unwrap();
    assert_eq!((log.revision, texts("t", &log).len()), (40, 40));
    assert!(second.delete("s").await.unwrap());
    assert!(first.read("s").await.unwrap().is_none());
}

pub(crate) async fn a_dropped_append_is_done_as_a_whole_or_not_at_all(fixture: Fixture) {
    let engine = fixture.engine;
    let mut head = write(&*engine, "s", &[b"first"]).await;

    for number in 0..50 {
        let data = format!("{number}");
        let append =
            Append { blobs: vec![blob(data.as_bytes())], ..append_after(head, "s", data.as_bytes()) };
        let after = Some(head_of(&append));
        // Polled once, then dropped.
        let _ = engine.append(append).now_or_never();
        let found = loop {
            let found = engine.head("s").await.unwrap();
            // The dropped append may still be done; then it comes before this one or not at all.
            let next = append_after(found, "s", b"next");
            let next_head = Some(head_of(&next));
            match engine.append(next).await {
                Ok(()) => {
                    head = next_head;
                    break found;
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let blobs = engine.blobs("s", vec![Digest::of(data.as_bytes())]).await.unwrap();
        assert_eq!(blobs[0].is_some(), found == after, "append {number} was done in part");
    }

    assert_eq!(engine.head("s").await.unwrap(), head);
    assert!(read_texts(&*engine, "s").await.unwrap().len() > 50);
}

pub(crate) async fn an_older_fencing_token_is_refused(fixture: Fixture) {
    let engine = fixture.engine;
    let mut head = None;
    for fence in [None, Some(3), Some(3), Some(5), None] {
        let append = Append { fence, ..append_after(head, "s", b"x") };
        let after = head_of(&append);
        engine.append(append).await.unwrap();
        head = Some(after);
    }

    for fence in [3, 4] {
        let append =
            Append { fence: Some(fence), blobs: vec![blob(b"late")], ..append_after(head, "s", b"late") };
        assert_eq!(engine.append(append).await, Err(StoreError::Fenced { session: "s".into() }));
    }
    // A worker that lost its lease learns that first: its head is old as well.
    let append = Append { fence: Some(4), ..append_after(None, "s", b"late") };
    assert_eq!(engine.append(append).await, Err(StoreError::Fenced { session: "s".into() }));

    assert_eq!(engine.head("s").await.unwrap(), head);
    assert_eq!(engine.blobs("s", vec![Digest::of(b"late")]).await.unwrap(), [None]);
    engine.append(Append { fence: Some(5), ..append_after(head, "s", b"y") }).await.unwrap();
}

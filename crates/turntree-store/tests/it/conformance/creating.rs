//! Creating many sessions together.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use turntree_store::batch::Batch;
use turntree_store::engine::Replace;
use turntree_store::error::StoreError;

use crate::support::{Fixture, append_after, blob, entry_after, info, list, query, read_texts, write};

/// Sessions with the numbers from 0 on, and then perhaps an error.
#[derive(Debug)]
struct Numbered {
    count: usize,
    next: usize,
    fails: bool,
}

impl Numbered {
    fn new(count: usize) -> Self {
        Self { count, next: 0, fails: false }
    }

    fn failing(count: usize) -> Self {
        Self { fails: true, ..Self::new(count) }
    }
}

impl Batch for Numbered {
    fn rewind(&mut self) -> Result<(), StoreError> {
        self.next = 0;
        Ok(())
    }

    fn next_log(&mut self) -> Result<Option<Replace>, StoreError> {
        if self.next == self.count {
            let failed =
                || StoreError::ExportFile { path: "x.jsonl".to_owned(), reason: "cut off".to_owned() };
            return if self.fails { Err(failed()) } else { Ok(None) };
        }
        let id = format!("s{}", self.next);
        self.next += 1;
        let first = entry_after(None, &id, b"1");
        let mut second = append_after(None, &id, b"2").entry;
        second.digest = turntree_store::digest::Digest::of_entry(first.digest, &id, b"2");
        let blobs = vec![blob(b"data")];
        Ok(Some(Replace {
            expected: None,
            entries: vec![first, second],
            revision: 2,
            blobs,
            info: info(&id),
        }))
    }
}

pub(crate) async fn the_sessions_of_a_batch_are_created(fixture: Fixture) {
    let engine = fixture.engine;
    write(&*engine, "other", &[b"1"]).await;

    engine.create_all(Box::new(Numbered::new(20))).await.unwrap();

    for id in ["s0", "s19"] {
        assert_eq!(read_texts(&*engine, id).await.unwrap(), ["1", "2"]);
        assert_eq!(engine.blobs(id, vec![blob(b"data").address]).await.unwrap(), [Some(blob(b"data").data)]);
    }
    assert_eq!(list(&*engine, query(7)).await.len(), 21);
    assert_eq!(engine.check().await.unwrap(), []);
    let head = engine.head("s7").await.unwrap();
    engine.append(append_after(head, "s7", b"3")).await.unwrap();
    assert_eq!(read_texts(&*engine, "s7").await.unwrap(), ["1", "2", "3"]);
    assert!(engine.delete("s7").await.unwrap());
}

pub(crate) async fn a_batch_with_a_session_that_exists_creates_none(fixture: Fixture) {
    let engine = fixture.engine;
    write(&*engine, "s13", &[b"here"]).await;

    let error = engine.create_all(Box::new(Numbered::new(20))).await.unwrap_err();

    assert!(matches!(&error, StoreError::Exists { session, .. } if &**session == "s13"), "{error:?}");
    assert_eq!(list(&*engine, query(50)).await, ["s13"]);
    assert_eq!(read_texts(&*engine, "s13").await.unwrap(), ["here"]);
    assert_eq!(engine.check().await.unwrap(), []);
}

pub(crate) async fn a_batch_that_fails_creates_none(fixture: Fixture) {
    let engine = fixture.engine;
    write(&*engine, "other", &[b"1"]).await;

    let error = engine.create_all(Box::new(Numbered::failing(20))).await.unwrap_err();

    assert!(matches!(error, StoreError::ExportFile { .. }), "{error:?}");
    assert_eq!(list(&*engine, query(50)).await, ["other"]);
    assert!(engine.head("s0").await.unwrap().is_none());
    assert_eq!(engine.check().await.unwrap(), []);
    engine.create_all(Box::new(Numbered::new(20))).await.unwrap();
    assert_eq!(list(&*engine, query(50)).await.len(), 21);
}

pub(crate) async fn a_batch_that_is_dropped_is_created_as_a_whole_or_not_at_all(fixture: Fixture) {
    let engine = fixture.engine;
    for microseconds in [0, 300, 1_000, 3_000, 10_000, 30_000] {
        {
            let mut creating = pin!(engine.create_all(Box::new(Numbered::new(50))));
            let start = Instant::now();
            let mut context = Context::from_waker(Waker::noop());
            while creating.as_mut().poll(&mut context).is_pending() {
                if start.elapsed() >= Duration::from_micros(microseconds) {
                    break;
                }
                std::thread::yield_now();
            }
        }

        // An operation that began may still run; it is done as a whole.
        let mut count = list(&*engine, query(100)).await.len();
        let start = Instant::now();
        while count == 0 && start.elapsed() < Duration::from_millis(300) {
            count = list(&*engine, query(100)).await.len();
        }
        assert!(count == 0 || count == 50, "{count} of 50 sessions");
        assert_eq!(engine.check().await.unwrap(), []);
        for number in 0..count {
            assert!(engine.delete(&format!("s{number}")).await.unwrap());
        }
    }
}

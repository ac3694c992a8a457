//! Records: versions, logs, expiry.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use turntree_core::time::Timestamp;
use turntree_store::engine::Engine;
use turntree_store::records::{RecordId, RecordPut, RecordWrite, Records};

use crate::support::Fixture;

fn records(engine: &Arc<dyn Engine>) -> &dyn Records {
    engine.records().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_microseconds(seconds * 1_000_000)
}

fn id(key: &str) -> RecordId {
    RecordId::new("tests", key)
}

fn put(key: &str, expected: Option<u64>, data: &'static str) -> RecordPut {
    let entry = Some(Bytes::from(format!("entry of {data}")));
    RecordPut { id: id(key), expected, data: Bytes::from_static(data.as_bytes()), expires_at: None, entry }
}

fn expiring(key: &str, expected: Option<u64>, seconds: i64) -> RecordPut {
    RecordPut { expires_at: Some(at(seconds)), ..put(key, expected, "expiring") }
}

async fn write(engine: &Arc<dyn Engine>, now: i64, puts: Vec<RecordPut>) -> bool {
    records(engine).write_records(RecordWrite { puts, now: at(now) }).await.unwrap()
}

/// Version and content.
async fn read(engine: &Arc<dyn Engine>, key: &str) -> Option<(u64, String)> {
    let record = records(engine).record(&id(key)).await.unwrap()?;
    Some((record.version, String::from_utf8(record.data.to_vec()).unwrap()))
}

async fn entries(engine: &Arc<dyn Engine>, key: &str, after: u64, limit: usize) -> Vec<(u64, String)> {
    let entries = records(engine).record_entries(&id(key), after, limit).await.unwrap();
    let text = |data: &Bytes| String::from_utf8(data.to_vec()).unwrap();
    entries.iter().map(|entry| (entry.version, text(&entry.data))).collect()
}

pub(crate) async fn a_record_has_the_number_of_its_writes_as_version(fixture: Fixture) {
    let engine = &fixture.engine;
    assert_eq!(read(engine, "a").await, None);

    assert!(write(engine, 0, vec![put("a", None, "one")]).await);
    assert!(write(engine, 0, vec![put("a", Some(1), "two")]).await);

    assert_eq!(read(engine, "a").await, Some((2, "two".to_owned())));
    assert_eq!(records(engine).record(&RecordId::new("other", "a")).await.unwrap(), None);
}

pub(crate) async fn a_write_with_another_version_changes_no_record(fixture: Fixture) {
    let engine = &fixture.engine;
    assert!(write(engine, 0, vec![put("a", None, "one"), put("b", None, "one")]).await);

    assert!(!write(engine, 0, vec![put("a", Some(1), "two"), put("b", Some(2), "two")]).await);
    assert!(!write(engine, 0, vec![put("c", None, "two"), put("a", None, "two")]).await);
    assert!(!write(engine, 0, vec![put("missing", Some(1), "two")]).await);

    assert_eq!(read(engine, "a").await, Some((1, "one".to_owned())));
    assert_eq!(read(engine, "b").await, Some((1, "one".to_owned())));
    assert_eq!(read(engine, "c").await, None);
    assert_eq!(entries(engine, "a", 0, 10).await.len(), 1);
}

pub(crate) async fn the_log_of_a_record_is_read_in_pages(fixture: Fixture) {
    let engine = &fixture.engine;
    assert!(write(engine, 0, vec![put("a", None, "one")]).await);
    assert!(write(engine, 0, vec![RecordPut { entry: None, ..put("a", Some(1), "two") }]).await);
    assert!(write(engine, 0, vec![put("a", Some(2), "three")]).await);
    assert!(write(engine, 0, vec![put("a", Some(3), "four")]).await);

    let entry = |version: u64, name: &str| (version, format!("entry of {name}"));
    assert_eq!(entries(engine, "a", 0, 2).await, [entry(1, "one"), entry(3, "three")]);
    assert_eq!(entries(engine, "a", 3, 2).await, [entry(4, "four")]);
    assert!(entries(engine, "missing", 0, 2).await.is_empty());
}

pub(crate) async fn an_expired_record_counts_as_absent_for_a_write(fixture: Fixture) {
    let engine = &fixture.engine;
    assert!(write(engine, 0, vec![expiring("a", None, 10)]).await);
    assert!(write(engine, 0, vec![expiring("a", Some(1), 10)]).await);

    assert!(!write(engine, 9, vec![put("a", None, "new")]).await);
    assert!(write(engine, 10, vec![put("a", None, "new")]).await);

    assert_eq!(read(engine, "a").await, Some((1, "new".to_owned())));
    assert_eq!(entries(engine, "a", 0, 10).await, [(1, "entry of new".to_owned())]);
}

pub(crate) async fn expired_records_are_deleted_with_their_logs(fixture: Fixture) {
    let engine = &fixture.engine;
    let puts = vec![expiring("a", None, 10), expiring("b", None, 20), put("c", None, "kept")];
    assert!(write(engine, 0, puts).await);
    let other = RecordPut { id: RecordId::new("other", "a"), ..expiring("a", None, 10) };
    assert!(write(engine, 0, vec![other]).await);
    assert!(write(engine, 0, vec![expiring("d", None, 5)]).await);
    assert!(write(engine, 0, vec![expiring("d", Some(1), 30)]).await);

    let delete = |now: i64, limit: usize| records(engine).delete_expired("tests", at(now), limit);
    assert_eq!(delete(9, 10).await.unwrap(), 0);
    assert_eq!(delete(20, 1).await.unwrap(), 1);
    assert_eq!((read(engine, "a").await, entries(engine, "a", 0, 10).await), (None, Vec::new()));
    assert_eq!(delete(20, 10).await.unwrap(), 1);
    assert_eq!(delete(1_000, 10).await.unwrap(), 1);

    assert!(read(engine, "c").await.is_some());
    assert!(records(engine).record(&RecordId::new("other", "a")).await.unwrap().is_some());
}

pub(crate) async fn of_concurrent_writes_of_a_version_one_is_done(fixture: Fixture) {
    let engine = &fixture.engine;
    assert!(write(engine, 0, vec![put("a", None, "one")]).await);

    let done = join_all((0..8).map(|_| write(engine, 0, vec![put("a", Some(1), "two")]))).await;
    let created = join_all((0..8).map(|_| write(engine, 0, vec![put("b", None, "one")]))).await;

    assert_eq!(done.iter().filter(|done| **done).count(), 1);
    assert_eq!(created.iter().filter(|done| **done).count(), 1);
    assert_eq!(entries(engine, "a", 0, 10).await.len(), 2);
}

pub(crate) async fn records_are_there_after_opening_again(fixture: Fixture) {
    let Some(reopen) = &fixture.reopen else { return };
    assert!(write(&fixture.engine, 0, vec![put("a", None, "one")]).await);
    fixture.engine.close().await.unwrap();

    let again = reopen();

    assert_eq!(read(&again, "a").await, Some((1, "one".to_owned())));
    assert_eq!(entries(&again, "a", 0, 10).await.len(), 1);
    assert!(write(&again, 0, vec![put("a", Some(1), "two")]).await);
}

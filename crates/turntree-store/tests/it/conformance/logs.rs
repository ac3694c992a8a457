//! Appending, reading, deleting, closing.

use bytes::Bytes;
use futures_util::future::join_all;
use turntree_core::time::Timestamp;
use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Replace, SessionInfo, SessionStatus};
use turntree_store::error::StoreError;

use crate::support::{Fixture, append_after, blob, head_of, info, query, read_texts, texts, write};

pub(crate) async fn appended_entries_are_read_in_order(fixture: Fixture) {
    let engine = fixture.engine;

    let head = write(&*engine, "s", &[b"one", b"two", b"three"]).await;

    let log = engine.read("s").await.unwrap().unwrap();
    assert_eq!(texts("s", &log), ["one", "two", "three"]);
    assert_eq!((log.revision, log.head()), (3, head));
}

pub(crate) async fn a_missing_session_has_no_log_no_head_and_no_blobs(fixture: Fixture) {
    let engine = fixture.engine;
    write(&*engine, "other", &[b"one"]).await;

    assert!(engine.read("s").await.unwrap().is_none());
    assert_eq!(engine.head("s").await.unwrap(), None);
    assert_eq!(engine.blobs("s", vec![Digest::of(b"x")]).await.unwrap(), [None]);
    assert!(!engine.delete("s").await.unwrap());
}

pub(crate) async fn entries_are_any_bytes(fixture: Fixture) {
    let engine = fixture.engine;
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> =
        (0..1_500_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let entries: [&[u8]; 5] = [b"", &all_bytes, &long, b"\n\r\n\0", b"last"];

    write(&*engine, "s", &entries).await;

    let log = engine.read("s").await.unwrap().unwrap();
    let found: Vec<&[u8]> = log.entries.iter().map(|entry| &*entry.data).collect();
    assert!(found == entries, "the entries differ");
}

pub(crate) async fn the_state_of_a_session_is_that_of_the_last_entry(fixture: Fixture) {
    let engine = fixture.engine;
    let first = append_after(None, "s", b"one");
    let mut second = append_after(Some(head_of(&first)), "s", b"two");
    second.info = SessionInfo {
        id: "s".into(),
        agent: "Ödön 🦀".into(),
        status: SessionStatus::Waiting,
        turns: 7,
        nodes: 1_000_000_000_000,
        updated_at: Timestamp::from_microseconds(-5),
        bytes: u64::MAX / 4,
    };

    engine.append(first).await.unwrap();
    engine.append(second.clone()).await.unwrap();

    assert_eq!(engine.read("s").await.unwrap().unwrap().info, second.info);
    assert_eq!(engine.sessions(query(10)).await.unwrap().sessions, [second.info]);
}

pub(crate) async fn blobs_are_read_in_the_order_of_the_addresses(fixture: Fixture) {
    let engine = fixture.engine;
    let large: Vec<u8> = b"0123456".repeat(150_000);
    let blobs = [blob(b"a"), blob(b""), blob(&large)];
    let append = Append { blobs: blobs.to_vec(), ..append_after(None, "s", b"one") };

    engine.append(append).await.unwrap();

    let [a, empty, large] = blobs;
    let addresses = vec![large.address, Digest::of(b"missing"), a.address, empty.address, a.address];
    let found = engine.blobs("s", addresses).await.unwrap();
    let expected = [Some(large.data), None, Some(a.data.clone()), Some(Bytes::new()), Some(a.data)];
    assert!(found == expected, "the blobs differ");
    assert_eq!(engine.blobs("s", Vec::new()).await.unwrap(), []);
}

pub(crate) async fn a_blob_that_the_session_has_is_not_stored_again(fixture: Fixture) {
    let engine = fixture.engine;
    let first = Append { blobs: vec![blob(b"a"), blob(b"a")], ..append_after(None, "s", b"one") };
    let second =
        Append { blobs: vec![blob(b"a"), blob(b"b")], ..append_after(Some(head_of(&first)), "s", b"two") };

    engine.append(first).await.unwrap();
    engine.append(second).await.unwrap();

    let found = engine.blobs("s", vec![Digest::of(b"a"), Digest::of(b"b")]).await.unwrap();
    assert_eq!(found, [Some(Bytes::from_static(b"a")), Some(Bytes::from_static(b"b"))]);
    assert_eq!(engine.check().await.unwrap(), []);
}

pub(crate) async fn sessions_do_not_share_blobs(fixture: Fixture) {
    let engine = fixture.engine;
    for id in ["s", "t"] {
        let append = Append { blobs: vec![blob(b"a")], ..append_after(None, id, b"one") };
        engine.append(append).await.unwrap();
    }
    write(&*engine, "u", &[b"one"]).await;

    assert_eq!(engine.blobs("u", vec![Digest::of(b"a")]).await.unwrap(), [None]);
    assert!(engine.delete("s").await.unwrap());
    assert_eq!(engine.blobs("s", vec![Digest::of(b"a")]).await.unwrap(), [None]);
    assert_eq!(engine.blobs("t", vec![Digest::of(b"a")]).await.unwrap(), [Some(Bytes::from_static(b"a"))]);
}

pub(crate) async fn a_deleted_session_is_gone_and_can_be_created_again(fixture: Fixture) {
    let engine = fixture.engine;
    let append = Append { blobs: vec![blob(b"a")], ..append_after(None, "s", b"old") };
    engine.append(append).await.unwrap();
    write(&*engine, "t", &[b"other"]).await;

    assert!(engine.delete("s").await.unwrap());
    assert!(!engine.delete("s").await.unwrap());
    assert!(engine.read("s").await.unwrap().is_none());
    assert_eq!(engine.head("s").await.unwrap(), None);
    let head = write(&*engine, "s", &[b"new"]).await;

    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["new"]);
    assert_eq!(head.unwrap().revision, 1);
    assert_eq!(engine.head("s").await.unwrap(), head);
    assert_eq!(engine.blobs("s", vec![Digest::of(b"a")]).await.unwrap(), [None]);
    assert_eq!(read_texts(&*engine, "t").await.unwrap(), ["other"]);
}

pub(crate) async fn a_closed_store_refuses_every_operation(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"one"]).await;
    let append = append_after(head, "s", b"two");
    let replace = Replace {
        expected: head,
        entries: vec![append.entry.clone()],
        revision: 2,
        blobs: Vec::new(),
        info: info("s"),
    };

    engine.close().await.unwrap();
    engine.close().await.unwrap();

    let errors = [
        engine.append(append).await.err(),
        engine.replace(replace).await.err(),
        engine.read("s").await.err(),
        engine.blobs("s", vec![Digest::of(b"x")]).await.err(),
        engine.head("s").await.err(),
        engine.delete("s").await.err(),
        engine.sessions(query(1)).await.err(),
        engine.check().await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        assert_eq!(error, Some(StoreError::Closed { store: engine.name() }), "operation {index}");
    }
}

pub(crate) async fn operations_that_have_started_finish_before_the_store_closes(fixture: Fixture) {
    let engine = fixture.engine;
    let ids: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let appends = join_all(ids.iter().map(|id| engine.append(append_after(None, id, b"one"))));

    let (results, closed) = futures_util::future::join(appends, engine.close()).await;

    closed.unwrap();
    assert_eq!(results, vec![Ok(()); 20]);
    if let Some(reopen) = fixture.reopen {
        assert_eq!(reopen().sessions(query(100)).await.unwrap().sessions.len(), 20);
    }
}

pub(crate) async fn a_new_store_has_no_defects(fixture: Fixture) {
    let engine = fixture.engine;

    assert_eq!(engine.check().await.unwrap(), []);
    assert!(engine.sessions(query(10)).await.unwrap().sessions.is_empty());
    let append = Append { blobs: vec![blob(b"a")], ..append_after(None, "s", b"one") };
    engine.append(append).await.unwrap();
    assert_eq!(engine.check().await.unwrap(), []);
}

pub(crate) async fn what_was_written_is_there_after_opening_again(fixture: Fixture) {
    let Some(reopen) = fixture.reopen else { return };
    let engine = fixture.engine;
    let append = Append { blobs: vec![blob(b"a")], ..append_after(None, "s", b"one") };
    let head = Some(head_of(&append));
    engine.append(append).await.unwrap();
    let append = append_after(head, "s", b"two");
    let head = Some(head_of(&append));
    engine.append(append).await.unwrap();
    write(&*engine, "t", &[b"three"]).await;
    engine.delete("t").await.unwrap();
    engine.close().await.unwrap();

    let engine = reopen();

    assert_eq!(engine.head("s").await.unwrap(), head);
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["one", "two"]);
    assert_eq!(engine.blobs("s", vec![Digest::of(b"a")]).await.unwrap(), [Some(Bytes::from_static(b"a"))]);
    assert_eq!(engine.sessions(query(10)).await.unwrap().sessions, [info("s")]);
    assert_eq!(engine.check().await.unwrap(), []);
    engine.append(append_after(head, "s", b"three")).await.unwrap();
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["one", "two", "three"]);
}

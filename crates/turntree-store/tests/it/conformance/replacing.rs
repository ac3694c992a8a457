//! Replacing the whole log of a session.

use bytes::Bytes;
use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Blob, Entry, Head, Replace};
use turntree_store::error::StoreError;

use crate::support::{
    Fixture, append_after, assert_conflict, blob, entry_after, head_of, info, read_texts, texts, write,
};

fn replace_with(
    expected: Option<Head>,
    session: &str,
    revision: u64,
    texts: &[&str],
    blobs: &[Blob],
) -> Replace {
    let mut entries: Vec<Entry> = Vec::new();
    for text in texts {
        let head = entries.last().map(|last| Head { revision: 0, digest: last.digest });
        entries.push(entry_after(head, session, text.as_bytes()));
    }
    let mut info = info(session);
    info.nodes = 77;
    Replace { expected, entries, revision, blobs: blobs.to_vec(), info }
}

fn head_after(replace: &Replace) -> Option<Head> {
    replace.entries.last().map(|last| Head { revision: replace.revision, digest: last.digest })
}

pub(crate) async fn a_replaced_log_has_the_new_entries_and_revision(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"1", b"2", b"3", b"4"]).await;
    write(&*engine, "t", &[b"other"]).await;
    let replace = replace_with(head, "s", 5, &["a", "b"], &[]);
    let after = head_after(&replace);

    engine.replace(replace).await.unwrap();

    let log = engine.read("s").await.unwrap().unwrap();
    assert_eq!(texts("s", &log), ["a", "b"]);
    assert_eq!((log.revision, log.head(), log.info.nodes), (5, after, 77));
    assert_eq!(engine.head("s").await.unwrap(), after);
    assert_conflict(engine.append(append_after(head, "s", b"late")).await, "s", false);
    let append = append_after(after, "s", b"c");
    assert_eq!(head_of(&append).revision, 6);
    engine.append(append).await.unwrap();
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["a", "b", "c"]);
    assert_eq!(read_texts(&*engine, "t").await.unwrap(), ["other"]);
    assert_eq!(engine.check().await.unwrap(), []);
}

pub(crate) async fn a_stale_replace_conflicts_and_changes_nothing(fixture: Fixture) {
    let engine = fixture.engine;
    let stale = write(&*engine, "s", &[b"1"]).await;
    let append = Append { blobs: vec![blob(b"kept")], ..append_after(stale, "s", b"2") };
    engine.append(append).await.unwrap();

    let replace = replace_with(stale, "s", 9, &["a"], &[blob(b"new")]);
    assert_conflict(engine.replace(replace).await, "s", false);
    let replace = replace_with(None, "s", 9, &["a"], &[]);
    assert_conflict(engine.replace(replace).await, "s", false);
    let replace = replace_with(stale, "t", 9, &["a"], &[]);
    assert_conflict(engine.replace(replace).await, "t", true);

    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["1", "2"]);
    let found = engine.blobs("s", vec![Digest::of(b"kept"), Digest::of(b"new")]).await.unwrap();
    assert_eq!(found, [Some(Bytes::from_static(b"kept")), None]);
    assert!(engine.read("t").await.unwrap().is_none());
}

pub(crate) async fn a_replace_can_create_a_session(fixture: Fixture) {
    let engine = fixture.engine;
    let replace = replace_with(None, "s", 2, &["a", "b"], &[blob(b"new")]);
    let after = head_after(&replace);

    engine.replace(replace).await.unwrap();

    assert_eq!(engine.head("s").await.unwrap(), after);
    assert_eq!(read_texts(&*engine, "s").await.unwrap(), ["a", "b"]);
    assert_eq!(
        engine.blobs("s", vec![Digest::of(b"new")]).await.unwrap(),
        [Some(Bytes::from_static(b"new"))]
    );
}

pub(crate) async fn a_replace_removes_other_blobs(fixture: Fixture) {
    let engine = fixture.engine;
    let append = Append { blobs: vec![blob(b"old"), blob(b"both")], ..append_after(None, "s", b"1") };
    let head = Some(head_of(&append));
    engine.append(append).await.unwrap();

    let replace = replace_with(head, "s", 2, &["a"], &[blob(b"both"), blob(b"new")]);
    engine.replace(replace).await.unwrap();

    let addresses = [b"old".as_slice(), b"both", b"new"].map(Digest::of).to_vec();
    let found = engine.blobs("s", addresses).await.unwrap();
    assert_eq!(found, [None, Some(Bytes::from_static(b"both")), Some(Bytes::from_static(b"new"))]);
    assert_eq!(engine.check().await.unwrap(), []);
}

pub(crate) async fn a_replace_with_wrong_numbers_is_invalid(fixture: Fixture) {
    let engine = fixture.engine;
    let head = write(&*engine, "s", &[b"1", b"2"]).await;
    let wrong = [
        replace_with(head, "s", 3, &[], &[]),
        replace_with(head, "s", 2, &["a"], &[]),
        replace_with(None, "t", 1, &["a", "b"], &[]),
    ];

    for replace in wrong {
        assert!(matches!(engine.replace(replace).await, Err(StoreError::Invalid(_))));
    }

    assert_eq!(engine.head("s").await.unwrap(), head);
}

pub(crate) async fn a_replace_keeps_the_fencing_token(fixture: Fixture) {
    let engine = fixture.engine;
    let append = Append { fence: Some(5), ..append_after(None, "s", b"1") };
    let head = Some(head_of(&append));
    engine.append(append).await.unwrap();
    let replace = replace_with(head, "s", 2, &["a"], &[]);
    let after = head_after(&replace);
    engine.replace(replace).await.unwrap();

    let append = Append { fence: Some(4), ..append_after(after, "s", b"late") };
    assert_eq!(engine.append(append).await, Err(StoreError::Fenced { session: "s".into() }));
}

//! Files that cannot be opened, read or written.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::RwLockReadGuard;
use std::time::{Duration, Instant};

use turntree_store::engine::Engine;
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};
use turntree_store::error::StoreError;

use super::engine_at;
use crate::support::{TempFolder, append_after, block_on, query, read_texts, without_forks, write};

/// A connection without a store. The guard is dropped after it.
struct Direct(rusqlite::Connection, #[expect(dead_code, reason = "only its destructor is used")] Guard);

type Guard = RwLockReadGuard<'static, ()>;

impl Deref for Direct {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn connect(path: &Path) -> Direct {
    let guard = without_forks();
    Direct(rusqlite::Connection::open(path).unwrap(), guard)
}

#[test]
fn a_path_that_cannot_be_a_file_is_refused_with_its_reason() {
    let folder = TempFolder::new();
    let open = |path: &str, options: SqliteOptions| {
        SqliteEngine::open(folder.path().join(path), options).unwrap_err().to_string()
    };
    let no_create = SqliteOptions { create: false, ..SqliteOptions::default() };

    let missing = open("missing/sessions.db", SqliteOptions::default());
    assert!(missing.contains("missing\" does not exist") && missing.contains("sessions.db"), "{missing}");
    assert!(open("", SqliteOptions::default()).ends_with("the path is a folder"));
    assert!(open("sessions.db", no_create).ends_with("the file does not exist"));
    for path in ["", ":memory:"] {
        let error = SqliteEngine::open(path, SqliteOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    }
}

#[test]
fn a_file_that_is_not_a_store_is_refused_and_not_changed() {
    let folder = TempFolder::new();
    let (text, other) = (folder.path().join("notes.txt"), folder.path().join("other.db"));
    let content = "not a database ".repeat(1000);
    fs::write(&text, &content).unwrap();
    connect(&other).execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let before = fs::read(&other).unwrap();

    let error = |path| block_on(engine_at(path).append(append_after(None, "s", b"x"))).unwrap_err();

    let message = error(&text).to_string();
    assert!(message.contains("notes.txt") && message.contains("not a SQLite database"), "{message}");
    let message = error(&other).to_string();
    assert!(message.contains("other.db") && message.contains("another application"), "{message}");
    assert_eq!(fs::read_to_string(&text).unwrap(), content);
    assert_eq!(fs::read(&other).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    block_on(async {
        let engine = engine_at(&path);
        write(&*engine, "s", &[b"one"]).await;
        engine.close().await.unwrap();
    });
    connect(&path).execute_batch("PRAGMA user_version = 99").unwrap();

    let error = block_on(engine_at(&path).read("s")).unwrap_err();

    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error}");
}

#[test]
fn a_file_with_schema_version_1_is_changed_to_the_newest() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    block_on(async {
        let engine = engine_at(&path);
        write(&*engine, "s", &[b"one"]).await;
        engine.close().await.unwrap();
    });
    connect(&path).execute_batch("DROP TABLE runs; DROP TABLE leases; DROP TABLE record_entries; DROP TABLE records; PRAGMA user_version = 1").unwrap();

    let engine = engine_at(&path);

    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["one"]);
    assert!(block_on(engine.queue().unwrap().run("r")).unwrap().is_none());
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let options = SqliteOptions { read_only: true, ..SqliteOptions::default() };
    assert!(SqliteEngine::open(&path, options.clone()).is_err());
    block_on(async {
        let engine = engine_at(&path);
        let head = write(&*engine, "s", &[b"one"]).await;
        engine.close().await.unwrap();
        let reader = SqliteEngine::open(&path, options).unwrap();

        assert_eq!(read_texts(&reader, "s").await.unwrap(), ["one"]);
        assert_eq!(reader.sessions(query(10)).await.unwrap().sessions.len(), 1);
        let error = reader.append(append_after(head, "s", b"two")).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains("read-only"), "{error}");
        let error = reader.delete("s").await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        assert_eq!(reader.check().await.unwrap(), []);
        assert_eq!(read_texts(&reader, "s").await.unwrap(), ["one"]);
    });
}

/// SQLite's own limit on the number of pages fails as a full disk does.
#[test]
fn a_full_disk_is_an_error_that_stores_nothing_and_ends_when_there_is_space() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    let set_limit = |pages: u32| {
        block_on(engine.database().read(None, move |connection| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            Ok(connection.query_row(&sql, [], |_| Ok(()))?)
        }))
        .unwrap();
    };

    block_on(write(&*engine, "s", &[b"one"]));
    set_limit(60);
    let head = block_on(engine.head("s")).unwrap();
    let large = vec![7; 100_000];
    let error = block_on(engine.append(append_after(head, "s", &large))).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("no space"), "{error}");
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["one"]);

    // Of appends that wait together, only those that do not fit fail.
    let small = engine.append(append_after(None, "t", b"small"));
    let large = engine.append(append_after(head, "s", &large));
    let (small, large) = block_on(futures_util::future::join(small, large));
    assert_eq!(small, Ok(()));
    assert!(matches!(large, Err(StoreError::Full { .. })), "{large:?}");

    set_limit(1_000_000);
    block_on(engine.append(append_after(head, "s", &vec![7; 100_000]))).unwrap();
    assert_eq!(block_on(engine.check()).unwrap(), []);
}

#[test]
fn a_lock_of_another_connection_is_waited_for_until_the_timeout() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let options = SqliteOptions { timeout: Duration::from_millis(200), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(&path, options).unwrap();
    block_on(write(&engine, "s", &[b"one"]));
    let other = connect(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let start = Instant::now();
    let error = block_on(engine.append(append_after(None, "t", b"x"))).unwrap_err();

    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["one"]);
    other.execute_batch("ROLLBACK").unwrap();
    block_on(engine.append(append_after(None, "t", b"x"))).unwrap();
}

#[test]
fn damage_is_an_error_that_names_file_and_session() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    block_on(async {
        let engine = engine_at(&path);
        for id in ["s", "t"] {
            let entries = [vec![b'x'; 2_000], vec![b'y'; 2_000], vec![b'z'; 2_000]];
            write(&*engine, id, &[&entries[0], &entries[1], &entries[2]]).await;
        }
        engine.close().await.unwrap();
    });
    connect(&path)
        .execute_batch("DELETE FROM entries WHERE key = (SELECT min(key) + 1 FROM entries)")
        .unwrap();

    let engine = engine_at(&path);
    let error = block_on(engine.read("s")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(text.contains("s.db") && text.contains("\"s\"") && text.contains("revision 3"), "{text}");
    let issues = block_on(engine.check()).unwrap();
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert_eq!(issues[0].session.as_deref(), Some("s"));
    assert!(block_on(engine.read("t")).unwrap().is_some());
    block_on(engine.close()).unwrap();

    // A page of entries full of zeros.
    let mut bytes = fs::read(&path).unwrap();
    let start =
        bytes.windows(500).position(|window| window.iter().all(|byte| *byte == b'z')).unwrap() / 512 * 512;
    bytes[start..start + 512].fill(0);
    fs::write(&path, &bytes).unwrap();
    let engine = engine_at(&path);
    let issues = block_on(engine.check()).unwrap();
    assert!(!issues.is_empty());
}

#[test]
fn a_damaged_header_is_an_error_that_names_the_file() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    block_on(async {
        let engine = engine_at(&path);
        write(&*engine, "s", &[b"one"]).await;
        engine.close().await.unwrap();
    });
    let mut bytes = fs::read(&path).unwrap();
    bytes[..16].fill(b'?');
    fs::write(&path, &bytes).unwrap();

    let error = block_on(engine_at(&path).read("s")).unwrap_err();

    assert!(error.to_string().contains("s.db"), "{error}");
    assert!(error.to_string().contains("not a SQLite database"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_was_deleted_while_it_was_open_is_not_written() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let engine = engine_at(&path);
    let head = block_on(write(&*engine, "s", &[b"one"]));
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }

    let result = block_on(engine.append(append_after(head, "s", b"two")));

    crate::support::assert_conflict(result, "s", true);
    block_on(write(&*engine, "t", &[b"one"]));
    block_on(engine.close()).unwrap();
    assert_eq!(block_on(read_texts(&*engine_at(&path), "t")).unwrap(), ["one"]);
}

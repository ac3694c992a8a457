//! What is deleted leaves the file, and the file shrinks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use turntree_store::engine::{Append, Engine, Replace};
use turntree_store::engines::sqlite::SqliteEngine;

use super::engine_at;
use crate::support::{
    TempFolder, append_after, blob, block_on, entry_after, head_of, info, read_texts, write,
};

/// Whether a text is in a file of the folder.
fn has(folder: &Path, text: &str) -> bool {
    let contains =
        |path: &Path| fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes());
    fs::read_dir(folder).unwrap().any(|file| contains(&file.unwrap().path()))
}

#[test]
fn deleted_and_replaced_data_leaves_the_files() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    block_on(async {
        for id in ["s", "t"] {
            let append = Append {
                blobs: vec![blob("secret-blob ".repeat(100).as_bytes())],
                ..append_after(None, id, "secret-entry ".repeat(300).as_bytes())
            };
            engine.append(append).await.unwrap();
        }
        write(&*engine, "u", &[b"public"]).await;
        assert!(has(folder.path(), "secret-entry") && has(folder.path(), "secret-blob"));

        assert!(engine.delete("s").await.unwrap());
        let head = engine.head("t").await.unwrap();
        let entries = vec![entry_after(None, "t", b"public")];
        let info = info("t");
        engine
            .replace(Replace { expected: head, entries, revision: 2, blobs: Vec::new(), info })
            .await
            .unwrap();
    });

    assert!(!has(folder.path(), "secret-entry"), "a deleted entry is still in a file");
    assert!(!has(folder.path(), "secret-blob"), "a deleted blob is still in a file");
    assert_eq!(block_on(read_texts(&*engine, "u")).unwrap(), ["public"]);
}

/// A store that has just deleted a large session of three.
fn engine_after_a_large_delete(path: &Path) -> Arc<SqliteEngine> {
    let engine = engine_at(path);
    block_on(async {
        write(&*engine, "first", &[b"one"]).await;
        let append = Append { blobs: vec![blob(&vec![9; 3_000_000])], ..append_after(None, "s", b"large") };
        engine.append(append).await.unwrap();
        write(&*engine, "last", &[b"one"]).await;
        engine.delete("s").await.unwrap();
    });
    engine
}

/// Waits until the file has shrunk, which it does while there is nothing else to do.
fn assert_shrinks(path: &Path) {
    let size = || fs::metadata(path).unwrap().len();
    let deadline = Instant::now() + Duration::from_secs(20);
    while size() > 100_000 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(size() < 100_000, "the file has {} B", size());
}

#[test]
fn the_file_shrinks_after_much_was_deleted() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let engine = engine_after_a_large_delete(&path);

    assert_shrinks(&path);
    assert_eq!(block_on(read_texts(&*engine, "last")).unwrap(), ["one"]);
    assert_eq!(block_on(engine.check()).unwrap(), []);
}

/// A fork closes the file, so it can interrupt the work.
#[cfg(target_os = "linux")]
#[test]
fn the_file_shrinks_after_a_fork() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let engine = engine_after_a_large_delete(&path);
    crate::support::fork(|| ())();

    assert_shrinks(&path);
    assert_eq!(block_on(read_texts(&*engine, "last")).unwrap(), ["one"]);
}

#[test]
fn a_closed_store_is_one_file() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    block_on(async {
        let append = append_after(None, "s", b"one");
        let head = head_of(&append);
        engine.append(append).await.unwrap();
        engine.append(append_after(Some(head), "s", b"two")).await.unwrap();
        engine.close().await.unwrap();
    });

    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["s.db"]);
}

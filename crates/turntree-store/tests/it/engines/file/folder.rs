//! The folder: names, foreign folders, processes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Engine};
use turntree_store::engines::file::FileEngine;
use turntree_store::error::StoreError;

use super::engine_at;
use crate::support::{TempFolder, append_after, blob, block_on, query, read_texts, write};

fn names(path: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(path).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn names_are_safe_on_every_file_system() {
    let folder = TempFolder::new();
    let path = folder.path().join("store");
    let engine = engine_at(&path);
    let long = "🦀".repeat(200);
    for id in ["con", "A", "../é", long.as_str()] {
        block_on(write(&*engine, id, &[b"x"]));
    }

    let names = names(&path.join("sessions"));

    assert_eq!([&*names[0], &*names[1], &*names[3]], ["s-%2e%2e%2f%c3%a9", "s-%41", "s-con"]);
    assert!(names[2].starts_with("s-%f0%9f%a6%80") && names[2].len() < 150, "{names:?}");
    for name in names {
        assert!(name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()), "{name}");
    }
}

#[test]
fn the_files_are_those_that_are_documented() {
    let folder = TempFolder::new();
    let path = folder.path().join("store");
    let engine = engine_at(&path);
    let data = blob(b"data");
    let append = Append { blobs: vec![data.clone()], ..append_after(None, "s", b"x") };
    block_on(engine.append(append)).unwrap();
    block_on(write(&*engine, "t", &[b"x"]));
    block_on(engine.delete("t")).unwrap();

    assert_eq!(names(&path), ["locks", "sessions", "trash", "turntree-store.json"]);
    assert_eq!(names(&path.join("sessions")), ["s-s"]);
    assert_eq!(names(&path.join("sessions/s-s")), ["blobs", "log"]);
    assert_eq!(names(&path.join("sessions/s-s/blobs")), [data.address.to_string()]);
    assert!(names(&path.join("trash")).is_empty());
}

#[test]
fn a_path_that_is_no_store_is_refused_with_its_reason() {
    let folder = TempFolder::new();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();

    let missing = FileEngine::open(folder.path().join("missing/store")).unwrap_err().to_string();
    assert!(missing.contains("missing\" does not exist"), "{missing}");
    let text = FileEngine::open(&file).unwrap_err().to_string();
    assert!(text.ends_with("the path is a file, not a folder"), "{text}");
    assert!(matches!(FileEngine::open(""), Err(StoreError::Invalid(_))));
    let error = block_on(engine_at(folder.path()).append(append_after(None, "s", b"x"))).unwrap_err();
    assert!(error.to_string().contains("contains \"file\""), "{error}");
    assert_eq!(names(folder.path()), ["file"]);
}

#[test]
fn a_newer_format_is_refused() {
    let folder = TempFolder::new();
    let path = folder.path().join("store");
    block_on(write(&*engine_at(&path), "s", &[b"x"]));
    let marker = path.join("turntree-store.json");
    fs::write(&marker, r#"{"format":"turntree-file-store","version":2}"#).unwrap();

    let error = block_on(engine_at(&path).read("s")).unwrap_err();

    assert!(matches!(error, StoreError::NewerSchema { found: 2, supported: 1, .. }), "{error}");
}

#[test]
fn a_deleted_session_that_a_crash_has_left_in_the_trash_is_removed() {
    let folder = TempFolder::new();
    let path = folder.path().join("store");
    block_on(write(&*engine_at(&path), "s", &[b"x"]));
    fs::create_dir(path.join("trash/1-1")).unwrap();
    fs::write(path.join("trash/1-1/log"), "secret").unwrap();

    block_on(engine_at(&path).head("s")).unwrap();

    assert!(names(&path.join("trash")).is_empty());
}

/// Makes a store whose session "old" exists, and whose session "new" an import has written to `imports/1`.
fn with_import(folder: &TempFolder) -> std::path::PathBuf {
    let (path, other) = (folder.path().join("store"), folder.path().join("other"));
    block_on(write(&*engine_at(&path), "old", &[b"x"]));
    block_on(write(&*engine_at(&other), "new", &[b"1", b"2"]));
    fs::create_dir_all(path.join("imports/1")).unwrap();
    fs::rename(other.join("sessions/s-new"), path.join("imports/1/s-new")).unwrap();
    path
}

#[test]
fn an_import_whose_process_ended_before_all_was_written_is_removed() {
    let folder = TempFolder::new();
    let path = with_import(&folder);

    assert_eq!(block_on(read_texts(&*engine_at(&path), "new")), None);

    assert_eq!(names(&path), ["locks", "sessions", "trash", "turntree-store.json"]);
}

#[test]
fn an_import_whose_process_ended_while_sessions_were_moved_is_finished_by_the_next_operation() {
    let folder = TempFolder::new();
    let path = with_import(&folder);
    // A process that has the store open already.
    let engine = engine_at(&folder.path().join("store"));
    fs::rename(path.join("imports"), folder.path().join("imports")).unwrap();
    block_on(engine.head("old")).unwrap();
    fs::rename(folder.path().join("imports"), path.join("imports")).unwrap();
    fs::write(path.join("turntree-import.json"), r#"{"import":"1"}"#).unwrap();
    // What a crash has left of an append to a session that does not exist.
    fs::create_dir(path.join("sessions/s-new")).unwrap();
    fs::write(path.join("sessions/s-new/log.new"), "torn").unwrap();

    crate::support::assert_conflict(block_on(engine.append(append_after(None, "new", b"x"))), "new", false);

    assert_eq!(block_on(read_texts(&*engine, "new")).unwrap(), ["1", "2"]);
    assert_eq!(block_on(engine.sessions(query(10))).unwrap().sessions.len(), 2);
    assert_eq!(block_on(engine.check()).unwrap(), []);
    assert!(!path.join("turntree-import.json").exists() && !path.join("imports/1").exists());
    assert_eq!(names(&path.join("sessions/s-new")), ["log"]);
}

#[cfg(target_os = "linux")]
#[test]
fn parent_and_child_use_an_open_store_after_a_fork() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("store"));
    let head = block_on(write(&*engine, "s", &[b"before"]));
    let child_engine = Arc::clone(&engine);

    let wait = crate::support::fork(move || {
        block_on(async {
            child_engine.append(append_after(head, "s", b"child")).await.unwrap();
            write(&*child_engine, "t", &[b"1", b"2"]).await;
        });
    });
    block_on(write(&*engine, "u", &[b"1", b"2"]));
    wait();

    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["before", "child"]);
    assert_eq!(block_on(read_texts(&*engine, "t")).unwrap(), ["1", "2"]);
}

/// The limit on the size of files fails as a full disk does: a part of the record is written.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_stores_nothing() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("store"));
    let head = block_on(write(&*engine, "s", &[b"one"]));
    let child_engine = Arc::clone(&engine);

    let wait = crate::support::fork(move || {
        crate::support::limit_file_size(10_000);
        let result = block_on(child_engine.append(append_after(head, "s", &vec![7; 20_000])));
        assert!(matches!(result, Err(StoreError::Full { .. })), "{result:?}");
        assert_eq!(block_on(read_texts(&*child_engine, "s")).unwrap(), ["one"]);
        block_on(child_engine.append(append_after(head, "s", b"two"))).unwrap();
    });
    wait();

    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["one", "two"]);
}

#[test]
fn reading_creates_nothing() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("store"));

    block_on(async {
        assert!(engine.read("s").await.unwrap().is_none());
        assert_eq!(engine.head("s").await.unwrap(), None);
        assert_eq!(engine.blobs("s", vec![Digest::of(b"x")]).await.unwrap(), [None]);
        assert!(!engine.delete("s").await.unwrap());
        assert!(engine.sessions(query(1)).await.unwrap().sessions.is_empty());
        assert_eq!(engine.check().await.unwrap(), []);
    });

    assert!(names(folder.path()).is_empty());
}

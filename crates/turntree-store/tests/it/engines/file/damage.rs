//! Logs that a crash has cut off, and logs that have changed.

use std::fs;
use std::path::{Path, PathBuf};

use turntree_store::engine::Engine;
use turntree_store::error::StoreError;

use super::engine_at;
use crate::support::{TempFolder, append_after, assert_conflict, block_on, query, read_texts, write};

/// A store with the session `s` of three entries. Returns its log.
fn store(folder: &TempFolder) -> (PathBuf, PathBuf) {
    let path = folder.path().join("store");
    block_on(write(&*engine_at(&path), "s", &[b"first", b"second\n{}\n", b"third"]));
    let log = path.join("sessions/s-s/log");
    (path, log)
}

/// Where the records of a log end.
fn ends(log: &Path) -> Vec<usize> {
    let bytes = fs::read(log).unwrap();
    let mut ends = Vec::new();
    while ends.last() != Some(&bytes.len()) {
        let start = ends.last().copied().unwrap_or(0);
        ends.push(start + turntree_store::engines::file::record::read(&bytes[start..]).unwrap().size);
    }
    ends
}

#[test]
fn a_torn_record_is_not_read_and_the_next_append_takes_its_place() {
    let folder = TempFolder::new();
    let (path, log) = store(&folder);
    let ends = ends(&log);
    let bytes = fs::read(&log).unwrap();
    let engine = engine_at(&path);

    for size in (ends[1] + 1)..ends[2] {
        // Cut off, or as long as it should be but not written.
        for fill in [0, ends[2] - size] {
            let mut torn = bytes[..size].to_vec();
            torn.resize(size + fill, 0);
            fs::write(&log, &torn).unwrap();

            let texts = block_on(read_texts(&*engine, "s")).unwrap();
            assert_eq!(texts, ["first", "second\n{}\n"], "cut at byte {size}");
            let head = block_on(engine.head("s")).unwrap();
            assert_eq!(head.unwrap().revision, 2);
            assert_eq!(block_on(engine.sessions(query(1))).unwrap().sessions.len(), 1);
            assert_eq!(block_on(engine.check()).unwrap(), []);
            block_on(engine.append(append_after(head, "s", b"again"))).unwrap();
            let texts = block_on(read_texts(&*engine, "s")).unwrap();
            assert_eq!(texts, ["first", "second\n{}\n", "again"], "cut at byte {size}");
        }
    }
}

#[test]
fn a_torn_first_record_is_no_session() {
    let folder = TempFolder::new();
    let (path, log) = store(&folder);
    let bytes = fs::read(&log).unwrap();
    let engine = engine_at(&path);

    for size in [0, 1, 30, ends(&log)[0] - 1] {
        fs::write(&log, &bytes[..size]).unwrap();

        assert!(block_on(engine.read("s")).unwrap().is_none());
        assert_eq!(block_on(engine.head("s")).unwrap(), None);
        assert!(block_on(engine.sessions(query(1))).unwrap().sessions.is_empty());
        assert!(!block_on(engine.delete("s")).unwrap());
        block_on(write(&*engine, "s", &[b"new"]));
        assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["new"]);
    }
}

#[test]
fn each_changed_byte_is_found_and_named() {
    let folder = TempFolder::new();
    let (path, log) = store(&folder);
    let ends = ends(&log);
    let bytes = fs::read(&log).unwrap();
    let engine = engine_at(&path);
    let head = block_on(engine.head("s")).unwrap();
    block_on(write(&*engine, "t", &[b"other"]));

    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1 << (position % 8);
        fs::write(&log, &changed).unwrap();
        let number = ends.iter().position(|end| position < *end).unwrap() + 1;

        let error = block_on(engine.read("s")).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "byte {position}: {error}");
        let text = error.to_string();
        assert!(
            text.contains("session \"s\"") && text.contains(&format!("record {number} ")),
            "byte {position}: {text}"
        );
    }
    // The last byte that was changed is in the last record: it is not overwritten.
    let error = block_on(engine.append(append_after(head, "s", b"fourth"))).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let issues = block_on(engine.check()).unwrap();
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert_eq!(issues[0].session.as_deref(), Some("s"));
    assert_eq!(block_on(read_texts(&*engine, "t")).unwrap(), ["other"]);
    assert_eq!(block_on(engine.sessions(query(10))).unwrap().sessions.len(), 2);
    assert!(block_on(engine.delete("s")).unwrap());
    assert_eq!(block_on(engine.check()).unwrap(), []);
}

#[test]
fn a_missing_record_is_found() {
    let folder = TempFolder::new();
    let (path, log) = store(&folder);
    let ends = ends(&log);
    let mut bytes = fs::read(&log).unwrap();
    bytes.drain(ends[0]..ends[1]);
    fs::write(&log, &bytes).unwrap();

    let error = block_on(engine_at(&path).read("s")).unwrap_err();

    assert!(error.to_string().contains("record 2"), "{error}");
}

#[test]
fn a_damaged_record_before_a_torn_one_is_not_cut_off() {
    let folder = TempFolder::new();
    let (path, log) = store(&folder);
    let ends = ends(&log);
    let mut bytes = fs::read(&log).unwrap();
    bytes.truncate(ends[2] - 5);
    // The length of the first entry.
    let position = bytes.windows(10).position(|window| window == b"\"length\":5").unwrap() + 9;
    bytes[position] = b'9';
    fs::write(&log, &bytes).unwrap();
    let engine = engine_at(&path);

    let error = block_on(engine.append(append_after(None, "s", b"new"))).unwrap_err();

    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
}

/// The document of the format says how to read a log without this crate.
#[test]
fn a_log_is_readable_as_documented() {
    let folder = TempFolder::new();
    let (_, log) = store(&folder);
    let bytes = fs::read(&log).unwrap();

    let mut rest = &bytes[..];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let line = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let header: serde_json::Value = serde_json::from_slice(&rest[..line]).unwrap();
        let length = usize::try_from(header["length"].as_u64().unwrap()).unwrap();
        entries.push(String::from_utf8_lossy(&rest[line + 1..line + 1 + length]).into_owned());
        assert_eq!(header["revision"], entries.len());
        assert_eq!(header["info"]["id"], "s");
        rest = &rest[line + 1 + length + 1 + 28..];
    }
    assert_eq!(entries, ["first", "second\n{}\n", "third"]);
}

#[test]
fn a_folder_that_was_deleted_while_it_was_open_is_created_again() {
    let folder = TempFolder::new();
    let (path, _) = store(&folder);
    let engine = engine_at(&path);
    let head = block_on(engine.head("s")).unwrap();
    fs::remove_dir_all(&path).unwrap();

    assert_conflict(block_on(engine.append(append_after(head, "s", b"fourth"))), "s", true);
    block_on(write(&*engine, "t", &[b"one"]));
    assert_eq!(block_on(read_texts(&*engine, "t")).unwrap(), ["one"]);
}

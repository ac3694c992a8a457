//! Limits on the size of the file and on the bytes that are written.

use std::fs;
use std::path::Path;

use turntree_store::engine::Engine;

use super::engine_at;
use crate::support::{TempFolder, append_after, block_on, head_of};

/// The size of all files of a folder.
fn size(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// Data that does not repeat.
fn data(number: u32, length: u32) -> Vec<u8> {
    let mix = |index: u32| (number * length + index).wrapping_mul(2_654_435_761).to_be_bytes()[0];
    (0..length).map(mix).collect()
}

async fn append_all(engine: &dyn Engine, count: u32, length: u32) {
    let mut head = None;
    for number in 0..count {
        let mut append = append_after(head, "f47ac10b-58cc-4372-a567-0e02b2c3d479", &data(number, length));
        append.info.turns = u64::from(number);
        append.info.bytes = u64::from(number * length);
        append.info.updated_at = crate::support::time(1_700_000_000_000_000 + i64::from(number) * 2_345_678);
        head = Some(head_of(&append));
        engine.append(append).await.unwrap();
    }
}

#[test]
fn a_log_of_400_turns_of_2_kb_needs_at_most_1_2_mb() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));

    block_on(append_all(&*engine, 400, 2_200));

    assert!(size(folder.path()) <= 1_200_000, "{} B with the write-ahead log", size(folder.path()));
    block_on(engine.close()).unwrap();
    assert!(size(folder.path()) <= 960_000, "{} B", size(folder.path()));
}

/// Bytes that the thread of the engine has written, by the kernel's count.
#[cfg(target_os = "linux")]
fn written(engine: &turntree_store::engines::sqlite::SqliteEngine) -> u64 {
    let text = block_on(engine.database().read(None, |_| Ok(fs::read_to_string("/proc/thread-self/io"))))
        .unwrap()
        .unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn three_hundred_entries_of_1_5_kb_write_at_most_2_mb() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    block_on(engine.head("s")).unwrap();
    let before = written(&engine);

    block_on(append_all(&*engine, 300, 1_500));

    let total = written(&engine) - before;
    assert!(total <= 2_000_000, "{total} B");
}

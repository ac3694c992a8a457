//! Compares the local engines: `cargo bench -p turntree-store --bench engines [-- FOLDER]`.
//!
//! Prints a table. `appends/s`: one writer of one session; `of 16`: 16 writers of 16 sessions. `disk/entry`: the size of
//! all files, `written/entry`: the bytes of all `write` calls (Linux), each divided by the number of entries, which are
//! 1 500 bytes of random data. `read`: the whole log of 2 000 entries; `head`: the last entry's revision and digest.

#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use turntree_core::time::Timestamp;
use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Engine, Entry, Head, SessionInfo, SessionStatus, Synchronous};
use turntree_store::engines::file::FileEngine;
use turntree_store::engines::memory::MemoryEngine;
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};

const ENTRIES: u32 = 2_000;
const LENGTH: usize = 1_500;
const WRITERS: u32 = 16;

fn data(number: u32) -> Bytes {
    let mut state = number.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_be_bytes()[0]
    };
    (0..LENGTH).map(|_| next()).collect()
}

async fn append(engine: &dyn Engine, id: &str, count: u32) {
    let mut head: Option<Head> = None;
    for number in 1..=count {
        let data = data(number);
        let digest = Digest::of_entry(head.map(|head| head.digest).unwrap_or_default(), id, &data);
        let revision = u64::from(number);
        let info = SessionInfo {
            id: id.into(),
            agent: "assistant".into(),
            status: SessionStatus::Idle,
            turns: revision,
            nodes: revision * 2,
            updated_at: Timestamp::from_microseconds(1_700_000_000_000_000 + i64::from(number) * 1_234_567),
            bytes: revision * 1_500,
        };
        let entry = Entry { digest, data };
        engine.append(Append { expected: head, entry, blobs: Vec::new(), info, fence: None }).await.unwrap();
        head = Some(Head { revision, digest });
    }
}

/// The size of all files below a folder.
fn size(folder: &Path) -> u64 {
    let mut total = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                total += metadata.len();
            }
        }
    }
    total
}

/// The bytes of all `write` calls of this process.
fn written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or_default()
}

fn measure(runtime: &tokio::runtime::Runtime, name: &str, folder: &Path, engine: &dyn Engine) {
    let _ = fs::create_dir_all(folder);
    runtime.block_on(append(engine, "warm-up", 10));
    let before = (size(folder), written());
    let start = Instant::now();
    runtime.block_on(append(engine, "s", ENTRIES));
    let rate = f64::from(ENTRIES) / start.elapsed().as_secs_f64();
    let disk = size(folder).saturating_sub(before.0) as f64 / f64::from(ENTRIES);
    let written = written().saturating_sub(before.1) as f64 / f64::from(ENTRIES);

    let start = Instant::now();
    let ids: Vec<String> = (0..WRITERS).map(|writer| format!("w{writer}")).collect();
    let each = ENTRIES / WRITERS;
    let writers = ids.iter().map(|id| append(engine, id, each));
    runtime.block_on(futures_util::future::join_all(writers));
    let shared = f64::from(each * WRITERS) / start.elapsed().as_secs_f64();

    let start = Instant::now();
    assert_eq!(runtime.block_on(engine.read("s")).unwrap().unwrap().entries.len(), ENTRIES as usize);
    let read = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    assert!(runtime.block_on(engine.head("s")).unwrap().is_some());
    let head = start.elapsed().as_secs_f64() * 1e3;
    runtime.block_on(engine.close()).unwrap();
    println!(
        "| {name:<14} | {rate:>9.0} | {shared:>9.0} | {disk:>10.0} | {written:>13.0} | {read:>7.2} | {head:>7.3} |"
    );
}

fn main() {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = folder.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let folder = folder.join(format!("engines-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let sqlite = |name: &str, synchronous| {
        fs::create_dir_all(folder.join(name)).unwrap();
        let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
        SqliteEngine::open(folder.join(name).join("s.db"), options).unwrap()
    };
    println!("| engine         | appends/s |     of 16 | disk/entry | written/entry | read ms | head ms |");
    println!("|----------------|-----------|-----------|------------|---------------|---------|---------|");
    measure(&runtime, "memory", &folder.join("memory"), &MemoryEngine::new());
    measure(&runtime, "sqlite full", &folder.join("full"), &sqlite("full", Synchronous::Full));
    measure(&runtime, "sqlite normal", &folder.join("normal"), &sqlite("normal", Synchronous::Normal));
    measure(&runtime, "file", &folder.join("files"), &FileEngine::open(folder.join("files")).unwrap());
    fs::remove_dir_all(&folder).unwrap();
}

//! What an append costs does not depend on the length of the log. A binary of its own: it measures the whole process.

#![cfg(test)]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;
use turntree_core::time::Timestamp;
use turntree_store::digest::Digest;
use turntree_store::engine::{Append, Engine, Entry, Head, SessionInfo, SessionStatus};
use turntree_store::engines::file::FileEngine;
use turntree_store::engines::memory::MemoryEngine;
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};

/// The number of entries.
const ENTRIES: usize = 10_000;

/// The number of appends that are measured together.
const WINDOW: usize = 100;

/// The measured numbers of a window.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// CPU time of all threads.
    nanoseconds: u64,
    /// Bytes passed to `write`.
    bytes: u64,
}

#[expect(unsafe_code, reason = "the standard library has no clock of CPU time")]
fn now() -> Cost {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    let nanoseconds = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    Cost { nanoseconds: u64::try_from(nanoseconds).unwrap(), bytes: bytes.parse().unwrap() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// A session that is being written.
struct Writer<'a> {
    engine: &'a dyn Engine,
    id: String,
    head: Option<Head>,
}

impl<'a> Writer<'a> {
    fn new(engine: &'a dyn Engine, id: impl Into<String>) -> Self {
        Self { engine, id: id.into(), head: None }
    }

    /// Appends entries and returns the cost.
    fn append(&mut self, count: usize) -> Cost {
        let start = now();
        for _ in 0..count {
            let revision = self.head.map_or(0, |head| head.revision) + 1;
            let data = Bytes::from(format!("{revision:05}").repeat(200));
            let digest =
                Digest::of_entry(self.head.map(|head| head.digest).unwrap_or_default(), &self.id, &data);
            let info = SessionInfo {
                id: self.id.as_str().into(),
                agent: "assistant".into(),
                status: SessionStatus::Idle,
                turns: revision,
                nodes: revision,
                updated_at: Timestamp::from_microseconds(
                    1_700_000_000_000_000 + i64::try_from(revision).unwrap(),
                ),
                bytes: revision * 1_000,
            };
            let entry = Entry { digest, data };
            let append = Append { expected: self.head, entry, blobs: Vec::new(), info, fence: None };
            block_on(self.engine.append(append)).unwrap();
            self.head = Some(Head { revision, digest });
        }
        let end = now();
        Cost { nanoseconds: end.nanoseconds - start.nanoseconds, bytes: end.bytes - start.bytes }
    }
}

/// Compares windows of a long log with those of new logs, in turns: other programs slow both.
fn assert_flat(name: &str, engine: &dyn Engine) {
    let mut long = Writer::new(engine, "long");
    long.append(ENTRIES);
    let mut costs: Vec<(Cost, Cost)> = Vec::new();
    for round in 0..8 {
        let mut short = Writer::new(engine, format!("short-{round}"));
        short.append(WINDOW);
        costs.push((short.append(WINDOW), long.append(WINDOW)));
    }
    for (unit, value) in
        [("ns", (|cost| cost.nanoseconds) as fn(&Cost) -> u64), ("B", |cost: &Cost| cost.bytes)]
    {
        // The least: other programs only add to it.
        let short = costs.iter().map(|(short, _)| value(short)).min().unwrap();
        let long = costs.iter().map(|(_, long)| value(long)).min().unwrap();
        assert!(
            long * 10 <= short * 13,
            "{name}: {short} {unit} for a short log, {long} {unit} after {ENTRIES} entries"
        );
    }
}

#[test]
fn an_append_costs_the_same_after_10_000_entries() {
    // In memory: what is measured is not the disk.
    let folder = PathBuf::from("/dev/shm").join(format!("turntree-cost-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    assert_flat("memory", &MemoryEngine::new());
    assert_flat("sqlite", &SqliteEngine::open(folder.join("s.db"), SqliteOptions::default()).unwrap());
    assert_flat("file", &FileEngine::open(folder.join("files")).unwrap());
    fs::remove_dir_all(&folder).unwrap();
}

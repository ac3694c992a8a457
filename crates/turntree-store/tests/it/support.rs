//! Helpers of tests: an executor, temporary folders, logs.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use turntree_core::time::Timestamp;
use turntree_store::digest::Digest;
use turntree_store::engine::{
    Append, Blob, Engine, Entry, Head, Log, SessionInfo, SessionQuery, SessionStatus,
};
use turntree_store::error::StoreError;

/// An engine with an empty store.
pub(crate) struct Fixture {
    pub(crate) engine: Arc<dyn Engine>,
    /// Opens the same store again, beside `engine`. None if the store is only in `engine`.
    pub(crate) reopen: Option<Box<dyn Fn() -> Arc<dyn Engine>>>,
    /// Removes the data of the store when it is dropped.
    #[expect(dead_code, reason = "only its destructor is used")]
    pub(crate) cleanup: Option<Box<dyn Any>>,
}

impl Fixture {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, reopen: None, cleanup: None }
    }
}

/// A folder that is removed when it is dropped.
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("turntree-store-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Polls a future on this thread, outside of any tokio runtime, as an asyncio event loop does.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
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

/// Tells the threads of a test to stop, also when the test fails: a scope waits for its threads.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it when the guard is dropped.
    pub(crate) fn on_drop(&self) -> impl Drop {
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        Guard(&self.0)
    }
}

/// Read by those who use SQLite without a store. A fork closes the connections of stores only: a child would wait for ever
/// for a lock of SQLite that a thread of its parent has.
static DIRECT: RwLock<()> = RwLock::new(());

/// Delays forks until it is dropped.
pub(crate) fn without_forks() -> RwLockReadGuard<'static, ()> {
    DIRECT.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function in a child that is made by `fork`, and returns a function that waits for its success: for 120 s.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no fork")]
pub(crate) fn fork(child: impl FnOnce()) -> impl FnOnce() {
    let alone = DIRECT.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the child runs `child` and ends. The C library makes its allocator usable in the child.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the process without its destructors, which belong to the parent.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    drop(alone);
    move || {
        let (start, mut status) = (Instant::now(), 0);
        // SAFETY: `status` is valid for the call.
        while unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) } == 0 {
            if start.elapsed() > Duration::from_secs(120) {
                // SAFETY: the process is a child that was not waited for yet.
                unsafe { libc::kill(process, libc::SIGKILL) };
                panic!("the child does not end");
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "the child failed");
    }
}

/// Limits the size of files that this process writes. Larger writes fail.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library has no resource limits")]
pub(crate) fn limit_file_size(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: `limit` is valid for the call; the signal is ignored, so that the write fails instead.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

pub(crate) fn time(microseconds: i64) -> Timestamp {
    Timestamp::from_microseconds(microseconds)
}

/// The state of a session with some id.
pub(crate) fn info(id: &str) -> SessionInfo {
    SessionInfo {
        id: id.into(),
        agent: "assistant".into(),
        status: SessionStatus::Idle,
        turns: 1,
        nodes: 2,
        updated_at: time(1_700_000_000_000_000),
        bytes: 3,
    }
}

pub(crate) fn entry_after(head: Option<Head>, session: &str, data: &[u8]) -> Entry {
    let previous = head.map(|head| head.digest).unwrap_or_default();
    Entry { digest: Digest::of_entry(previous, session, data), data: Bytes::copy_from_slice(data) }
}

/// An append of `data` after a head.
pub(crate) fn append_after(head: Option<Head>, session: &str, data: &[u8]) -> Append {
    Append {
        expected: head,
        entry: entry_after(head, session, data),
        blobs: Vec::new(),
        info: info(session),
        fence: None,
    }
}

/// The head after an append.
pub(crate) fn head_of(append: &Append) -> Head {
    Head { revision: append.expected.map_or(0, |head| head.revision) + 1, digest: append.entry.digest }
}

pub(crate) fn blob(data: &[u8]) -> Blob {
    Blob { address: Digest::of(data), data: Bytes::copy_from_slice(data) }
}

/// Appends entries to a new session and returns the head.
pub(crate) async fn write(engine: &dyn Engine, session: &str, entries: &[&[u8]]) -> Option<Head> {
    let mut head = None;
    for data in entries {
        let append = append_after(head, session, data);
        head = Some(head_of(&append));
        engine.append(append).await.unwrap();
    }
    head
}

/// Checks the chain of a log and returns its entries as texts.
pub(crate) fn texts(session: &str, log: &Log) -> Vec<String> {
    let mut previous = Digest::default();
    let text = |entry: &Entry| {
        let digest = Digest::of_entry(previous, session, &entry.data);
        assert_eq!(digest, entry.digest, "the chain is broken");
        previous = digest;
        String::from_utf8_lossy(&entry.data).into_owned()
    };
    log.entries.iter().map(text).collect()
}

/// The entries of a stored session as texts; `None` if there is no such session.
pub(crate) async fn read_texts(engine: &dyn Engine, session: &str) -> Option<Vec<String>> {
    let log = engine.read(session).await.unwrap()?;
    Some(texts(session, &log))
}

/// All sessions, read in pages of `limit`.
pub(crate) async fn list(engine: &dyn Engine, mut query: SessionQuery) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = engine.sessions(query.clone()).await.unwrap();
        assert!(page.sessions.len() <= query.limit, "the page is too long");
        ids.extend(page.sessions.iter().map(|info| info.id.to_string()));
        let Some(next) = page.next else { return ids };
        query.after = Some(next);
    }
}

pub(crate) fn query(limit: usize) -> SessionQuery {
    SessionQuery { limit, ..SessionQuery::default() }
}

/// Asserts that a result is a conflict, and whether the session was deleted.
#[track_caller]
pub(crate) fn assert_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>, id: &str, is_deleted: bool) {
    match result {
        Err(StoreError::Conflict { session, deleted }) => {
            assert_eq!((&*session, deleted), (id, is_deleted));
        }
        other => panic!("expected a conflict, got {other:?}"),
    }
}

//! The thread that writes the log records of the crates to Python's `logging`.
//!
//! `logging` needs the GIL, which a network thread must not take: it puts the record into this thread's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::prelude::*;
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::intern;
use turntree_core::runtime::PerProcess;

use super::gil;

/// Records that may wait. Further ones are discarded: the thread cannot keep up with what goes wrong.
const CAPACITY: usize = 1024;

/// How long the exit of the process waits for records: a handler of the application may be slow.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the exit checks whether all records are written.
const EXIT_POLL: Duration = Duration::from_millis(1);

/// The queue of the thread of this process. Without a lock: a network thread could hold it while the process forks, and
/// the child would wait for it.
static QUEUE: PerProcess<Queue> = PerProcess::new();

struct Queue {
    records: SyncSender<Written>,
    /// The number of records that are not written yet.
    waiting: Arc<AtomicUsize>,
}

/// A record for a logger of Python.
struct Written {
    logger: String,
    level: Level,
    message: String,
}

/// Forwards records for the logger `turntree` and those below it.
struct PythonLogging;

/// Forwards errors and warnings of the crates. No effect if another library of this process has set a logger.
///
/// Called after [`gil::install`]: exit handlers run in reverse order, and the records need the GIL.
///
/// # Errors
/// The exceptions of `atexit`.
pub(super) fn install(py: Python<'_>) -> PyResult<()> {
    if log::set_logger(&PythonLogging).is_ok() {
        log::set_max_level(LevelFilter::Warn);
        let flush = pyo3::wrap_pyfunction!(flush_at_exit, py)?;
        py.import("atexit")?.call_method1("register", (flush,))?;
    }
    Ok(())
}

impl Log for PythonLogging {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn && logger_of(metadata.target()).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        let Some(logger) = logger_of(record.target()).filter(|_| record.level() <= Level::Warn) else {
            return;
        };
        let record = Written { logger, level: record.level(), message: record.args().to_string() };
        // An error means that the system has no thread left.
        let Ok(queue) = QUEUE.get_or_try_create(start) else { return };
        queue.waiting.fetch_add(1, Ordering::AcqRel);
        if queue.records.try_send(record).is_err() {
            queue.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn flush(&self) {}
}

/// The logger of a record: its target, or that of the crate that has written it (`turntree.uamp` for
/// `turntree_uamp::wires`). `None` for other libraries.
fn logger_of(target: &str) -> Option<String> {
    let rest = target.strip_prefix("turntree")?;
    if rest.is_empty() || rest.starts_with('.') {
        return Some(target.to_owned());
    }
    let name = rest.strip_prefix('_')?.split("::").next()?;
    Some(format!("turntree.{name}"))
}

/// `atexit` handler: waits, without the GIL, until the records so far are written. A script that ends after its first
/// warning must print it.
#[pyfunction]
fn flush_at_exit(py: Python<'_>) {
    // Creates no thread: a process without one has no records.
    let Ok(queue) = QUEUE.get_or_try_create(|| Err(())) else { return };
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        while queue.waiting.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(EXIT_POLL);
        }
    });
}

/// Starts the thread. It ends when its queue is dropped or the process exits.
fn start() -> std::io::Result<Queue> {
    let (records, receiver) = sync_channel::<Written>(CAPACITY);
    let waiting = Arc::new(AtomicUsize::new(0));
    let unwritten = Arc::clone(&waiting);
    std::thread::Builder::new().name("turntree-log".to_owned()).spawn(move || {
        for record in receiver {
            if gil::attach(|py| deliver(py, &record)).is_none() {
                // The process is exiting.
                return;
            }
            unwritten.fetch_sub(1, Ordering::AcqRel);
        }
    })?;
    Ok(Queue { records, waiting })
}

fn deliver(py: Python<'_>, record: &Written) {
    let written = || -> PyResult<()> {
        let logging = py.import(intern!(py, "logging"))?;
        let logger = logging.call_method1(intern!(py, "getLogger"), (&record.logger,))?;
        let is_error = record.level == Level::Error;
        let method = if is_error { intern!(py, "error") } else { intern!(py, "warning") };
        logger.call_method1(method, (intern!(py, "%s"), &record.message)).map(drop)
    };
    if let Err(error) = written() {
        error.write_unraisable(py, None);
    }
}

//! The thread that writes the log records of the crates to Python's `logging`.
//!
//! `logging` needs the GIL, which a network thread must not take: it puts the record into this thread's queue.

use std::sync::mpsc::{SyncSender, sync_channel};

use crate::prelude::*;
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::intern;
use turntree_core::runtime::PerProcess;

use super::gil;

/// Records that may wait. Further ones are discarded: the thread cannot keep up with what goes wrong.
const CAPACITY: usize = 1024;

/// The queue of the thread of this process. Without a lock: a network thread could hold it while the process forks, and
/// the child would wait for it.
static QUEUE: PerProcess<SyncSender<Written>> = PerProcess::new();

/// A record for a logger of Python.
struct Written {
    logger: String,
    level: Level,
    message: String,
}

/// Forwards records for the loggers `turntree` and below it, which the documentation names.
struct PythonLogging;

/// Forwards errors and warnings of the crates. No effect if another library of this process has set a logger.
pub(super) fn install() {
    if log::set_logger(&PythonLogging).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

impl Log for PythonLogging {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let rest = metadata.target().strip_prefix("turntree");
        metadata.level() <= Level::Warn && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (logger, message) = (record.target().to_owned(), record.args().to_string());
        // An error means that the system has no thread left, that the queue is full, or that the process is exiting.
        if let Ok(queue) = QUEUE.get_or_try_create(start) {
            let _ = queue.try_send(Written { logger, level: record.level(), message });
        }
    }

    fn flush(&self) {}
}

/// Starts the thread. It ends when its queue is dropped or the process exits.
fn start() -> std::io::Result<SyncSender<Written>> {
    let (sender, receiver) = sync_channel::<Written>(CAPACITY);
    std::thread::Builder::new().name("turntree-log".to_owned()).spawn(move || {
        for record in receiver {
            if gil::attach(|py| deliver(py, &record)).is_none() {
                // The process is exiting.
                return;
            }
        }
    })?;
    Ok(sender)
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

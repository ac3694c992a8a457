//! How far a long operation is.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the parts of a long operation, so that another thread can show them.
///
/// The parts are entries while a session is loaded, sessions while they are exported, and bytes while an export is read.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Returns the number of parts that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the number of all parts; 0 until it is known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, parts: u64) {
        self.done.fetch_add(parts, Ordering::Relaxed);
    }
}

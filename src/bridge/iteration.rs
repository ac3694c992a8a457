//! [`EventIteration`] and [`SyncEventIteration`]: one loop over an event stream.
//!
//! Only the loop holds its iteration, and a task that awaits an event the awaitable. A `break`, an exception or a cancellation drops both, which stops the source of the
//! stream although the application still holds the stream.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::prelude::*;

use super::gc::garbage_collected;
use super::stream::{NextEvents, PyEventStream, leave};

/// The asynchronous iterator of one loop over a stream. Dropping it before the end stops the source.
#[pyclass(frozen, weakref, name = "_EventIteration", module = "turntree._core")]
pub(crate) struct EventIteration {
    /// The awaitable that `__anext__` returns, the same each time. Its destructor leaves the stream.
    next: Py<NextEvents>,
}

impl EventIteration {
    pub(super) const fn new(next: Py<NextEvents>) -> Self {
        Self { next }
    }
}

#[pymethods]
impl EventIteration {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<NextEvents>> {
        self.next.get().check_free()?;
        Ok(self.next.clone_ref(py))
    }
}

garbage_collected!(EventIteration: next);

/// The iterator of one loop on the calling thread. Dropping it before the end stops the source.
#[pyclass(frozen, weakref, name = "_SyncEventIteration", module = "turntree._core")]
pub(crate) struct SyncEventIteration {
    stream: Py<PyEventStream>,
    /// Whether an event was asked for. An iterator that only tested whether the stream is iterable leaves nothing.
    is_read: AtomicBool,
}

impl SyncEventIteration {
    pub(super) const fn new(stream: Py<PyEventStream>) -> Self {
        Self { stream, is_read: AtomicBool::new(false) }
    }
}

#[pymethods]
impl SyncEventIteration {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.is_read.store(true, Ordering::Relaxed);
        self.stream.get().wait_for_event(py)
    }
}

impl Drop for SyncEventIteration {
    fn drop(&mut self) {
        if *self.is_read.get_mut() {
            leave(&self.stream);
        }
    }
}

garbage_collected!(SyncEventIteration: stream);

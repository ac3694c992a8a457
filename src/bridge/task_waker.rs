//! One place where a Python task waits for Rust.
//!
//! A [`TaskWaker`] is the waker of a Rust future and, at the same time, the owner of the asyncio future that the Python
//! task is suspended on. Waking is free of the GIL: the parker puts itself into its loop's inbox and the loop's own
//! thread completes the asyncio future.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::gil::lock;
use super::loop_waker::LoopWaker;

/// Being polled, or not waiting at all.
const AWAKE: u8 = 0;
/// Woken since the last poll began.
const NOTIFIED: u8 = 1;
/// The Python task is suspended on the future in the slot.
const SUSPENDED: u8 = 2;

/// See the module's first paragraph.
pub(crate) struct TaskWaker {
    state: AtomicU8,
    slot: Mutex<Slot>,
}

/// Python is never called while this is locked.
#[derive(Default)]
struct Slot {
    future: Option<Py<PyAny>>,
    loop_waker: Option<Arc<LoopWaker>>,
}

impl TaskWaker {
    /// A parker nobody waits at.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(AWAKE), slot: Mutex::new(Slot::default()) })
    }

    /// This parker as a waker for [`std::task::Context`].
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// A poll begins: wake-ups count from here.
    pub(crate) fn start_poll(&self) {
        self.state.store(AWAKE, Ordering::Release);
    }

    /// Whether a task is suspended here and has not been woken.
    pub(crate) fn is_suspended(&self) -> bool {
        lock(&self.slot).future.is_some()
    }

    /// The poll said pending: gives what the coroutine must yield to asyncio.
    ///
    /// That is a fresh future of the running loop, or `None` ("call me again in the next turn") when the wake-up came
    /// before we could lie down.
    ///
    /// # Errors
    /// `RuntimeError` when no asyncio loop runs on this thread.
    pub(crate) fn suspend(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.state.load(Ordering::Acquire) == NOTIFIED {
            return Ok(py.None());
        }
        let Some((event_loop, loop_waker)) = LoopWaker::current(py)? else {
            return Err(PyRuntimeError::new_err(
                "no running event loop: turntree coroutines are awaited under asyncio; use run_sync elsewhere",
            ));
        };
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
        let replaced = {
            let mut slot = lock(&self.slot);
            slot.loop_waker = Some(loop_waker);
            slot.future.replace(future.clone().unbind())
        };
        drop(replaced);
        if self.state.compare_exchange(AWAKE, SUSPENDED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.clear();
            return Ok(py.None());
        }
        Ok(future.unbind())
    }

    /// Forgets the suspended task: it was cancelled, or it is over.
    pub(crate) fn clear(&self) {
        let forgotten = lock(&self.slot).future.take();
        drop(forgotten);
    }

    /// Completes the asyncio future, on the loop's own thread. Asyncio then resumes the task in its next turn.
    pub(crate) fn resolve(&self, py: Python<'_>) {
        let Some(future) = lock(&self.slot).future.take() else { return };
        let future = future.bind(py);
        if let Err(error) = future.call_method1(intern!(py, "set_result"), (py.None(),)) {
            // Cancelled in the meantime: the task resumes by itself.
            let settled = future.call_method0(intern!(py, "done")).and_then(|done| done.is_truthy());
            if !matches!(settled, Ok(true)) {
                error.write_unraisable(py, Some(future));
            }
        }
    }

    /// Whoever is suspended here gives up, or was displaced by somebody who gave up without having waited: completes the
    /// asyncio future, so that a bystander looks again instead of waiting for ever.
    pub(crate) fn abandon(&self, py: Python<'_>) {
        let future = lock(&self.slot).future.take();
        if let Some(future) = future {
            // Fails when it was cancelled, which is the usual case, or when its loop is closed.
            let _ = future.call_method1(py, intern!(py, "set_result"), (py.None(),));
        }
    }

    /// For `__traverse__` of the one Python object that owns this parker.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector runs with the GIL held, in the middle of anything: never wait for the lock here. Whoever holds
        // it is about to change the slot, so "not garbage yet" is the right answer.
        match self.slot.try_lock() {
            Ok(slot) => visit.call(&slot.future),
            Err(_) => Ok(()),
        }
    }

    fn notify(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) != SUSPENDED {
            return;
        }
        let loop_waker = lock(&self.slot).loop_waker.clone();
        if let Some(loop_waker) = loop_waker {
            loop_waker.wake(Arc::clone(self));
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

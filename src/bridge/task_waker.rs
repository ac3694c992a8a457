//! [`TaskWaker`]: suspends a Python task until a Rust future can continue.
//!
//! It is the waker of the Rust future and owns the asyncio future that the Python task awaits. Waking needs no GIL: the
//! task waker goes into the queue of its loop's waker, and the loop's thread completes the asyncio future.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::gil::lock;
use super::loop_waker::LoopWaker;

/// The future is being polled, or no task waits.
const AWAKE: u8 = 0;
/// Woken since the last poll started.
const NOTIFIED: u8 = 1;
/// The Python task awaits the asyncio future in the slot.
const SUSPENDED: u8 = 2;

/// The references of the Python object that owns a task waker: to the object itself and as a [`Waker`].
const OWN_REFERENCES: usize = 2;

/// Wakes one Python task; see the module documentation.
pub(crate) struct TaskWaker {
    state: AtomicU8,
    slot: Mutex<Slot>,
}

/// Python must not be called while this is locked.
#[derive(Default)]
struct Slot {
    future: Option<Py<PyAny>>,
    loop_waker: Option<Arc<LoopWaker>>,
}

impl TaskWaker {
    /// A waker without a suspended task.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(AWAKE), slot: Mutex::new(Slot::default()) })
    }

    /// This object as a waker for [`std::task::Context`].
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Starts a poll: wake-ups from now on are not lost.
    pub(crate) fn start_poll(&self) {
        self.state.store(AWAKE, Ordering::Release);
    }

    /// Whether a task is suspended and has not been woken.
    pub(crate) fn is_suspended(&self) -> bool {
        lock(&self.slot).future.is_some()
    }

    /// The loop of the last task that was suspended.
    pub(crate) fn loop_waker(&self) -> Option<Arc<LoopWaker>> {
        lock(&self.slot).loop_waker.clone()
    }

    /// Suspends the task after a pending poll: returns the object that the coroutine yields to asyncio.
    ///
    /// That is a new future of the running loop, or `None` ("call again in the next iteration") if the wake-up has
    /// already happened.
    ///
    /// # Errors
    /// `RuntimeError` if no asyncio loop runs on this thread.
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
        loop_waker.watch_signals(&future)?;
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

    /// Drops the asyncio future: the task was cancelled or has ended.
    pub(crate) fn clear(&self) {
        let future = lock(&self.slot).future.take();
        drop(future);
    }

    /// Completes the asyncio future, on the loop's thread. Asyncio then resumes the task in its next iteration.
    pub(crate) fn resolve(&self, py: Python<'_>) {
        let Some(future) = lock(&self.slot).future.take() else { return };
        let future = future.bind(py);
        if let Err(error) = future.call_method1(intern!(py, "set_result"), (py.None(),)) {
            // Cancelled in the meantime: asyncio resumes the task.
            let settled = future.call_method0(intern!(py, "done")).and_then(|done| done.is_truthy());
            if !matches!(settled, Ok(true)) {
                error.write_unraisable(py, Some(future));
            }
        }
    }

    /// Ends the wait without a wake-up: completes the asyncio future, so that another task that awaits it polls again.
    pub(crate) fn abandon(&self, py: Python<'_>) {
        let future = lock(&self.slot).future.take();
        if let Some(future) = future {
            // Fails if the future was cancelled, the usual case, or if its loop is closed.
            let _ = future.call_method1(py, intern!(py, "set_result"), (py.None(),));
        }
    }

    /// For `__traverse__` of the Python object that owns this waker.
    ///
    /// The future is not visited while others can wake the task. The collector cannot see them, and would take a task that
    /// waits for them, and that nothing else refers to, for garbage.
    pub(crate) fn traverse(self: &Arc<Self>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(self) > OWN_REFERENCES {
            return Ok(());
        }
        // The collector must not wait for a lock. Its holder is about to change the slot, so the future is not garbage yet.
        match self.slot.try_lock() {
            Ok(slot) => visit.call(&slot.future),
            Err(_) => Ok(()),
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) != SUSPENDED {
            return;
        }
        let loop_waker = lock(&self.slot).loop_waker.clone();
        if let Some(loop_waker) = loop_waker {
            loop_waker.wake(Arc::clone(self));
        }
    }
}

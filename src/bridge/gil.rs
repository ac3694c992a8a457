//! Access to the interpreter. The only file that attaches threads to it.
//!
//! - [`attach`] attaches a thread that Python did not start. Such threads are counted, and refused once the process exits:
//!   a thread that releases the GIL while the interpreter shuts down crashes the process (measured without this file: in
//!   a third of busy runs).
//! - [`mark_held`] marks Rust code that runs with the GIL held, and [`if_held`] gives that code a token. Elsewhere
//!   [`if_held`] returns `None`. A destructor or waker that runs on a network thread then queues a callback for the
//!   loop's thread instead of taking the GIL.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;

/// Protects this thread's frames from the exit of the process; see [`super::thread_exit`].
///
/// [`mark_held`] calls it. Functions outside of the bridge that run Python code of the application call it themselves, or
/// convert values, which calls it. Costs a few nanoseconds after the first call in a thread.
pub(crate) use super::thread_exit::protect as protect_thread;

/// How long the exit handler waits for attached threads. Each runs our code for a few microseconds; the limit is for event
/// loops that block in `call_soon_threadsafe`.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the exit handler checks whether threads are attached.
const EXIT_POLL: Duration = Duration::from_millis(1);

thread_local! {
    static HELD_DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The exit gate: the number of attached threads, and [`CLOSED`] once the process exits.
///
/// An atomic number, because a lock could be held by another thread when the process forks, and the child would wait for
/// it.
static EXIT_GATE: AtomicU32 = AtomicU32::new(0);

/// The flag of a closed gate. The other bits count threads.
const CLOSED: u32 = 1 << 31;

/// Counts one thread that is attached to the interpreter.
struct AttachedThread;

impl AttachedThread {
    fn begin() -> Option<Self> {
        let enter = |gate| (gate & CLOSED == 0).then_some(gate + 1);
        EXIT_GATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok().then_some(Self)
    }
}

impl Drop for AttachedThread {
    fn drop(&mut self) {
        // Zero in a child that forked in this thread: `reopen_after_fork` counts from zero.
        let leave = |gate| (gate & !CLOSED > 0).then(|| gate - 1);
        let _ = EXIT_GATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
    }
}

/// Whether the exit handlers have run. Needs no GIL.
pub(super) fn is_exiting() -> bool {
    EXIT_GATE.load(Ordering::Acquire) & CLOSED != 0
}

/// Locks a mutex and ignores poisoning: the values behind the bridge's mutexes are valid after each single assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` attached to the interpreter, from a thread that Python did not start.
///
/// Returns `None` without running it if the process is exiting. Do not call it from a network thread: a tokio worker that
/// waits for the GIL polls no socket.
pub(crate) fn attach<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let visit = AttachedThread::begin()?;
    protect_thread();
    let result = Python::try_attach(work);
    drop(visit);
    result
}

/// Runs `work` and lets [`if_held`] use the GIL in it.
pub(crate) fn mark_held<R>(_py: Python<'_>, work: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            HELD_DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
        }
    }
    HELD_DEPTH.with(|depth| {
        if depth.get() == 0 {
            protect_thread();
        }
        depth.set(depth.get().saturating_add(1));
    });
    let _restore = Restore;
    work()
}

/// Runs a long computation, without the GIL if this thread is inside [`mark_held`].
pub(crate) fn compute_detached(work: &mut (dyn FnMut() + Send)) {
    let mut is_done = false;
    let _ = if_held(|py| {
        py.detach(|| {
            work();
            is_done = true;
        });
    });
    if !is_done {
        work();
    }
}

/// Runs `work` with the interpreter if this thread is inside [`mark_held`]; `None` otherwise.
///
/// Costs a few nanoseconds, because the thread is already attached.
pub(crate) fn if_held<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    if HELD_DEPTH.with(Cell::get) == 0 { None } else { Python::try_attach(work) }
}

/// Like [`if_held`], for futures that only our own entry points poll.
///
/// # Errors
/// `RuntimeError` if the future is polled elsewhere, for example on a network thread.
pub(crate) fn require_held<R>(work: impl FnOnce(Python<'_>) -> PyResult<R>) -> PyResult<R> {
    if_held(work).unwrap_or_else(|| {
        Err(PyRuntimeError::new_err(
            "this future needs Python and was polled away from it; await it or use run_sync",
        ))
    })
}

/// Runs `work` in the destructor or in `__clear__` of a Python object.
///
/// They run with the GIL held, possibly while an exception is raised. `work` may run Python code (a cancelled tool), which
/// must neither see nor replace that exception.
pub(crate) fn in_destructor(work: impl FnOnce()) {
    let mut work = Some(work);
    Python::try_attach(|py| {
        let in_flight = PyErr::take(py);
        if let Some(work) = work.take() {
            mark_held(py, work);
        }
        if let Some(error) = in_flight {
            error.restore(py);
        }
    });
    // Not taken if the interpreter is shutting down: runs without Python.
    if let Some(work) = work {
        work();
    }
}

/// Registers the handlers for exit and fork. Called once, when the extension module is imported.
///
/// # Errors
/// The exceptions of `atexit` and `os`.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    turntree_core::computation::set_runner(compute_detached);
    let close = pyo3::wrap_pyfunction!(close_at_exit, py)?;
    py.import("atexit")?.call_method1("register", (close,))?;
    let os = py.import("os")?;
    if os.hasattr("register_at_fork")? {
        let reopen = pyo3::wrap_pyfunction!(reopen_after_fork, py)?;
        let options = pyo3::types::PyDict::new(py);
        options.set_item("after_in_child", reopen)?;
        os.call_method("register_at_fork", (), Some(&options))?;
    }
    Ok(())
}

/// `atexit` handler: stops the background loops, refuses new threads and waits, without the GIL, until the last attached
/// thread has detached.
#[pyfunction]
fn close_at_exit(py: Python<'_>) {
    super::background_loop::stop_all(py);
    super::thread_exit::begin_exit();
    EXIT_GATE.fetch_or(CLOSED, Ordering::AcqRel);
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        while EXIT_GATE.load(Ordering::Acquire) != CLOSED && Instant::now() < deadline {
            std::thread::sleep(EXIT_POLL);
        }
    });
}

/// `fork` handler in the child: the attached threads of the parent do not exist here.
#[pyfunction]
fn reopen_after_fork() {
    EXIT_GATE.fetch_and(CLOSED, Ordering::AcqRel);
}

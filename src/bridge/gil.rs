//! Who may touch Python, and until when. The only room that attaches to the interpreter.
//!
//! Two ways in, and no third:
//!
//! - [`attach`]: a thread that Python did not start wants the GIL. It is counted, and refused once the process is
//!   exiting: a thread that is still giving the GIL back while the interpreter dies crashes the process
//!   (a third of busy runs, without this guard).
//! - [`mark_held`] marks the stretch in which one of our entry points runs Rust code with the GIL held, and [`if_held`]
//!   gives that code a token. Outside such a stretch [`if_held`] answers `None`: this is how a destructor or a waker
//!   that happens to run on a network thread knows that it must post a letter instead of taking the GIL.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long the exit handler waits for attached threads. They run a few microseconds of our own code each; a limit
/// exists so that a foreign event loop that blocks in `call_soon_threadsafe` cannot keep the process from ending.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    static HELD_DEPTH: Cell<u32> = const { Cell::new(0) };
}

static EXIT_GATE: ExitGate =
    ExitGate { state: Mutex::new(ExitGateState { inside: 0, closed: false }), left: Condvar::new() };

struct ExitGate {
    state: Mutex<ExitGateState>,
    left: Condvar,
}

struct ExitGateState {
    inside: usize,
    closed: bool,
}

/// One foreign thread inside the interpreter.
struct AttachedThread;

impl AttachedThread {
    fn begin() -> Option<Self> {
        let mut state = lock(&EXIT_GATE.state);
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Self)
    }
}

impl Drop for AttachedThread {
    fn drop(&mut self) {
        let mut state = lock(&EXIT_GATE.state);
        state.inside = state.inside.saturating_sub(1);
        EXIT_GATE.left.notify_all();
    }
}

/// Locks, whatever happened to the thread that held it before: every mutex of the bridge guards plain slots that are
/// valid after each single assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` attached to the interpreter, from a thread that Python did not start.
///
/// Answers `None`, without having run it, when the process is exiting. Never call it from a network thread: a tokio
/// worker that waits for the GIL polls no socket.
pub(crate) fn attach<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let visit = AttachedThread::begin()?;
    let result = Python::try_attach(work);
    drop(visit);
    result
}

/// Runs `work`, which [`if_held`] then knows to hold the GIL.
pub(crate) fn mark_held<R>(_py: Python<'_>, work: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            HELD_DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
        }
    }
    HELD_DEPTH.with(|depth| depth.set(depth.get().saturating_add(1)));
    let _restore = Restore;
    work()
}

/// Runs `work` with the interpreter if this thread is inside [`mark_held`]; `None` otherwise.
///
/// Costs a few nanoseconds: the thread is attached already.
pub(crate) fn if_held<R>(work: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    if HELD_DEPTH.with(Cell::get) == 0 { None } else { Python::try_attach(work) }
}

/// Like [`if_held`], for futures that only our own entry points poll.
///
/// # Errors
/// `RuntimeError` when they are polled elsewhere, for instance on a network thread.
pub(crate) fn require_held<R>(work: impl FnOnce(Python<'_>) -> PyResult<R>) -> PyResult<R> {
    if_held(work).unwrap_or_else(|| {
        Err(PyRuntimeError::new_err(
            "this future needs Python and was polled away from it; await it or use run_sync",
        ))
    })
}

/// Drops `value` from a destructor of a Python object.
///
/// Such a destructor runs with the GIL held and perhaps with an exception on its way; code run by the drop (a tool
/// that is cancelled) must neither lose nor see it.
pub(crate) fn drop_held<T>(value: T) {
    let mut slot = Some(value);
    Python::try_attach(|py| {
        let in_flight = PyErr::take(py);
        mark_held(py, || drop(slot.take()));
        if let Some(error) = in_flight {
            error.restore(py);
        }
    });
    // The interpreter is finalising: whatever the value wanted to say to Python is moot.
    drop(slot);
}

/// Registers the handlers for exit and fork. Called once, when the extension module is imported.
///
/// # Errors
/// Whatever `atexit` or `os` raise.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
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

/// `atexit`: ends our threads, refuses new ones and waits, without the GIL, until the last attached one has left.
#[pyfunction]
fn close_at_exit(py: Python<'_>) {
    super::background_loop::stop_all(py);
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        let mut state = lock(&EXIT_GATE.state);
        state.closed = true;
        while state.inside > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = EXIT_GATE.left.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    });
}

/// `fork`, in the child: the threads that were inside do not exist here.
#[pyfunction]
fn reopen_after_fork() {
    let mut state = lock(&EXIT_GATE.state);
    state.inside = 0;
}

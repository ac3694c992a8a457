//! Long computations, which must not hold a lock of the host language.

use std::sync::OnceLock;

use crate::runtime::{TaskError, spawn_blocking};

/// Calls its argument once, without the interpreter lock if this thread holds it.
pub type Runner = fn(&mut (dyn FnMut() + Send));

static RUNNER: OnceLock<Runner> = OnceLock::new();

/// [`offloaded`] works on data with fewer bytes at once: this takes about as long as the change of threads.
const SMALL: usize = 16 * 1024;

/// Sets how [`compute`] runs computations. The first call of a process counts.
pub fn set_runner(runner: Runner) {
    let _ = RUNNER.set(runner);
}

/// Runs a computation that may take more than a millisecond. Bindings release the interpreter lock meanwhile.
pub fn compute(work: &mut (dyn FnMut() + Send)) {
    match RUNNER.get() {
        Some(runner) => runner(work),
        None => work(),
    }
}

/// Runs a computation on `bytes` bytes of data, and returns its value.
///
/// Large data are processed on a thread for blocking work, so that the thread that polls the future (that of an event
/// loop) can do other work meanwhile.
///
/// # Errors
/// [`TaskError`] if the computation panics, or if there is no thread.
///
/// # Cancel safety
/// Dropping the future discards the value. A computation that has started on another thread runs to its end.
pub async fn offloaded<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    if bytes < SMALL { Ok(work()) } else { spawn_blocking(work).await }
}

//! Long computations, which must not hold a lock of the host language.

use std::sync::OnceLock;

/// Calls its argument once, without the interpreter lock if this thread holds it.
pub type Runner = fn(&mut (dyn FnMut() + Send));

static RUNNER: OnceLock<Runner> = OnceLock::new();

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

/// Runs a computation as [`compute`] does, and returns its value. `None` only if the runner does not call its argument.
pub fn computed<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let (mut work, mut value) = (Some(work), None);
    compute(&mut || value = work.take().map(|work| work()));
    value
}

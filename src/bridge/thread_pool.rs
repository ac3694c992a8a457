//! The thread pools that run synchronous tools.
//!
//! They are Python's `ThreadPoolExecutor`s, so that debuggers, profilers and the interpreter's exit handle their threads. A
//! tool can run another agent whose tools need threads. Each level of nesting has its own pool, so a full pool never
//! waits for itself.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard};

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::PyDict;

use super::gil::lock;
use super::imports;

/// Largest number of threads of one level. The pool starts them on demand.
const MAXIMUM_THREADS: usize = 32;

thread_local! {
    /// Level of nesting of this thread: 0 on the application's threads.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

static POOLS: PerDepth<Py<PyAny>> = PerDepth::new();

/// Resources with threads, one for each depth. A forked child has none of the threads and starts new ones.
pub(super) struct PerDepth<T>(Mutex<Resources<T>>);

struct Resources<T> {
    process: u32,
    by_depth: Vec<T>,
}

impl<T> PerDepth<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Resources { process: 0, by_depth: Vec::new() }))
    }

    /// What `share` returns for the resource of this thread's depth. `start` makes a missing resource; `stop` takes one
    /// that another thread was faster to make. Both are called unlocked, because they may call Python.
    pub(super) fn get<R>(
        &self,
        share: impl Fn(&T) -> R,
        start: impl Fn(usize) -> PyResult<T>,
        stop: impl Fn(T) -> PyResult<()>,
    ) -> PyResult<R> {
        loop {
            let missing = {
                let resources = self.lock();
                match resources.by_depth.get(depth()) {
                    Some(resource) => return Ok(share(resource)),
                    None => resources.by_depth.len(),
                }
            };
            let started = start(missing)?;
            let mut resources = self.lock();
            if resources.by_depth.len() == missing {
                resources.by_depth.push(started);
            } else {
                drop(resources);
                stop(started)?;
            }
        }
    }

    /// Removes all resources of this process.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.lock().by_depth)
    }

    fn lock(&self) -> MutexGuard<'_, Resources<T>> {
        let mut resources = lock(&self.0);
        let process = std::process::id();
        if resources.process != process {
            resources.process = process;
            // Not dropped: a pool would wait for locks of the parent's threads, which stay locked, and a loop would
            // unregister descriptors from the epoll object that it shares with the parent.
            std::mem::forget(std::mem::take(&mut resources.by_depth));
        }
        resources
    }
}

/// Level of nesting of the calling thread.
pub(crate) fn depth() -> usize {
    DEPTH.get()
}

/// Sets the depth of the thread that calls it.
#[pyclass(frozen, name = "_DepthMark", module = "turntree._core")]
pub(crate) struct DepthMark(pub(crate) usize);

#[pymethods]
impl DepthMark {
    fn __call__(&self) {
        DEPTH.set(self.0);
    }
}

/// The pool for calls that start on this thread.
///
/// # Errors
/// The exception of starting a `ThreadPoolExecutor`.
pub(crate) fn executor(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let executor = POOLS.get(|executor| executor.clone_ref(py), |depth| start(py, depth), |_| Ok(()))?;
    Ok(executor.into_bound(py))
}

fn start(py: Python<'_>, depth: usize) -> PyResult<Py<PyAny>> {
    let options = PyDict::new(py);
    options.set_item(intern!(py, "max_workers"), MAXIMUM_THREADS)?;
    options.set_item(intern!(py, "thread_name_prefix"), "turntree-tool")?;
    options.set_item(intern!(py, "initializer"), Py::new(py, DepthMark(depth.saturating_add(1)))?)?;
    imports::thread_pool_executor(py)?.call((), Some(&options)).map(Bound::unbind)
}

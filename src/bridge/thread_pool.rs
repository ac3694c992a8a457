//! The thread pools that run synchronous tools.
//!
//! They are Python's `ThreadPoolExecutor`s, so that debuggers, profilers and the interpreter's exit handle their threads. A
//! tool can run another agent whose tools need threads. Each level of nesting has its own pool, so a full pool never
//! waits for itself.

use std::cell::Cell;
use std::sync::Mutex;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::gil::lock;
use super::imports;

/// Largest number of threads of one level. The pool starts them on demand.
const MAXIMUM_THREADS: usize = 32;

thread_local! {
    /// Level of nesting of this thread: 0 on the application's threads.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The pools of this process by depth. A forked child has none of their threads and starts new ones.
static POOLS: Mutex<Pools> = Mutex::new(Pools { process: 0, executors: Vec::new() });

struct Pools {
    process: u32,
    executors: Vec<Py<PyAny>>,
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
    let depth = depth();
    loop {
        let (found, missing) = {
            let mut pools = lock(&POOLS);
            let process = std::process::id();
            if pools.process != process {
                pools.process = process;
                // Their threads exist in the parent only. Dropping them here would wait for locks that stay locked.
                std::mem::forget(std::mem::take(&mut pools.executors));
            }
            (pools.executors.get(depth).map(|executor| executor.clone_ref(py)), pools.executors.len())
        };
        if let Some(executor) = found {
            return Ok(executor.into_bound(py));
        }
        // Python is not called under the lock. If another thread was faster, this executor, still without threads, is dropped.
        let started = start(py, missing)?.unbind();
        let mut pools = lock(&POOLS);
        if pools.executors.len() == missing {
            pools.executors.push(started);
        }
    }
}

fn start(py: Python<'_>, depth: usize) -> PyResult<Bound<'_, PyAny>> {
    let options = PyDict::new(py);
    options.set_item(intern!(py, "max_workers"), MAXIMUM_THREADS)?;
    options.set_item(intern!(py, "thread_name_prefix"), "turntree-tool")?;
    options.set_item(intern!(py, "initializer"), Py::new(py, DepthMark(depth.saturating_add(1)))?)?;
    imports::thread_pool_executor(py)?.call((), Some(&options))
}

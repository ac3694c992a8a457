//! The background event loop that runs the async tools of `run_sync`.
//!
//! It runs in one daemon thread, started at first use. An async tool that calls `run_sync` blocks that loop, so the tools
//! of the inner call run on a second loop, one for each level of nesting.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::imports;
use super::loop_waker::LoopWaker;
use super::thread_pool::{DepthMark, PerDepth};

/// How long the process waits at exit for a tool that blocks a background loop.
const PATIENCE_SECONDS: f64 = 2.0;

static LOOPS: PerDepth<BackgroundLoop> = PerDepth::new();

struct BackgroundLoop {
    event_loop: Py<PyAny>,
    thread: Py<PyAny>,
    loop_waker: Arc<LoopWaker>,
}

/// The waker of the loop that runs async tools for this thread.
///
/// # Errors
/// The exception of starting a loop or a thread.
pub(crate) fn loop_waker(py: Python<'_>) -> PyResult<Arc<LoopWaker>> {
    LOOPS.get(
        |background| Arc::clone(&background.loop_waker),
        |depth| BackgroundLoop::start(py, depth),
        |surplus| surplus.stop(py),
    )
}

/// Stops all background loops when the process exits.
pub(crate) fn stop_all(py: Python<'_>) {
    for background in LOOPS.take().into_iter().rev() {
        if let Err(error) = background.stop(py) {
            error.write_unraisable(py, None);
        }
    }
}

impl BackgroundLoop {
    fn start(py: Python<'_>, depth: usize) -> PyResult<Self> {
        let event_loop = imports::new_event_loop(py)?.call0()?;
        let loop_waker = LoopWaker::of(&event_loop)?;
        event_loop
            .call_method1(intern!(py, "call_soon"), (Py::new(py, DepthMark(depth.saturating_add(1)))?,))?;
        let options = PyDict::new(py);
        // The thread's own frames are Python's only: at exit Python may end a daemon thread inside of them.
        let serve =
            py.import(intern!(py, "turntree._event_loop"))?.getattr(intern!(py, "run_until_stopped"))?;
        options.set_item(intern!(py, "target"), serve)?;
        options.set_item(intern!(py, "args"), (&event_loop,))?;
        options.set_item(intern!(py, "name"), "turntree-tools-loop")?;
        options.set_item(intern!(py, "daemon"), true)?;
        let thread = imports::thread(py)?.call((), Some(&options))?;
        thread.call_method0(intern!(py, "start"))?;
        Ok(Self { event_loop: event_loop.unbind(), thread: thread.unbind(), loop_waker })
    }

    /// Stops the loop, cancels its tasks and closes it.
    fn stop(self, py: Python<'_>) -> PyResult<()> {
        let event_loop = self.event_loop.bind(py);
        let stop = event_loop.getattr(intern!(py, "stop"))?;
        event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (stop,))?;
        let thread = self.thread.bind(py);
        thread.call_method1(intern!(py, "join"), (PATIENCE_SECONDS,))?;
        if thread.call_method0(intern!(py, "is_alive"))?.is_truthy()? {
            // A tool blocks the loop. It is a daemon thread: the process ends without it.
            std::mem::forget(self);
            return Ok(());
        }
        cancel_all(event_loop)?;
        event_loop.call_method0(intern!(py, "close"))?;
        Ok(())
    }
}

fn cancel_all(event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = event_loop.py();
    let tasks = PyList::empty(py);
    for task in imports::all_tasks(py)?.call1((event_loop,))?.try_iter()? {
        let task = task?;
        task.call_method0(intern!(py, "cancel"))?;
        tasks.append(task)?;
    }
    if tasks.is_empty() {
        return Ok(());
    }
    let options = PyDict::new(py);
    options.set_item(intern!(py, "return_exceptions"), true)?;
    let gathered = imports::gather(py)?.call(PyTuple::new(py, tasks.iter())?, Some(&options))?;
    event_loop.call_method1(intern!(py, "run_until_complete"), (gathered,))?;
    Ok(())
}

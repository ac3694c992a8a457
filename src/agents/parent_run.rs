//! The run inside of whose tool Python code is: a context variable, set around each tool. UAP-1.0 §8.3, §8.4, decision A90.
//!
//! So `await helper.run("…")` in a tool is a run of that run's: it borrows the model, counts the depth and names its
//! parent. Context variables go with tasks, and into the threads of synchronous tools.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bridge::context::CallerContext;
use turntree_agents::host::{Host, RunContext};
use turntree_agents::types::ParentRun;

/// What the variable holds.
#[pyclass(frozen, module = "turntree._core")]
struct EnclosingRun(Arc<ParentRun>);

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let make = py.import("contextvars")?.getattr("ContextVar")?;
        Ok(make.call1(("turntree_enclosing_run",))?.unbind())
    };
    VARIABLE.get_or_try_init(py, make).map(|variable| variable.bind(py))
}

/// The run that this code is inside of.
///
/// # Errors
/// Only when Python fails, as out of memory.
pub(crate) fn current(py: Python<'_>) -> PyResult<Option<Arc<ParentRun>>> {
    let found = variable(py)?.call_method1(intern!(py, "get"), (py.None(),))?;
    Ok(found.cast::<EnclosingRun>().ok().map(|run| Arc::clone(&run.get().0)))
}

/// The place that a run was started from, as its tools see it.
///
/// # Errors
/// Only when Python fails, as out of memory.
pub(super) fn entered(
    py: Python<'_>,
    caller: &CallerContext,
    enclosing: &Arc<ParentRun>,
) -> PyResult<CallerContext> {
    let run = Bound::new(py, EnclosingRun(Arc::clone(enclosing)))?;
    caller.with_variable(variable(py)?, run.as_any())
}

/// Where a run starts from that is started here. One that a thread waits for is stopped with the run that it is inside
/// of; one that a task awaits is cancelled with its task.
///
/// # Errors
/// As [`current`].
pub(super) fn run_context(py: Python<'_>, host: Arc<dyn Host>, waits: bool) -> PyResult<RunContext> {
    let Some(enclosing) = current(py)? else { return Ok(RunContext::new(host)) };
    let context = RunContext::inside(host, &enclosing);
    Ok(if waits { context } else { RunContext { cancellation: None, ..context } })
}

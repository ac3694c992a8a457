//! The run that calls a tool, as a context variable that is set during each tool call.
//!
//! A run that is started in a tool, such as `await helper.run("…")`, becomes a sub-run: it inherits the model, its depth is
//! counted and its parent is recorded. Tasks and the threads of synchronous tools inherit context variables.
//!
//! Spec: UAP-1.0 §8.3, §8.4, decision A90.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bridge::context::CallerContext;
use crate::bridge::gc::garbage_collected;
use turntree_agents::host::{Host, RunContext};
use turntree_agents::types::ParentRun;

/// The value of the context variable.
#[pyclass(frozen, module = "turntree._core")]
struct ParentRunValue {
    run: Arc<ParentRun>,
    /// The dependencies of the run.
    deps: Option<Py<PyAny>>,
}

garbage_collected!(ParentRunValue: deps);

/// The run whose tool some code runs in, and its dependencies.
pub(super) struct Enclosing {
    run: Arc<ParentRun>,
    pub(super) deps: Option<Py<PyAny>>,
}

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let make = py.import("contextvars")?.getattr("ContextVar")?;
        Ok(make.call1(("turntree_enclosing_run",))?.unbind())
    };
    VARIABLE.get_or_try_init(py, make).map(|variable| variable.bind(py))
}

/// Returns the run whose tool this code runs in.
///
/// # Errors
/// Only if Python fails, for example out of memory.
pub(super) fn current(py: Python<'_>) -> PyResult<Option<Enclosing>> {
    let value = variable(py)?.call_method1(intern!(py, "get"), (py.None(),))?;
    Ok(value.cast::<ParentRunValue>().ok().map(|value| {
        let ParentRunValue { run, deps } = value.get();
        Enclosing { run: Arc::clone(run), deps: deps.as_ref().map(|deps| deps.clone_ref(py)) }
    }))
}

/// Returns the context of a run's tools: runs that they start become sub-runs of `parent`.
///
/// # Errors
/// Only if Python fails, for example out of memory.
pub(super) fn entered(
    py: Python<'_>,
    caller: &CallerContext,
    parent: &Arc<ParentRun>,
    deps: Option<Py<PyAny>>,
) -> PyResult<CallerContext> {
    let run = Bound::new(py, ParentRunValue { run: Arc::clone(parent), deps })?;
    caller.with_variable(variable(py)?, run.as_any())
}

/// Returns the context of a run that is started inside `parent`. If a thread waits for the run, it is stopped with its parent
/// run; if a task awaits it, it is cancelled with the task.
pub(super) fn run_context(host: Arc<dyn Host>, parent: Option<Enclosing>, waits: bool) -> RunContext {
    let Some(parent) = parent else { return RunContext::new(host) };
    let context = RunContext::inside(host, &parent.run);
    if waits { context } else { RunContext { cancellation: None, ..context } }
}

//! The run that calls a tool, as a context variable that is set during each tool call.
//!
//! A run that is started in a tool, such as `await helper.run("…")`, becomes a sub-run: it inherits the model, its depth is
//! counted and its parent is recorded. Tasks and the threads of synchronous tools inherit context variables.
//!
//! Spec: UAP-1.0 §8.3, §8.4, decision A90.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::context::CallerContext;
use crate::bridge::gc::{Collect, garbage_collected};
use turntree_agents::host::{Host, RunContext, StrategyRunsHandle};
use turntree_agents::types::ParentRun;

/// The value of the context variable.
#[pyclass(frozen, module = "turntree._core")]
struct ParentRunValue {
    run: Arc<ParentRun>,
    lent: Lent,
    /// The runs of the strategy that the code belongs to, if it is one.
    strategy_runs: Option<StrategyRunsHandle>,
}

/// What a run lends to the runs inside it.
#[derive(Default)]
pub(super) struct Lent {
    /// The dependencies of the run.
    pub(super) deps: Option<Py<PyAny>>,
    /// The functions that decide about calls whose approval says "ask", innermost first: a tuple.
    pub(super) approvers: Option<Py<PyTuple>>,
}

impl Lent {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        let deps = self.deps.as_ref().map(|deps| deps.clone_ref(py));
        Self { deps, approvers: self.approvers.as_ref().map(|approvers| approvers.clone_ref(py)) }
    }
}

impl Collect for Lent {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.deps.traverse(visit)?;
        self.approvers.traverse(visit)
    }
}

garbage_collected!(ParentRunValue: lent);

/// The run whose tool some code runs in, and what it lends.
pub(super) struct Enclosing {
    run: Arc<ParentRun>,
    pub(super) lent: Lent,
    strategy_runs: Option<StrategyRunsHandle>,
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
        let ParentRunValue { run, lent, strategy_runs } = value.get();
        Enclosing { run: Arc::clone(run), lent: lent.clone_ref(py), strategy_runs: strategy_runs.clone() }
    }))
}

/// Return the functions that decide about calls of the run whose tool runs here, innermost first.
#[pyfunction]
pub(crate) fn _approvers(py: Python<'_>) -> PyResult<Py<PyTuple>> {
    let approvers = current(py)?.and_then(|enclosing| enclosing.lent.approvers);
    Ok(approvers.unwrap_or_else(|| PyTuple::empty(py).unbind()))
}

/// Returns the context of a run's tools, or of its strategy: runs that they start become sub-runs of `parent`.
///
/// # Errors
/// Only if Python fails, for example out of memory.
pub(super) fn entered(
    py: Python<'_>,
    caller: &CallerContext,
    parent: &Arc<ParentRun>,
    lent: Lent,
    strategy_runs: Option<StrategyRunsHandle>,
) -> PyResult<CallerContext> {
    let run = Bound::new(py, ParentRunValue { run: Arc::clone(parent), lent, strategy_runs })?;
    caller.with_variable(variable(py)?, run.as_any())
}

/// Returns the context of a run that is started inside `parent`. If a thread waits for the run, it is stopped with its parent
/// run; if a task awaits it, it is cancelled with the task.
pub(super) fn run_context(host: Arc<dyn Host>, parent: Option<Enclosing>, waits: bool) -> RunContext {
    let Some(parent) = parent else { return RunContext::new(host) };
    let strategy_runs = parent.strategy_runs;
    let context = RunContext { strategy_runs, ..RunContext::inside(host, &parent.run) };
    if waits { context } else { RunContext { cancellation: None, ..context } }
}

//! [`CallerContext`]: the event loop and the context variables with which a run was started.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3_async_runtimes::TaskLocals;

use super::loop_waker::LoopWaker;
use super::{gil, imports, sync};

/// The caller's event loop and a snapshot of its context variables, taken when the run is started.
///
/// Cheap to clone, also without the GIL.
#[derive(Clone)]
pub(crate) struct CallerContext {
    /// Loop (`None` for `run_sync`) and context.
    locals: TaskLocals,
    loop_waker: Option<Arc<LoopWaker>>,
}

impl CallerContext {
    /// For `run` and `stream`: tools run on the loop that is running now.
    ///
    /// Without a running loop this is [`CallerContext::without_loop`].
    ///
    /// # Errors
    /// The exceptions of creating the loop's waker.
    pub(crate) fn capture(py: Python<'_>) -> PyResult<Self> {
        gil::protect_thread();
        // A loop that is blocked by `run_sync` would never run the tools.
        let running = if sync::is_blocking_loop(py)? { None } else { LoopWaker::current(py)? };
        let Some((event_loop, loop_waker)) = running else { return Self::without_loop(py) };
        let context = imports::copy_context(py)?.call0()?;
        Ok(Self { locals: TaskLocals::new(event_loop).with_context(context), loop_waker: Some(loop_waker) })
    }

    /// For `run_sync`: async tools run on the background loop, even if a loop is running on this thread.
    pub(crate) fn without_loop(py: Python<'_>) -> PyResult<Self> {
        gil::protect_thread();
        let context = imports::copy_context(py)?.call0()?;
        Ok(Self { locals: TaskLocals::new(py.None().into_bound(py)).with_context(context), loop_waker: None })
    }

    /// The running loop, if there is one, without context variables.
    ///
    /// # Errors
    /// The exceptions of creating the loop's waker.
    pub(crate) fn without_variables(py: Python<'_>) -> PyResult<Self> {
        gil::protect_thread();
        let context = py.import(intern!(py, "contextvars"))?.getattr(intern!(py, "Context"))?.call0()?;
        let (event_loop, loop_waker) = match LoopWaker::current(py)? {
            Some((event_loop, loop_waker)) => (event_loop, Some(loop_waker)),
            None => (py.None().into_bound(py), None),
        };
        Ok(Self { locals: TaskLocals::new(event_loop).with_context(context), loop_waker })
    }

    /// The same context variables with the running loop; unchanged if no loop is running.
    pub(crate) fn on_running_loop(&self, py: Python<'_>) -> PyResult<Self> {
        let Some((event_loop, loop_waker)) = LoopWaker::current(py)? else { return Ok(self.clone()) };
        let locals = TaskLocals::new(event_loop).with_context(self.locals.context(py));
        Ok(Self { locals, loop_waker: Some(loop_waker) })
    }

    /// A copy with a context variable set.
    pub(crate) fn with_variable(
        &self,
        variable: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = variable.py();
        let copy = self.forked(py)?;
        let set = variable.getattr(intern!(py, "set"))?;
        copy.locals.context(py).call_method1(intern!(py, "run"), (set, value))?;
        Ok(copy)
    }

    /// A copy of the context, for each of several parallel tools: a context can be entered only once at a time.
    pub(crate) fn context_copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.locals.context(py).call_method0(intern!(py, "copy"))
    }

    /// A copy with separate context variables: changes do not affect other copies.
    pub(crate) fn forked(&self, py: Python<'_>) -> PyResult<Self> {
        let locals = TaskLocals::new(self.locals.event_loop(py)).with_context(self.context_copy(py)?);
        Ok(Self { locals, loop_waker: self.loop_waker.clone() })
    }

    /// Calls `function` with these context variables. The function must not call this again: a context cannot be entered
    /// twice.
    ///
    /// # Errors
    /// The function's exception.
    pub(crate) fn run<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = function.py();
        self.locals.context(py).call_method1(intern!(py, "run"), (function,))
    }

    /// The waker of the caller's loop; `None` for `run_sync`.
    pub(crate) fn loop_waker(&self) -> Option<&Arc<LoopWaker>> {
        self.loop_waker.as_ref()
    }
}

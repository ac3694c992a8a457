//! Where a run was started from: its event loop and its context variables.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3_async_runtimes::TaskLocals;

use super::loop_waker::LoopWaker;
use super::{imports, sync};

/// The caller's event loop and a snapshot of its context variables, taken when the run is started.
///
/// Cheap to clone, also away from the GIL.
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
    /// What hanging up the loop's bell raises at its first use.
    pub(crate) fn capture(py: Python<'_>) -> PyResult<Self> {
        // A loop that stands still under `run_sync` would never come to run what it is asked to.
        let running = if sync::is_blocking_loop(py)? { None } else { LoopWaker::current(py)? };
        let Some((event_loop, loop_waker)) = running else { return Self::without_loop(py) };
        let context = imports::copy_context(py)?.call0()?;
        Ok(Self { locals: TaskLocals::new(event_loop).with_context(context), loop_waker: Some(loop_waker) })
    }

    /// For `run_sync`: async tools run on a loop of ours, whatever loop is running on this thread.
    pub(crate) fn without_loop(py: Python<'_>) -> PyResult<Self> {
        let context = imports::copy_context(py)?.call0()?;
        Ok(Self { locals: TaskLocals::new(py.None().into_bound(py)).with_context(context), loop_waker: None })
    }

    /// The same context variables on the loop that is running now; without one, as it is.
    pub(crate) fn on_running_loop(&self, py: Python<'_>) -> PyResult<Self> {
        let Some((event_loop, loop_waker)) = LoopWaker::current(py)? else { return Ok(self.clone()) };
        let locals = TaskLocals::new(event_loop).with_context(self.locals.context(py));
        Ok(Self { locals, loop_waker: Some(loop_waker) })
    }

    /// The same place with a context variable set.
    pub(crate) fn with_variable(
        &self,
        variable: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = variable.py();
        let context = self.context_copy(py)?;
        context.call_method1(intern!(py, "run"), (variable.getattr(intern!(py, "set"))?, value))?;
        let locals = TaskLocals::new(self.locals.event_loop(py)).with_context(context);
        Ok(Self { locals, loop_waker: self.loop_waker.clone() })
    }

    /// A fresh copy of the context: one context cannot be entered twice at a time, and parallel tools do.
    pub(crate) fn context_copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.locals.context(py).call_method0(intern!(py, "copy"))
    }

    /// The same place with context variables of its own: setting one there changes nobody else's.
    pub(crate) fn forked(&self, py: Python<'_>) -> PyResult<Self> {
        let locals = TaskLocals::new(self.locals.event_loop(py)).with_context(self.context_copy(py)?);
        Ok(Self { locals, loop_waker: self.loop_waker.clone() })
    }

    /// Calls `function` with these context variables. Not for functions that come to run it again: a context cannot be
    /// entered twice.
    ///
    /// # Errors
    /// What the function raises.
    pub(crate) fn run<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = function.py();
        self.locals.context(py).call_method1(intern!(py, "run"), (function,))
    }

    /// The bell of the caller's loop; `None` for `run_sync`.
    pub(crate) fn loop_waker(&self) -> Option<&Arc<LoopWaker>> {
        self.loop_waker.as_ref()
    }
}

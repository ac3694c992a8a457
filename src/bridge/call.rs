//! Calling Python tools from a Rust future.
//!
//! | mode | runs | context variables | dropped future |
//! |---|---|---|---|
//! | [`CallMode::Task`] | as its own task on the caller's loop | the caller's, copied | cancels the task |
//! | [`CallMode::Thread`] | in a thread of the pool | the caller's, copied | a call that has not started is not made |
//! | [`CallMode::Inline`] | at once, where the future is polled | the caller's, copied | – |
//!
//! An async tool gets its own task instead of an await inside the run, so that `asyncio.timeout` and `current_task()` in
//! the tool refer to the tool. An exception is returned as the same object. If a synchronous call returns an awaitable
//! (a lambda around an async function), the awaitable is awaited.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyTuple};

use super::context::CallerContext;
use super::pending_call::{PendingCall, TaskSource, is_awaitable};
use super::{gil, imports};

/// Where a tool runs; see the table in the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// For async callables.
    Task,
    /// For synchronous callables, unless they are marked inline.
    Thread,
    /// For synchronous callables that return quickly.
    Inline,
}

impl CallMode {
    /// The mode of `callable`: a task if it is declared async, otherwise inline or in a thread.
    pub(crate) fn of(callable: &Bound<'_, PyAny>, inline: bool) -> PyResult<Self> {
        gil::protect_thread();
        let py = callable.py();
        let is_async = |object: &Bound<'_, PyAny>| -> PyResult<bool> {
            imports::is_coroutine_function(py)?.call1((object,))?.is_truthy()
        };
        if is_async(callable)? || is_async(&callable.getattr(intern!(py, "__call__"))?)? {
            return Ok(Self::Task);
        }
        Ok(if inline { Self::Inline } else { Self::Thread })
    }
}

/// The arguments of a call.
pub(crate) struct Arguments {
    /// Positional arguments.
    pub(crate) positional: Py<PyTuple>,
    /// Keyword arguments.
    pub(crate) keywords: Option<Py<PyDict>>,
}

/// Calls `callable` when first polled; ready with its return value or exception.
///
/// Any thread may poll it. Inside our coroutines and `run_sync` it calls directly, elsewhere on the caller's loop.
///
/// # Cancel safety
/// Dropping it cancels the tool; see the table in the module documentation. The [`super::cleanup::CleanupScope`] in which
/// `call` was called counts the tool until it has ended.
pub(crate) fn call(
    callable: Py<PyAny>,
    arguments: Arguments,
    mode: CallMode,
    caller: &CallerContext,
) -> Call {
    let invocation = Some(Invocation { callable, arguments, mode });
    Call { pending: PendingCall::new(caller.clone()), invocation }
}

impl Call {
    /// Sets the name of the call for the warning about a cleanup that takes too long.
    pub(crate) fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        if let Some(pending) = Arc::get_mut(&mut self.pending) {
            pending.set_name(name.into());
        }
        self
    }
}

/// The future of [`call`].
pub(crate) struct Call {
    pending: Arc<PendingCall>,
    /// `None` once the call is made.
    invocation: Option<Invocation>,
}

/// A call that has not been made.
pub(super) struct Invocation {
    callable: Py<PyAny>,
    arguments: Arguments,
    pub(super) mode: CallMode,
}

impl Future for Call {
    type Output = PyResult<Py<PyAny>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(invocation) = self.invocation.take()
            && let Err(error) = start(&self.pending, invocation)
        {
            return Poll::Ready(Err(error));
        }
        self.pending.poll(context.waker())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.pending.abandon();
    }
}

fn start(pending: &Arc<PendingCall>, invocation: Invocation) -> PyResult<()> {
    let mut waiting = Some(invocation);
    let started = gil::if_held(|py| waiting.take().map(|invocation| start_here(py, pending, invocation)));
    match (started.flatten(), waiting, pending.caller().loop_waker()) {
        (Some(started), ..) => started,
        // Polled without the GIL: the caller's loop makes the call.
        (None, Some(invocation), Some(loop_waker)) => {
            pending.dispatch(loop_waker, TaskSource::Call(invocation));
            Ok(())
        }
        _ => Err(PyRuntimeError::new_err(
            "a Python tool was called without an event loop from a thread that Python did not start",
        )),
    }
}

fn start_here(py: Python<'_>, pending: &Arc<PendingCall>, invocation: Invocation) -> PyResult<()> {
    match invocation.mode {
        CallMode::Task => pending.start(py, TaskSource::Call(invocation)),
        CallMode::Thread => pending.start_in_thread(py, &invocation),
        CallMode::Inline => {
            let value = invocation.run_in(&pending.caller().context_copy(py)?)?;
            if is_awaitable(&value) {
                return pending.start(py, TaskSource::Await(value.unbind()));
            }
            pending.complete(Ok(value.unbind()));
            Ok(())
        }
    }
}

impl Invocation {
    /// Calls in `context`, on this thread.
    pub(super) fn run_in<'py>(&self, context: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = context.py();
        context.call_method(intern!(py, "run"), self.positional(py, None)?, self.keywords(py))
    }

    /// `(first, callable, *positional)`.
    pub(super) fn positional<'py>(
        &self,
        py: Python<'py>,
        first: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut all: Vec<_> = first.into_iter().collect();
        all.push(self.callable.bind(py).clone());
        all.extend(self.arguments.positional.bind(py).iter());
        PyTuple::new(py, all)
    }

    pub(super) fn keywords<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyDict>> {
        self.arguments.keywords.as_ref().map(|keywords| keywords.bind(py))
    }
}

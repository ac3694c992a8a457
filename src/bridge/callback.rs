//! Calling Python tools from a Rust future.
//!
//! | mode | runs | context variables | dropped future |
//! |---|---|---|---|
//! | [`CallMode::Task`] | as its own task on the caller's loop | the caller's, copied | cancels the task |
//! | [`CallMode::Thread`] | in a thread of ours | the caller's, copied | a call that has not begun never begins |
//! | [`CallMode::Inline`] | at once, where the future is polled | the caller's, copied | – |
//!
//! A task of its own, and not an await inside the run, so that `asyncio.timeout` and `current_task()` in a tool act
//! on the tool. An exception comes back as the same object. A synchronous call that returns an awaitable (a lambda
//! around an async function) is awaited as if it had been declared async.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::context::CallerContext;
use super::flight::{Flight, Work, is_awaitable, lost};
use super::{guard, names};

/// Where a tool runs; the table above says what that means.
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
    ///
    /// # Errors
    /// Only what importing `inspect` raises.
    pub(crate) fn of(callable: &Bound<'_, PyAny>, inline: bool) -> PyResult<Self> {
        let py = callable.py();
        let is_async = |object: &Bound<'_, PyAny>| -> PyResult<bool> {
            names::is_coroutine_function(py)?.call1((object,))?.is_truthy()
        };
        if is_async(callable)? || is_async(&callable.getattr(intern!(py, "__call__"))?)? {
            return Ok(Self::Task);
        }
        Ok(if inline { Self::Inline } else { Self::Thread })
    }
}

/// What a callable is called with.
pub(crate) struct Arguments {
    /// The positional ones.
    pub(crate) positional: Py<PyTuple>,
    /// The keyword ones.
    pub(crate) keywords: Option<Py<PyDict>>,
}

/// Calls `callable` when first polled; ends with what it returns or raises.
///
/// May be polled anywhere: inside our coroutines and `run_sync` it calls directly, elsewhere it asks the caller's loop.
///
/// # Cancel safety
/// Dropping it cancels the tool, as the module's table says.
pub(crate) fn call(
    callable: Py<PyAny>,
    arguments: Arguments,
    mode: CallMode,
    caller: &CallerContext,
) -> Call {
    Call { caller: caller.clone(), stage: Stage::New(Some(Invocation { callable, arguments, mode })) }
}

/// The future of [`call`].
pub(crate) struct Call {
    caller: CallerContext,
    stage: Stage,
}

enum Stage {
    New(Option<Invocation>),
    Running(Arc<Flight>),
    Over,
}

/// A call that has not happened.
pub(super) struct Invocation {
    callable: Py<PyAny>,
    arguments: Arguments,
    pub(super) mode: CallMode,
}

impl Future for Call {
    type Output = PyResult<Py<PyAny>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::New(waiting) = &mut self.stage {
            let invocation = waiting.take();
            match launch(&self.caller, invocation) {
                Launched::Landed(outcome) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(outcome);
                }
                Launched::Flying(flight) => self.stage = Stage::Running(flight),
            }
        }
        let Stage::Running(flight) = &self.stage else { return Poll::Pending };
        let polled = flight.poll(context.waker());
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        polled
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Stage::Running(flight) = std::mem::replace(&mut self.stage, Stage::Over) {
            flight.abandon();
        }
    }
}

enum Launched {
    Landed(PyResult<Py<PyAny>>),
    Flying(Arc<Flight>),
}

impl From<PyResult<Self>> for Launched {
    fn from(result: PyResult<Self>) -> Self {
        result.unwrap_or_else(|error| Self::Landed(Err(error)))
    }
}

fn launch(caller: &CallerContext, mut waiting: Option<Invocation>) -> Launched {
    let flight = Flight::new(caller.clone());
    let launched = guard::held(|py| {
        let Some(invocation) = waiting.take() else { return Launched::Landed(Err(lost())) };
        match invocation.mode {
            CallMode::Task => {
                flight.send(py, Work::Call(invocation)).map(|()| Launched::Flying(Arc::clone(&flight))).into()
            }
            CallMode::Thread => {
                flight.fly_thread(py, &invocation).map(|()| Launched::Flying(Arc::clone(&flight))).into()
            }
            CallMode::Inline => call_inline(py, &flight, &invocation).into(),
        }
    });
    match (launched, waiting, caller.bell()) {
        (Some(launched), ..) => launched,
        // Polled away from Python: the caller's loop does it all, in its own time.
        (None, Some(invocation), Some(bell)) => {
            flight.dispatch(bell, Work::Call(invocation));
            Launched::Flying(flight)
        }
        (None, _, None) => Launched::Landed(Err(PyRuntimeError::new_err(
            "a Python tool was called without an event loop from a thread that Python does not know",
        ))),
        (None, None, _) => Launched::Landed(Err(lost())),
    }
}

fn call_inline(py: Python<'_>, flight: &Arc<Flight>, invocation: &Invocation) -> PyResult<Launched> {
    let value = invocation.run_in(&flight.context_copy(py)?)?;
    if !is_awaitable(&value) {
        return Ok(Launched::Landed(Ok(value.unbind())));
    }
    flight.send(py, Work::Await(value.unbind()))?;
    Ok(Launched::Flying(Arc::clone(flight)))
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

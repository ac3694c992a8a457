//! A Rust future as a Python coroutine, polled by the event loop's own thread.
//!
//! `send` polls. A ready value becomes `StopIteration(value)` without an iteration of the loop (0.5 µs for the whole
//! await). A pending future suspends the task on an asyncio future, which the waker completes. `throw` and `close` drop the
//! Rust future before they return. After `throw`, a coroutine with a [`CleanupScope`] waits until the Python calls of the
//! future have ended, so all its work has stopped when the task sees its `CancelledError`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::prelude::*;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::{BoundObject, IntoPyObject};

use super::cleanup::{CleanupScope, Waits};
use super::gc::{Collect as _, GcRoots};
use super::gil::{self, lock};
use super::loop_waker::SignalScope;
use super::task_waker::TaskWaker;

/// The future of a coroutine.
pub(crate) type BoxedRun = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>> + Send>>;

/// A native coroutine for ``await``, ``create_task``, ``gather``, ``wait_for``, task groups and
/// ``asyncio.run``.
///
/// If its task is cancelled, the Rust future is dropped before the task continues.
#[pyclass(frozen, weakref, name = "Coroutine", module = "turntree._core")]
pub(crate) struct Coroutine {
    name: &'static str,
    run: Mutex<Run>,
    task_waker: Arc<TaskWaker>,
    waker: Waker,
    roots: GcRoots,
    /// The cancelled calls of the future, if an interrupted coroutine waits for them.
    cleanup: Option<CleanupScope>,
    /// Whether an exception was thrown in.
    is_interrupted: AtomicBool,
}

enum Run {
    Suspended(BoxedRun),
    Polling,
    Over,
}

impl Coroutine {
    /// A coroutine that runs `future` and converts its value. `name` is shown in reprs of tasks; `roots` holds the Python
    /// objects of the future.
    pub(crate) fn new<T>(
        name: &'static str,
        roots: GcRoots,
        future: impl Future<Output = PyResult<T>> + Send + 'static,
    ) -> Self
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        Self::from_boxed(
            name,
            roots,
            Box::pin(async move {
                let value = future.await?;
                gil::require_held(|py| into_any(py, value))
            }),
        )
    }

    /// As [`Coroutine::new`], for a boxed future that returns a Python object.
    pub(crate) fn from_boxed(name: &'static str, roots: GcRoots, run: BoxedRun) -> Self {
        let task_waker = TaskWaker::new();
        let waker = task_waker.waker();
        Self {
            name,
            run: Mutex::new(Run::Suspended(run)),
            task_waker,
            waker,
            roots,
            cleanup: None,
            is_interrupted: AtomicBool::new(false),
        }
    }

    /// The same coroutine. If it is interrupted, it waits for the cancelled calls of `cleanup`. A second interruption ends
    /// the wait.
    pub(crate) fn with_cleanup(mut self, cleanup: CleanupScope) -> Self {
        self.cleanup = Some(cleanup);
        self
    }

    /// Polls once.
    pub(super) fn resume(&self, py: Python<'_>) -> PyResult<Resumed> {
        let mut polling = self.check_out()?;
        self.task_waker.start_poll();
        // What runs in a poll may start a function in another thread, and so may be what a person wants to stop.
        let signals = SignalScope::enter(py);
        let polled = gil::mark_held(py, || polling.poll(&self.waker));
        match polled {
            Poll::Pending => match self.task_waker.suspend(py) {
                Ok(suspension) => {
                    polling.suspend();
                    Ok(Resumed::Suspended(suspension))
                }
                Err(error) => {
                    gil::mark_held(py, || drop(polling));
                    Err(error)
                }
            },
            Poll::Ready(outcome) => {
                gil::mark_held(py, || drop(polling));
                signals.end();
                outcome.map(Resumed::Done).map_err(|error| no_stop_iteration(py, error))
            }
        }
    }

    fn check_out(&self) -> PyResult<Polling<'_>> {
        let mut run = lock(&self.run);
        match std::mem::replace(&mut *run, Run::Polling) {
            Run::Suspended(future) => Ok(Polling { home: &self.run, future: Some(future) }),
            Run::Polling => Err(PyValueError::new_err("coroutine already executing")),
            Run::Over => {
                *run = Run::Over;
                Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
            }
        }
    }

    /// Drops the future and the suspended task's asyncio future.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let polling = self.check_out()?;
        gil::mark_held(py, || self.in_scope(|| drop(polling)));
        self.task_waker.clear();
        Ok(())
    }

    /// Stops the future, waits for its cancelled calls and raises `error`.
    fn interrupt(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        self.stop(py)?;
        let is_first = !self.is_interrupted.swap(true, Ordering::Relaxed);
        let Some(scope) = self.cleanup.as_ref().filter(|scope| is_first && !scope.is_settled()) else {
            return Err(error);
        };
        let settled = scope.settled(waits_of(py, &self.task_waker));
        let wait = async move {
            settled.await;
            Err(error)
        };
        *lock(&self.run) = Run::Suspended(Box::pin(wait));
        match self.resume(py)? {
            Resumed::Suspended(suspension) => Ok(suspension),
            Resumed::Done(value) => Err(PyStopIteration::new_err((value,))),
        }
    }

    /// Runs `work` in the scope of the run.
    fn in_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.cleanup {
            Some(scope) => scope.enter(work),
            None => work(),
        }
    }

    fn end(&self) {
        let run = std::mem::replace(&mut *lock(&self.run), Run::Over);
        self.in_scope(|| drop(run));
        self.task_waker.clear();
        self.roots.clear();
    }
}

/// The future while it is polled. Drops the future unless it is put back, also if the poll panics.
struct Polling<'a> {
    home: &'a Mutex<Run>,
    future: Option<BoxedRun>,
}

impl Polling<'_> {
    fn poll(&mut self, waker: &Waker) -> Poll<PyResult<Py<PyAny>>> {
        match self.future.as_mut() {
            Some(future) => future.as_mut().poll(&mut Context::from_waker(waker)),
            None => Poll::Pending,
        }
    }

    fn suspend(mut self) {
        if let Some(future) = self.future.take() {
            *lock(self.home) = Run::Suspended(future);
        }
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        // `None` after `suspend`, which puts the future back.
        if let Some(future) = self.future.take() {
            *lock(self.home) = Run::Over;
            drop(future);
        }
    }
}

/// Gives a class the methods of an awaitable. Its `resume` polls once; its `stop` ends the wait.
macro_rules! awaitable {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            fn __await__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __iter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
                use $crate::bridge::coroutine::Resumed::{Done, Suspended};
                match self.resume(py)? {
                    Suspended(suspension) => Ok(Some(suspension)),
                    // `None` ends the iteration without an exception object.
                    Done(value) if value.is_none(py) => Ok(None),
                    Done(value) => Err(::pyo3::exceptions::PyStopIteration::new_err((value,))),
                }
            }

            /// Polls once: returns a future for the event loop, or raises `StopIteration` with the result.
            fn send(&self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                use $crate::bridge::coroutine::Resumed::{Done, Suspended};
                match self.resume(py)? {
                    Suspended(suspension) => Ok(suspension),
                    Done(value) => Err(::pyo3::exceptions::PyStopIteration::new_err((value,))),
                }
            }

            /// Stops waiting and raises the exception, after cancelled functions have ended.
            #[pyo3(signature = (kind, value=None, traceback=None))]
            fn throw(
                &self,
                py: Python<'_>,
                kind: Bound<'_, PyAny>,
                value: Option<Bound<'_, PyAny>>,
                traceback: Option<Bound<'_, PyAny>>,
            ) -> PyResult<Py<PyAny>> {
                self.interrupt(py, $crate::bridge::coroutine::thrown(kind, value, traceback))
            }
        }
    };
}
pub(super) use awaitable;

/// What one poll of an awaitable returns.
pub(super) enum Resumed {
    /// The object that the coroutine yields to the event loop.
    Suspended(Py<PyAny>),
    /// The result.
    Done(Py<PyAny>),
}

awaitable!(Coroutine);

#[pymethods]
impl Coroutine {
    /// Stops the Rust future.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if matches!(*lock(&self.run), Run::Over) { Ok(()) } else { self.stop(py) }
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    #[getter]
    fn __qualname__(&self) -> &'static str {
        self.name
    }

    /// True while it is polled.
    #[getter]
    fn cr_running(&self) -> bool {
        matches!(*lock(&self.run), Run::Polling)
    }

    fn __repr__(&self) -> String {
        let state = match *lock(&self.run) {
            Run::Suspended(_) => "suspended",
            Run::Polling => "running",
            Run::Over => "finished",
        };
        format!("<turntree coroutine {} {state}>", self.name)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 calls")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.task_waker.traverse(&visit)?;
        self.roots.traverse(&visit)
    }

    fn __clear__(&self) {
        gil::in_destructor(|| self.end());
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        if !matches!(*lock(&self.run), Run::Over) {
            gil::in_destructor(|| self.end());
        }
    }
}

/// The calls that an interrupted task waits for. A person who stops a run does not wait for functions that cannot be
/// stopped.
pub(super) fn waits_of(py: Python<'_>, task_waker: &TaskWaker) -> Waits {
    let by_user = task_waker.loop_waker().is_some_and(|loop_waker| loop_waker.is_interrupted(py));
    if by_user { Waits::Tasks } else { Waits::AllCalls }
}

/// The exception of `throw(kind, value, traceback)`.
pub(crate) fn thrown(
    kind: Bound<'_, PyAny>,
    value: Option<Bound<'_, PyAny>>,
    traceback: Option<Bound<'_, PyAny>>,
) -> PyErr {
    let py = kind.py();
    let error = match value.filter(|value| !value.is_none()) {
        Some(value) if value.is_instance_of::<pyo3::exceptions::PyBaseException>() => {
            PyErr::from_value(value)
        }
        Some(value) => match kind.call1((value,)) {
            Ok(instance) => PyErr::from_value(instance),
            Err(error) => error,
        },
        None => PyErr::from_value(kind),
    };
    if let Some(Ok(traceback)) = traceback.map(Bound::cast_into) {
        error.set_traceback(py, Some(traceback));
    }
    error
}

/// Replaces `StopIteration`, which would be taken for a result (PEP 479).
pub(crate) fn no_stop_iteration(py: Python<'_>, error: PyErr) -> PyErr {
    let ends_iteration = error.is_instance_of::<PyStopIteration>(py)
        || error.is_instance_of::<pyo3::exceptions::PyStopAsyncIteration>(py);
    if !ends_iteration {
        return error;
    }
    let replacement = PyRuntimeError::new_err("coroutine raised an exception that ends iterations");
    replacement.set_cause(py, Some(error));
    replacement
}

/// Converts a value to a Python object.
pub(crate) fn into_any<T>(py: Python<'_>, value: T) -> PyResult<Py<PyAny>>
where
    T: for<'py> IntoPyObject<'py>,
{
    value.into_pyobject(py).map(|object| object.into_any().unbind()).map_err(Into::into)
}

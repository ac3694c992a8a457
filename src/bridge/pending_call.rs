//! [`PendingCall`]: a running Python call that a Rust future waits for.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Waker};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use super::call::{CallMode, Invocation};
use super::cleanup::{CancelledCallGuard, CleanupScope};
use super::context::CallerContext;
use super::gil::{self, lock};
use super::loop_waker::{self, LoopWaker};
use super::{background_loop, imports, thread_pool};

/// What a task runs: a call, or the awaitable that a synchronous call returned.
pub(super) enum TaskSource {
    Call(Invocation),
    Await(Py<PyAny>),
}

/// Shared by the Rust future and the done-callback of the Python future.
pub(super) struct PendingCall {
    caller: CallerContext,
    /// The name of the call for warnings; `None`: that of the coroutine.
    name: Option<Cow<'static, str>>,
    /// The scope that counts the call if it is abandoned.
    scope: Option<CleanupScope>,
    /// The loop of the task, once it is started.
    loop_waker: OnceLock<Arc<LoopWaker>>,
    state: Mutex<State>,
}

/// Python must not be called while this is locked.
#[derive(Default)]
struct State {
    handle: Option<Handle>,
    outcome: Option<PyResult<Py<PyAny>>>,
    waker: Option<Waker>,
    abandoned: bool,
    /// Held by an abandoned call until it has ended.
    cancelled: Option<CancelledCallGuard>,
}

/// The Python future of the call, which can be cancelled.
enum Handle {
    /// A task. Only its loop's thread may cancel it.
    Task(Py<PyAny>),
    /// A future of the thread pool. Any thread may cancel it.
    Pooled(Py<PyAny>),
}

impl PendingCall {
    pub(super) fn new(caller: CallerContext) -> Arc<Self> {
        let scope = CleanupScope::current();
        Arc::new(Self { caller, name: None, scope, loop_waker: OnceLock::new(), state: Mutex::default() })
    }

    pub(super) fn set_name(&mut self, name: Cow<'static, str>) {
        self.name = Some(name);
    }

    pub(super) fn caller(&self) -> &CallerContext {
        &self.caller
    }

    /// Starts a task on the caller's loop, or on the background loop if the caller has none.
    pub(super) fn start(self: &Arc<Self>, py: Python<'_>, work: TaskSource) -> PyResult<()> {
        let loop_waker = match self.caller.loop_waker() {
            Some(loop_waker) => Arc::clone(loop_waker),
            None => background_loop::loop_waker(py)?,
        };
        if loop_waker.is_running_here(py) {
            return self.start_task(py, &loop_waker, work);
        }
        self.dispatch(&loop_waker, work);
        Ok(())
    }

    /// Starts the task on the loop's thread. Needs no GIL.
    pub(super) fn dispatch(self: &Arc<Self>, loop_waker: &Arc<LoopWaker>, work: TaskSource) {
        let guard = DispatchGuard(Some(Arc::clone(self)));
        let target = Arc::clone(loop_waker);
        loop_waker.call_soon(move |py| {
            let Some(pending) = guard.take() else { return };
            let started = match work {
                TaskSource::Call(invocation) if invocation.mode == CallMode::Thread => {
                    pending.start_in_thread(py, &invocation)
                }
                work => pending.start_task(py, &target, work),
            };
            if let Err(error) = started {
                pending.complete(Err(error));
            }
        });
    }

    /// Calls in a thread of the pool.
    pub(super) fn start_in_thread(self: &Arc<Self>, py: Python<'_>, invocation: &Invocation) -> PyResult<()> {
        if lock(&self.state).abandoned {
            return Ok(());
        }
        let run = self.caller.context_copy(py)?.getattr(intern!(py, "run"))?;
        let arguments = invocation.positional(py, Some(run))?;
        let future = thread_pool::executor(py)?.call_method(
            intern!(py, "submit"),
            arguments,
            invocation.keywords(py),
        )?;
        self.watch(&future, Handle::Pooled(future.clone().unbind()), None)
    }

    /// Creates the task, on its loop's thread.
    fn start_task(
        self: &Arc<Self>,
        py: Python<'_>,
        loop_waker: &Arc<LoopWaker>,
        work: TaskSource,
    ) -> PyResult<()> {
        if lock(&self.state).abandoned {
            return Ok(());
        }
        let Some(event_loop) = loop_waker.event_loop(py) else { return Err(loop_closed_error()) };
        let _ = self.loop_waker.set(Arc::clone(loop_waker));
        let context = self.caller.context_copy(py)?;
        let awaitable = match work {
            TaskSource::Call(invocation) => invocation.run_in(&context)?,
            TaskSource::Await(awaitable) => awaitable.into_bound(py),
        };
        let run = intern!(py, "run");
        // `run` instead of the argument `context=`, which Python 3.10 lacks: a task copies the current context.
        let task = if awaitable.get_type().is(imports::coroutine_type(py)?) {
            let create = event_loop.getattr(intern!(py, "create_task"))?;
            context.call_method1(run, (create, awaitable))?
        } else if is_awaitable(&awaitable) {
            let options = PyDict::new(py);
            options.set_item(intern!(py, "loop"), &event_loop)?;
            context.call_method(run, (imports::ensure_future(py)?, awaitable), Some(&options))?
        } else {
            self.complete(Ok(awaitable.unbind()));
            return Ok(());
        };
        self.watch(&task, Handle::Task(task.clone().unbind()), Some(Arc::clone(loop_waker)))
    }

    /// Adds a done-callback to `future`.
    fn watch(
        self: &Arc<Self>,
        future: &Bound<'_, PyAny>,
        handle: Handle,
        on_loop: Option<Arc<LoopWaker>>,
    ) -> PyResult<()> {
        let py = future.py();
        lock(&self.state).handle = Some(handle);
        let callback = Py::new(py, DoneCallback { pending: Arc::clone(self), on_loop })?;
        future.call_method1(intern!(py, "add_done_callback"), (callback,))?;
        // Another thread has abandoned the call since the check in `start_task`.
        if lock(&self.state).abandoned {
            future.call_method0(intern!(py, "cancel"))?;
        }
        Ok(())
    }

    pub(super) fn complete(&self, outcome: PyResult<Py<PyAny>>) {
        let (handle, unwanted, waker, cancelled) = {
            let mut state = lock(&self.state);
            let unwanted = if state.abandoned { Some(outcome) } else { state.outcome.replace(outcome) };
            (state.handle.take(), unwanted, state.waker.take(), state.cancelled.take())
        };
        drop(handle);
        drop(unwanted);
        // Wakes the run that waits for the end of the call.
        drop(cancelled);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn poll(&self, waker: &Waker) -> Poll<PyResult<Py<PyAny>>> {
        let mut state = lock(&self.state);
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        // A poll with the no-op waker is the last one.
        if waker.will_wake(Waker::noop()) {
            drop(state);
            return self.ended().map_or(Poll::Pending, Poll::Ready);
        }
        match state.waker.as_mut() {
            Some(known) => known.clone_from(waker),
            None => state.waker = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// The result of a finished Python future whose done-callback has not run yet.
    fn ended(&self) -> Option<PyResult<Py<PyAny>>> {
        let ended = gil::if_held(|py| {
            let future = match &lock(&self.state).handle {
                Some(Handle::Task(future) | Handle::Pooled(future)) => future.clone_ref(py).into_bound(py),
                None => return None,
            };
            let done = future.call_method0(intern!(py, "done")).and_then(|done| done.is_truthy());
            let outcome = done.unwrap_or(false).then(|| future.call_method0(intern!(py, "result")))?;
            let is_over = outcome.as_ref().map_or(true, |value| !is_awaitable(value));
            is_over.then(|| outcome.map(Bound::unbind))
        });
        ended.flatten()
    }

    /// Cancels the call: at once if this is the task's thread, else on the loop's thread.
    pub(super) fn abandon(&self) {
        let (mut handle, waker) = {
            let mut state = lock(&self.state);
            state.abandoned = true;
            (state.handle.take(), state.waker.take())
        };
        drop(waker);
        match &handle {
            // Before the cancellation, which can end the call at once.
            Some(handle) => self.count(handle),
            None => return,
        }
        let loop_waker = self.loop_waker.get();
        gil::if_held(|py| {
            let is_here = match &handle {
                Some(Handle::Pooled(_)) => true,
                _ => loop_waker.is_some_and(|loop_waker| loop_waker.is_running_here(py)),
            };
            if is_here && let Some(handle) = handle.take() {
                handle.cancel(py);
            }
        });
        let Some(handle) = handle else { return };
        if let Some(loop_waker) = loop_waker.or(self.caller.loop_waker()) {
            loop_waker.call_soon(move |py| handle.cancel(py));
        }
    }

    /// Counts the call in its scope until it has ended.
    fn count(&self, handle: &Handle) {
        let Some(scope) = &self.scope else { return };
        let is_in_thread = matches!(handle, Handle::Pooled(_));
        let name = self.name.clone().or_else(|| gil::if_held(|py| handle.name(py)).flatten());
        let name = name.unwrap_or(Cow::Borrowed("a function"));
        let guard = scope.count(name, is_in_thread, self.loop_waker.get().cloned());
        lock(&self.state).cancelled = Some(guard);
    }
}

impl Handle {
    /// The name of the function that a task runs.
    fn name(&self, py: Python<'_>) -> Option<Cow<'static, str>> {
        let Self::Task(task) = self else { return None };
        let coroutine = task.call_method0(py, intern!(py, "get_coro")).ok()?;
        let name = coroutine.getattr(py, intern!(py, "__qualname__")).ok()?;
        name.extract::<String>(py).ok().map(Cow::Owned)
    }

    fn cancel(&self, py: Python<'_>) {
        let (Self::Task(future) | Self::Pooled(future)) = self;
        if let Err(error) = future.call_method0(py, intern!(py, "cancel")) {
            error.write_unraisable(py, Some(future.bind(py)));
        }
    }
}

/// The done-callback of a task or of a thread pool's future.
#[pyclass(frozen, name = "_DoneCallback", module = "turntree._core")]
struct DoneCallback {
    pending: Arc<PendingCall>,
    /// The loop that runs this callback, or `None` in a thread of the pool.
    on_loop: Option<Arc<LoopWaker>>,
}

#[pymethods]
impl DoneCallback {
    fn __call__(&self, py: Python<'_>, future: &Bound<'_, PyAny>) {
        let outcome = future.call_method0(intern!(py, "result"));
        let outcome = match outcome {
            // A synchronous function that returned a coroutine.
            Ok(value) if self.on_loop.is_none() && is_awaitable(&value) => {
                match self.pending.start(py, TaskSource::Await(value.unbind())) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
            outcome => outcome.map(Bound::unbind),
        };
        loop_waker::in_callback(py, self.on_loop.as_ref(), || self.pending.complete(outcome));
    }
}

/// Fails the call if the loop is closed before it starts the task.
struct DispatchGuard(Option<Arc<PendingCall>>);

impl DispatchGuard {
    fn take(mut self) -> Option<Arc<PendingCall>> {
        self.0.take()
    }
}

impl Drop for DispatchGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.0.take() {
            pending.complete(Err(PyRuntimeError::new_err(
                "the event loop was closed before the tool could start",
            )));
        }
    }
}

/// Whether the value can be awaited.
pub(super) fn is_awaitable(value: &Bound<'_, PyAny>) -> bool {
    !is_data(value) && value.hasattr(intern!(value.py(), "__await__")).unwrap_or(false)
}

/// Whether the value is of a type that most functions return. Asking such a value for `__await__` costs 1 µs, because
/// Python formats an error about the missing attribute.
fn is_data(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyDict>()
        || value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
}

/// The error of a call whose loop is gone.
fn loop_closed_error() -> PyErr {
    PyRuntimeError::new_err("the event loop of this call no longer exists")
}

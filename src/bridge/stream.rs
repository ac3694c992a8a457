//! A Rust stream as Python's asynchronous iterator, synchronous iterator and iterator of batches.
//!
//! The thread that asks for the next event polls the source (the agent's driver). Events that are ready are returned
//! without an iteration of the event loop (0.5 µs an event). There is no read-ahead, so back-pressure is exact. An event
//! leaves the stream together with the `StopIteration` that returns it, so a cancelled or timed-out `anext` loses no event.
//!
//! One reader can wait at a time, and any number of tasks can wait for the end ([`PyEventStream::finished`]). Those drive
//! the source too and leave its events to the reader.
//!
//! A loop over a stream holds an iteration of its own ([`super::iteration`]). Dropping it before the end calls
//! [`PyEventStream::leave`], so `break` and an exception stop the source although the stream lives. A task that is
//! cancelled while such a loop waits stops the source, and ends when the source and its cancelled calls have ended.

use std::future::{Future, poll_fn};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::prelude::*;
use futures_util::Stream;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration};
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;
use tokio_util::sync::CancellationToken;

use super::cleanup::{CleanupScope, Waits};
use super::coroutine::{Coroutine, Resumed, awaitable, no_stop_iteration, waits_of};
use super::gc::{Collect as _, GcRoots, garbage_collected};
use super::gil::{self, lock};
use super::imports;
use super::iteration::{EventIteration, SyncEventIteration};
use super::source::{EventSource, Next};
use super::sync::{block_on, run_in_background, run_sync};
use super::task_waker::TaskWaker;

/// How a source stops when a loop over its stream is left.
#[derive(Clone)]
pub(crate) enum Leaving {
    /// It continues: another loop reads on.
    Continues,
    /// It is dropped.
    Drops,
    /// Its token is cancelled, and it ends with an outcome.
    Aborts(CancellationToken),
}

/// An asynchronous iterator of events, for one reader at a time.
///
/// Events that are ready are returned without a trip through the event loop. A cancelled ``anext`` loses no
/// event. Closing or dropping the stream stops its source. A second reader gets a ``RuntimeError``.
#[pyclass(frozen, weakref, name = "EventStream", module = "turntree._core")]
pub(crate) struct PyEventStream {
    shared: Arc<EventSource>,
    reader: Arc<Reader>,
    /// The awaitable that `__anext__` returns, the same each time.
    next: Py<NextEvents>,
    roots: GcRoots,
    leaving: Leaving,
    /// The cancelled calls of the source.
    cleanup: Option<CleanupScope>,
}

/// The waker of the reader.
pub(super) struct Reader {
    task_waker: Arc<TaskWaker>,
    waker: Waker,
}

impl PyEventStream {
    /// A stream of the items of `source`; `convert` makes the Python object when an item is taken.
    ///
    /// `roots` holds the Python objects of the source, which may refer to this stream.
    pub(crate) fn new<S, T, C>(py: Python<'_>, source: S, convert: C, roots: GcRoots) -> PyResult<Self>
    where
        S: Stream<Item = PyResult<T>> + Send + 'static,
        T: Send + 'static,
        C: Fn(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let shared = EventSource::new(source, convert);
        let task_waker = TaskWaker::new();
        let waker = task_waker.waker();
        let reader = Arc::new(Reader { task_waker, waker });
        let next = NextEvents {
            shared: Arc::clone(&shared),
            reader: Arc::clone(&reader),
            batch: None,
            left_by_drop: None,
            is_read: AtomicBool::new(false),
            ending: Mutex::default(),
        };
        Ok(Self {
            next: Py::new(py, next)?,
            shared,
            reader,
            roots,
            leaving: Leaving::Continues,
            cleanup: None,
        })
    }

    /// The same stream. Whoever waits for its end also waits for the cancelled calls of `cleanup`.
    pub(crate) fn with_cleanup(self, cleanup: CleanupScope) -> Self {
        Self { cleanup: Some(cleanup), ..self }
    }

    /// The same stream, whose source stops when a loop over it is left.
    pub(crate) fn stopped_by_leaving(self, leaving: Leaving) -> Self {
        Self { leaving, ..self }
    }

    /// Ready when the source has ended or the stream is closed. Drives the source and leaves its events and its error to
    /// the reader, so the events of an unread stream accumulate.
    ///
    /// # Cancel safety
    /// Dropping it does not stop the source.
    pub(crate) fn finished(&self) -> impl Future<Output = PyResult<()>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        poll_fn(move |context| shared.poll_finished(context))
    }

    /// As [`Self::finished`], and the cancelled calls of a closed stream have ended.
    pub(crate) fn settled(&self) -> impl Future<Output = PyResult<()>> + Send + use<> {
        self.settled_of(Waits::AllCalls)
    }

    /// As [`Self::settled`], for these calls.
    fn settled_of(&self, waits: Waits) -> impl Future<Output = PyResult<()>> + Send + use<> {
        let (finished, cleanup) = (self.finished(), self.cleanup.clone());
        async move {
            finished.await?;
            if let Some(cleanup) = cleanup {
                cleanup.settled(waits).await;
            }
            Ok(())
        }
    }

    /// Whether the source has ended, and its cancelled calls.
    fn is_settled(&self) -> bool {
        self.shared.is_over() && self.cleanup.as_ref().is_none_or(CleanupScope::is_settled)
    }

    /// A synchronous iterator: each `next` drives the source on the calling thread.
    pub(crate) fn blocking(slf: Py<Self>) -> BlockingEvents {
        BlockingEvents { stream: slf }
    }

    /// Stops a source that has not ended: a loop over the stream was left. Work that has to wait continues in the
    /// background.
    pub(crate) fn leave(&self, py: Python<'_>) {
        if !matches!(self.leaving, Leaving::Continues) {
            self.stop_early(py);
            self.finish_in_background(py);
        }
    }

    /// Cancels `token`, which ends the source. Work that has to wait continues in the background.
    pub(crate) fn abort(&self, py: Python<'_>, token: &CancellationToken) {
        if !self.shared.is_over() {
            self.cancel(py, token);
            self.finish_in_background(py);
        }
    }

    /// Stops the source unless it has ended.
    fn stop_early(&self, py: Python<'_>) {
        match &self.leaving {
            _ if self.shared.is_over() => {}
            Leaving::Aborts(token) => self.cancel(py, token),
            Leaving::Continues | Leaving::Drops => gil::mark_held(py, || self.shared.close()),
        }
    }

    /// Cancels the token of the source. Polls the source once, so that it ends even if no task waits for it.
    fn cancel(&self, py: Python<'_>, token: &CancellationToken) {
        gil::mark_held(py, || {
            // Cancelling drops tool calls, which then call Python.
            token.cancel();
            // A source that is being polled sees the cancellation in that poll.
            let _reached = self.shared.poll_finished(&Context::from_waker(Waker::noop()));
        });
    }

    /// Drives a source that ends, but has to wait for that, without a reader.
    fn finish_in_background(&self, py: Python<'_>) {
        if self.is_settled() {
            return;
        }
        let settled = self.settled();
        let rest = async move { drop(settled.await) };
        let home = self.reader.task_waker.loop_waker();
        if let Err(error) = run_in_background(py, "leave", home.as_ref(), Box::pin(rest)) {
            error.write_unraisable(py, None);
        }
    }

    fn closing(slf: &Bound<'_, Self>, name: &'static str) -> Coroutine {
        let (roots, stream) = (GcRoots::new([slf.clone().into_any().unbind()]), slf.clone().unbind());
        let settled = slf.get().settled();
        let close = async move {
            gil::require_held(|py| {
                stream.get().stop_early(py);
                Ok(())
            })?;
            settled.await?;
            gil::require_held(|py| Ok(py.None()))
        };
        Coroutine::from_boxed(name, roots, Box::pin(close))
    }

    /// The awaitable of one loop. Dropping it leaves the stream.
    fn next_of_loop(slf: Py<Self>, py: Python<'_>, batch: Option<NonZeroUsize>) -> PyResult<Py<NextEvents>> {
        let (shared, reader) = (Arc::clone(&slf.get().shared), Arc::clone(&slf.get().reader));
        let (is_read, ending) = (AtomicBool::new(false), Mutex::default());
        Py::new(py, NextEvents { shared, reader, batch, left_by_drop: Some(slf), is_read, ending })
    }

    /// The next event, waiting on this thread; `None` at the end.
    ///
    /// # Errors
    /// The exception that ends the stream.
    pub(super) fn wait_for_event(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let answer = block_on(py, |context| self.shared.poll_events(py, None, context.waker()));
        match answer.map_err(|error| no_stop_iteration(py, error))? {
            Next::Value(value) => Ok(Some(value)),
            Next::End => Ok(None),
        }
    }
}

#[pymethods]
impl PyEventStream {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<NextEvents>> {
        self.reader.check_free()?;
        Ok(self.next.clone_ref(py))
    }

    /// Return the iterator of one loop over the events. Dropping it before the end stops the source.
    fn iterate(slf: Py<Self>, py: Python<'_>) -> PyResult<EventIteration> {
        Ok(EventIteration::new(Self::next_of_loop(slf, py, None)?))
    }

    /// Return the iterator of one loop over lists of the events that are ready.
    #[pyo3(signature = (limit=NonZeroUsize::MIN.saturating_add(255)))]
    fn batches(slf: Py<Self>, py: Python<'_>, limit: NonZeroUsize) -> PyResult<EventIteration> {
        Ok(EventIteration::new(Self::next_of_loop(slf, py, Some(limit))?))
    }

    /// Return the iterator of one loop on this thread. Dropping it before the end stops the source.
    fn iterate_sync(slf: Py<Self>) -> SyncEventIteration {
        SyncEventIteration::new(slf)
    }

    /// Stops the source and waits on this thread until it has ended. Readers see the end of the stream.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop_early(py);
        run_sync(py, self.settled())
    }

    /// A coroutine that stops the source and waits until it has ended.
    fn aclose(slf: &Bound<'_, Self>) -> Coroutine {
        Self::closing(slf, "aclose")
    }

    fn __aenter__(slf: Py<Self>) -> Coroutine {
        let roots = GcRoots::new([slf.into_any()]);
        let own = roots.clone();
        let enter = async move { gil::require_held(|py| own.get(py, 0).map(Bound::unbind)) };
        Coroutine::from_boxed("__aenter__", roots, Box::pin(enter))
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> Coroutine {
        Self::closing(slf, "__aexit__")
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 calls")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.next)?;
        self.shared.traverse(&visit)?;
        self.reader.task_waker.traverse(&visit)?;
        self.roots.traverse(&visit)
    }

    fn __clear__(&self) {
        gil::in_destructor(|| {
            self.shared.close();
            self.reader.task_waker.clear();
            self.roots.clear();
        });
    }
}

impl Reader {
    /// Refuses a second reader, which would take events from the first.
    pub(super) fn check_free(&self) -> PyResult<()> {
        if self.task_waker.is_suspended() {
            return Err(PyRuntimeError::new_err(
                "another task is waiting for the next event of this stream; iterate a stream in one task",
            ));
        }
        Ok(())
    }
}

/// The awaitable of `__anext__`. It can be awaited repeatedly.
#[pyclass(frozen, name = "_NextEvents", module = "turntree._core")]
pub(super) struct NextEvents {
    shared: Arc<EventSource>,
    reader: Arc<Reader>,
    batch: Option<NonZeroUsize>,
    /// The stream, if this is the awaitable of one loop.
    left_by_drop: Option<Py<PyEventStream>>,
    /// Whether it was awaited. A loop that has not begun leaves nothing.
    is_read: AtomicBool,
    /// The wait of a cancelled loop for the end of the source.
    ending: Mutex<Option<Arc<Coroutine>>>,
}

impl Drop for NextEvents {
    fn drop(&mut self) {
        if let Some(stream) = self.left_by_drop.as_ref().filter(|_| *self.is_read.get_mut()) {
            leave(stream);
        }
    }
}

garbage_collected!(NextEvents: left_by_drop);

/// Leaves the stream in the destructor of an iterator.
pub(super) fn leave(stream: &Py<PyEventStream>) {
    gil::in_destructor(|| {
        // `None` while the interpreter shuts down: the source is dropped with the stream.
        let _left = gil::if_held(|py| stream.get().leave(py));
    });
}

impl NextEvents {
    /// Refuses a second reader.
    pub(super) fn check_free(&self) -> PyResult<()> {
        self.reader.check_free()
    }

    /// Polls once.
    fn resume(&self, py: Python<'_>) -> PyResult<Resumed> {
        self.is_read.store(true, Ordering::Relaxed);
        let ending = lock(&self.ending).clone();
        if let Some(ending) = ending {
            return self.resume_ending(py, &ending);
        }
        self.reader.check_free()?;
        self.reader.task_waker.start_poll();
        match self.shared.poll_events(py, self.batch, &self.reader.waker) {
            Poll::Pending => self.reader.task_waker.suspend(py).map(Resumed::Suspended),
            Poll::Ready(Ok(Next::Value(value))) => Ok(Resumed::Done(value)),
            Poll::Ready(Ok(Next::End)) => Err(PyStopAsyncIteration::new_err(())),
            Poll::Ready(Err(error)) => Err(no_stop_iteration(py, error)),
        }
    }

    /// Ends the wait and raises `error`. No event is lost.
    ///
    /// A cancelled loop stops its source, and waits until the source and its cancelled calls have ended. A second
    /// cancellation ends this wait.
    fn interrupt(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        let waits = waits_of(py, &self.reader.task_waker);
        let is_second = lock(&self.ending).is_some();
        self.close(py);
        let Some(stream) = self.left_by_drop.as_ref().map(Py::get).filter(|_| !is_second) else {
            return Err(error);
        };
        if matches!(stream.leaving, Leaving::Continues)
            || !error.matches(py, imports::cancelled_error(py)?).unwrap_or(false)
        {
            return Err(error);
        }
        stream.stop_early(py);
        if stream.is_settled() {
            return Err(error);
        }
        let settled = stream.settled_of(waits);
        let wait = async move {
            // The reader does not see how the source ended: it is cancelled.
            drop(settled.await);
            Err(error)
        };
        let ending = Arc::new(Coroutine::from_boxed("__anext__", GcRoots::default(), Box::pin(wait)));
        *lock(&self.ending) = Some(Arc::clone(&ending));
        match self.resume_ending(py, &ending)? {
            Resumed::Suspended(suspension) | Resumed::Done(suspension) => Ok(suspension),
        }
    }

    fn resume_ending(&self, py: Python<'_>, ending: &Coroutine) -> PyResult<Resumed> {
        let resumed = ending.resume(py);
        if !matches!(resumed, Ok(Resumed::Suspended(_))) {
            let ended = lock(&self.ending).take();
            drop(ended);
        }
        resumed
    }
}

awaitable!(NextEvents);

#[pymethods]
impl NextEvents {
    /// Stops waiting.
    fn close(&self, py: Python<'_>) {
        let ending = lock(&self.ending).take();
        drop(ending);
        self.reader.task_waker.abandon(py);
    }
}

/// Synchronous iterator of events. The calling thread drives the source and releases the GIL while it waits.
#[pyclass(frozen, weakref, name = "BlockingEvents", module = "turntree._core")]
pub(crate) struct BlockingEvents {
    /// Keeps the stream alive.
    stream: Py<PyEventStream>,
}

#[pymethods]
impl BlockingEvents {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.stream.get().wait_for_event(py)
    }

    /// Stops the source and waits on this thread until it has ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stream.get().close(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

garbage_collected!(BlockingEvents: stream);

//! A Rust stream as Python's asynchronous iterator, synchronous iterator and iterator of batches.
//!
//! The thread that asks for the next event polls the source (the agent's driver). Events that are ready are returned
//! without an iteration of the event loop (0.5 µs an event). There is no read-ahead, so back-pressure is exact. An event
//! leaves the stream together with the `StopIteration` that returns it, so a cancelled or timed-out `anext` loses no event.
//!
//! One reader can wait at a time, and any number of tasks can wait for the end ([`PyEventStream::finished`]). Those drive
//! the source too and leave its events to the reader.

use std::future::{Future, poll_fn};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;

use super::coroutine::{Coroutine, Resumed, awaitable, no_stop_iteration};
use super::gc::{Collect as _, GcRoots, garbage_collected};
use super::gil;
use super::source::{EventSource, Next};
use super::sync::block_on;
use super::task_waker::TaskWaker;

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
}

/// The waker of the reader.
struct Reader {
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
        let next = NextEvents { shared: Arc::clone(&shared), reader: Arc::clone(&reader), batch: None };
        Ok(Self { next: Py::new(py, next)?, shared, reader, roots })
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

    /// Polls the source once after an abort, so that it ends even if no task waits for it. Needs the GIL.
    pub(crate) fn settle(&self, py: Python<'_>) {
        // A source that is being polled sees the abort in that poll.
        let _reached = gil::mark_held(py, || self.shared.poll_finished(&Context::from_waker(Waker::noop())));
    }

    /// A synchronous iterator: each `next` drives the source on the calling thread.
    pub(crate) fn blocking(slf: Py<Self>) -> BlockingEvents {
        BlockingEvents { stream: slf }
    }

    /// Drops the source. Readers see the end of the stream. Needs the GIL.
    pub(crate) fn stop(&self, py: Python<'_>) {
        gil::mark_held(py, || self.shared.close());
    }

    fn closing(slf: &Bound<'_, Self>, name: &'static str) -> Coroutine {
        let shared = Arc::clone(&slf.get().shared);
        let close = async move {
            shared.close();
            gil::require_held(|py| Ok(py.None()))
        };
        Coroutine::from_boxed(name, GcRoots::default(), Box::pin(close))
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

    /// Return an asynchronous iterator of lists of the events that are ready.
    #[pyo3(signature = (limit=NonZeroUsize::MIN.saturating_add(255)))]
    fn batches(slf: Py<Self>, py: Python<'_>, limit: NonZeroUsize) -> PyResult<Batches> {
        let stream = slf.get();
        let next = NextEvents {
            shared: Arc::clone(&stream.shared),
            reader: Arc::clone(&stream.reader),
            batch: Some(limit),
        };
        Ok(Batches { next: Py::new(py, next)?, stream: slf })
    }

    /// Stops the source. Readers see the end of the stream.
    fn close(&self, py: Python<'_>) {
        self.stop(py);
    }

    /// A coroutine that closes the stream.
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
    fn check_free(&self) -> PyResult<()> {
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
struct NextEvents {
    shared: Arc<EventSource>,
    reader: Arc<Reader>,
    batch: Option<NonZeroUsize>,
}

impl NextEvents {
    /// Polls once.
    fn resume(&self, py: Python<'_>) -> PyResult<Resumed> {
        self.reader.check_free()?;
        self.reader.task_waker.start_poll();
        match self.shared.poll_events(py, self.batch, &self.reader.waker) {
            Poll::Pending => self.reader.task_waker.suspend(py).map(Resumed::Suspended),
            Poll::Ready(Ok(Next::Value(value))) => Ok(Resumed::Done(value)),
            Poll::Ready(Ok(Next::End)) => Err(PyStopAsyncIteration::new_err(())),
            Poll::Ready(Err(error)) => Err(no_stop_iteration(py, error)),
        }
    }

    /// Ends the wait. No event is lost.
    #[expect(clippy::unnecessary_wraps, reason = "the signature that `awaitable` calls")]
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.reader.task_waker.abandon(py);
        Ok(())
    }
}

awaitable!(NextEvents);

#[pymethods]
impl NextEvents {
    /// Stops waiting.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop(py)
    }
}

/// Asynchronous iterator of lists of events.
#[pyclass(frozen, name = "_Batches", module = "turntree._core")]
struct Batches {
    next: Py<NextEvents>,
    /// Keeps the stream alive.
    stream: Py<PyEventStream>,
}

#[pymethods]
impl Batches {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self, py: Python<'_>) -> PyResult<Py<NextEvents>> {
        self.stream.get().reader.check_free()?;
        Ok(self.next.clone_ref(py))
    }
}

garbage_collected!(Batches: next, stream);

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
        let shared = &self.stream.get().shared;
        let answer = block_on(py, |context| shared.poll_events(py, None, context.waker()));
        match answer.map_err(|error| no_stop_iteration(py, error))? {
            Next::Value(value) => Ok(Some(value)),
            Next::End => Ok(None),
        }
    }

    /// Stops the source.
    fn close(&self, py: Python<'_>) {
        self.stream.get().stop(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

garbage_collected!(BlockingEvents: stream);

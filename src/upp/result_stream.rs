//! Streams with a result, of any modality: events for `async for`, the result for `await`.
//!
//! Spec: UPP-1.2 §15, §16.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::prelude::*;
use futures_util::Stream;
use tokio_util::sync::CancellationToken;

use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::{self, lock};
use crate::bridge::stream::{BlockingEvents, Leaving, PyEventStream};
use crate::bridge::sync;
use crate::data::DataClass;
use crate::error::OrRaise;
use turntree_upp::result_stream::ResultStream as CoreStream;
use turntree_upp::{Modality, UppError};

type Shown = Arc<dyn Fn(Python<'_>) -> PyResult<Py<PyAny>> + Send + Sync>;
type Outcome = Arc<Mutex<Option<Result<Shown, UppError>>>>;

/// The native half of streams with a result.
#[pyclass(frozen, name = "ResultStreamCore", module = "turntree._core")]
pub(crate) struct ResultStream {
    events: Py<PyEventStream>,
    outcome: Outcome,
    abort: CancellationToken,
    modality: Modality,
}

/// Wraps the core's stream and stores its outcome for `result`.
struct Source<E, R: DataClass> {
    stream: CoreStream<E, R::Value>,
    outcome: Outcome,
}

impl<E, R: DataClass> Unpin for Source<E, R> {}

impl<E, R: DataClass> Stream for Source<E, R> {
    type Item = PyResult<E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.stream).poll_next(context);
        if let Some(outcome) = self.stream.outcome() {
            let shown =
                outcome.clone().map(|value| -> Shown { Arc::new(move |py| R::wrap(py, Arc::clone(&value))) });
            lock(&self.outcome).get_or_insert(shown);
        }
        polled.map(|item| item.map(OrRaise::or_raise_held))
    }
}

impl ResultStream {
    /// A stream that has not started. Events become `E`, the result `R`.
    pub(crate) fn new<E: DataClass, R: DataClass>(
        py: Python<'_>,
        stream: CoreStream<E::Value, R::Value>,
        modality: Modality,
        kept: GcRoots,
    ) -> PyResult<Self> {
        let (outcome, abort) = (Outcome::default(), stream.abort_token().clone());
        let source = Source::<E::Value, R> { stream, outcome: Arc::clone(&outcome) };
        let show = |py: Python<'_>, event: E::Value| E::wrap(py, Arc::new(event));
        let leaving = Leaving::Aborts(abort.clone());
        let events = PyEventStream::new(py, source, show, kept)?.stopped_by_leaving(leaving);
        Ok(Self { events: Py::new(py, events)?, outcome, abort, modality })
    }

    fn result_of(&self, py: Python<'_>) -> impl Future<Output = PyResult<Py<PyAny>>> + Send + use<> {
        let finished = self.events.bind(py).get().finished();
        let (outcome, modality) = (Arc::clone(&self.outcome), self.modality);
        async move {
            if lock(&outcome).is_none() {
                finished.await?;
            }
            let ended = lock(&outcome).clone();
            // A stream that was closed before its end has no outcome: closing it cancelled the work.
            let ended = ended.unwrap_or_else(|| Err(UppError::cancelled("").with_modality(modality)));
            gil::require_held(|py| match ended {
                Ok(shown) => shown(py),
                Err(error) => Err(crate::upp::error::to_exception(py, &error)),
            })
        }
    }
}

#[pymethods]
impl ResultStream {
    /// The asynchronous iterator over events; always the same object.
    #[getter]
    fn events(&self, py: Python<'_>) -> Py<PyEventStream> {
        self.events.clone_ref(py)
    }

    /// Return the synchronous iterator over the same events.
    fn blocking(&self, py: Python<'_>) -> BlockingEvents {
        PyEventStream::blocking(self.events.clone_ref(py))
    }

    /// A coroutine that returns the result. It drives the stream while it is awaited.
    fn result(slf: &Bound<'_, Self>) -> Coroutine {
        let result = slf.get().result_of(slf.py());
        Coroutine::new("result", GcRoots::new([slf.clone().into_any().unbind()]), result)
    }

    /// Blocks until the result is there and returns it.
    fn result_sync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        sync::run_sync(py, self.result_of(py))
    }

    /// Aborts the call, which ends with CANCELLED.
    fn abort(&self, py: Python<'_>) {
        self.events.get().abort(py, &self.abort);
    }
}

garbage_collected!(ResultStream: events, outcome);

//! Streamed runs: events for `async for`, the turn for `await`.
//!
//! Spec: UAP-1.0 §12.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::prelude::*;
use futures_util::{Stream, ready};
use tokio_util::sync::CancellationToken;

use super::events::AgentStreamEvent;
use super::functions::Functions;
use super::run::{PreparedRun, outcome_to_python};
use super::tool_exceptions::ToolExceptions;
use crate::bridge::cleanup::{CleanupScope, Settled, Waits};
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::lock;
use crate::bridge::stream::{BlockingEvents, Leaving, PyEventStream};
use crate::bridge::sync;
use crate::data::DataClass as _;
use crate::error::OrRaise;
use crate::stream_events::StreamEvent as PyStreamEvent;
use crate::to_python::ToPython;
use turntree_agents::LlmStream;
use turntree_agents::driver::AgentStream as CoreStream;
use turntree_agents::types::{AgentStreamEvent as CoreEvent, PartialOutput};
use turntree_core::message::{StreamEvent, Turn};
use turntree_upp::UppError;

type Outcome = Arc<Mutex<Option<Result<Arc<Turn>, UppError>>>>;

/// A streamed run of an agent or a model.
pub(super) trait Run: Stream<Item = Result<Self::Event, UppError>> + Send + Unpin + 'static {
    /// The type of its events.
    type Event: Send + 'static;

    /// Returns the outcome when the run is over.
    fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>>;

    /// Returns the structured answer so far.
    fn answer(&self) -> &Arc<PartialOutput>;

    /// Returns the token that aborts the run.
    fn abort_token(&self) -> &CancellationToken;

    /// True if a run that is left ends with an error that has the partial turn. Otherwise it is dropped, and a session
    /// can resume it.
    const ABORTS_WHEN_LEFT: bool;

    /// Converts an event.
    fn event_to_python(py: Python<'_>, event: Self::Event) -> PyResult<Py<PyAny>>;
}

macro_rules! run_stream {
    ($stream:ty => $event:ty, $aborts_when_left:literal, $convert:expr) => {
        impl Run for $stream {
            type Event = $event;

            const ABORTS_WHEN_LEFT: bool = $aborts_when_left;

            fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>> {
                self.outcome()
            }

            fn answer(&self) -> &Arc<PartialOutput> {
                self.answer()
            }

            fn abort_token(&self) -> &CancellationToken {
                self.abort_token()
            }

            fn event_to_python(py: Python<'_>, event: $event) -> PyResult<Py<PyAny>> {
                $convert(py, event)
            }
        }
    };
}

run_stream!(CoreStream => CoreEvent, false, |py, event| AgentStreamEvent::wrap(py, Arc::new(event)));
run_stream!(LlmStream => StreamEvent, true, |py, event| PyStreamEvent::wrap(py, Arc::new(event)));

/// The native half of ``turntree.AgentStream`` and ``turntree.upp.StreamResult``.
#[pyclass(frozen, name = "AgentStreamCore", module = "turntree._core")]
pub(crate) struct AgentStream {
    events: Py<PyEventStream>,
    outcome: Outcome,
    answer: Arc<PartialOutput>,
    abort: CancellationToken,
    functions: Arc<Mutex<Functions>>,
    exceptions: ToolExceptions,
}

/// The item that ends a stream: an error or nothing.
type LastItem<R> = Option<Result<<R as Run>::Event, UppError>>;

/// A stream that stores its outcome for `turn`. Its end waits for cancelled calls.
struct Source<R: Run> {
    /// `None` when it is dropped.
    stream: Option<R>,
    outcome: Outcome,
    cleanup: CleanupScope,
    /// The last item, and the wait before it is returned.
    end: Option<(LastItem<R>, Settled)>,
}

impl<R: Run> Source<R> {
    /// Stores the outcome if the run is over.
    fn publish(&self) {
        if let Some(outcome) = self.stream.as_ref().and_then(Run::outcome)
            && self.cleanup.is_settled()
        {
            lock(&self.outcome).get_or_insert_with(|| outcome.clone());
        }
    }
}

impl<R: Run> Drop for Source<R> {
    fn drop(&mut self) {
        let stream = self.stream.take();
        self.cleanup.enter(|| drop(stream));
    }
}

impl<R: Run> Unpin for Source<R> {}

impl<R: Run> Stream for Source<R> {
    type Item = PyResult<R::Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.end.is_none() {
            let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
            match ready!(this.cleanup.enter(|| Pin::new(stream).poll_next(context))) {
                Some(Ok(event)) => {
                    this.publish();
                    return Poll::Ready(Some(Ok(event)));
                }
                last => this.end = Some((last, this.cleanup.settled(Waits::AllCalls))),
            }
        }
        if let Some((_, settled)) = &mut this.end {
            ready!(Pin::new(settled).poll(context));
        }
        this.publish();
        let last = this.end.take().and_then(|(last, _)| last);
        Poll::Ready(last.map(OrRaise::or_raise_held))
    }
}

impl AgentStream {
    /// Creates the stream of a run that has not started.
    ///
    /// # Errors
    /// `MemoryError` only.
    pub(super) fn new<R: Run>(py: Python<'_>, stream: R, run: PreparedRun) -> PyResult<Self> {
        let PreparedRun { roots, functions, exceptions, cleanup, .. } = run;
        let (outcome, abort) = (Outcome::default(), stream.abort_token().clone());
        let answer = Arc::clone(stream.answer());
        let source = Source {
            stream: Some(stream),
            outcome: Arc::clone(&outcome),
            cleanup: cleanup.clone(),
            end: None,
        };
        let leaving = if R::ABORTS_WHEN_LEFT { Leaving::Aborts(abort.clone()) } else { Leaving::Drops };
        let events = PyEventStream::new(py, source, R::event_to_python, roots)?
            .stopped_by_leaving(leaving)
            .with_cleanup(cleanup);
        Ok(Self { events: Py::new(py, events)?, outcome, answer, abort, functions, exceptions })
    }

    /// Waits for the end of the run and returns its turn.
    fn turn_of(&self, py: Python<'_>) -> impl Future<Output = PyResult<Py<PyAny>>> + Send + use<> {
        let settled = self.events.bind(py).get().settled();
        let (outcome, functions) = (Arc::clone(&self.outcome), Arc::clone(&self.functions));
        let exceptions = self.exceptions.clone();
        async move {
            if lock(&outcome).is_none() {
                settled.await?;
            }
            let ended = lock(&outcome).clone();
            // A stream that was closed before its end has no outcome.
            let ended = ended.unwrap_or_else(|| Err(UppError::cancelled("")));
            outcome_to_python(ended, &functions, &exceptions)
        }
    }
}

#[pymethods]
impl AgentStream {
    /// The asynchronous iterator over events; always the same object.
    #[getter]
    fn events(&self, py: Python<'_>) -> Py<PyEventStream> {
        self.events.clone_ref(py)
    }

    /// Return the synchronous iterator over the same events.
    fn blocking(&self, py: Python<'_>) -> BlockingEvents {
        PyEventStream::blocking(self.events.clone_ref(py))
    }

    /// The structured answer so far as plain data, from the events that were read. None before the first data.
    #[getter]
    fn partial<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.answer.read() {
            Some(partial) => partial.value.to_python(py),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Return a coroutine that waits for the turn. The run continues while it is awaited.
    fn turn(slf: &Bound<'_, Self>) -> Coroutine {
        let turn = slf.get().turn_of(slf.py());
        Coroutine::new("turn", GcRoots::new([slf.clone().into_any().unbind()]), turn)
    }

    /// Wait for the turn on this thread.
    fn turn_sync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        sync::run_sync(py, self.turn_of(py))
    }

    /// Stop the run and release its connection immediately, even if nothing awaits the run. The turn is partial.
    fn abort(&self, py: Python<'_>) {
        if lock(&self.outcome).is_none() {
            self.events.get().abort(py, &self.abort);
        }
    }
}

garbage_collected!(AgentStream: events, outcome);

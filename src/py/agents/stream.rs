//! A run that is listened to: events for `async for`, the turn for `await`. UAP-1.0 §12.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::Stream;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyString;
use tokio_util::sync::CancellationToken;

use super::agent::raised;
use crate::agents::run::{
    AgentStream as CoreStream, AgentStreamEvent as CoreEvent, UapEvent as CoreUapEvent,
};
use crate::message::Turn;
use crate::py::bridge::coroutine::Coroutine;
use crate::py::bridge::guard::{self, lock};
use crate::py::bridge::kept::Kept;
use crate::py::bridge::stream::{BlockingEvents, PyEventStream};
use crate::py::bridge::sync;
use crate::py::error::Raised;
use crate::py::records::wrap_turn;
use crate::py::show::Show;
use crate::upp::UppError;

type Outcome = Arc<Mutex<Option<Result<Arc<Turn>, UppError>>>>;

/// The native half of `turntree.AgentStream`.
#[pyclass(frozen, name = "AgentStreamCore", module = "turntree._core")]
pub(crate) struct AgentStream {
    events: Py<PyEventStream>,
    outcome: Outcome,
    abort: CancellationToken,
}

/// The core's stream, which leaves its outcome where `turn` finds it.
struct Source {
    stream: CoreStream,
    outcome: Outcome,
}

impl Stream for Source {
    type Item = PyResult<CoreEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.stream).poll_next(context);
        if let Some(outcome) = self.stream.outcome() {
            let mut slot = lock(&self.outcome);
            if slot.is_none() {
                *slot = Some(outcome.clone());
            }
        }
        polled.map(|item| item.map(|event| event.map_err(|error| raised(&error))))
    }
}

impl AgentStream {
    /// The stream of a run that has not started.
    ///
    /// # Errors
    /// `MemoryError` only.
    pub(crate) fn new(py: Python<'_>, stream: CoreStream, kept: Kept) -> PyResult<Self> {
        let (outcome, abort) = (Outcome::default(), stream.abort_token().clone());
        let source = Source { stream, outcome: Arc::clone(&outcome) };
        let events = PyEventStream::new(py, source, show_event, kept)?;
        Ok(Self { events: Py::new(py, events)?, outcome, abort })
    }

    /// Waits for the end of the run and gives its turn.
    fn turn_of(&self, py: Python<'_>) -> impl Future<Output = PyResult<Py<PyAny>>> + Send + use<> {
        let finished = self.events.bind(py).get().finished();
        let outcome = Arc::clone(&self.outcome);
        async move {
            if lock(&outcome).is_none() {
                finished.await?;
            }
            let ended = lock(&outcome).clone();
            // A stream that was closed before its end has no outcome: whoever closed it stopped the run.
            let ended = ended.unwrap_or_else(|| Err(UppError::cancelled("")));
            guard::expect_held(|py| match ended {
                Ok(turn) => wrap_turn(py, turn),
                Err(error) => Err(crate::py::error::upp(py, &error)),
            })
        }
    }
}

fn show_event(py: Python<'_>, event: CoreEvent) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, AgentStreamEvent(event))?.into_any())
}

#[pymethods]
impl AgentStream {
    /// The asynchronous iterator over events.
    #[getter]
    fn events(&self, py: Python<'_>) -> Py<PyEventStream> {
        self.events.clone_ref(py)
    }

    /// The synchronous iterator over events.
    fn blocking(&self, py: Python<'_>) -> BlockingEvents {
        PyEventStream::blocking(self.events.clone_ref(py))
    }

    /// A coroutine that gives the turn. The run goes on while it is awaited.
    fn turn(slf: &Bound<'_, Self>) -> Coroutine {
        let turn = slf.get().turn_of(slf.py());
        Coroutine::keeping("turn", Kept::new([slf.clone().into_any().unbind()]), turn)
    }

    /// The turn, waited for on this thread.
    fn turn_sync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        sync::run_sync(py, self.turn_of(py))
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 calls")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.events)?;
        // Never wait inside the collector; whoever holds the lock is alive.
        match self.outcome.try_lock().as_deref() {
            Ok(Some(Err(error))) => Raised::traverse(error, &visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        let outcome = lock(&self.outcome).take();
        drop(outcome);
    }

    /// Stops the run; the turn is what there is.
    fn abort(&self, py: Python<'_>) {
        // Tools that are dropped by it say so to Python.
        guard::holding(py, || self.abort.cancel());
    }
}

/// One event of a streamed run. UAP-1.0 §12.2.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct AgentStreamEvent(CoreEvent);

#[pymethods]
impl AgentStreamEvent {
    /// Whose event: "uap" of the agent, "upp" of the model or a tool.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self.0 {
            CoreEvent::Uap(_) => intern!(py, "uap").clone(),
            CoreEvent::Upp(_) => intern!(py, "upp").clone(),
        }
    }

    /// The agent's event, or None.
    #[getter]
    fn uap(&self) -> Option<UapEvent> {
        self.0.as_uap().cloned().map(UapEvent)
    }

    /// The model's or the tool's event, or None.
    #[getter]
    fn upp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.as_upp().cloned().show(py)
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            CoreEvent::Uap(event) => {
                format!("AgentStreamEvent(uap={}, step={})", event.data.kind(), event.step)
            }
            CoreEvent::Upp(event) => {
                format!("AgentStreamEvent(upp={}, index={})", event.delta.kind(), event.index)
            }
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }
}

/// An event of the agent. UAP-1.0 §12.2.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct UapEvent(CoreUapEvent);

#[pymethods]
impl UapEvent {
    /// What happened, as "`step_start`".
    #[getter(r#type)]
    fn kind(&self) -> &str {
        self.0.data.kind()
    }

    /// The step, from 1.
    #[getter]
    const fn step(&self) -> u32 {
        self.0.step
    }

    /// The agent.
    #[getter]
    fn agent_id(&self) -> &str {
        &self.0.agent_id
    }

    /// The event's data, keys as the specification spells them.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.0.data.to_raw().map_err(|error| crate::py::error::serialization(py, &error))?;
        data.show(py)
    }

    fn __repr__(&self) -> String {
        format!("UapEvent(type=\"{}\", step={})", self.0.data.kind(), self.0.step)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }
}

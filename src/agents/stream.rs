//! Streamed runs: events for `async for`, the turn for `await`.
//!
//! Spec: UAP-1.0 §12.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::prelude::*;
use futures_util::{Stream, ready};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::types::PyString;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::functions::Functions;
use super::run::{PreparedRun, outcome_to_python};
use super::tool_exceptions::ToolExceptions;
use crate::bridge::cleanup::{CleanupScope, Settled, Waits};
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::lock;
use crate::bridge::stream::{BlockingEvents, Leaving, PyEventStream};
use crate::bridge::sync;
use crate::convert::json::{document_text, json_to_python, limits};
use crate::convert::text::quoted;
use crate::data::DataClass as _;
use crate::error::OrRaise;
use crate::stream_events::StreamEvent as PyStreamEvent;
use crate::to_python::{ToPython, attributes};
use turntree_agents::LlmStream;
use turntree_agents::driver::AgentStream as CoreStream;
use turntree_agents::types::{
    AgentStreamEvent as CoreEvent, PartialOutput, SubAgentRun as CoreSubAgentRun, UapEvent as CoreUapEvent,
};
use turntree_core::json::indented;
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

run_stream!(CoreStream => CoreEvent, false, |py, event| Ok(Py::new(py, AgentStreamEvent(event))?.into_any()));
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

/// One event of a streamed run: of the agent, of the model or of a tool.
///
/// Exactly one of `uap` and `upp` is set::
///
///     if event.upp and event.upp.type == "text_delta":
///         print(event.upp.delta["text"], end="")
///
/// Spec: UAP-1.0 §12.2.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct AgentStreamEvent(CoreEvent);

impl AgentStreamEvent {
    /// Returns the event of this run's own model or tools; `None` for an event of a sub-agent.
    pub(crate) const fn upp_event(&self) -> Option<&StreamEvent> {
        match &self.0 {
            CoreEvent::Upp(event) => Some(event),
            CoreEvent::Uap(_) | CoreEvent::SubAgent(_) => None,
        }
    }

    /// Wraps an event.
    pub(super) const fn new(event: CoreEvent) -> Self {
        Self(event)
    }

    /// The event.
    pub(super) const fn core(&self) -> &CoreEvent {
        &self.0
    }
}

attributes! { AgentStreamEvent(slf) {
    /// The event of the model or a tool, or None.
    upp = slf.get().0.as_upp().cloned();
} }

#[pymethods]
impl AgentStreamEvent {
    /// The source of the event: "uap" for the agent, "upp" for the model or a tool.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self.0.as_uap() {
            Some(_) => intern!(py, "uap").clone(),
            None => intern!(py, "upp").clone(),
        }
    }

    /// The sub-agent run that the event belongs to, or None. Set only with ``sub_agent_events=True``.
    #[getter]
    fn sub_agent(&self) -> Option<SubAgentRun> {
        self.0.sub_agent().cloned().map(SubAgentRun)
    }

    /// The event of the agent, or None.
    #[getter]
    fn uap(&self) -> Option<UapEvent> {
        self.0.as_uap().cloned().map(UapEvent)
    }

    fn __repr__(&self) -> String {
        let of = self.0.sub_agent().map(|run| format!(", sub_agent={}", run.tool_name)).unwrap_or_default();
        match (self.0.as_uap(), self.0.as_upp()) {
            (Some(event), _) => {
                format!("AgentStreamEvent(uap={}, step={}{of})", event.data.kind(), event.step)
            }
            (None, Some(event)) => {
                format!("AgentStreamEvent(upp={}, index={}{of})", event.delta.kind(), event.index)
            }
            (None, None) => "AgentStreamEvent()".to_owned(),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }
}

/// One run of an agent as a tool of another agent. Part of events.
///
/// Spec: UAP-1.0 §8.4.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct SubAgentRun(Arc<CoreSubAgentRun>);

attributes! { SubAgentRun(slf) {
    /// The id of the agent, a UUIDv4.
    agent_id = slf.get().0.agent_id;

    /// The id of this run, a UUIDv4.
    turn_id = slf.get().0.turn_id;

    /// The id of the agent that called it; None if a model without an agent called it.
    parent_agent_id = slf.get().0.parent_agent_id;

    /// The id of the run that called it; None if a model without an agent called it.
    parent_turn_id = slf.get().0.parent_turn_id;

    /// The name of the tool.
    tool_name = slf.get().0.tool_name;

    /// The id of the call, as the model assigned it.
    tool_call_id = slf.get().0.tool_call_id;

    /// The number of runs that contain this run, from 1.
    depth = slf.get().0.depth;
} }

#[pymethods]
impl SubAgentRun {
    fn __repr__(&self) -> String {
        let CoreSubAgentRun { tool_name, tool_call_id, depth, .. } = &*self.0;
        let (tool_name, tool_call_id) = (quoted(tool_name), quoted(tool_call_id));
        format!("SubAgentRun(tool_name={tool_name}, tool_call_id={tool_call_id}, depth={depth})")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.0.turn_id, &self.0.tool_call_id).hash(&mut hasher);
        hasher.finish()
    }
}

/// An event of an agent.
///
/// ==================  ============================================================================
/// `type`              `data`
/// ==================  ============================================================================
/// ``step_start``      ``{"stepNumber"}``; ``"stepId"`` if the step has an id; ``"planStepId"``, ``"plan"`` with `plan`
/// ``step_end``        ``{"stepNumber", "usage"}`` and the ids; the usage of this step alone
/// ``reasoning``       ``{"text"}``
/// ``action``          ``{"toolCalls"}``: calls as dicts
/// ``observation``     ``{"results"}``: results as dicts, in the order of the calls
/// ``checkpoint``      ``{"checkpointId"}``
/// ==================  ============================================================================
///
/// Spec: UAP-1.0 §12.2.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct UapEvent(CoreUapEvent);

attributes! { UapEvent(slf) {
    /// The type of the event, such as ``step_start``.
    r#type = *slf.get().0.data.kind();

    /// The step, from 1.
    step = slf.get().0.step;

    /// The id of the agent, a UUIDv4.
    agent_id = slf.get().0.agent_id;

    /// The data of the event, with the keys of the specification.
    data = slf.get().0.data.to_raw().or_raise(slf.py())?;
} }

#[pymethods]
impl UapEvent {
    fn __repr__(&self) -> String {
        format!("UapEvent(type=\"{}\", step={})", self.0.data.kind(), self.0.step)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }
}

/// A value of the crate from JSON text or plain data.
///
/// # Errors
/// `turntree.ValidationError`.
fn from_json<T: DeserializeOwned>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<T> {
    turntree_core::json::parse(&document_text(value, what)?, &limits()).or_raise(value.py())
}

/// Defines the methods that convert to JSON and from it.
macro_rules! json_methods {
    ($($class:ident),*) => { $(
        #[pymethods]
        impl $class {
            /// Return the object as a dict of plain JSON data, with the keys of the specification.
            ///
            /// Both modes return the same: the data have no types of Python.
            #[pyo3(signature = (*, mode = "python"))]
            fn model_dump(&self, py: Python<'_>, mode: &str) -> PyResult<Py<PyAny>> {
                if !matches!(mode, "python" | "json") {
                    let message = format!("mode must be \"python\" or \"json\", not \"{mode}\"");
                    return Err(PyValueError::new_err(message));
                }
                self.to_dict(py)
            }

            /// Return the object as JSON text.
            #[pyo3(signature = (*, indent = None))]
            fn model_dump_json(&self, py: Python<'_>, indent: Option<usize>) -> PyResult<String> {
                let text = self.to_json(py)?;
                Ok(match indent {
                    Some(indent) => indented(&text, indent),
                    None => text,
                })
            }

            /// Return the object as a dict of plain JSON data, with the keys of the specification.
            fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                json_to_python(py, &self.to_json(py)?)
            }

            /// Return the object as JSON text.
            fn to_json(&self, py: Python<'_>) -> PyResult<String> {
                serde_json::to_string(&self.0).or_raise(py)
            }

            /// Create the object from JSON data with the keys of the specification: a dict, or JSON text.
            #[staticmethod]
            fn model_validate(obj: &Bound<'_, PyAny>) -> PyResult<Self> {
                match obj.cast::<Self>() {
                    Ok(object) => Ok(Self(object.get().0.clone())),
                    Err(_) => from_json(obj, "obj").map(Self),
                }
            }

            /// Create the object from JSON text.
            #[staticmethod]
            fn model_validate_json(json_data: &Bound<'_, PyAny>) -> PyResult<Self> {
                from_json(json_data, "json_data").map(Self)
            }

            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
                let restore = slf.get_type().getattr(intern!(slf.py(), "model_validate_json"))?;
                Ok((restore, (slf.get().to_json(slf.py())?,)))
            }

            const fn __copy__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (_memo = None))]
            fn __deepcopy__(slf: Py<Self>, _memo: Option<&Bound<'_, PyAny>>) -> Py<Self> {
                slf
            }
        }
    )* };
}

json_methods!(AgentStreamEvent, UapEvent, SubAgentRun);

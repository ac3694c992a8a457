//! The native half of `turntree.Session`.
//!
//! Spec: UAP-1.0 §6.

use std::fmt;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use super::agent_core::AgentCore;
use super::call_site::CallSite;
use super::checkpoint::{Checkpoint, sub_agents};
use super::error::session_exception;
use super::functions::Functions;
use super::host::PyHost;
use super::host_conversions::turn_to_python;
use super::inputs::input_from;
use super::parent_run::run_context;
use super::persistence::PyPersistence;
use super::run_metadata::RunMetadata;
use super::state::PyExecutionState;
use super::stream::AgentStream;
use super::tree::wrap_tree;
use crate::bridge::context::CallerContext;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{Collect, GcRoots, garbage_collected};
use crate::bridge::gil::{self, lock};
use crate::bridge::sync;
use crate::convert::json::{document_text, limits, to_raw_object};
use crate::data::DataClass;
use crate::python_exception::Raised;
use crate::records::ToolCall;
use crate::thread::Thread;
use crate::to_python::ToPython;
use turntree_agents::driver::AgentStream as CoreStream;
use turntree_agents::host::{HostError, RunContext};
use turntree_agents::session::{CheckpointInterval, SaveInterval, SessionMetadata, SessionSnapshot};
use turntree_agents::types::Verdict;
use turntree_agents::{Session as CoreSession, SessionError, SessionOptions};
use turntree_core::json::{self, RawJson, RawObject};
use turntree_core::message::Turn;

/// The native half of ``turntree.Session``.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct SessionCore {
    session: CoreSession,
    objects: Arc<SessionObjects>,
    /// When runs are saved; `None` if only `save` saves.
    saves: Option<SaveInterval>,
}

/// Python objects of a session. One `SessionCore` owns them and shows them to the garbage collector.
#[derive(Default)]
struct SessionObjects(Mutex<Option<Objects>>);

struct Objects {
    agent: Py<AgentCore>,
    metadata: Py<PyDict>,
    store: Py<PyAny>,
}

impl Collect for Objects {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.agent.traverse(visit)?;
        self.metadata.traverse(visit)?;
        self.store.traverse(visit)
    }
}

impl Collect for SessionObjects {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.traverse(visit)
    }

    fn clear(&self) {
        self.0.clear();
    }
}

impl SessionObjects {
    fn get<T>(&self, read: impl FnOnce(&Objects) -> T) -> PyResult<T> {
        let collected = || PyReferenceError::new_err("the session has been collected");
        lock(&self.0).as_ref().map(read).ok_or_else(collected)
    }
}

impl fmt::Debug for SessionObjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionObjects")
    }
}

/// The metadata is a dict that the application may change at any time.
impl SessionMetadata for SessionObjects {
    fn read(&self) -> Result<RawObject, HostError> {
        let read = gil::require_held(|py| {
            let metadata = self.get(|objects| objects.metadata.clone_ref(py))?;
            to_raw_object(metadata.bind(py).as_any(), "metadata")
        });
        read.map_err(|error| {
            let converted = gil::if_held(|py| {
                let message = error.value(py).to_string();
                HostError::raised("ValueError", message).with_payload(Arc::new(Raised::new(py, error)))
            });
            converted.unwrap_or_else(|| HostError::raised("RuntimeError", "the metadata cannot be read"))
        })
    }
}

/// A run of a session that is ready to start.
struct PreparedRun {
    session: CoreSession,
    context: RunContext,
    roots: GcRoots,
    /// The functions of the agent.
    functions: Arc<Mutex<Functions>>,
}

impl SessionCore {
    fn create(
        py: Python<'_>,
        agent: &Bound<'_, AgentCore>,
        metadata: &Bound<'_, PyDict>,
        store: &Bound<'_, PyAny>,
        saves: Option<&str>,
        session: impl FnOnce(SessionOptions) -> Result<CoreSession, SessionError>,
    ) -> PyResult<Self> {
        let objects = Objects {
            agent: agent.clone().unbind(),
            metadata: metadata.clone().unbind(),
            store: store.clone().unbind(),
        };
        let objects = Arc::new(SessionObjects(Mutex::new(Some(objects))));
        let saves = saves.map(|interval| match interval {
            "step" => SaveInterval::Step,
            "tool" => SaveInterval::Tool,
            _ => SaveInterval::Turn,
        });
        let options = SessionOptions {
            metadata: Arc::clone(&objects) as _,
            save_interval: saves.unwrap_or_default(),
            ..SessionOptions::default()
        };
        let session =
            gil::mark_held(py, || session(options)).map_err(|error| session_exception(py, &error))?;
        Ok(Self { session, objects, saves })
    }

    /// Prepares a run that starts with `metadata`.
    fn prepare(slf: &Bound<'_, Self>, entry: Entry, metadata: Arc<RawObject>) -> PyResult<PreparedRun> {
        let (py, core) = (slf.py(), slf.get());
        if !entry.on_event_loop && !entry.is_inside {
            // A thread must not block on a run that its own event loop polls.
            core.session.check_may_block().map_err(|error| session_exception(py, &error))?;
        }
        let caller = match entry.kind {
            RunKind::Awaited => CallerContext::capture(py)?,
            RunKind::Blocking | RunKind::Streamed => CallerContext::without_loop(py)?,
        };
        let site = match entry.kind {
            RunKind::Streamed if entry.on_event_loop => CallSite::Polling(caller),
            _ => CallSite::Started(caller),
        };
        let agent = core.objects.get(|objects| objects.agent.clone_ref(py))?.into_bound(py);
        let store = core.objects.get(|objects| objects.store.clone_ref(py))?;
        let functions = Arc::clone(agent.get().functions());
        let roots = GcRoots::new([agent.into_any().unbind(), slf.clone().into_any().unbind()]);
        let shared = RunMetadata::new(py, &roots, Arc::clone(&metadata))?;
        let host = PyHost::new(&functions, site.clone(), shared);
        let mut context = run_context(py, Arc::new(host), !entry.on_event_loop)?;
        context.metadata = metadata;
        context.sub_agent_events = entry.sub_agent_events;
        context.session_id = entry.is_inside.then(|| Arc::clone(core.session.id()));
        let persistence = core.saves.map(|_| {
            let index = roots.add(store);
            Arc::new(PyPersistence::new(roots.clone(), index, Arc::new(site))) as Arc<_>
        });
        let session =
            core.session.with_persistence(persistence).with_ticket(entry.ticket, entry.on_event_loop);
        Ok(PreparedRun { session, context, roots, functions })
    }

    /// Prepares a run that resumes the unfinished run, with that run's metadata.
    fn prepare_resume(slf: &Bound<'_, Self>, entry: Entry) -> PyResult<PreparedRun> {
        let state = slf.get().session.unfinished().and_then(|unfinished| unfinished.state());
        Self::prepare(slf, entry, state.map(|state| state.metadata).unwrap_or_default())
    }
}

impl PreparedRun {
    /// Returns a coroutine that runs.
    fn coroutine<F>(
        self,
        name: &'static str,
        start: impl FnOnce(CoreSession, RunContext) -> F + Send + 'static,
    ) -> Coroutine
    where
        F: Future<Output = Result<Arc<Turn>, SessionError>> + Send + 'static,
    {
        let Self { session, context, roots, functions } = self;
        Coroutine::new(name, roots, async move { outcome(start(session, context).await, &functions) })
    }

    /// Runs on this thread.
    fn block<F>(
        self,
        py: Python<'_>,
        start: impl FnOnce(CoreSession, RunContext) -> F + Send + 'static,
    ) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Arc<Turn>, SessionError>> + Send + 'static,
    {
        let Self { session, context, roots: _roots, functions } = self;
        sync::run_sync(py, async move { outcome(start(session, context).await, &functions) })
    }

    /// Streams the run.
    fn stream(
        self,
        py: Python<'_>,
        start: impl FnOnce(&CoreSession, RunContext) -> Result<CoreStream, SessionError>,
    ) -> PyResult<AgentStream> {
        let stream = start(&self.session, self.context).map_err(|error| session_exception(py, &error))?;
        AgentStream::new(py, stream, &self.functions, self.roots)
    }
}

/// How a run is executed.
#[derive(Clone, Copy)]
enum RunKind {
    /// As a coroutine on an event loop.
    Awaited,
    /// On a thread that waits for it.
    Blocking,
    /// As a stream, with or without an event loop.
    Streamed,
}

/// How a run enters the session.
#[derive(Clone, Copy)]
struct Entry {
    kind: RunKind,
    ticket: u64,
    /// Whether it was started from inside a run of the same session.
    is_inside: bool,
    on_event_loop: bool,
    /// Whether its stream includes the events of sub-agents.
    sub_agent_events: bool,
}

impl Entry {
    const fn new(kind: RunKind, ticket: u64, is_inside: bool) -> Self {
        let on_event_loop = matches!(kind, RunKind::Awaited);
        Self { kind, ticket, is_inside, on_event_loop, sub_agent_events: false }
    }

    const fn streamed(ticket: u64, is_inside: bool, on_event_loop: bool) -> Self {
        Self { on_event_loop, ..Self::new(RunKind::Streamed, ticket, is_inside) }
    }
}

fn outcome(result: Result<Arc<Turn>, SessionError>, functions: &Mutex<Functions>) -> PyResult<Py<PyAny>> {
    gil::require_held(|py| match result {
        Ok(turn) => turn_to_python(py, functions, turn),
        Err(error) => Err(session_exception(py, &error)),
    })
}

#[pymethods]
impl SessionCore {
    #[new]
    #[pyo3(signature = (agent, metadata, store, saves, id, interval))]
    fn new(
        agent: &Bound<'_, AgentCore>,
        metadata: &Bound<'_, PyDict>,
        store: &Bound<'_, PyAny>,
        saves: Option<&str>,
        id: Option<String>,
        interval: &str,
    ) -> PyResult<Self> {
        let interval = match interval {
            "turn" => CheckpointInterval::Turn,
            "off" => CheckpointInterval::Off,
            _ => CheckpointInterval::Step,
        };
        let core = agent.get().agent().clone();
        Self::create(agent.py(), agent, metadata, store, saves, |options| {
            CoreSession::new(core, SessionOptions { id: id.map(Into::into), interval, ..options })
        })
    }

    /// Create a session from its JSON.
    ///
    /// Raises:
    ///     ValidationError: Invalid JSON, an exceeded limit, another version, or a wrong structure; with the path.
    #[staticmethod]
    fn from_json(
        data: &Bound<'_, PyAny>,
        agent: &Bound<'_, AgentCore>,
        store: &Bound<'_, PyAny>,
        saves: Option<&str>,
        strict: bool,
    ) -> PyResult<Self> {
        let py = data.py();
        let text = document_text(data, "data")?;
        let read = py.detach(|| {
            let snapshot = SessionSnapshot::from_json(&text, &limits())?;
            if strict { snapshot.check_ids().map(|()| snapshot) } else { Ok(snapshot) }
        });
        let snapshot = read.map_err(|error| crate::convert::error::validation(py, &error, Some(&text)))?;
        let metadata = snapshot.metadata.to_python(py)?.cast_into::<PyDict>()?;
        let core = agent.get().agent().clone();
        Self::create(py, agent, &metadata, store, saves, |options| {
            Ok(CoreSession::from_snapshot(snapshot, core, options))
        })
    }

    /// The id of the session.
    #[getter]
    fn id(&self) -> &str {
        self.session.id()
    }

    /// The id of the agent that the session was created with.
    #[getter]
    fn agent_id(&self) -> &str {
        self.session.agent_id()
    }

    /// The conversation.
    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap_tree(py, Arc::clone(self.session.tree()))
    }

    /// The application's metadata: the dict itself.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.objects.get(|objects| objects.metadata.clone_ref(py))
    }

    /// When the session was created, in UTC.
    #[getter]
    fn created_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.session.created_at().to_python(py)
    }

    /// When the session last changed, in UTC.
    #[getter]
    fn updated_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.session.updated_at().to_python(py)
    }

    /// All checkpoints, oldest first.
    #[getter]
    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.session.checkpoints().into_iter().map(|checkpoint| Checkpoint::wrap(py, checkpoint)).collect()
    }

    /// The newest checkpoint, or the one that was restored last.
    #[getter]
    fn current_checkpoint(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.session.current_checkpoint().map(|checkpoint| Checkpoint::wrap(py, checkpoint)).transpose()
    }

    /// The state of the unfinished run, or None.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let state = self.session.unfinished().and_then(|unfinished| unfinished.state());
        state.map(|state| PyExecutionState::wrap(py, Arc::new(state))).transpose()
    }

    /// Messages of a restored checkpoint that are not in the tree. The next run sees them after the history.
    #[getter]
    fn restored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let restored = self.session.unfinished().filter(|unfinished| unfinished.restored);
        let messages = restored.map(|restored| restored.messages()).unwrap_or_default();
        messages.iter().cloned().collect::<Vec<_>>().to_python(py)
    }

    /// The sessions of the sub-agents of the active or unfinished run, as plain data by tool call id.
    #[getter]
    fn sub_agent_states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let states = gil::mark_held(py, || self.session.sub_agent_states());
        sub_agents(py, &states)
    }

    /// The calls that wait for approval, in order.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.session.pending().into_iter().map(|call| ToolCall::wrap(py, call)).collect()
    }

    /// Approve a pending call. `arguments` replaces its arguments if given.
    #[pyo3(signature = (call_id, arguments))]
    fn approve(&self, py: Python<'_>, call_id: &str, arguments: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let arguments = arguments.map(|given| to_raw_object(given, "arguments")).transpose()?;
        let arguments = arguments.map(|given| RawJson::from_value(&given)).transpose();
        let arguments = arguments.map_err(|error| crate::convert::error::serialization(py, &error))?;
        self.session
            .decide(call_id, Verdict::Approved, arguments)
            .map_err(|error| session_exception(py, &error))
    }

    /// Deny a pending call.
    #[pyo3(signature = (call_id, reason))]
    fn deny(&self, py: Python<'_>, call_id: &str, reason: Option<String>) -> PyResult<()> {
        self.session
            .decide(call_id, Verdict::Denied { reason }, None)
            .map_err(|error| session_exception(py, &error))
    }

    /// Discard the unfinished run. Return whether there was one.
    fn discard(&self, py: Python<'_>) -> PyResult<bool> {
        self.session.discard().map_err(|error| session_exception(py, &error))
    }

    /// Return a number that identifies one run.
    fn ticket(&self) -> u64 {
        self.session.new_ticket()
    }

    /// Return whether the run with this ticket is active.
    fn is_running(&self, ticket: u64) -> bool {
        self.session.is_running(ticket)
    }

    /// Start a run on the caller's event loop and return a coroutine that returns the turn.
    ///
    /// Args:
    ///     input: The new input.
    ///     ticket: From `ticket`.
    ///     inside: Whether the call comes from inside a run of this session, which is rejected.
    fn run(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
    ) -> PyResult<Coroutine> {
        let input = input_from(input)?;
        let prepared = Self::prepare(slf, Entry::new(RunKind::Awaited, ticket, inside), Arc::default())?;
        Ok(prepared
            .coroutine("run", move |session, context| async move { session.run(input, context).await }))
    }

    /// Run on this thread, without an event loop, and return the turn.
    fn run_sync(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
    ) -> PyResult<Py<PyAny>> {
        let input = input_from(input)?;
        let prepared = Self::prepare(slf, Entry::new(RunKind::Blocking, ticket, inside), Arc::default())?;
        prepared.block(slf.py(), move |session, context| async move { session.run(input, context).await })
    }

    /// Start a streamed run.
    fn stream(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
        sub_agent_events: bool,
    ) -> PyResult<AgentStream> {
        let input = input_from(input)?;
        let entry = Entry { sub_agent_events, ..Entry::streamed(ticket, inside, on_loop) };
        let prepared = Self::prepare(slf, entry, Arc::default())?;
        prepared.stream(slf.py(), |session, context| session.stream(input, context))
    }

    /// Resume the unfinished run as a stream.
    fn resume_stream(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
    ) -> PyResult<AgentStream> {
        let prepared = Self::prepare_resume(slf, Entry::streamed(ticket, inside, on_loop))?;
        prepared.stream(slf.py(), CoreSession::resume_stream)
    }

    /// Resume the unfinished run and return a coroutine that returns the turn.
    fn resume(slf: &Bound<'_, Self>, ticket: u64, inside: bool) -> PyResult<Coroutine> {
        let prepared = Self::prepare_resume(slf, Entry::new(RunKind::Awaited, ticket, inside))?;
        Ok(prepared.coroutine("resume", |session, context| async move { session.resume(context).await }))
    }

    /// Resume the unfinished run on this thread and return the turn.
    fn resume_sync(slf: &Bound<'_, Self>, ticket: u64, inside: bool) -> PyResult<Py<PyAny>> {
        let prepared = Self::prepare_resume(slf, Entry::new(RunKind::Blocking, ticket, inside))?;
        prepared.block(slf.py(), |session, context| async move { session.resume(context).await })
    }

    /// Restore a checkpoint; returns a coroutine.
    fn restore(slf: &Bound<'_, Self>, checkpoint_id: String) -> Coroutine {
        let session = slf.get().session.clone();
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        Coroutine::new("restore", kept, async move {
            let restored = session.restore(&checkpoint_id).await;
            gil::require_held(|py| restored.map_err(|error| session_exception(py, &error)))
        })
    }

    /// Start a branch at a node and return the new node's id. The current node does not change.
    fn fork(&self, py: Python<'_>, node_id: &str) -> PyResult<String> {
        self.session.fork(node_id).map(|node| node.to_string()).map_err(|error| session_exception(py, &error))
    }

    /// Add a thread under the root, with a history of its own, and return the new node's id.
    fn plant(&self, thread: &Bound<'_, Thread>, metadata: &Bound<'_, PyAny>) -> PyResult<String> {
        let planted =
            self.session.add_side_thread(Thread::read(thread)?, to_raw_object(metadata, "metadata")?);
        planted.map(|node| node.to_string()).map_err(|error| session_exception(thread.py(), &error))
    }

    /// Save the session; returns a coroutine.
    fn save(slf: &Bound<'_, Self>) -> PyResult<Coroutine> {
        let py = slf.py();
        let store = slf.get().objects.get(|objects| objects.store.clone_ref(py))?;
        let kept = GcRoots::new([store, slf.clone().into_any().unbind()]);
        let site = Arc::new(CallSite::Started(CallerContext::capture(py)?));
        let persistence = Arc::new(PyPersistence::new(kept.clone(), 0, site));
        let session = slf.get().session.with_persistence(Some(persistence));
        Ok(Coroutine::new("save", kept, async move {
            let saved = session.save().await;
            gil::require_held(|py| saved.map_err(|error| session_exception(py, &error)))
        }))
    }

    /// Return the session as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let snapshot =
            gil::mark_held(py, || self.session.snapshot()).map_err(|error| session_exception(py, &error))?;
        let written = py.detach(|| json::write(&snapshot));
        written.map_err(|error| crate::convert::error::serialization(py, &error))
    }
}

garbage_collected!(SessionCore: objects);

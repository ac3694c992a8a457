//! The native half of `turntree.Session`. UAP-1.0 §6.

use std::fmt;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use super::agent::{AgentCore, input_from};
use super::callables::Callables;
use super::checkpoint::{Checkpoint, sub_agents};
use super::enclosing::run_context;
use super::error::session_exception;
use super::host::{Place, PyHost, RunMetadata, show_turn};
use super::persistence::PyPersistence;
use super::state::PyExecutionState;
use super::stream::AgentStream;
use super::tree::wrap_tree;
use crate::bridge::context::CallerContext;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::bridge::sync;
use crate::convert::json::{document_text, limits, to_raw_object};
use crate::data::DataClass;
use crate::raised::Raised;
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

/// The native half of a session.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct SessionCore {
    session: CoreSession,
    owned: Arc<Owned>,
    /// When runs are saved; none where only `save` saves.
    saves: Option<SaveInterval>,
}

/// Python objects of a session. One `SessionCore` owns them and shows them to the collector.
#[derive(Default)]
struct Owned(Mutex<Option<Objects>>);

struct Objects {
    agent: Py<AgentCore>,
    metadata: Py<PyDict>,
    store: Py<PyAny>,
}

impl Owned {
    fn get<T>(&self, find: impl FnOnce(&Objects) -> T) -> PyResult<T> {
        let collected = || PyReferenceError::new_err("the session has been collected");
        lock(&self.0).as_ref().map(find).ok_or_else(collected)
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Owned")
    }
}

/// The metadata are a dict that the application may change at any time.
impl SessionMetadata for Owned {
    fn read(&self) -> Result<RawObject, HostError> {
        let read = gil::require_held(|py| {
            let metadata = self.get(|objects| objects.metadata.clone_ref(py))?;
            to_raw_object(metadata.bind(py).as_any(), "metadata")
        });
        read.map_err(|error| {
            let told = gil::if_held(|py| {
                let message = error.value(py).to_string();
                HostError::raised("ValueError", message).with_payload(Arc::new(Raised::new(py, error)))
            });
            told.unwrap_or_else(|| HostError::raised("RuntimeError", "the metadata cannot be read"))
        })
    }
}

/// What is given to a run of a session.
struct Begun {
    session: CoreSession,
    context: RunContext,
    kept: GcRoots,
    /// The functions of the agent.
    callables: Arc<Mutex<Callables>>,
}

impl SessionCore {
    fn made(
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
        let owned = Arc::new(Owned(Mutex::new(Some(objects))));
        let saves = saves.map(|interval| match interval {
            "step" => SaveInterval::Step,
            "tool" => SaveInterval::Tool,
            _ => SaveInterval::Turn,
        });
        let options = SessionOptions {
            metadata: Arc::clone(&owned) as _,
            save_interval: saves.unwrap_or_default(),
            ..SessionOptions::default()
        };
        let session =
            gil::mark_held(py, || session(options)).map_err(|error| session_exception(py, &error))?;
        Ok(Self { session, owned, saves })
    }

    /// The objects of one run: `metadata` is what the run starts with.
    fn begin(
        slf: &Bound<'_, Self>,
        caller: &CallerContext,
        on_loop: Option<bool>,
        entry: Entry,
        metadata: Arc<RawObject>,
    ) -> PyResult<Begun> {
        let (py, core) = (slf.py(), slf.get());
        let objects = &core.owned;
        let agent = objects.get(|objects| objects.agent.clone_ref(py))?.into_bound(py);
        let store = objects.get(|objects| objects.store.clone_ref(py))?;
        let callables = Arc::clone(agent.get().callables());
        let kept = GcRoots::new([agent.into_any().unbind(), slf.clone().into_any().unbind()]);
        let place = || {
            if on_loop == Some(true) { Place::Polled(caller.clone()) } else { Place::Started(caller.clone()) }
        };
        let shared = RunMetadata::new(py, &kept, Arc::clone(&metadata))?;
        let host = PyHost::new(&callables, place(), shared);
        let mut context = run_context(py, Arc::new(host), !entry.on_loop)?;
        context.metadata = metadata;
        context.sub_agent_events = entry.sub_agent_events;
        context.session_id = entry.inside.then(|| Arc::clone(core.session.id()));
        let persistence = core.saves.map(|_| {
            let index = kept.add(store);
            Arc::new(PyPersistence::new(kept.clone(), index, Arc::new(place()))) as Arc<_>
        });
        let session = core.session.with_persistence(persistence).with_ticket(entry.ticket, entry.on_loop);
        Ok(Begun { session, context, kept, callables })
    }

    /// A run that a thread waits for must not need the event loop of that thread.
    fn check_waiting(slf: &Bound<'_, Self>, entry: Entry) -> PyResult<()> {
        if entry.on_loop || entry.inside {
            return Ok(());
        }
        slf.get().session.check_may_block().map_err(|error| session_exception(slf.py(), &error))
    }

    /// The metadata of the run that `resume` goes on with.
    fn metadata_of_run(&self) -> Arc<RawObject> {
        let state = self.session.unfinished().and_then(|unfinished| unfinished.state());
        state.map(|state| state.metadata).unwrap_or_default()
    }

    fn begin_here(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        metadata: Arc<RawObject>,
    ) -> PyResult<Begun> {
        let caller = CallerContext::capture(slf.py())?;
        Self::begin(slf, &caller, None, Entry::new(ticket, inside, true), metadata)
    }

    fn begin_stream(slf: &Bound<'_, Self>, entry: Entry, metadata: Arc<RawObject>) -> PyResult<Begun> {
        Self::check_waiting(slf, entry)?;
        let caller = CallerContext::without_loop(slf.py())?;
        Self::begin(slf, &caller, Some(entry.on_loop), entry, metadata)
    }

    fn begin_sync(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        metadata: Arc<RawObject>,
    ) -> PyResult<Begun> {
        let py = slf.py();
        let entry = Entry::new(ticket, inside, false);
        Self::check_waiting(slf, entry)?;
        let caller = CallerContext::without_loop(py)?;
        Self::begin(slf, &caller, None, entry, metadata)
    }
}

impl Begun {
    /// The run with somebody listening.
    fn listened(
        self,
        py: Python<'_>,
        start: impl FnOnce(&CoreSession, RunContext) -> Result<CoreStream, SessionError>,
    ) -> PyResult<AgentStream> {
        let stream = start(&self.session, self.context).map_err(|error| session_exception(py, &error))?;
        AgentStream::new(py, stream, &self.callables, self.kept)
    }
}

/// How a run comes in.
#[derive(Clone, Copy)]
struct Entry {
    ticket: u64,
    /// It was asked for from inside a run of the same session.
    inside: bool,
    on_loop: bool,
    /// Its listener hears agents that run as tools too.
    sub_agent_events: bool,
}

impl Entry {
    const fn new(ticket: u64, inside: bool, on_loop: bool) -> Self {
        Self { ticket, inside, on_loop, sub_agent_events: false }
    }
}

fn ended(outcome: Result<Arc<Turn>, SessionError>, callables: &Mutex<Callables>) -> PyResult<Py<PyAny>> {
    gil::require_held(|py| match outcome {
        Ok(turn) => show_turn(py, callables, turn),
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
        Self::made(agent.py(), agent, metadata, store, saves, |options| {
            CoreSession::new(core, SessionOptions { id: id.map(Into::into), interval, ..options })
        })
    }

    /// A session from its JSON.
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
        Self::made(py, agent, &metadata, store, saves, |options| {
            Ok(CoreSession::from_snapshot(snapshot, core, options))
        })
    }

    /// Its id.
    #[getter]
    fn id(&self) -> &str {
        self.session.id()
    }

    /// The id of the agent that it was made with.
    #[getter]
    fn agent_id(&self) -> &str {
        self.session.agent_id()
    }

    /// The conversation.
    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap_tree(py, Arc::clone(self.session.tree()))
    }

    /// The application's facts: the dict itself.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.owned.get(|objects| objects.metadata.clone_ref(py))
    }

    /// When it was made, in UTC.
    #[getter]
    fn created_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.session.created_at().to_python(py)
    }

    /// When it last changed, in UTC.
    #[getter]
    fn updated_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.session.updated_at().to_python(py)
    }

    /// All checkpoints, oldest first.
    #[getter]
    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.session.checkpoints().into_iter().map(|checkpoint| Checkpoint::wrap(py, checkpoint)).collect()
    }

    /// The latest checkpoint, or the one that was restored.
    #[getter]
    fn current_checkpoint(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.session.current_checkpoint().map(|checkpoint| Checkpoint::wrap(py, checkpoint)).transpose()
    }

    /// The state of the run that is not finished; None where there is none.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let state = self.session.unfinished().and_then(|unfinished| unfinished.state());
        state.map(|state| PyExecutionState::wrap(py, Arc::new(state))).transpose()
    }

    /// Messages that were restored and are not in the tree: the next run sees them after the history.
    #[getter]
    fn restored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let restored = self.session.unfinished().filter(|unfinished| unfinished.restored);
        let messages = restored.map(|restored| restored.messages()).unwrap_or_default();
        messages.iter().cloned().collect::<Vec<_>>().to_python(py)
    }

    /// Sessions of the sub-agents of the run that is under way or not finished, as plain data by tool calls.
    #[getter]
    fn sub_agent_states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let states = gil::mark_held(py, || self.session.sub_agent_states());
        sub_agents(py, &states)
    }

    /// The calls that wait for a decision, in their order.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.session.pending().into_iter().map(|call| ToolCall::wrap(py, call)).collect()
    }

    /// Lets a pending call run, with other arguments where some are given.
    #[pyo3(signature = (call_id, arguments))]
    fn approve(&self, py: Python<'_>, call_id: &str, arguments: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let arguments = arguments.map(|given| to_raw_object(given, "arguments")).transpose()?;
        let arguments = arguments.map(|given| RawJson::from_value(&given)).transpose();
        let arguments = arguments.map_err(|error| crate::convert::error::serialization(py, &error))?;
        self.session
            .decide(call_id, Verdict::Approved, arguments)
            .map_err(|error| session_exception(py, &error))
    }

    /// Refuses a pending call.
    #[pyo3(signature = (call_id, reason))]
    fn deny(&self, py: Python<'_>, call_id: &str, reason: Option<String>) -> PyResult<()> {
        self.session
            .decide(call_id, Verdict::Denied { reason }, None)
            .map_err(|error| session_exception(py, &error))
    }

    /// Gives up the run that is not finished; whether there was one.
    fn discard(&self, py: Python<'_>) -> PyResult<bool> {
        self.session.discard().map_err(|error| session_exception(py, &error))
    }

    /// A number for one run.
    fn ticket(&self) -> u64 {
        self.session.new_ticket()
    }

    /// Whether the run with this ticket is under way.
    fn is_running(&self, ticket: u64) -> bool {
        self.session.is_running(ticket)
    }

    /// Starts a run; the coroutine gives its turn.
    fn run(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
    ) -> PyResult<Coroutine> {
        let input = input_from(input)?;
        let Begun { session, context, kept, callables } =
            Self::begin_here(slf, ticket, inside, Arc::default())?;
        Ok(Coroutine::new("run", kept, async move { ended(session.run(input, context).await, &callables) }))
    }

    /// Runs on this thread, without an event loop.
    fn run_sync(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
    ) -> PyResult<Py<PyAny>> {
        let input = input_from(input)?;
        let Begun { session, context, kept: _kept, callables } =
            Self::begin_sync(slf, ticket, inside, Arc::default())?;
        sync::run_sync(slf.py(), async move { ended(session.run(input, context).await, &callables) })
    }

    /// Starts a run that is listened to.
    fn stream(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
        sub_agent_events: bool,
    ) -> PyResult<AgentStream> {
        let input = input_from(input)?;
        let entry = Entry { sub_agent_events, ..Entry::new(ticket, inside, on_loop) };
        let begun = Self::begin_stream(slf, entry, Arc::default())?;
        begun.listened(slf.py(), |session, context| session.stream(input, context))
    }

    /// As `resume`, listened to.
    fn resume_stream(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
    ) -> PyResult<AgentStream> {
        let entry = Entry::new(ticket, inside, on_loop);
        let begun = Self::begin_stream(slf, entry, slf.get().metadata_of_run())?;
        begun.listened(slf.py(), CoreSession::resume_stream)
    }

    /// Goes on with the run that is not finished; the coroutine gives its turn.
    fn resume(slf: &Bound<'_, Self>, ticket: u64, inside: bool) -> PyResult<Coroutine> {
        let metadata = slf.get().metadata_of_run();
        let Begun { session, context, kept, callables } = Self::begin_here(slf, ticket, inside, metadata)?;
        Ok(Coroutine::new("resume", kept, async move { ended(session.resume(context).await, &callables) }))
    }

    /// As `resume`, on this thread.
    fn resume_sync(slf: &Bound<'_, Self>, ticket: u64, inside: bool) -> PyResult<Py<PyAny>> {
        let metadata = slf.get().metadata_of_run();
        let Begun { session, context, kept: _kept, callables } =
            Self::begin_sync(slf, ticket, inside, metadata)?;
        sync::run_sync(slf.py(), async move { ended(session.resume(context).await, &callables) })
    }

    /// Goes back to a checkpoint; a coroutine.
    fn restore(slf: &Bound<'_, Self>, checkpoint_id: String) -> Coroutine {
        let session = slf.get().session.clone();
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        Coroutine::new("restore", kept, async move {
            let restored = session.restore(&checkpoint_id).await;
            gil::require_held(|py| restored.map_err(|error| session_exception(py, &error)))
        })
    }

    /// Starts a branch at a node, without moving to it; gives the new node's id.
    fn fork(&self, py: Python<'_>, node_id: &str) -> PyResult<String> {
        self.session.fork(node_id).map(|node| node.to_string()).map_err(|error| session_exception(py, &error))
    }

    /// Keeps a thread under the root, apart from its history; gives the new node's id.
    fn plant(&self, thread: &Bound<'_, Thread>, metadata: &Bound<'_, PyAny>) -> PyResult<String> {
        let planted =
            self.session.add_side_thread(Thread::read(thread)?, to_raw_object(metadata, "metadata")?);
        planted.map(|node| node.to_string()).map_err(|error| session_exception(thread.py(), &error))
    }

    /// Saves the session; a coroutine.
    fn save(slf: &Bound<'_, Self>) -> PyResult<Coroutine> {
        let py = slf.py();
        let store = slf.get().owned.get(|objects| objects.store.clone_ref(py))?;
        let kept = GcRoots::new([store, slf.clone().into_any().unbind()]);
        let place = Arc::new(Place::Started(CallerContext::capture(py)?));
        let persistence = Arc::new(PyPersistence::new(kept.clone(), 0, place));
        let session = slf.get().session.with_persistence(Some(persistence));
        Ok(Coroutine::new("save", kept, async move {
            let saved = session.save().await;
            gil::require_held(|py| saved.map_err(|error| session_exception(py, &error)))
        }))
    }

    /// Its JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let snapshot =
            gil::mark_held(py, || self.session.snapshot()).map_err(|error| session_exception(py, &error))?;
        let written = py.detach(|| json::write(&snapshot));
        written.map_err(|error| crate::convert::error::serialization(py, &error))
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 wants")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Never wait inside the collector: whoever holds the lock only clones a reference.
        if let Ok(objects) = self.owned.0.try_lock()
            && let Some(objects) = &*objects
        {
            visit.call(&objects.agent)?;
            visit.call(&objects.metadata)?;
            visit.call(&objects.store)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let objects = lock(&self.owned.0).take();
        drop(objects);
    }
}

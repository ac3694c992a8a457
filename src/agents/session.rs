//! The native half of `turntree.Session`.
//!
//! Spec: UAP-1.0 §6.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::{PyReferenceError, PyTypeError};
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use super::agent_core::AgentCore;
use super::call_site::{CallSite, RunMode};
use super::checkpoint::sub_agents;
use super::inputs::input_from;
use super::persistence::{PyPersistence, native_store};
use super::run::PreparedRun;
use super::run_options::RunOptions;
use super::stream::AgentStream;
use super::tree::wrap_tree;
use crate::bridge::cleanup::{CleanupScope, DEFAULT_TIMEOUT};
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{Collect, GcRoots, garbage_collected};
use crate::bridge::gil::{self, lock};
use crate::convert::error::of_plain;
use crate::convert::json::{document_text, is_plain, limits, to_raw, to_raw_object};
use crate::convert::text::text_of;
use crate::data::DataClass;
use crate::error::{OrRaise as _, wrong_type};
use crate::python_exception::Raised;
use crate::records::ToolCall;
use crate::store::progress::StoreProgress;
use crate::thread::Thread;
use crate::to_python::{ToPython, attributes};
use turntree_agents::host::{HostError, RunContext};
use turntree_agents::session::{CheckpointInterval, SaveInterval, SessionMetadata, SessionSnapshot};
use turntree_agents::types::{PendingCall, Resolution, Verdict};
use turntree_agents::{Session as CoreSession, SessionError, SessionOptions};
use turntree_core::json::{self, RawJson, RawObject};
use turntree_core::message::message::History;

/// What decides about calls take.
const CALL: &str = "a ToolCall or the id of one";

/// The key of a pending call, the id that clients know, whether it shares its id, and the call.
type KeyedCall = (String, String, bool, Py<PyAny>);

/// The native half of ``turntree.Session``.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct SessionCore {
    session: CoreSession,
    objects: Arc<SessionObjects>,
    /// When runs are saved; `None` if only `save` saves.
    saves: Option<SaveInterval>,
    /// The cancelled calls of its runs.
    calls: CleanupScope,
}

/// Python objects of a session. One `SessionCore` owns them and shows them to the garbage collector.
#[derive(Debug, Default)]
struct SessionObjects(Mutex<Option<Objects>>);

#[derive(Debug)]
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
        let session = gil::mark_held(py, || session(options)).or_raise(py)?;
        Ok(Self { session, objects, saves, calls: CleanupScope::new(DEFAULT_TIMEOUT) })
    }

    fn restored_messages(&self) -> History {
        let restored = self.session.unfinished().filter(|unfinished| unfinished.restored);
        restored.map(|restored| restored.messages()).unwrap_or_default()
    }

    /// Prepares a run that starts with `metadata` and that of the options. `inside`: the call comes from inside a run of this
    /// session.
    fn prepare(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        ticket: u64,
        inside: bool,
        metadata: Arc<RawObject>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(PreparedRun, CoreSession, RunContext)> {
        let (py, Self { session, objects, saves, calls }) = (slf.py(), slf.get());
        let site = CallSite::new(py, mode)?;
        if !site.is_on_loop() && !inside {
            // A thread must not block on a run that its own event loop polls.
            session.check_may_block().or_raise(py)?;
        }
        let (agent, store) =
            objects.get(|objects| (objects.agent.clone_ref(py), objects.store.clone_ref(py)))?;
        let owners = [agent.clone_ref(py).into_any(), slf.clone().into_any().unbind()];
        let mut options = RunOptions::read(options)?;
        let run = PreparedRun::new(owners, agent.get().functions()).in_session(calls);
        let run = run.with_deps(options.deps.take());
        let run = run.with_on_approval(options.on_approval.take());
        let context = run.context(py, &site, options.metadata(metadata))?;
        let mut context = options.apply(&run.roots, context);
        context.session_id = inside.then(|| Arc::clone(session.id()));
        let session = session.with_ticket(ticket, site.is_on_loop());
        let persistence =
            saves.map(|_| PyPersistence::session_store(&run.roots, store.bind(py), site)).transpose()?;
        Ok((run, session.with_persistence(persistence), context))
    }

    /// Prepares a run that resumes the unfinished run, with that run's metadata.
    fn prepare_resume(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        ticket: u64,
        inside: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(PreparedRun, CoreSession, RunContext)> {
        let state = slf.get().session.unfinished().and_then(|unfinished| unfinished.state());
        let metadata = state.map(|state| state.metadata).unwrap_or_default();
        Self::prepare(slf, mode, ticket, inside, metadata, options)
    }
}

attributes! { SessionCore(slf) {
    /// The id of the session.
    id = *slf.get().session.id();

    /// The id of the agent that the session was created with.
    agent_id = *slf.get().session.agent_id();

    /// When the session was created, in UTC.
    created_at = slf.get().session.created_at();

    /// When the session last changed, in UTC.
    updated_at = slf.get().session.updated_at();

    /// Messages of a restored checkpoint that are not in the tree. The next run sees them after the history.
    restored = slf.get().restored_messages();

    /// Whether `resume` has a run to continue.
    is_unfinished = slf.get().session.is_resumable();

    /// The state of the unfinished run, or None.
    state = slf.get().session.unfinished().and_then(|unfinished| unfinished.state());

    /// All checkpoints, oldest first.
    checkpoints = slf.get().session.checkpoints();

    /// The newest checkpoint, or the one that was restored last.
    current_checkpoint = slf.get().session.current_checkpoint();
} }

impl SessionCore {
    /// Decides about a call, given as an object or by its id.
    fn decide(
        &self,
        py: Python<'_>,
        call: &Bound<'_, PyAny>,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> PyResult<()> {
        if let Ok(call) = call.cast::<ToolCall>() {
            let call = call.as_super().get().share().ok_or_else(|| wrong_type(call, "call", CALL))?;
            return self.session.decide_call(&call, verdict, arguments).or_raise(py);
        }
        let Ok(id) = call.extract::<String>() else { return Err(wrong_type(call, "call", CALL)) };
        self.session.decide(&id, verdict, arguments).or_raise(py)
    }
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
        let read = if is_plain(data) { read.map_err(of_plain) } else { read };
        let snapshot = read.or_raise_in(py, &text)?;
        let metadata = snapshot.metadata.to_python(py)?.cast_into::<PyDict>()?;
        let core = agent.get().agent().clone();
        Self::create(py, agent, &metadata, store, saves, |options| {
            Ok(CoreSession::from_snapshot(snapshot, core, options))
        })
    }

    /// Load a session from a store of turntree. Returns a coroutine that returns the session, or None.
    ///
    /// `progress` counts the entries that are read.
    ///
    /// Raises:
    ///     CorruptDataError: The stored session is invalid.
    ///     StoreError: The store cannot be read.
    #[staticmethod]
    fn load(
        store: &Bound<'_, PyAny>,
        id: String,
        agent: &Bound<'_, AgentCore>,
        saves: String,
        progress: Option<&Bound<'_, StoreProgress>>,
    ) -> PyResult<Coroutine> {
        let wrong = || PyTypeError::new_err("store must be a store of turntree");
        let native = native_store(store)?.ok_or_else(wrong)?;
        let sessions = match progress {
            Some(progress) => native.get().counting(progress.get()),
            None => native.get().session_store(),
        };
        let roots = GcRoots::new([store.clone().unbind(), agent.clone().into_any().unbind()]);
        let objects = roots.clone();
        let loaded = async move {
            let loaded = sessions
                .load(&id)
                .await
                .map_err(|error| SessionError::NotLoaded { id: id.as_str().into(), error });
            let Some(loaded) = loaded.or_raise_held()? else { return Ok(None) };
            gil::require_held(|py| {
                let agent = objects.get(py, 1)?.cast_into::<AgentCore>()?;
                let metadata = loaded.snapshot.metadata.to_python(py)?.cast_into::<PyDict>()?;
                let core = agent.get().agent().clone();
                let store = objects.get(py, 0)?;
                Self::create(py, &agent, &metadata, &store, Some(&saves), |options| {
                    let options = SessionOptions { saved: loaded.saved, ..options };
                    Ok(CoreSession::from_snapshot(loaded.snapshot, core, options))
                })
                .map(Some)
            })
        };
        Ok(Coroutine::new("load", roots, loaded))
    }

    /// Take the state of the store; `rebase` adds the changes of this session to it. Returns a coroutine.
    fn reload(slf: &Bound<'_, Self>, rebase: bool) -> PyResult<Coroutine> {
        let py = slf.py();
        let (metadata, store) =
            slf.get().objects.get(|objects| (objects.metadata.clone_ref(py), objects.store.clone_ref(py)))?;
        let roots = GcRoots::new([slf.clone().into_any().unbind(), metadata.into_any()]);
        let site = CallSite::new(py, RunMode::Awaited)?;
        let persistence = PyPersistence::session_store(&roots, store.bind(py), site)?;
        let session = slf.get().session.with_persistence(Some(persistence));
        let objects = roots.clone();
        let reloaded = async move {
            let stored = if rebase { session.rebase().await } else { session.reload().await };
            let stored = stored.or_raise_held()?;
            gil::require_held(|py| {
                let metadata = objects.get(py, 1)?.cast_into::<PyDict>()?;
                let stored = stored.to_python(py)?.cast_into::<PyDict>()?;
                metadata.clear();
                metadata.update(stored.as_mapping())
            })
        };
        Ok(Coroutine::new("reload", roots, reloaded))
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

    /// The calls that wait for approval, in order, each with its key.
    #[getter]
    fn pending_by_key(&self, py: Python<'_>) -> PyResult<Vec<KeyedCall>> {
        let pending = self.session.pending_by_key().into_iter();
        let one = |PendingCall { key, call, shares_id, shown_id }| {
            Ok((key.to_string(), shown_id, shares_id, ToolCall::wrap(py, call)?))
        };
        pending.map(one).collect()
    }

    /// Approve a pending call, given as an object or by its id. `arguments` replaces its arguments if given.
    #[pyo3(signature = (call, arguments))]
    fn approve(
        &self,
        py: Python<'_>,
        call: &Bound<'_, PyAny>,
        arguments: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let arguments = arguments.map(|arguments| to_raw_object(arguments, "arguments")).transpose()?;
        let arguments = arguments.as_ref().map(RawJson::from_value).transpose().or_raise(py)?;
        self.decide(py, call, Verdict::Approved, arguments)
    }

    /// Deny a pending call, given as an object or by its id.
    #[pyo3(signature = (call, reason))]
    fn deny(&self, py: Python<'_>, call: &Bound<'_, PyAny>, reason: Option<String>) -> PyResult<()> {
        self.decide(py, call, Verdict::Denied { reason }, None)
    }

    /// The calls that may have been executed before their process ended.
    #[getter]
    fn in_doubt(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.session.in_doubt().into_iter().map(|call| ToolCall::wrap(py, call)).collect()
    }

    /// Resolve a call in doubt: `kind` is "result", "error" or "retry", `value` the result or the error's text.
    #[pyo3(signature = (call_id, kind, value))]
    fn resolve(&self, py: Python<'_>, call_id: &str, kind: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let resolution = match kind {
            "result" => Resolution::Result(to_raw(value, "result")?),
            "error" => Resolution::Error(text_of(value, "error")?),
            _ => Resolution::Retry,
        };
        self.session.resolve(call_id, resolution).or_raise(py)
    }

    /// Discard the unfinished run. Return whether there was one.
    fn discard(&self, py: Python<'_>) -> PyResult<bool> {
        self.session.discard().or_raise(py)
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
    ///     options: The options of this run, or None.
    #[pyo3(signature = (input, ticket, inside, options = None))]
    fn run(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Coroutine> {
        let input = input_from(input)?;
        let (run, session, context) =
            Self::prepare(slf, RunMode::Awaited, ticket, inside, Arc::default(), options)?;
        Ok(run.coroutine("run", async move { session.run(input, context).await }))
    }

    /// Run on this thread, without an event loop, and return the turn.
    #[pyo3(signature = (input, ticket, inside, options = None))]
    fn run_sync(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let input = input_from(input)?;
        let (run, session, context) =
            Self::prepare(slf, RunMode::Blocking, ticket, inside, Arc::default(), options)?;
        run.block(slf.py(), session.run(input, context))
    }

    /// Start a streamed run.
    #[pyo3(signature = (input, ticket, inside, on_loop, sub_agent_events, options = None))]
    fn stream(
        slf: &Bound<'_, Self>,
        input: &Bound<'_, PyAny>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
        sub_agent_events: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<AgentStream> {
        let input = input_from(input)?;
        let mode = RunMode::Streamed { on_loop };
        let (run, session, context) = Self::prepare(slf, mode, ticket, inside, Arc::default(), options)?;
        let context = RunContext { sub_agent_events, ..context };
        let stream = gil::mark_held(slf.py(), || session.stream(input, context));
        AgentStream::new(slf.py(), stream.or_raise(slf.py())?, run)
    }

    /// Resume the unfinished run as a stream.
    #[pyo3(signature = (ticket, inside, on_loop, options = None))]
    fn resume_stream(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        on_loop: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<AgentStream> {
        let mode = RunMode::Streamed { on_loop };
        let (run, session, context) = Self::prepare_resume(slf, mode, ticket, inside, options)?;
        let stream = gil::mark_held(slf.py(), || session.resume_stream(context));
        AgentStream::new(slf.py(), stream.or_raise(slf.py())?, run)
    }

    /// Resume the unfinished run and return a coroutine that returns the turn.
    #[pyo3(signature = (ticket, inside, options = None))]
    fn resume(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Coroutine> {
        let (run, session, context) = Self::prepare_resume(slf, RunMode::Awaited, ticket, inside, options)?;
        Ok(run.coroutine("resume", async move { session.resume(context).await }))
    }

    /// Resume the unfinished run on this thread and return the turn.
    #[pyo3(signature = (ticket, inside, options = None))]
    fn resume_sync(
        slf: &Bound<'_, Self>,
        ticket: u64,
        inside: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (run, session, context) = Self::prepare_resume(slf, RunMode::Blocking, ticket, inside, options)?;
        run.block(slf.py(), session.resume(context))
    }

    /// Restore a checkpoint; returns a coroutine.
    fn restore(slf: &Bound<'_, Self>, checkpoint_id: String) -> Coroutine {
        let session = slf.get().session.clone();
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        let restored = async move { session.restore(&checkpoint_id).await.or_raise_held() };
        Coroutine::new("restore", roots, restored)
    }

    /// Start a branch at a node and return the new node's id. The current node does not change.
    fn fork(&self, py: Python<'_>, node_id: &str) -> PyResult<String> {
        Ok(self.session.fork(node_id).or_raise(py)?.to_string())
    }

    /// Add a thread under the root, with a history of its own, and return the new node's id.
    fn add_thread(&self, thread: &Bound<'_, Thread>, metadata: &Bound<'_, PyAny>) -> PyResult<String> {
        let (thread, py) = (Thread::read(thread)?, thread.py());
        let node = self.session.add_side_thread(thread, to_raw_object(metadata, "metadata")?);
        Ok(node.or_raise(py)?.to_string())
    }

    /// Save the session; returns a coroutine.
    fn save(slf: &Bound<'_, Self>) -> PyResult<Coroutine> {
        let py = slf.py();
        let store = slf.get().objects.get(|objects| objects.store.clone_ref(py))?;
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        let persistence =
            PyPersistence::session_store(&roots, store.bind(py), CallSite::new(py, RunMode::Awaited)?)?;
        let session = slf.get().session.with_persistence(Some(persistence));
        Ok(Coroutine::new("save", roots, async move { session.save().await.or_raise_held() }))
    }

    /// Return the session as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let snapshot = gil::mark_held(py, || self.session.snapshot()).or_raise(py)?;
        py.detach(|| json::write(&snapshot)).or_raise(py)
    }
}

garbage_collected!(SessionCore: objects);

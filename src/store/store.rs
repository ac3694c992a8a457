//! A store and its operations.

use std::path::PathBuf;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::PyString;

use crate::bridge::coroutine::{Coroutine, into_any};
use crate::bridge::gc::GcRoots;
use crate::bridge::{gil, sync};
use crate::convert::text::document_str;
use crate::error::OrRaise as _;
use crate::time::{from_python, to_datetime};
use turntree_agents::session::{SessionSnapshot, SessionStore};
use turntree_core::computation::offloaded;
use turntree_core::json;
use turntree_core::limits::Limits;
use turntree_store::engine::{SessionInfo, SessionPage, SessionQuery, SessionStatus, Synchronous};
use turntree_store::engines::encrypted::EncryptedEngine;
use turntree_store::engines::file::FileEngine;
use turntree_store::engines::memory::MemoryEngine;
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};
use turntree_store::engines::redis::{RedisEngine, RedisOptions};
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};
use turntree_store::queue::{Claim, Finish, NewRun, RunQuery};
use turntree_store::{Engine, JournalStore, StoreError};

use super::queue;

/// The native half of ``turntree.store.Store``.
///
/// With ``blocking=False``, operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct StoreCore {
    store: JournalStore,
    /// The engine of `store`, if it encrypts.
    encryption: Option<Arc<EncryptedEngine>>,
}

impl StoreCore {
    fn new(engine: impl Engine) -> Self {
        Self { store: JournalStore::new(Arc::new(engine)), encryption: None }
    }

    /// A store that encrypts.
    pub(super) fn encrypting(engine: Arc<EncryptedEngine>) -> Self {
        Self { store: JournalStore::new(Arc::clone(&engine) as Arc<dyn Engine>), encryption: Some(engine) }
    }

    /// The engine, if it encrypts.
    pub(super) const fn encryption(&self) -> Option<&Arc<EncryptedEngine>> {
        self.encryption.as_ref()
    }

    /// The store.
    pub(super) const fn store(&self) -> &JournalStore {
        &self.store
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        self.store.engine()
    }

    /// Another handle of the same store.
    pub(super) fn handle(&self, store: JournalStore) -> Self {
        Self { store, encryption: self.encryption.clone() }
    }

    /// The store as the port of sessions.
    pub(crate) fn session_store(&self) -> Arc<dyn SessionStore> {
        Arc::new(self.store.clone())
    }
}

/// Runs an operation on this thread, or returns a coroutine that runs it.
pub(crate) fn answer<T, F>(
    py: Python<'_>,
    name: &'static str,
    blocking: bool,
    operation: F,
) -> PyResult<Py<PyAny>>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
    F: Future<Output = PyResult<T>> + Send + 'static,
{
    if blocking {
        let value = sync::run_sync(py, operation)?;
        return into_any(py, value);
    }
    into_any(py, Coroutine::new(name, GcRoots::default(), operation))
}

/// The members of a `SessionInfo` in order.
type InfoTuple = (String, String, &'static str, u64, u64, Py<PyAny>, u64);

fn info_tuple(py: Python<'_>, info: &SessionInfo) -> PyResult<InfoTuple> {
    let updated_at = to_datetime(py, info.updated_at)?.unbind();
    let (id, agent) = (info.id.to_string(), info.agent.to_string());
    Ok((id, agent, info.status.as_str(), info.turns, info.nodes, updated_at, info.bytes))
}

fn page_tuple(page: &SessionPage) -> PyResult<(Vec<InfoTuple>, Option<String>)> {
    gil::require_held(|py| {
        let sessions = page.sessions.iter().map(|info| info_tuple(py, info)).collect::<PyResult<_>>()?;
        Ok((sessions, page.next.clone()))
    })
}

fn synchronous_of(name: &str) -> PyResult<Synchronous> {
    match name {
        "full" => Ok(Synchronous::Full),
        "normal" => Ok(Synchronous::Normal),
        other => {
            let message = format!("synchronous must be \"full\" or \"normal\", not \"{other}\"");
            Err(PyValueError::new_err(message))
        }
    }
}

fn status_of(name: &str) -> PyResult<SessionStatus> {
    let found = SessionStatus::ALL.into_iter().find(|status| status.as_str() == name);
    found.ok_or_else(|| {
        PyValueError::new_err(format!(
            "status must be \"idle\", \"unfinished\" or \"waiting\", not \"{name}\""
        ))
    })
}

#[pymethods]
impl StoreCore {
    /// Create a store in the memory of this process.
    #[staticmethod]
    fn memory() -> Self {
        Self::new(MemoryEngine::new())
    }

    /// Open a store in a SQLite file.
    #[staticmethod]
    fn sqlite(py: Python<'_>, path: PathBuf, synchronous: &str, read_only: bool) -> PyResult<Self> {
        let synchronous = synchronous_of(synchronous)?;
        let options =
            SqliteOptions { synchronous, read_only, create: !read_only, ..SqliteOptions::default() };
        SqliteEngine::open(path, options).or_raise(py).map(Self::new)
    }

    /// Open a store in a folder.
    #[staticmethod]
    fn file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        FileEngine::open(path).or_raise(py).map(Self::new)
    }

    /// Open a store in a PostgreSQL database.
    #[staticmethod]
    fn postgres(
        py: Python<'_>,
        url: &str,
        synchronous: &str,
        max_connections: usize,
        schema: Option<String>,
    ) -> PyResult<Self> {
        let synchronous = synchronous_of(synchronous)?;
        let options = PostgresOptions { synchronous, max_connections, schema, ..PostgresOptions::default() };
        PostgresEngine::connect(url, options).or_raise(py).map(Self::new)
    }

    /// Open a store in a Redis server.
    #[staticmethod]
    fn redis(py: Python<'_>, url: &str, prefix: Option<String>) -> PyResult<Self> {
        let options = RedisOptions { prefix, ..RedisOptions::default() };
        RedisEngine::connect(url, options).or_raise(py).map(Self::new)
    }

    /// The name of the store in messages.
    #[getter]
    fn name(&self) -> String {
        self.store.engine().name().to_string()
    }

    /// List sessions: a page of tuples, and the position of the next page.
    #[pyo3(signature = (agent, status, updated_after, limit, after, blocking))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn sessions(
        &self,
        py: Python<'_>,
        agent: Option<String>,
        status: Option<&str>,
        updated_after: Option<&Bound<'_, PyAny>>,
        limit: usize,
        after: Option<String>,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let status = status.map(status_of).transpose()?;
        let updated_after = updated_after.map(|time| from_python(time, "updated_after")).transpose()?;
        let query = SessionQuery { agent, status, updated_after, limit, after, ..SessionQuery::default() };
        let engine = Arc::clone(self.store.engine());
        answer(
            py,
            "sessions",
            blocking,
            async move { page_tuple(&engine.sessions(query).await.or_raise_held()?) },
        )
    }

    /// Delete a session; return whether there was one.
    fn delete(&self, py: Python<'_>, id: String, blocking: bool) -> PyResult<Py<PyAny>> {
        let engine = Arc::clone(self.store.engine());
        answer(py, "delete", blocking, async move { engine.delete(&id).await.or_raise_held() })
    }

    /// Return a session as JSON, or None.
    fn load(&self, py: Python<'_>, id: String, blocking: bool) -> PyResult<Py<PyAny>> {
        let store = self.store.clone();
        answer(py, "load", blocking, async move {
            let text = async {
                let Some(read) = store.read_log(&id).await? else { return Ok(None) };
                let invalid = |error: String| StoreError::Invalid(error);
                let bytes = usize::try_from(read.info.bytes).unwrap_or(usize::MAX);
                let text = offloaded(bytes, move || read.journal.snapshot().map(json::write).transpose());
                text.await
                    .map_err(|error| invalid(error.to_string()))?
                    .map_err(|error| invalid(error.to_string()))
            };
            text.await.or_raise_held()
        })
    }

    /// Store a session that is given as JSON. Replaces what the store has.
    fn save(&self, id: String, data: &Bound<'_, PyString>, blocking: bool) -> PyResult<Py<PyAny>> {
        let (py, data) = (data.py(), document_str(data)?);
        let snapshot = SessionSnapshot::from_json(data, &Limits::default()).or_raise_in(py, data)?;
        if *snapshot.id != *id {
            let message = format!("the data is session \"{}\", not \"{id}\"", snapshot.id);
            return Err(PyValueError::new_err(message));
        }
        let store = self.store.clone();
        answer(py, "save", blocking, async move {
            let stored = async {
                let head = store.engine().head(&id).await?;
                store.replace_log(snapshot, head).await
            };
            stored.await.or_raise_held()
        })
    }

    /// Return a handle of the same store whose saves fail if a newer lease of the session was issued.
    fn with_fence(&self, token: u64) -> Self {
        self.handle(self.store.with_fence(token))
    }

    /// Add a run, or resume the session if there is no input; return the run's id.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn enqueue(
        &self,
        py: Python<'_>,
        id: String,
        session: String,
        input: Option<String>,
        agent: Option<String>,
        not_before: Option<&Bound<'_, PyAny>>,
        priority: i32,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let not_before = not_before.map(|time| from_python(time, "not_before")).transpose()?;
        let (id, session) = (id.into(), session.into());
        let run = NewRun { id, session, input, agent, priority, not_before };
        let engine = Arc::clone(self.store.engine());
        answer(py, "enqueue", blocking, async move { queue::enqueue(&*engine, run).await.or_raise_held() })
    }

    /// Return a run as a tuple, or None.
    fn run(&self, py: Python<'_>, id: String, blocking: bool) -> PyResult<Py<PyAny>> {
        let engine = Arc::clone(self.store.engine());
        answer(py, "run", blocking, async move {
            let run = async { queue::of(&*engine)?.run(&id).await };
            let found = run.await.or_raise_held()?;
            gil::require_held(|py| found.map(|run| queue::run_row(py, run)).transpose())
        })
    }

    /// List runs: a page of tuples, and the position of the next page.
    fn runs(
        &self,
        py: Python<'_>,
        status: Option<&str>,
        session: Option<String>,
        limit: usize,
        after: Option<String>,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let status = status.map(queue::status_of).transpose()?;
        let query = RunQuery { status, session, limit, after };
        let engine = Arc::clone(self.store.engine());
        answer(py, "runs", blocking, async move {
            let page = async { queue::of(&*engine)?.runs(query).await }.await.or_raise_held()?;
            gil::require_held(|py| {
                let rows: PyResult<Vec<_>> =
                    page.runs.into_iter().map(|run| queue::run_row(py, run)).collect();
                Ok((rows?, page.next))
            })
        })
    }

    /// Return a coroutine of a run as a tuple, its token, and whether it was started before; or None.
    fn claim(&self, py: Python<'_>, worker: String, agents: Vec<String>, lease: f64) -> PyResult<Py<PyAny>> {
        let claim = Claim { worker, agents, lease: queue::duration(lease, "lease")? };
        let engine = Arc::clone(self.store.engine());
        answer(py, "claim", false, async move {
            let claimed = async { queue::of(&*engine)?.claim(claim).await };
            let claimed = claimed.await.or_raise_held()?;
            Ok(claimed.map(|claimed| (queue::run_tuple(claimed.run), claimed.token, claimed.was_started)))
        })
    }

    /// Extend a lease; return whether the worker still has it. Returns a coroutine.
    fn heartbeat(&self, py: Python<'_>, session: String, token: u64, lease: f64) -> PyResult<Py<PyAny>> {
        let lease = queue::duration(lease, "lease")?;
        let engine = Arc::clone(self.store.engine());
        answer(py, "heartbeat", false, async move {
            let is_held = async { queue::of(&*engine)?.heartbeat(&session, token, lease).await };
            is_held.await.or_raise_held()
        })
    }

    /// Store how an attempt ended, and give the lease back. Returns a coroutine.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn finish(
        &self,
        py: Python<'_>,
        run: String,
        session: String,
        token: u64,
        outcome: &str,
        text: Option<String>,
        delay: f64,
        updated_at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let updated_at = updated_at.map(|time| from_python(time, "updated_at")).transpose()?;
        let outcome = queue::outcome(outcome, text, queue::duration(delay, "delay")?, updated_at)?;
        let finish = Finish { run: run.into(), session: session.into(), token, outcome };
        let engine = Arc::clone(self.store.engine());
        answer(py, "finish", false, async move {
            let finished = async { queue::of(&*engine)?.finish(finish).await };
            finished.await.or_raise_held()
        })
    }

    /// Wait until a run may have become available. Returns a coroutine.
    fn wait_for_runs(&self, py: Python<'_>, timeout: f64) -> PyResult<Py<PyAny>> {
        let timeout = queue::duration(timeout, "timeout")?;
        let engine = Arc::clone(self.store.engine());
        answer(py, "wait_for_runs", false, async move {
            let waited = async { queue::of(&*engine)?.wait(timeout).await };
            waited.await.or_raise_held()
        })
    }

    /// Close the store.
    fn close(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let engine = Arc::clone(self.store.engine());
        answer(py, "close", blocking, async move { engine.close().await.or_raise_held() })
    }
}

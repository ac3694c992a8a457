//! `turntree.ToolContext`: the context of a tool call.
//!
//! Spec: UAP-1.0 §8.4.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::bridge::gc::garbage_collected;
use crate::convert::json::{json_to_python, to_raw};
use crate::convert::text::quoted;
use crate::error::{not_constructible, value_error};
use crate::to_python::{attributes, generic_alias};
use turntree_agents::host::ToolInvocation;
use turntree_core::json::RawJson;
use turntree_core::time::{Clock, SystemClock};

/// The context of one tool call.
///
/// A parameter of a tool that is annotated ``ToolContext`` receives it and is not part of the tool's schema.
/// Created by the run.
///
/// Spec: UAP-1.0 §8.4.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct ToolContext {
    call: ContextOf,
    metadata: Py<PyDict>,
    deps: Option<Py<PyAny>>,
}

/// What is called.
enum ContextOf {
    /// A tool, by the run of an agent.
    Run(Arc<ToolInvocation>),
    /// A task of a workflow, by a request.
    Request(RequestedTask),
}

/// The call of a task of a workflow.
pub(crate) struct RequestedTask {
    /// Who has sent the request.
    pub(crate) principal: Option<Arc<str>>,
    /// The id of the workflow's session.
    pub(crate) session_id: Arc<str>,
    /// The key that the request had, or the id of the call.
    pub(crate) idempotency_key: Arc<str>,
    /// The id of the call in the log.
    pub(crate) call_id: Arc<str>,
    /// Set when the request was dropped.
    pub(crate) is_cancelled: Arc<AtomicBool>,
    /// Receives reports.
    pub(crate) report: Box<dyn Fn(RawJson) + Send + Sync>,
}

impl ToolContext {
    /// Creates the context of a call. `metadata` and `deps` are those of the run.
    pub(crate) const fn new(
        invocation: Arc<ToolInvocation>,
        metadata: Py<PyDict>,
        deps: Option<Py<PyAny>>,
    ) -> Self {
        Self { call: ContextOf::Run(invocation), metadata, deps }
    }

    /// Creates the context of a task. `metadata` has the workflow and the stage.
    pub(crate) const fn of_request(task: RequestedTask, metadata: Py<PyDict>) -> Self {
        Self { call: ContextOf::Request(task), metadata, deps: None }
    }

    /// Reads one of two values: of the run of an agent, or of a request.
    fn read<'a, T>(
        &'a self,
        of_run: impl FnOnce(&'a ToolInvocation) -> T,
        of_request: impl FnOnce(&'a RequestedTask) -> T,
    ) -> T {
        match &self.call {
            ContextOf::Run(invocation) => of_run(invocation),
            ContextOf::Request(task) => of_request(task),
        }
    }
}

attributes! { ToolContext(slf) {
    /// The id of the agent that runs, a UUIDv4; the principal of the request in a task of a workflow.
    agent_id = slf.get().read(
        |run| Arc::clone(&run.identity.agent_id),
        |task| task.principal.clone().unwrap_or_default(),
    );

    /// The id of the run, a UUIDv4. In a task of a workflow, the id of the call.
    turn_id = slf.get().read(|run| Arc::clone(&run.identity.turn_id), |task| Arc::clone(&task.call_id));

    /// The id of the agent that called this agent as a tool, or None.
    parent_agent_id = slf.get().read(
        |run| run.identity.parent.as_ref().map(|parent| Arc::clone(&parent.agent_id)),
        |_| None,
    );

    /// The id of the run that called this agent as a tool, or None.
    parent_turn_id = slf.get().read(
        |run| run.identity.parent.as_ref().map(|parent| Arc::clone(&parent.turn_id)),
        |_| None,
    );

    /// The id of the call, as the model assigned it. In a task of a workflow, the id of the call in the log.
    tool_call_id = slf.get().read(|run| run.call.tool_call_id.clone(), |task| task.call_id.to_string());

    /// A UUID as text that identifies the call among all calls of all runs.
    ///
    /// A call that `resume` repeats, in this process or in another one, has the same key: send it to services that know
    /// idempotency keys. In a task of a workflow, the key of the request if it has one.
    idempotency_key = slf.get().read(|run| run.idempotency_key().to_string(), |task| task.idempotency_key.to_string());

    /// The id of the session, or None. That of a workflow is a secret: do not log it.
    session_id = slf.get().read(|run| run.identity.session_id.clone(), |task| Some(Arc::clone(&task.session_id)));

    /// Whether the run was aborted. Work that continues in a thread should stop.
    cancelled = slf.get().read(|run| run.cancellation.is_cancelled(), |task| task.is_cancelled.load(Ordering::Relaxed));

    /// The id of the principal who asked a server for the run.
    ///
    /// It is what the server's ``auth`` found; None without a server or ``auth``.
    principal = slf.get().read(
        |run| run.identity.principal.as_ref().map(|principal| Arc::from(principal.id())),
        |task| task.principal.clone(),
    );

    /// The number of runs that contain this run. 0 if no agent started it.
    depth = slf.get().read(|run| run.identity.depth, |_| 0);
} }

not_constructible!(ToolContext, "a tool receives it: annotate its first parameter with ToolContext");

#[pymethods]
impl ToolContext {
    /// Return an annotation with the type of `deps`, for type checkers.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic_alias(cls, item)
    }

    /// The dependencies: the object that the application passed to the run as ``deps``, or None.
    ///
    /// A run inside a tool, and a sub-agent, has those of the run that contains it, unless it has its own.
    #[getter]
    fn deps(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.deps.as_ref().map(|deps| deps.clone_ref(py))
    }

    /// Report the progress of the tool to the run's stream.
    ///
    /// The stream yields a ``tool_execution_progress`` event between the start and the end of the call. Its `delta`
    /// has ``toolCallId``, ``toolName``, ``progress`` and ``timestamp``. Without a stream, or after the call,
    /// nothing happens. May be called from any thread. In a task of a workflow, the client that asked for a stream
    /// receives it as a ``progress`` event.
    ///
    /// Args:
    ///     progress: JSON data such as ``{"done": 3, "of": 10}``.
    ///
    /// Raises:
    ///     TypeError: The value is not JSON data; the message names the path.
    fn report(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let progress = to_raw(progress, "progress")?;
        match &self.call {
            ContextOf::Run(invocation) => invocation.report(progress, SystemClock.now()),
            ContextOf::Request(task) => (task.report)(progress),
        }
        Ok(())
    }

    /// The metadata of the run: a dict that hooks see as ``state.metadata``. May be changed.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    /// The members of the dict that ``auth`` returned for the principal.
    ///
    /// Empty if it returned an id, and in a task of a workflow.
    #[getter]
    fn claims(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let principal = self.read(|run| run.identity.principal.as_ref(), |_| None);
        let text = principal.map(|principal| serde_json::to_string(principal.claims())).transpose();
        json_to_python(py, text.map_err(value_error)?.as_deref().unwrap_or("{}"))
    }

    fn __repr__(&self) -> String {
        let id = self.read(|run| run.call.tool_call_id.clone(), |task| task.call_id.to_string());
        format!("ToolContext(tool_call_id={})", quoted(&id))
    }
}

garbage_collected!(ToolContext: metadata, deps);

//! Performs tasks, guards and hooks that are written in Python.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::prelude::*;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pyo3::intern;
use pyo3::types::PyDict;
use serde_json::Value;

use super::state::LentState;
use super::workflow::{FunctionKey, Functions};
use crate::agents::tool_context::{RequestedTask, ToolContext};
use crate::bridge::callbacks::PyCallback;
use crate::bridge::gil;
use crate::convert::json::{json_to_python, to_raw};
use crate::error::value_error;
use crate::server::event_loop::ServerLoop;
use turntree_agents::Violation;
use turntree_core::json::RawJson;
use turntree_uaip::Workflow;
use turntree_uaip::engine::{Call, CallFailure, CallKind, CallResult};
use turntree_uaip::service::{CallContext, Progress, ProgressSender, TaskRunner};
use turntree_uaip::store::ApprovalDecision;

/// Calls the functions of workflows: async ones on the server's event loop, others in threads.
pub(super) struct PyTaskRunner {
    functions: HashMap<String, Functions>,
    server_loop: ServerLoop,
}

impl PyTaskRunner {
    /// A runner of workflows by their names.
    pub(super) const fn new(functions: HashMap<String, Functions>, server_loop: ServerLoop) -> Self {
        Self { functions, server_loop }
    }
}

impl fmt::Debug for PyTaskRunner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PyTaskRunner").field(&self.functions.keys()).finish()
    }
}

impl TaskRunner for PyTaskRunner {
    fn call(
        &self,
        workflow: Arc<Workflow>,
        call: Call,
        context: CallContext,
    ) -> BoxFuture<'static, CallResult> {
        let function = self.functions.get(workflow.name()).and_then(|all| all.get(&key_of(&call.kind)));
        let server_loop = self.server_loop.clone();
        let id = Arc::clone(&context.correlation_id);
        async move {
            let internal = || CallResult::Failed(CallFailure::Internal { correlation_id: id.to_string() });
            let Some(function) = function else {
                log::error!(target: "turntree.uaip", "{id}: the workflow no longer has this function");
                return internal();
            };
            let work = perform(function, workflow, call, context, server_loop.clone());
            let Some(result) = server_loop.run("workflow", work).await else {
                log::error!(target: "turntree.uaip", "{id}: the event loop of the server is closed");
                return internal();
            };
            result
        }
        .boxed()
    }
}

fn key_of(kind: &CallKind) -> FunctionKey {
    let (kind, first, second) = match kind {
        CallKind::Task { stage, task, .. } => ("task", stage.as_str(), task.as_str()),
        CallKind::Guard { from, to } => ("guard", from.as_str(), to.as_str()),
        CallKind::Prerequisites { stage } => ("prerequisites", stage.as_str(), ""),
        CallKind::OnExit { stage } => ("on_exit", stage.as_str(), ""),
        CallKind::OnEnter { stage } => ("on_enter", stage.as_str(), ""),
    };
    (kind.to_owned(), first.to_owned(), second.to_owned())
}

/// Sets a flag when the call is over or dropped.
struct Cancelled(Arc<AtomicBool>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Performs a call on the thread of the event loop.
async fn perform(
    function: Arc<PyCallback>,
    workflow: Arc<Workflow>,
    call: Call,
    context: CallContext,
    server_loop: ServerLoop,
) -> CallResult {
    let Call { kind, state, .. } = call;
    let only_reads = matches!(kind, CallKind::Guard { .. } | CallKind::Prerequisites { .. });
    let lent = LentState::new(state);
    let cancelled = Cancelled(Arc::default());
    let id = Arc::clone(&context.correlation_id);
    let started = gil::require_held(|py| {
        let arguments = match &kind {
            CallKind::Task { args, .. } => {
                json_to_python(py, &serde_json::to_string(args).map_err(value_error)?)?
            }
            _ => PyDict::new(py).into_any().unbind(),
        };
        let context = context_of(py, &workflow, &kind, context, &cancelled.0)?;
        let positional = (arguments, lent.to_python(py, only_reads)?, context).into_pyobject(py)?.unbind();
        function.call_from(py, positional, &server_loop.caller(py)?)
    });
    let value = async { started?.await }.await;
    let result = gil::require_held(|py| {
        Ok(value
            .and_then(|value| read(value.bind(py), &kind))
            .map_err(|error| failure(py, &error, &kind, &id)))
    });
    match (result, lent.take()) {
        (Ok(Ok(Returned::Decision(allowed))), _) => CallResult::Guard { allowed },
        (Ok(Ok(Returned::Violations(violations))), _) => CallResult::Prerequisites { violations },
        (Ok(Ok(Returned::Value(value))), Some(state)) => CallResult::Done { value, state },
        (Ok(Err(failure)), _) => CallResult::Failed(failure),
        (Ok(Ok(_)) | Err(_), _) => {
            CallResult::Failed(CallFailure::Internal { correlation_id: id.to_string() })
        }
    }
}

/// What a function has returned.
enum Returned {
    Value(Value),
    Decision(bool),
    Violations(Vec<Violation>),
}

fn read(value: &Bound<'_, PyAny>, kind: &CallKind) -> PyResult<Returned> {
    match kind {
        CallKind::Guard { .. } => value.is_truthy().map(Returned::Decision),
        CallKind::Prerequisites { .. } => violations(value).map(Returned::Violations),
        _ => {
            let text = to_raw(value, "result")?;
            serde_json::from_str(text.get()).map(Returned::Value).map_err(value_error)
        }
    }
}

/// Reads a list of `(pointer, rule, message)`.
fn violations(problems: &Bound<'_, PyAny>) -> PyResult<Vec<Violation>> {
    let problems: Vec<(String, String, String)> = problems.extract()?;
    let violation =
        |(pointer, rule, message): (String, String, String)| Violation::new(pointer, rule, &message);
    Ok(problems.into_iter().map(violation).collect())
}

/// Classifies an exception. Those that the agent does not see are logged.
fn failure(py: Python<'_>, error: &PyErr, kind: &CallKind, id: &Arc<str>) -> CallFailure {
    let classified = || -> PyResult<CallFailure> {
        let function = py.import(intern!(py, "turntree.uaip._task"))?.getattr(intern!(py, "failure_of"))?;
        let (kind, details): (String, Bound<'_, PyAny>) =
            function.call1((error.value(py), describe(kind), &**id))?.extract()?;
        Ok(match kind.as_str() {
            "task" => CallFailure::Task(details.extract()?),
            "arguments" => CallFailure::InvalidArgs(violations(&details)?),
            "approval" => {
                let request = to_raw(&details, "approval")?;
                CallFailure::ApprovalRequired {
                    request: serde_json::from_str(request.get()).map_err(value_error)?,
                }
            }
            _ => CallFailure::Internal { correlation_id: id.to_string() },
        })
    };
    classified().unwrap_or_else(|failed| {
        failed.write_unraisable(py, None);
        CallFailure::Internal { correlation_id: id.to_string() }
    })
}

/// The function in the log.
fn describe(kind: &CallKind) -> String {
    match kind {
        CallKind::Task { stage, task, .. } => format!("task \"{task}\" of stage \"{stage}\""),
        CallKind::Guard { from, to } => format!("the guard from \"{from}\" to \"{to}\""),
        CallKind::Prerequisites { stage } => format!("a validator of the prerequisites of stage \"{stage}\""),
        CallKind::OnExit { stage } => format!("on_exit of stage \"{stage}\""),
        CallKind::OnEnter { stage } => format!("on_enter of stage \"{stage}\""),
    }
}

fn context_of(
    py: Python<'_>,
    workflow: &Workflow,
    kind: &CallKind,
    context: CallContext,
    is_cancelled: &Arc<AtomicBool>,
) -> PyResult<Py<ToolContext>> {
    let metadata = PyDict::new(py);
    metadata.set_item(intern!(py, "workflow"), workflow.name())?;
    let stage = match kind {
        CallKind::Task { stage, .. }
        | CallKind::Prerequisites { stage }
        | CallKind::OnExit { stage }
        | CallKind::OnEnter { stage } => stage,
        CallKind::Guard { from, .. } => from,
    };
    metadata.set_item(intern!(py, "stage"), stage)?;
    match &context.approval {
        None => {}
        Some(ApprovalDecision::Granted) => metadata.set_item(intern!(py, "approval"), true)?,
        Some(ApprovalDecision::Denied { reason }) => metadata.set_item(intern!(py, "approval"), reason)?,
    }
    let call_id = context.correlation_id;
    let progress = context.progress;
    let task = RequestedTask {
        principal: context.principal,
        session_id: context.session_id,
        idempotency_key: context.idempotency_key.unwrap_or_else(|| Arc::clone(&call_id)),
        call_id,
        is_cancelled: Arc::clone(is_cancelled),
        report: Box::new(move |report| send_report(&progress, &report)),
    };
    Py::new(py, ToolContext::of_request(task, metadata.unbind()))
}

/// Sends a report: text is the message; an object with nothing but `step`, `message` and `data` has these members; any
/// other value is the data.
fn send_report(progress: &ProgressSender, report: &RawJson) {
    let Ok(value) = serde_json::from_str::<Value>(report.get()) else { return };
    progress.report(match value {
        Value::String(message) => Progress { message: Some(message), ..Progress::default() },
        Value::Object(object) if is_progress(&object) => {
            let text = |key| object.get(key).and_then(Value::as_str).map(str::to_owned);
            Progress { step: text("step"), message: text("message"), data: object.get("data").cloned() }
        }
        other => Progress { data: Some(other), ..Progress::default() },
    });
}

fn is_progress(object: &serde_json::Map<String, Value>) -> bool {
    !object.is_empty()
        && object.iter().all(|(key, value)| match key.as_str() {
            "step" | "message" => value.is_string(),
            key => key == "data",
        })
}

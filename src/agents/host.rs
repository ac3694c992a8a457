//! Calls the Python application for a run: tools, approval handlers and hooks.
//!
//! The object that received the functions owns them and shows them to the garbage collector. Each run keeps that object
//! alive and shares its functions. All code here runs where the run is polled: on the caller's event loop, or on the thread
//! of `run_sync`.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::agent_core::AgentCore;
use super::call_site::CallSite;
use super::functions::{Approver, EXECUTE, Functions};
use super::host_conversions::{
    approval_from, before_call_from, exception_of, host_error, is_cancellation, turn_to_python, value_of,
};
use super::run_metadata::RunMetadata;
use super::state::PyExecutionState;
use super::strategy::{Lease, StrategyContext, arguments, strategy_outcome_from};
use super::tool_context::ToolContext;
use super::tracing::PyTracer;
use crate::bridge::call::{Arguments, Call, call};
use crate::bridge::context::CallerContext;
use crate::bridge::gil::{self, lock};
use crate::convert::json::{json_to_python, to_raw};
use crate::data::extract;
use crate::records::{Turn as PyTurn, wrap_turn};
use crate::to_python::ToPython;
use turntree_agents::host::CustomStrategy;
use turntree_agents::host::HostFuture;
use turntree_agents::host::StrategyScope;
use turntree_agents::host::{
    Approval, BeforeCall, HookSet, Host, HostError, HostErrorKind, StepResult, ToolInvocation,
};
use turntree_agents::types::ExecutionState;
use turntree_agents::types::StrategyOutcome;
use turntree_agents::{Tool as CoreTool, Violation};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{ToolCall, ToolResult, Turn};
use turntree_core::telemetry::{Span, Tracer};
use turntree_core::time::{Clock, SystemClock};
use turntree_upp::UppError;

/// The violations that a Python type reports: pointer, rule and message of each.
type Violations = Vec<(String, String, String)>;

/// The host of one run.
pub(crate) struct PyHost {
    functions: Arc<Mutex<Functions>>,
    call_site: CallSite,
    /// The call site of tools, created for the first tool call.
    inside: OnceLock<CallSite>,
    hooks: HookSet,
    metadata: RunMetadata,
    /// The tracer, found when the run begins.
    tracer: OnceLock<Arc<PyTracer>>,
    /// The index of the middleware context in the run's roots, once it is created.
    middleware_context: Mutex<Option<usize>>,
}

impl PyHost {
    /// Creates the host of a run. The functions are locked for lookups only, never during a call.
    pub(crate) fn new(functions: &Arc<Mutex<Functions>>, call_site: CallSite, metadata: RunMetadata) -> Self {
        let hooks = lock(functions).set | HookSet::METADATA;
        Self {
            functions: Arc::clone(functions),
            call_site,
            inside: OnceLock::new(),
            hooks,
            metadata,
            tracer: OnceLock::new(),
            middleware_context: Mutex::default(),
        }
    }

    /// Returns the context that functions are called in.
    fn caller(&self, py: Python<'_>, span: Option<&Arc<dyn Span>>) -> PyResult<CallerContext> {
        Ok(self.within(py, span, self.call_site.caller(py)?))
    }

    /// Returns the context with the span as the current span, if the run is traced.
    fn within(&self, py: Python<'_>, span: Option<&Arc<dyn Span>>, caller: CallerContext) -> CallerContext {
        match self.tracer.get() {
            Some(tracer) => tracer.within(py, span, caller),
            None => caller,
        }
    }

    /// Returns the context that a tool is called in.
    fn inside(&self, py: Python<'_>, invocation: &ToolInvocation) -> PyResult<CallerContext> {
        let caller = match (&invocation.parent_run, self.inside.get()) {
            (None, _) => self.call_site.caller(py)?,
            (Some(_), Some(site)) => site.caller(py)?,
            (Some(enclosing), None) => {
                let site = self.call_site.inside(py, enclosing)?;
                self.inside.get_or_init(|| site).caller(py)?
            }
        };
        Ok(self.within(py, invocation.span.as_ref(), caller))
    }

    /// Creates the host of a sub-agent. It shares the call site and has its own functions and metadata.
    fn host_of(
        &self,
        py: Python<'_>,
        invocation: &ToolInvocation,
        metadata: &Arc<RawObject>,
    ) -> PyResult<Self> {
        let agent = self.look(|functions| {
            let tool = functions.tools.get(invocation.tool)?;
            tool.agent.as_ref().map(|agent| agent.clone_ref(py))
        })?;
        let metadata = RunMetadata::new(py, self.metadata.roots(), Arc::clone(metadata))?;
        let call_site =
            self.call_site.clone().map(|caller| self.within(py, invocation.span.as_ref(), caller));
        Ok(Self::new(agent.get().functions(), call_site, metadata))
    }

    /// Returns where the functions of the run are called.
    pub(super) const fn call_site(&self) -> &CallSite {
        &self.call_site
    }

    /// Returns the Python agent of the run.
    pub(super) fn agent(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let owner = self.look(|functions| functions.owner.as_ref().map(|owner| owner.clone_ref(py)))?;
        owner.call0(py)
    }

    /// Returns the context that all middleware of the run receives. Creates it at the first call.
    pub(super) fn middleware_context<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let index = *lock(&self.middleware_context);
        if let Some(context) = index.and_then(|index| self.metadata.roots().get(py, index).ok()) {
            return Ok(context);
        }
        let context = make()?;
        self.set_middleware_context(context.clone_ref(py));
        Ok(context.into_bound(py))
    }

    /// Replaces the context that middleware receives.
    pub(super) fn set_middleware_context(&self, context: Py<PyAny>) {
        *lock(&self.middleware_context) = Some(self.metadata.roots().add(context));
    }

    /// Converts a turn of this run.
    pub(super) fn turn_to_python(&self, py: Python<'_>, turn: Arc<Turn>) -> PyResult<Py<PyAny>> {
        turn_to_python(py, &self.functions, turn)
    }

    /// Converts the state for hooks.
    fn state_of(&self, py: Python<'_>, state: &ExecutionState) -> PyResult<Py<PyAny>> {
        PyExecutionState::live(py, state.clone(), self.metadata.dict(py)?)
    }

    /// Looks up one of the agent's functions.
    fn look<T>(&self, find: impl FnOnce(&Functions) -> Option<T>) -> PyResult<T> {
        let found = find(&lock(&self.functions));
        found.ok_or_else(|| PyTypeError::new_err("the agent no longer has this function"))
    }

    /// Starts a hook with the arguments that `arguments` returns.
    fn hook(
        &self,
        name: &'static str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>>,
    ) -> PyResult<Call> {
        gil::require_held(|py| {
            let (callable, mode) = self.look(|functions| {
                functions.hooks.get(name).map(|hook| (hook.callable.clone_ref(py), hook.mode))
            })?;
            let arguments = Arguments { positional: arguments(py)?, keywords: None };
            Ok(call(callable, arguments, mode, &self.caller(py, None)?))
        })
    }

    /// Starts `_call` of a tool.
    fn tool_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Call> {
        gil::require_held(|py| {
            let (tool, mode, takes_context) = self.look(|functions| {
                functions
                    .tools
                    .get(invocation.tool)
                    .map(|tool| (tool.tool.clone_ref(py), tool.mode, tool.takes_context))
            })?;
            let arguments = json_to_python(py, invocation.call.arguments.get())?;
            let context = if takes_context {
                Py::new(py, ToolContext::new(Arc::clone(invocation), self.metadata.dict(py)?))?.into_any()
            } else {
                py.None()
            };
            let positional = PyTuple::new(py, [arguments, context])?.unbind();
            let callable = tool.getattr(py, intern!(py, "_call"))?;
            let caller = self.inside(py, invocation)?;
            Ok(call(callable, Arguments { positional, keywords: None }, mode, &caller))
        })
    }

    /// Starts the approval handler of a tool. Returns `None` if a person decides.
    fn approval_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Option<Call>> {
        gil::require_held(|py| {
            let approver = self.look(|functions| {
                Some(match functions.tools.get(invocation.tool)?.approval.as_ref()? {
                    Approver::Function(function) => Some((function.callable.clone_ref(py), function.mode)),
                    Approver::Person => None,
                })
            })?;
            let Some((callable, mode)) = approver else { return Ok(None) };
            let arguments = json_to_python(py, invocation.call.arguments.get())?;
            let positional = PyTuple::new(py, [arguments])?.unbind();
            let arguments = Arguments { positional, keywords: None };
            let caller = self.caller(py, invocation.span.as_ref())?;
            Ok(Some(call(callable, arguments, mode, &caller)))
        })
    }

    /// Returns the tool object and the current arguments, which most tool hooks receive.
    fn tool_and_arguments(&self, py: Python<'_>, invocation: &ToolInvocation) -> PyResult<Vec<Py<PyAny>>> {
        let tool =
            self.look(|functions| functions.tools.get(invocation.tool).map(|tool| tool.tool.clone_ref(py)))?;
        Ok(vec![tool, json_to_python(py, invocation.call.arguments.get())?])
    }
}

fn tuple(py: Python<'_>, items: Vec<Py<PyAny>>) -> PyResult<Py<PyTuple>> {
    Ok(PyTuple::new(py, items)?.unbind())
}

impl Host for PyHost {
    fn hooks(&self) -> HookSet {
        self.hooks
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn clock(&self) -> &dyn Clock {
        &SystemClock
    }

    fn ids(&self) -> &dyn IdSource {
        &RandomIds
    }

    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        let found = gil::if_held(|py| PyTracer::of(py, Some(self.call_site.start()))).flatten()?;
        Some(Arc::clone(self.tracer.get_or_init(|| found)) as _)
    }

    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson> {
        let started = self.tool_call(&invocation);
        Box::pin(async move {
            let answer = value_of(started, |value| to_raw(value, "result")).await;
            // A cancelled run drops this future; a tool that is cancelled all the same has done that to itself, as when
            // it awaits a task that somebody cancelled.
            answer.map_err(|error| match error.kind {
                HostErrorKind::Fatal if is_cancellation(&error) => {
                    HostError { kind: HostErrorKind::Raised, ..error }
                }
                _ => error,
            })
        })
    }

    fn execute(
        &self,
        _: &dyn CustomStrategy,
        context: Arc<dyn StrategyScope>,
    ) -> HostFuture<'_, StrategyOutcome> {
        let lease = Lease::new(context);
        let guard = lease.guard();
        let started = self.hook(EXECUTE, |py| {
            let agent = self.metadata.roots().get(py, 0)?.cast_into::<AgentCore>()?.unbind();
            arguments(py, StrategyContext::new(lease, agent, self.metadata.dict(py)?))
        });
        Box::pin(async move {
            let outcome = value_of(started, strategy_outcome_from).await;
            drop(guard);
            outcome
        })
    }

    fn sub_host(
        &self,
        _tools: &Arc<[CoreTool]>,
        invocation: &ToolInvocation,
        metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        let made = gil::require_held(|py| {
            Ok(self.host_of(py, invocation, metadata).map_err(|error| host_error(py, error)))
        });
        let made = made.unwrap_or_else(|error| Err(HostError::raised("RuntimeError", error.to_string())));
        Ok(Arc::new(made?))
    }

    fn sub_agent_failure(&self, error: UppError) -> HostError {
        // What is no `Exception` ends the run that called the agent too.
        let made = gil::require_held(|py| Ok(host_error(py, crate::upp::error::to_exception(py, &error))));
        made.unwrap_or_else(|_| HostError::raised("UPPError", error.message))
    }

    fn approve(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        match self.approval_call(&invocation).transpose() {
            None => Box::pin(std::future::ready(Ok(Approval::Ask))),
            Some(started) => Box::pin(value_of(started, approval_from)),
        }
    }

    fn on_tool_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        let started = self.hook("on_tool_call", |py| tuple(py, self.tool_and_arguments(py, &invocation)?));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_before_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        let started = self.hook("on_before_call", |py| tuple(py, self.tool_and_arguments(py, &invocation)?));
        Box::pin(value_of(started, before_call_from))
    }

    fn on_after_call(
        &self,
        invocation: Arc<ToolInvocation>,
        result: RawJson,
    ) -> HostFuture<'_, Option<RawJson>> {
        let started = self.hook("on_after_call", |py| {
            let mut arguments = self.tool_and_arguments(py, &invocation)?;
            arguments.push(json_to_python(py, result.get())?);
            tuple(py, arguments)
        });
        Box::pin(value_of(started, |value| {
            let replaced =
                value.cast::<PyDict>().ok().map(|dict| dict.get_item("result")).transpose()?.flatten();
            replaced.map(|result| to_raw(&result, "result")).transpose()
        }))
    }

    fn on_tool_error(&self, invocation: Arc<ToolInvocation>, error: HostError) -> HostFuture<'_, ()> {
        let started = self.hook("on_tool_error", |py| {
            let mut arguments = self.tool_and_arguments(py, &invocation)?;
            arguments.push(exception_of(py, &error));
            tuple(py, arguments)
        });
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_max_iterations(&self, limit: u32) -> HostFuture<'_, ()> {
        let started = self.hook("on_max_iterations", |py| Ok(PyTuple::new(py, [limit])?.unbind()));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_step_start(&self, step: u32, state: ExecutionState) -> HostFuture<'_, ()> {
        let started = self.hook("on_step_start", |py| {
            tuple(py, vec![step.into_pyobject(py)?.into_any().unbind(), self.state_of(py, &state)?])
        });
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_reason(&self, step: u32, reasoning: String) -> HostFuture<'_, ()> {
        let started = self.hook("on_reason", |py| Ok((step, reasoning).into_pyobject(py)?.unbind()));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_act(&self, step: u32, calls: Vec<ToolCall>) -> HostFuture<'_, ()> {
        let started = self.hook("on_act", |py| Ok((step, calls.to_python(py)?).into_pyobject(py)?.unbind()));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_observe(&self, step: u32, results: Vec<ToolResult>) -> HostFuture<'_, ()> {
        let started =
            self.hook("on_observe", |py| Ok((step, results.to_python(py)?).into_pyobject(py)?.unbind()));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_step_end(&self, step: u32, result: StepResult) -> HostFuture<'_, ()> {
        let started = self.hook("on_step_end", |py| {
            let shown = PyDict::new(py);
            shown.set_item("turn", wrap_turn(py, Arc::clone(&result.turn))?)?;
            shown.set_item("state", self.state_of(py, &result.state)?)?;
            tuple(py, vec![step.into_pyobject(py)?.into_any().unbind(), shown.into_any().unbind()])
        });
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn stop_condition(&self, state: ExecutionState) -> HostFuture<'_, bool> {
        let started = self.hook("stop_condition", |py| tuple(py, vec![self.state_of(py, &state)?]));
        Box::pin(value_of(started, |value| value.is_truthy()))
    }

    fn on_complete(&self, turn: Arc<Turn>) -> HostFuture<'_, ()> {
        let started = self.hook("on_complete", |py| {
            tuple(py, vec![turn_to_python(py, &self.functions, Arc::clone(&turn))?])
        });
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn check_answer(&self, answer: RawJson) -> HostFuture<'_, Vec<Violation>> {
        let check = |py: Python<'_>| {
            let kind = self.look(|functions| functions.answer.as_ref().map(|kind| kind.clone_ref(py)))?;
            kind.call_method1(py, intern!(py, "check"), (answer.get(),))?.extract(py)
        };
        let checked: PyResult<Result<Violations, HostError>> =
            gil::require_held(|py| Ok(check(py).map_err(|error| host_error(py, error))));
        let checked =
            checked.unwrap_or_else(|error| Err(HostError::raised("RuntimeError", error.to_string())));
        let violations = |found: Violations| {
            found
                .into_iter()
                .map(|(pointer, rule, message)| Violation::new(pointer, rule, &message))
                .collect()
        };
        Box::pin(std::future::ready(checked.map(violations)))
    }

    fn on_error(&self, error: UppError, state: ExecutionState) -> HostFuture<'_, Option<Arc<Turn>>> {
        let started = self.hook("on_error", |py| {
            let exception = crate::upp::error::to_exception(py, &error).into_value(py).into_any();
            tuple(py, vec![exception, self.state_of(py, &state)?])
        });
        Box::pin(value_of(started, |value| {
            if value.is_none() {
                return Ok(None);
            }
            if !value.is_instance_of::<PyTurn>() && !value.is_instance_of::<PyDict>() {
                let found = value.get_type().name()?;
                let words = format!("on_error must return a Turn or None, not {found}");
                return Err(PyTypeError::new_err(words));
            }
            extract::<PyTurn>(value, "the turn of on_error").map(Some)
        }))
    }

    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        gil::if_held(|py| self.metadata.changed(py).ok()).flatten().flatten()
    }
}

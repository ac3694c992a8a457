//! Calls the Python application for a run: tools, approval handlers and hooks.
//!
//! The object that received the functions owns them and shows them to the garbage collector. Each run keeps that object
//! alive and shares its functions. All code here runs where the run is polled: on the caller's event loop, or on the thread
//! of `run_sync`.

mod other_agents;

use std::sync::{Arc, Mutex, OnceLock};

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyTuple};

use super::agent_core::AgentCore;
use super::approvers::{Approvers, decision_from};
use super::call_site::{CallSite, SiteInside};
use super::functions::{Approver, EXECUTE, Function, Functions, ON_APPROVAL, ToolFunction};
use super::host_conversions::{
    after_call_from, approval_from, before_call_from, exception_of, host_error, is_cancellation,
    optional_turn_from, system_prompt_from, turn_to_python, value_of, violations_from, with_python,
};
use super::parent_run::Lent;
use super::run_context::RunContext;
use super::run_metadata::RunMetadata;
use super::state::PyExecutionState;
use super::strategy::{Lease, StrategyContext, strategy_outcome_from};
use super::tool_context::ToolContext;
use super::tool_exceptions::ToolExceptions;
use super::toolset::function_of_toolset;
use super::tracing::PyTracer;
use crate::bridge::call::{Arguments, Call, call};
use crate::bridge::cleanup::{CleanupScope, Waits};
use crate::bridge::context::CallerContext;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::convert::json::{json_to_python, to_raw};
use crate::error::ToException as _;
use crate::to_python::ToPython;
use turntree_agents::host::{
    AgentTool, Approval, BeforeCall, CustomStrategy, HookSet, Host, HostError, HostErrorKind, HostFuture,
    StepResult, StrategyScope, ToolInvocation,
};
use turntree_agents::types::{ExecutionState, RunView, StrategyOutcome};
use turntree_agents::{Tool as CoreTool, Violation};
use turntree_core::ids::{DerivedIds, IdSource, RandomIds};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, ToolCall, ToolResult, Turn};
use turntree_core::telemetry::{Span, Tracer};
use turntree_core::time::{Clock, SystemClock};
use turntree_upp::{System, UppError};

/// The host of one run.
pub(crate) struct PyHost {
    functions: Arc<Mutex<Functions>>,
    call_site: CallSite,
    /// The call site of tools, created for the first tool call.
    inside: SiteInside,
    hooks: HookSet,
    metadata: RunMetadata,
    /// The tracer of the run, set when the run begins.
    tracer: OnceLock<Arc<PyTracer>>,
    exceptions: ToolExceptions,
    /// The index of the middleware context in the run's roots, once it is created.
    middleware_context: Mutex<Option<usize>>,
    /// The cancelled calls of earlier runs of the session.
    earlier_calls: Option<CleanupScope>,
    /// The ids of a run that can be repeated; `None`: random ids.
    ids: Option<DerivedIds>,
    /// The index of the dependencies in the run's roots.
    deps: Option<usize>,
    /// Who decides about calls whose approval says "ask".
    approvers: Approvers,
}

impl PyHost {
    /// Creates the host of a run. The functions are locked for lookups only, never during a call.
    pub(super) fn new(
        functions: &Arc<Mutex<Functions>>,
        call_site: CallSite,
        metadata: RunMetadata,
        exceptions: ToolExceptions,
    ) -> Self {
        let hooks = lock(functions).set | HookSet::METADATA;
        Self {
            functions: Arc::clone(functions),
            call_site,
            inside: SiteInside::default(),
            hooks,
            metadata,
            tracer: OnceLock::new(),
            exceptions,
            middleware_context: Mutex::default(),
            earlier_calls: None,
            ids: None,
            deps: None,
            approvers: Approvers::default(),
        }
    }

    /// The same host. These functions decide about calls whose approval says "ask".
    pub(super) fn with_approvers(self, approvers: Approvers) -> Self {
        Self { approvers, ..self }
    }

    /// The same host. Its run starts after the calls of `earlier_calls` have ended.
    pub(super) fn after(self, earlier_calls: Option<CleanupScope>) -> Self {
        Self { earlier_calls, ..self }
    }

    /// The same host. Its functions receive these dependencies, an index in the run's roots.
    pub(super) fn with_deps(self, deps: Option<usize>) -> Self {
        Self { deps, ..self }
    }

    /// The dependencies of the run.
    pub(super) fn deps(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let deps = self.deps.map(|index| self.metadata.roots().get(py, index))?;
        deps.ok().map(Bound::unbind)
    }

    /// Describes the run to one of its functions.
    pub(super) fn run_context(&self, py: Python<'_>, run: &RunView) -> PyResult<Py<RunContext>> {
        Py::new(py, RunContext::new(run, self.metadata(py)?, self.deps(py)))
    }

    /// The same host. Its run has these ids.
    pub(super) fn with_ids(self, ids: Option<DerivedIds>) -> Self {
        Self { ids, ..self }
    }

    /// The ids of a sub-agent's run. They do not depend on the order of concurrent calls.
    fn ids_of(&self, invocation: &ToolInvocation) -> Option<DerivedIds> {
        self.ids.as_ref().map(|ids| ids.nested(&invocation.idempotency_key().to_string()))
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
        let site = match &invocation.parent_run {
            Some(run) => self.inside.get(py, &self.call_site, run, || self.lent(py))?,
            None => self.call_site.clone(),
        };
        let caller = site.caller(py)?;
        Ok(self.within(py, invocation.span.as_ref(), caller))
    }

    /// Returns what the run lends to the runs inside it.
    fn lent(&self, py: Python<'_>) -> PyResult<Lent> {
        let approvers = self.approvers.callables(py, self.on_approval(py), self.roots())?;
        Ok(Lent { deps: self.deps(py), approvers })
    }

    /// Starts the strategy that is written in Python. Runs of agents that it starts are sub-runs.
    fn start_strategy(&self, lease: Lease, scope: &dyn StrategyScope) -> PyResult<Call> {
        gil::require_held(|py| {
            let execute =
                self.look(|functions| functions.hooks.get(EXECUTE).map(|hook| hook.clone_ref(py)))?;
            let agent = self.metadata.roots().get(py, 0)?.cast_into::<AgentCore>()?.unbind();
            let context = StrategyContext::new(lease, agent, self.metadata.dict(py)?, self.deps(py));
            let arguments = (Py::new(py, context)?,).into_pyobject(py)?;
            let site = match scope.parent_run() {
                Some(run) => {
                    let runs = scope.strategy_runs().cloned();
                    self.call_site.inside_strategy(py, run, self.lent(py)?, runs)?
                }
                None => self.call_site.clone(),
            };
            let caller = self.within(py, None, site.caller(py)?);
            Ok(execute.call(arguments, &caller).named(EXECUTE))
        })
    }

    /// Returns where the functions of the run are called.
    pub(super) const fn call_site(&self) -> &CallSite {
        &self.call_site
    }

    /// Returns the objects that the run keeps alive.
    pub(super) const fn roots(&self) -> &GcRoots {
        self.metadata.roots()
    }

    /// Returns the metadata dict of the run.
    pub(super) fn metadata(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.metadata.dict(py)
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
        turn_to_python(py, &self.functions, &self.exceptions, turn)
    }

    /// Converts the state for hooks.
    fn state_of(&self, py: Python<'_>, state: &ExecutionState) -> PyResult<Py<PyAny>> {
        PyExecutionState::live(py, state.clone(), self.metadata.dict(py)?)
    }

    /// Looks up one of the agent's functions.
    fn look<T>(&self, find: impl FnOnce(&Functions) -> Option<T>) -> PyResult<T> {
        let function = find(&lock(&self.functions));
        function.ok_or_else(no_function)
    }

    /// Returns the function of the called tool: one of the agent's, or one of a toolset.
    fn tool_function(&self, py: Python<'_>, invocation: &ToolInvocation) -> PyResult<ToolFunction> {
        match function_of_toolset(py, invocation)? {
            Some(tool) => Ok(tool),
            None => {
                self.look(|functions| functions.tools.get(invocation.tool).map(|tool| tool.clone_ref(py)))
            }
        }
    }

    /// Starts a hook with the arguments that `arguments` returns.
    fn start_hook(&self, name: &'static str, arguments: impl HookArguments) -> PyResult<Call> {
        gil::require_held(|py| {
            let hook = self.look(|functions| functions.hooks.get(name).map(|hook| hook.clone_ref(py)))?;
            Ok(hook.call(arguments(py)?, &self.caller(py, None)?).named(name))
        })
    }

    /// Calls a hook and converts its result.
    fn hook<T: Send + 'static>(
        &self,
        name: &'static str,
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
        arguments: impl HookArguments,
    ) -> HostFuture<'static, T> {
        Box::pin(value_of(self.start_hook(name, arguments), read))
    }

    /// Calls a hook that returns nothing.
    fn notify(&self, name: &'static str, arguments: impl HookArguments) -> HostFuture<'static, ()> {
        self.hook(name, |_| Ok(()), arguments)
    }

    /// Starts `_call` of a tool.
    fn tool_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Call> {
        gil::require_held(|py| {
            let ToolFunction { tool, mode, takes_context, .. } = self.tool_function(py, invocation)?;
            let arguments = json_to_python(py, invocation.call.arguments.get())?;
            let context = if takes_context { self.tool_context(py, invocation)? } else { py.None() };
            let positional = PyTuple::new(py, [arguments, context])?.unbind();
            let callable = tool.getattr(py, intern!(py, "_call"))?;
            let caller = self.inside(py, invocation)?;
            let name = format!("tool '{}'", invocation.call.tool_name);
            Ok(call(callable, Arguments { positional, keywords: None }, mode, &caller).named(name))
        })
    }

    /// Creates the context that a tool receives.
    fn tool_context(&self, py: Python<'_>, invocation: &Arc<ToolInvocation>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, ToolContext::new(Arc::clone(invocation), self.metadata.dict(py)?, self.deps(py)))?
            .into_any())
    }

    /// Starts the approval handler of a tool. Returns `None` if a person decides.
    fn approval_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Option<Call>> {
        gil::require_held(|py| {
            let approver = self.tool_function(py, invocation)?.approval.ok_or_else(no_function)?;
            let arguments = json_to_python(py, invocation.call.arguments.get())?;
            let (handler, arguments) = match approver {
                Approver::Person => return Ok(None),
                Approver::Function(handler) => (handler, PyTuple::new(py, [arguments])?),
                Approver::WithContext(handler) => {
                    (handler, PyTuple::new(py, [arguments, self.tool_context(py, invocation)?])?)
                }
            };
            let name = format!("the approval handler of tool '{}'", invocation.call.tool_name);
            Ok(Some(handler.call(arguments, &self.caller(py, invocation.span.as_ref())?).named(name)))
        })
    }

    /// Returns the functions that decide about a call whose approval says "ask".
    fn approvers(&self, py: Python<'_>) -> PyResult<Vec<Function>> {
        self.approvers.functions(py, self.on_approval(py), self.roots())
    }

    /// Returns the function of the agent that decides about its calls.
    fn on_approval(&self, py: Python<'_>) -> Option<Function> {
        lock(&self.functions).hooks.get(ON_APPROVAL).map(|function| function.clone_ref(py))
    }

    /// Starts a function that decides about a call.
    fn approver_call(&self, approver: Function, invocation: &ToolInvocation) -> PyResult<Call> {
        gil::require_held(|py| {
            let call = ToolCall::clone(&invocation.call).to_python(py)?;
            let caller = self.caller(py, invocation.span.as_ref())?;
            Ok(approver.call(PyTuple::new(py, [call])?, &caller).named(ON_APPROVAL))
        })
    }

    /// Returns the tool object and the current arguments, which tool hooks receive.
    fn tool_and_arguments(
        &self,
        py: Python<'_>,
        invocation: &ToolInvocation,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let tool = self.tool_function(py, invocation)?.tool;
        Ok((tool, json_to_python(py, invocation.call.arguments.get())?))
    }
}

/// Marks the error of `on_approval`, which ends the run of the call and the runs around it.
fn of_approver(error: HostError) -> HostError {
    if error.kind == HostErrorKind::Fatal {
        error
    } else {
        HostError { kind: HostErrorKind::Approver, ..error }
    }
}

fn no_function() -> PyErr {
    PyTypeError::new_err("the agent no longer has this function")
}

/// Builds the arguments of a hook.
trait HookArguments: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> {}

impl<F: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>> HookArguments for F {}

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
        self.ids.as_ref().map_or(&RandomIds, |ids| ids)
    }

    fn sub_run_id(&self, invocation: &ToolInvocation) -> String {
        self.ids_of(invocation).map_or_else(|| RandomIds.string(), |ids| ids.nested("run").string())
    }

    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        let tracer = gil::if_held(|py| PyTracer::of(py, Some(self.call_site.start()))).flatten()?;
        Some(Arc::clone(self.tracer.get_or_init(|| tracer)) as _)
    }

    fn earlier_calls(&self, is_resumed: bool) -> Option<BoxFuture<'static, ()>> {
        let calls = self.earlier_calls.as_ref().filter(|calls| !calls.is_settled())?;
        let waits = if is_resumed { Waits::AllCalls } else { Waits::Tasks };
        Some(Box::pin(calls.settled(waits)))
    }

    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson> {
        let started = self.tool_call(&invocation);
        Box::pin(async move {
            let result = value_of(started, |value| to_raw(value, "result")).await;
            // A cancelled run drops this future. A tool that raises `CancelledError` was not cancelled by the run: for
            // example, it awaits a task that other code cancels.
            result.map_err(|error| {
                let is_raised = error.kind == HostErrorKind::Fatal && is_cancellation(&error);
                let error =
                    if is_raised { HostError { kind: HostErrorKind::Raised, ..error } } else { error };
                self.exceptions.record(&invocation.call.tool_name, &invocation.call.tool_call_id, error)
            })
        })
    }

    fn execute(
        &self,
        _: &dyn CustomStrategy,
        context: Arc<dyn StrategyScope>,
    ) -> HostFuture<'_, StrategyOutcome> {
        let lease = Lease::new(Arc::clone(&context));
        let guard = lease.guard();
        let started = self.start_strategy(lease, &*context);
        drop(context);
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
        Ok(Arc::new(with_python(|py| self.host_of(py, invocation, metadata))?))
    }

    fn handoff_agent(&self, tool: usize) -> Result<Arc<dyn AgentTool>, HostError> {
        Ok(with_python(|py| self.handoff_target(py, tool))?.get().agent().as_agent_tool())
    }

    fn handoff_host(
        &self,
        _tools: &Arc<[CoreTool]>,
        tool: usize,
        metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        Ok(Arc::new(with_python(|py| self.successor(py, tool, metadata))?))
    }

    fn handoff_input(
        &self,
        tool: usize,
        messages: &[Arc<Message>],
    ) -> Result<Option<Vec<Arc<Message>>>, HostError> {
        with_python(|py| self.filtered_input(py, tool, messages))
    }

    fn sub_agent_failure(&self, error: UppError) -> HostError {
        // An exception such as `KeyboardInterrupt` also ends the run that called the agent.
        let converted = gil::if_held(|py| host_error(py, error.to_exception(py)));
        converted.unwrap_or_else(|| HostError::raised("UPPError", error.message))
    }

    fn approve(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        let started = self.approval_call(&invocation).transpose();
        Box::pin(async move {
            let approval = match started {
                None => Approval::Ask,
                Some(started) => value_of(started, approval_from).await?,
            };
            if approval != Approval::Ask {
                return Ok(approval);
            }
            for approver in with_python(|py| self.approvers(py))? {
                let decided = value_of(self.approver_call(approver, &invocation), decision_from).await;
                match decided.map_err(of_approver)? {
                    Approval::Ask => {}
                    decision => return Ok(decision),
                }
            }
            Ok(Approval::Ask)
        })
    }

    fn on_tool_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        self.notify("on_tool_call", |py| self.tool_and_arguments(py, &invocation)?.into_pyobject(py))
    }

    fn on_before_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        self.hook("on_before_call", before_call_from, |py| {
            self.tool_and_arguments(py, &invocation)?.into_pyobject(py)
        })
    }

    fn on_after_call(
        &self,
        invocation: Arc<ToolInvocation>,
        result: RawJson,
    ) -> HostFuture<'_, Option<RawJson>> {
        self.hook("on_after_call", after_call_from, |py| {
            let (tool, arguments) = self.tool_and_arguments(py, &invocation)?;
            (tool, arguments, json_to_python(py, result.get())?).into_pyobject(py)
        })
    }

    fn on_tool_error(&self, invocation: Arc<ToolInvocation>, error: HostError) -> HostFuture<'_, ()> {
        self.notify("on_tool_error", |py| {
            let (tool, arguments) = self.tool_and_arguments(py, &invocation)?;
            (tool, arguments, exception_of(py, &error)).into_pyobject(py)
        })
    }

    fn on_max_iterations(&self, limit: u32) -> HostFuture<'_, ()> {
        self.notify("on_max_iterations", |py| (limit,).into_pyobject(py))
    }

    fn on_step_start(&self, step: u32, state: ExecutionState) -> HostFuture<'_, ()> {
        self.notify("on_step_start", |py| (step, self.state_of(py, &state)?).into_pyobject(py))
    }

    fn on_reason(&self, step: u32, reasoning: String) -> HostFuture<'_, ()> {
        self.notify("on_reason", |py| (step, reasoning).into_pyobject(py))
    }

    fn on_act(&self, step: u32, calls: Vec<ToolCall>) -> HostFuture<'_, ()> {
        self.notify("on_act", |py| (step, calls.to_python(py)?).into_pyobject(py))
    }

    fn on_observe(&self, step: u32, results: Vec<ToolResult>) -> HostFuture<'_, ()> {
        self.notify("on_observe", |py| (step, results.to_python(py)?).into_pyobject(py))
    }

    fn on_step_end(&self, step: u32, result: StepResult) -> HostFuture<'_, ()> {
        self.notify("on_step_end", |py| {
            let parts = (self.turn_to_python(py, result.turn)?, self.state_of(py, &result.state)?);
            let class =
                py.import(intern!(py, "turntree._agent_hooks"))?.getattr(intern!(py, "StepResult"))?;
            (step, class.call1(parts)?).into_pyobject(py)
        })
    }

    fn stop_condition(&self, state: ExecutionState) -> HostFuture<'_, bool> {
        let read = |value: &Bound<'_, PyAny>| value.is_truthy();
        self.hook("stop_condition", read, |py| (self.state_of(py, &state)?,).into_pyobject(py))
    }

    fn on_complete(&self, turn: Arc<Turn>) -> HostFuture<'_, ()> {
        self.notify("on_complete", |py| (self.turn_to_python(py, turn)?,).into_pyobject(py))
    }

    fn check_answer(&self, answer: RawJson) -> HostFuture<'_, Vec<Violation>> {
        let checked = with_python(|py| {
            let kind = self.look(|functions| functions.answer.as_ref().map(|kind| kind.clone_ref(py)))?;
            violations_from(kind.call_method1(py, intern!(py, "check"), (answer.get(),))?.bind(py))
        });
        Box::pin(std::future::ready(checked))
    }

    fn validate_output(&self, run: Arc<RunView>, output: RawJson) -> HostFuture<'_, Option<String>> {
        let read = |value: &Bound<'_, PyAny>| value.extract::<Option<String>>();
        self.hook("validate_output", read, |py| {
            let kind = lock(&self.functions).answer.as_ref().map(|kind| kind.clone_ref(py));
            let value = match kind {
                Some(kind) => kind.call_method1(py, intern!(py, "build"), (output.get(),))?,
                None => json_to_python(py, output.get())?,
            };
            (self.run_context(py, &run)?, value).into_pyobject(py)
        })
    }

    fn system_prompt(&self, run: Arc<RunView>) -> HostFuture<'_, Option<Arc<System>>> {
        self.hook("system_prompt", system_prompt_from, |py| (self.run_context(py, &run)?,).into_pyobject(py))
    }

    fn on_error(&self, error: UppError, state: ExecutionState) -> HostFuture<'_, Option<Arc<Turn>>> {
        self.hook("on_error", optional_turn_from, |py| {
            let exception = error.to_exception(py).into_value(py);
            (exception, self.state_of(py, &state)?).into_pyobject(py)
        })
    }

    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        gil::if_held(|py| self.metadata.changed(py).ok()).flatten().flatten()
    }
}

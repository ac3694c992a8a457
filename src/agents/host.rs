//! The application behind a run, in Python: its tools, its approval handlers, its hooks.
//!
//! Functions are held once, by the object that was given them, which shows them to the garbage collector and which every
//! run keeps alive; a run shares them. All of it runs where the run is polled: on the caller's event loop, or on the thread of `run_sync`.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::agent::AgentCore;
use super::callables::{ASK, Approver, Callables, EXECUTE};
use super::context::ToolContext;
use super::enclosing;
use super::state::PyExecutionState;
use super::strategy::{Lease, StrategyContext, arguments, performed};
use super::tracing::PyTracer;
use crate::bridge::call::{Arguments, Call, call};
use crate::bridge::context::CallerContext;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::bridge::imports::cancelled_error;
use crate::convert::json::{json_to_python, to_raw, to_raw_object};
use crate::data::extract;
use crate::raised::Raised;
use crate::records::{Turn as PyTurn, wrap_turn};
use crate::to_python::ToPython;
use turntree_agents::driver::{Span, Tracer};
use turntree_agents::host::CustomStrategy;
use turntree_agents::host::HostFuture;
use turntree_agents::host::StrategyScope;
use turntree_agents::host::{
    Approval, BeforeCall, HookSet, Host, HostError, HostErrorKind, StepResult, ToolInvocation,
};
use turntree_agents::types::ExecutionState;
use turntree_agents::types::ParentRun;
use turntree_agents::types::StrategyOutcome;
use turntree_agents::{Tool as CoreTool, Violation};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{ToolCall, ToolResult, Turn};
use turntree_core::time::{Clock, SystemClock};
use turntree_upp::UppError;

/// Where the functions of a run are called.
#[derive(Clone)]
pub(crate) enum Place {
    /// Where the run was started from.
    Started(CallerContext),
    /// On the loop that polls the run, which may have been started without one; with the variables of its start.
    Polled(CallerContext),
}

impl Place {
    /// Where the run was started.
    const fn start(&self) -> &CallerContext {
        let (Self::Started(caller) | Self::Polled(caller)) = self;
        caller
    }

    pub(crate) fn caller(&self, py: Python<'_>) -> PyResult<CallerContext> {
        match self {
            Self::Started(caller) => Ok(caller.clone()),
            Self::Polled(caller) => caller.on_running_loop(py),
        }
    }

    /// The same place as tools see it: inside of the run.
    fn entered(&self, py: Python<'_>, enclosing: &Arc<ParentRun>) -> PyResult<Self> {
        let inside = enclosing::entered(py, self.start(), enclosing)?;
        Ok(self.clone().map(|_| inside))
    }

    /// The same kind of place with other context variables.
    fn map(self, change: impl FnOnce(CallerContext) -> CallerContext) -> Self {
        match self {
            Self::Started(caller) => Self::Started(change(caller)),
            Self::Polled(caller) => Self::Polled(change(caller)),
        }
    }
}

/// Violations as Python tells them: pointer, rule and message of each.
type Found = Vec<(String, String, String)>;

/// The host of one run.
pub(crate) struct PyHost {
    callables: Arc<Mutex<Callables>>,
    place: Place,
    /// The place as tools see it, once one was called.
    inside: OnceLock<Place>,
    hooks: HookSet,
    metadata: RunMetadata,
    /// Who watches; found when the run begins.
    tracer: OnceLock<Arc<PyTracer>>,
    /// Where what middleware sees is kept, once it is made.
    seen_by_middleware: Mutex<Option<usize>>,
}

/// The dict that hooks and tools of a run share: what they put into it is the run's metadata (decision A79).
pub(crate) struct RunMetadata {
    kept: GcRoots,
    index: usize,
    /// What it held when it was last read.
    seen: Mutex<Arc<RawObject>>,
}

impl RunMetadata {
    /// A dict of what the run starts with, kept by the run.
    ///
    /// # Errors
    /// Only when Python fails, as out of memory.
    pub(crate) fn new(py: Python<'_>, kept: &GcRoots, metadata: Arc<RawObject>) -> PyResult<Self> {
        let index = kept.add(metadata.to_python(py)?.unbind());
        Ok(Self { kept: kept.clone(), index, seen: Mutex::new(metadata) })
    }

    fn dict(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        Ok(self.kept.get(py, self.index)?.cast_into::<PyDict>()?.unbind())
    }

    /// What it holds, where that has changed since it was last read.
    fn changed(&self, py: Python<'_>) -> PyResult<Option<Arc<RawObject>>> {
        let dict = self.dict(py)?;
        if dict.bind(py).is_empty() && lock(&self.seen).is_empty() {
            return Ok(None);
        }
        let metadata = to_raw_object(dict.bind(py).as_any(), "state.metadata").inspect_err(|error| {
            // A hook put in what JSON cannot hold: it is told on stderr, and the run keeps what it had.
            error.clone_ref(py).write_unraisable(py, None);
        })?;
        let mut seen = lock(&self.seen);
        if **seen == metadata {
            return Ok(None);
        }
        *seen = Arc::new(metadata);
        Ok(Some(Arc::clone(&seen)))
    }
}

impl PyHost {
    /// The host of a run with these functions; locked for a lookup, never while one is called.
    pub(crate) fn new(callables: &Arc<Mutex<Callables>>, place: Place, metadata: RunMetadata) -> Self {
        let hooks = lock(callables).set | HookSet::METADATA;
        Self {
            callables: Arc::clone(callables),
            place,
            inside: OnceLock::new(),
            hooks,
            metadata,
            tracer: OnceLock::new(),
            seen_by_middleware: Mutex::default(),
        }
    }

    /// Where functions of the application are called.
    fn caller(&self, py: Python<'_>, span: Option<&Arc<dyn Span>>) -> PyResult<CallerContext> {
        Ok(self.within(py, span, self.place.caller(py)?))
    }

    /// The same place inside the span, where somebody watches.
    fn within(&self, py: Python<'_>, span: Option<&Arc<dyn Span>>, caller: CallerContext) -> CallerContext {
        match self.tracer.get() {
            Some(tracer) => tracer.within(py, span, caller),
            None => caller,
        }
    }

    /// Where a tool is called.
    fn inside(&self, py: Python<'_>, invocation: &ToolInvocation) -> PyResult<CallerContext> {
        let caller = match (&invocation.parent_run, self.inside.get()) {
            (None, _) => self.place.caller(py)?,
            (Some(_), Some(place)) => place.caller(py)?,
            (Some(enclosing), None) => {
                let place = self.place.entered(py, enclosing)?;
                self.inside.get_or_init(|| place).caller(py)?
            }
        };
        Ok(self.within(py, invocation.span.as_ref(), caller))
    }

    /// The host of an agent that is a tool: it shares the place, and has its own functions and metadata.
    fn host_of(
        &self,
        py: Python<'_>,
        invocation: &ToolInvocation,
        metadata: &Arc<RawObject>,
    ) -> PyResult<Self> {
        let agent = self.look(|callables| {
            let tool = callables.tools.get(invocation.tool)?;
            tool.agent.as_ref().map(|agent| agent.clone_ref(py))
        })?;
        let metadata = RunMetadata::new(py, &self.metadata.kept, Arc::clone(metadata))?;
        let place = self.place.clone().map(|caller| self.within(py, invocation.span.as_ref(), caller));
        Ok(Self::new(agent.get().callables(), place, metadata))
    }

    /// Where the functions of the run are called.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// The agent whose run it is.
    pub(super) fn agent(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let owner = self.look(|callables| callables.owner.as_ref().map(|owner| owner.clone_ref(py)))?;
        owner.call0(py)
    }

    /// What all middleware of the run sees; made at first use and kept with the run.
    pub(super) fn seen_by_middleware<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kept = *lock(&self.seen_by_middleware);
        if let Some(seen) = kept.and_then(|index| self.metadata.kept.get(py, index).ok()) {
            return Ok(seen);
        }
        let seen = make()?;
        self.show_middleware(seen.clone_ref(py));
        Ok(seen.into_bound(py))
    }

    /// Shows something else to the middleware from now on.
    pub(super) fn show_middleware(&self, seen: Py<PyAny>) {
        *lock(&self.seen_by_middleware) = Some(self.metadata.kept.add(seen));
    }

    /// A turn of this run as Python sees it.
    pub(super) fn show_turn(&self, py: Python<'_>, turn: Arc<Turn>) -> PyResult<Py<PyAny>> {
        show_turn(py, &self.callables, turn)
    }

    /// `state` as hooks see it.
    fn state_of(&self, py: Python<'_>, state: &ExecutionState) -> PyResult<Py<PyAny>> {
        PyExecutionState::live(py, state.clone(), self.metadata.dict(py)?)
    }

    /// Looks something up among the agent's functions.
    fn look<T>(&self, find: impl FnOnce(&Callables) -> Option<T>) -> PyResult<T> {
        let found = find(&lock(&self.callables));
        found.ok_or_else(|| PyTypeError::new_err("the agent has no such function any more"))
    }

    /// Starts a hook; its arguments are made by `arguments`.
    fn hook(
        &self,
        name: &'static str,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>>,
    ) -> PyResult<Call> {
        gil::require_held(|py| {
            let (callable, mode) = self.look(|callables| {
                callables.hooks.get(name).map(|hook| (hook.callable.clone_ref(py), hook.mode))
            })?;
            let arguments = Arguments { positional: arguments(py)?, keywords: None };
            Ok(call(callable, arguments, mode, &self.caller(py, None)?))
        })
    }

    /// Starts `_call` of a tool.
    fn tool_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Call> {
        gil::require_held(|py| {
            let (tool, mode, takes_context) = self.look(|callables| {
                callables
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

    /// Asks the function that approves a tool's calls; none where a person does.
    fn approval_call(&self, invocation: &Arc<ToolInvocation>) -> PyResult<Option<Call>> {
        gil::require_held(|py| {
            let approver = self.look(|callables| {
                Some(match callables.tools.get(invocation.tool)?.approval.as_ref()? {
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

    /// The tool object and the arguments in effect, as most tool hooks take them.
    fn tool_and_arguments(&self, py: Python<'_>, invocation: &ToolInvocation) -> PyResult<Vec<Py<PyAny>>> {
        let tool =
            self.look(|callables| callables.tools.get(invocation.tool).map(|tool| tool.tool.clone_ref(py)))?;
        Ok(vec![tool, json_to_python(py, invocation.call.arguments.get())?])
    }
}

/// The value of a call, read while the GIL is held.
pub(super) async fn value_of<T>(
    started: PyResult<Call>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
) -> Result<T, HostError> {
    let value = match started {
        Ok(call) => call.await,
        Err(error) => Err(error),
    };
    let held = gil::require_held(|py| {
        let read = value.and_then(|value| read(value.bind(py)));
        Ok(read.map_err(|error| host_error(py, error)))
    });
    held.unwrap_or_else(|error| Err(HostError::raised("RuntimeError", error.to_string())))
}

/// An exception as the core carries it. What is no `Exception` (as `KeyboardInterrupt`) ends the run.
pub(super) fn host_error(py: Python<'_>, error: PyErr) -> HostError {
    let value = error.value(py);
    let type_name = value.get_type().name().map_or_else(|_| "Exception".to_owned(), |name| name.to_string());
    let words = value.str().map(|words| words.to_string()).unwrap_or_default();
    let kind = match () {
        () if !value.is_instance_of::<PyException>() => HostErrorKind::Fatal,
        () if type_name == "ArgumentError" => HostErrorKind::InvalidArguments,
        () => HostErrorKind::Raised,
    };
    // An exception without words is told by its type: a model can do nothing with an empty error.
    let message = if words.is_empty() { type_name.clone() } else { words };
    HostError { kind, type_name, message, payload: Some(Arc::new(Raised::new(py, error))) }
}

/// Whether Python cancelled something.
fn is_cancellation(error: &HostError) -> bool {
    let raised = error.payload.as_deref().and_then(|payload| payload.downcast_ref::<Raised>());
    let Some(raised) = raised else { return false };
    gil::require_held(|py| raised.value(py).is_instance(cancelled_error(py)?)).unwrap_or(false)
}

/// A turn of a run with these functions, as Python sees it: with its data as the type that was asked for.
pub(super) fn show_turn(
    py: Python<'_>,
    callables: &Mutex<Callables>,
    turn: Arc<Turn>,
) -> PyResult<Py<PyAny>> {
    let answer = lock(callables).answer.as_ref().map(|answer| answer.clone_ref(py));
    let (Some(answer), Some(data)) = (answer, &turn.data) else { return wrap_turn(py, turn) };
    // Data that was not checked, as of a turn that `on_error` gave, may not fit.
    let built = answer.call_method1(py, intern!(py, "build"), (data.get(),)).ok();
    PyTurn::with_data(py, turn, built)
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
        let found = gil::if_held(|py| PyTracer::of(py, Some(self.place.start()))).flatten()?;
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
            let agent = self.metadata.kept.get(py, 0)?.cast_into::<AgentCore>()?.unbind();
            arguments(py, StrategyContext::new(lease, agent, self.metadata.dict(py)?))
        });
        Box::pin(async move {
            let performed = value_of(started, performed).await;
            drop(guard);
            performed
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
            Some(started) => Box::pin(value_of(started, approval)),
        }
    }

    fn on_tool_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        let started = self.hook("on_tool_call", |py| tuple(py, self.tool_and_arguments(py, &invocation)?));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn on_before_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        let started = self.hook("on_before_call", |py| tuple(py, self.tool_and_arguments(py, &invocation)?));
        Box::pin(value_of(started, before_call))
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
        let started = self
            .hook("on_complete", |py| tuple(py, vec![show_turn(py, &self.callables, Arc::clone(&turn))?]));
        Box::pin(value_of(started, |_| Ok(())))
    }

    fn check_answer(&self, answer: RawJson) -> HostFuture<'_, Vec<Violation>> {
        let check = |py: Python<'_>| {
            let kind = self.look(|callables| callables.answer.as_ref().map(|kind| kind.clone_ref(py)))?;
            kind.call_method1(py, intern!(py, "check"), (answer.get(),))?.extract(py)
        };
        let checked: PyResult<Result<Found, HostError>> =
            gil::require_held(|py| Ok(check(py).map_err(|error| host_error(py, error))));
        let checked =
            checked.unwrap_or_else(|error| Err(HostError::raised("RuntimeError", error.to_string())));
        let violations = |found: Found| {
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
                let words = format!("on_error must give a Turn or None, not {found}");
                return Err(PyTypeError::new_err(words));
            }
            extract::<PyTurn>(value, "the turn of on_error").map(Some)
        }))
    }

    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        gil::if_held(|py| self.metadata.changed(py).ok()).flatten().flatten()
    }
}

/// What an approval handler answered. Text other than "ask" is a mistake, and must not count as a yes.
fn approval(value: &Bound<'_, PyAny>) -> PyResult<Approval> {
    let Ok(word) = value.cast::<PyString>() else {
        return Ok(if value.is_truthy()? { Approval::Granted } else { Approval::Denied });
    };
    let word = word.to_cow()?;
    if word == ASK {
        return Ok(Approval::Ask);
    }
    Err(PyTypeError::new_err(format!("approval must give True, False or \"{ASK}\", not {word:?}")))
}

/// What a hook before a call answered: falsy skips, a dict may carry other arguments. UPP-1.2 §10.4.
fn before_call(value: &Bound<'_, PyAny>) -> PyResult<BeforeCall> {
    let Ok(dict) = value.cast::<PyDict>() else {
        return Ok(if value.is_truthy()? { BeforeCall::Proceed } else { BeforeCall::Skip });
    };
    let proceeds = dict.get_item("proceed")?.map_or(Ok(false), |proceed| proceed.is_truthy())?;
    match (proceeds, dict.get_item("params")?) {
        (false, _) => Ok(BeforeCall::Skip),
        (true, None) => Ok(BeforeCall::Proceed),
        (true, Some(params)) => to_raw(&params, "params").map(BeforeCall::ProceedWith),
    }
}

fn exception_of(py: Python<'_>, error: &HostError) -> Py<PyAny> {
    match error.payload.as_deref().and_then(|payload| payload.downcast_ref::<Raised>()) {
        Some(raised) => raised.value(py).clone().into_any().unbind(),
        None => pyo3::exceptions::PyRuntimeError::new_err(error.message.clone()).into_value(py).into_any(),
    }
}

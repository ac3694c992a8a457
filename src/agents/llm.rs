//! The native half of `turntree.upp.LLM`: construction, calls and streams.
//!
//! Spec: UPP-1.2 §10.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyList, PyString, PyTuple};

use super::agent_core::AgentCore;
use super::call_site::{CallSite, RunMode};
use super::functions::Functions;
use super::inputs::{params_from, tools_from};
use super::run::PreparedRun;
use super::stream::AgentStream;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::lock;
use crate::content::block_from;
use crate::convert::json::to_raw;
use crate::error::{OrRaise as _, ToException as _};
use crate::message::{Message, message_from};
use crate::thread::history_from;
use crate::upp::config::config_from;
use crate::upp::middleware::chain::MiddlewareChain;
use crate::upp::model::ModelReference;
use crate::upp::request::system_from;
use turntree_agents::host::{RunContext, StrategyScope};
use turntree_agents::{Llm, LlmOptions, ToolUseStrategy};
use turntree_core::ids::RandomIds;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_core::time::Timestamp;
use turntree_upp::UppError;
use turntree_upp::llm::Input;

/// The native half of ``turntree.upp.LLM``. Any number of calls can run at the same time.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct LlmCore {
    llm: Llm,
    functions: Arc<Mutex<Functions>>,
    /// The model object, and the callbacks of the LLM's configuration.
    callbacks: Callbacks,
    middleware: Py<MiddlewareChain>,
}

#[pymethods]
impl LlmCore {
    #[new]
    #[pyo3(signature = (
        *, model, params, config, max_iterations, tools, system, structure, structure_repair, answer, hooks, middleware
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the specification, all by keyword")]
    fn new(
        model: &Bound<'_, ModelReference>,
        params: Option<&Bound<'_, PyAny>>,
        config: &Bound<'_, PyAny>,
        max_iterations: Option<u32>,
        tools: &Bound<'_, PyList>,
        system: Option<&Bound<'_, PyAny>>,
        structure: Option<&Bound<'_, PyAny>>,
        structure_repair: bool,
        answer: Option<Py<PyAny>>,
        hooks: &Bound<'_, PyDict>,
        middleware: Py<MiddlewareChain>,
    ) -> PyResult<Self> {
        let (config, mut callbacks) = config_from(config)?;
        callbacks.objects.push(model.clone().into_any().unbind());
        let (tools, bindings) = tools_from(tools)?;
        let options = LlmOptions {
            params: params_from(params)?,
            system: system.map(system_from).transpose()?.map(Arc::new),
            tools,
            tool_strategy: ToolUseStrategy { max_iterations },
            structure: structure.map(|schema| to_raw(schema, "structure")).transpose()?.map(Arc::new),
            structure_repair,
            ..LlmOptions::new(model.get().bind(&config))
        };
        let functions = Arc::new(Mutex::new(Functions::new(bindings, hooks)?.with_answer(answer)));
        let llm = Llm::new(options, &RandomIds).or_raise(model.py())?;
        Ok(Self { llm, functions, callbacks, middleware })
    }

    /// Start a call on the caller's event loop and return a coroutine that returns the turn.
    ///
    /// Raises:
    ///     UPPError: The model does not support a requested feature, or an argument is not an input. Raised
    ///         immediately.
    fn generate(slf: &Bound<'_, Self>, arguments: &Bound<'_, PyTuple>) -> PyResult<Coroutine> {
        let (run, turn) = Self::start(slf, RunMode::Awaited, arguments)?;
        Ok(run.coroutine("generate", turn))
    }

    /// Call on this thread, without an event loop, and return the turn.
    ///
    /// Raises:
    ///     UPPError: As `generate`, or the model call failed.
    fn generate_sync(slf: &Bound<'_, Self>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let (run, turn) = Self::start(slf, RunMode::Blocking, arguments)?;
        run.block(slf.py(), turn)
    }

    /// Start a streamed call.
    ///
    /// Args:
    ///     arguments: The history, if any, and the inputs.
    ///     on_loop: Whether tools run on the caller's event loop. Otherwise they run on a loop in a background
    ///         thread.
    ///
    /// Raises:
    ///     UPPError: As `generate`, or the model cannot stream.
    fn stream(slf: &Bound<'_, Self>, arguments: &Bound<'_, PyTuple>, on_loop: bool) -> PyResult<AgentStream> {
        let mode = RunMode::Streamed { on_loop };
        let (run, context, CallInput { history, inputs }) = Self::prepare(slf, mode, arguments)?;
        let stream = slf.get().llm.stream(history, inputs, context).or_raise(slf.py())?;
        AgentStream::new(slf.py(), stream, run)
    }
}

garbage_collected!(LlmCore: middleware, functions, callbacks);

impl LlmCore {
    /// Returns the model of a run with the tools of its agent, without the hooks of steps.
    ///
    /// # Errors
    /// `UPPError` if the model does not support a feature that the agent needs.
    pub(super) fn of_run(py: Python<'_>, run: &dyn StrategyScope, agent: &Py<AgentCore>) -> PyResult<Self> {
        let llm = Llm::in_run(run, agent.get().agent().options(), &RandomIds).or_raise(py)?;
        let functions = Arc::new(Mutex::new(lock(agent.get().functions()).without_steps(py)));
        let mut callbacks = Callbacks::default();
        // The model can refer to functions that the agent owns.
        callbacks.objects.push(agent.clone_ref(py).into_any());
        let none = py.get_type::<MiddlewareChain>().call1((PyTuple::empty(py),))?.cast_into()?.unbind();
        Ok(Self { llm, functions, callbacks, middleware: none })
    }

    fn prepare(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<(PreparedRun, RunContext, CallInput)> {
        let (py, this) = (slf.py(), slf.get());
        let site = CallSite::new(py, mode)?;
        let input = CallInput::from_python(arguments, this.llm.model().provider())?;
        let run = PreparedRun::new([slf.clone().into_any().unbind()], &this.functions);
        // The run that contains the call lends its depth, not its model, its session or its cancellation.
        let RunContext { host, parent_run, .. } = run.context(py, &site, Arc::default())?;
        let middleware = this.middleware.get().for_call(&run.roots);
        Ok((run, RunContext { parent_run, middleware, ..RunContext::new(host) }, input))
    }

    /// Prepares a call and returns the future of its turn.
    fn start(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<(PreparedRun, impl Future<Output = Result<Arc<Turn>, UppError>> + Send + use<>)> {
        let (run, context, CallInput { history, inputs }) = Self::prepare(slf, mode, arguments)?;
        let (machine, driver) = slf.get().llm.start(history, inputs, context).or_raise(slf.py())?;
        Ok((run, driver.complete(machine)))
    }
}

/// The history and the inputs of a call.
struct CallInput {
    history: History,
    inputs: Vec<Input>,
}

impl CallInput {
    /// Separates history and inputs by the type of the first argument.
    ///
    /// Spec: UPP-1.2 §10.1.
    ///
    /// # Errors
    /// `UPPError` `INVALID_REQUEST`, caused by what is wrong with the argument.
    fn from_python(arguments: &Bound<'_, PyTuple>, provider: &str) -> PyResult<Self> {
        let py = arguments.py();
        Self::read(arguments).map_err(|cause| {
            let reason = cause.value(py).str().map(|reason| reason.to_string()).unwrap_or_default();
            let error = UppError::invalid_request(provider, format!("Invalid inference input: {reason}"));
            let error = error.to_exception(py);
            error.set_cause(py, Some(cause));
            error
        })
    }

    fn read(arguments: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let mut arguments = arguments.iter().enumerate().peekable();
        let history = match arguments.peek() {
            Some((_, first)) => history_of(first)?,
            None => None,
        };
        if history.is_some() {
            arguments.next();
        }
        let inputs = arguments.map(|(place, input)| input_from(&input, &format!("input[{place}]")));
        Ok(Self { history: history.unwrap_or_default(), inputs: inputs.collect::<PyResult<_>>()? })
    }
}

/// Returns the history if the first argument is one: a thread, an object or dict with a list of `messages`, an empty
/// list, or a list that starts with a message.
fn history_of(first: &Bound<'_, PyAny>) -> PyResult<Option<History>> {
    let py = first.py();
    let messages = match first.cast::<PyDict>() {
        Ok(dict) => dict.get_item(intern!(py, "messages"))?,
        Err(_) => first.getattr_opt(intern!(py, "messages"))?,
    };
    if let Some(messages) = messages.filter(is_list) {
        return history_from(&messages, "history").map(Some);
    }
    if !is_list(first) {
        return Ok(None);
    }
    match first.try_iter()?.next().transpose()? {
        None => Ok(Some(History::new())),
        Some(element) if looks_like_message(&element)? => history_from(first, "history").map(Some),
        Some(_) => Err(PyTypeError::new_err(
            "a list is a history and must hold messages; give texts and blocks one by one, as generate(*blocks)",
        )),
    }
}

fn is_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

/// Returns true for a message, or a dict with the members that every message has.
fn looks_like_message(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<Message>() {
        return Ok(true);
    }
    let Ok(dict) = value.cast::<PyDict>() else { return Ok(false) };
    let text = |name: &str| -> PyResult<Option<String>> {
        Ok(dict.get_item(name)?.and_then(|value| value.extract().ok()))
    };
    if text("id")?.is_none_or(|id| id.is_empty()) {
        return Ok(false);
    }
    let is_dated = match dict.get_item("timestamp")? {
        Some(time) if time.is_instance_of::<PyString>() => {
            time.extract::<String>()?.parse::<Timestamp>().is_ok()
        }
        Some(time) => time.is_instance_of::<PyDateTime>(),
        None => false,
    };
    let list =
        |name: &str| -> PyResult<bool> { Ok(dict.get_item(name)?.is_some_and(|value| is_list(&value))) };
    Ok(is_dated
        && match text("type")?.as_deref() {
            Some("user" | "assistant") => list("content")?,
            Some("tool_result") => list("results")?,
            _ => false,
        })
}

/// Converts a message, a text or a block.
fn input_from(input: &Bound<'_, PyAny>, what: &str) -> PyResult<Input> {
    if let Ok(text) = input.cast::<PyString>() {
        return Ok(Input::Text(text.to_str()?.to_owned()));
    }
    let is_message = input.is_instance_of::<Message>()
        || match input.cast::<PyDict>() {
            Ok(dict) => dict.contains("type")? && dict.contains("id")? && dict.contains("timestamp")?,
            Err(_) => false,
        };
    if is_message {
        message_from(input, what).map(Input::Message)
    } else {
        block_from(input, what).map(Input::Block)
    }
}

//! The native half of `turntree.Agent`: options to a core agent, inputs to messages, runs to coroutines.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyList, PyString};

use super::callables::{Callables, ToolBinding};
use super::enclosing::run_context;
use super::host::{Place, PyHost, RunMetadata, show_turn};
use super::middleware::hooks::onion_from;
use super::strategy::strategy_from;
use super::stream::AgentStream;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::context::CallerContext;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::Collect as _;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::bridge::sync;
use crate::content::content_from;
use crate::convert::json::{json_to_python, to_raw, to_raw_object};
use crate::data::extract;
use crate::message::{Message, message_from};
use crate::records::Turn as PyTurn;
use crate::thread::history_from;
use crate::upp::config::config_from;
use crate::upp::model::ModelReference;
use crate::upp::request::system_from;
use turntree_agents::driver::Driver;
use turntree_agents::host::RunContext;
use turntree_agents::machine::Machine;
use turntree_agents::sub_agent::{result_of, task_of};
use turntree_agents::{Agent as CoreAgent, AgentOptions, ToToolOptions, Tool as CoreTool, ToolUseStrategy};
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message as CoreMessage, ToolDefinition};
use turntree_core::time::SystemClock;
use turntree_upp::llm::Input;

/// The native half of an agent. One serves any number of runs at once.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct AgentCore {
    agent: CoreAgent,
    callables: Arc<Mutex<Callables>>,
    /// The model's object, and what the agent's own configuration was given.
    held: Callbacks,
}

impl AgentCore {
    /// The application's functions; locked for a lookup, never while one is called.
    pub(crate) fn callables(&self) -> &Arc<Mutex<Callables>> {
        &self.callables
    }

    /// The agent.
    pub(crate) const fn agent(&self) -> &CoreAgent {
        &self.agent
    }
}

/// What a run is started with: history and input.
struct Start {
    history: History,
    input: Input,
}

impl Start {
    fn from_python(history: Option<&Bound<'_, PyAny>>, input: &Bound<'_, PyAny>) -> PyResult<Self> {
        let history = match history {
            Some(history) if !history.is_none() => history_from(history, "history")?,
            _ => History::new(),
        };
        Ok(Self { history, input: input_from(input)? })
    }
}

/// A message as it is; a text, a block, or a list of them as one user message.
///
/// # Errors
/// `TypeError` naming the place; `turntree.ValidationError` for a dict that is no message.
pub(crate) fn input_from(input: &Bound<'_, PyAny>) -> PyResult<Input> {
    if let Ok(text) = input.cast::<PyString>() {
        return Ok(Input::Text(text.to_str()?.to_owned()));
    }
    let is_message = input.is_instance_of::<Message>()
        || input.cast::<PyDict>().is_ok_and(|dict| dict.contains("timestamp").unwrap_or(false));
    if is_message {
        return Ok(Input::Message(message_from(input, "input")?));
    }
    let content = if input.is_instance_of::<PyList>() {
        content_from(input, "input")?
    } else {
        vec![crate::content::block_from(input, "input")?]
    };
    Ok(Input::Message(Arc::new(CoreMessage::new(Body::User { content }, &RandomIds, &SystemClock))))
}

#[pymethods]
impl AgentCore {
    #[new]
    #[pyo3(signature = (
        *, model, params, config, execution, execute, max_iterations, tools, system, structure,
        structure_repair, answer, middleware, hooks, id, name, max_sub_agent_depth
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of the specification, all by keyword")]
    fn new(
        model: Option<&Bound<'_, ModelReference>>,
        params: Option<&Bound<'_, PyAny>>,
        config: &Bound<'_, PyAny>,
        execution: &Bound<'_, PyDict>,
        execute: Option<&Bound<'_, PyAny>>,
        max_iterations: Option<u32>,
        tools: &Bound<'_, PyList>,
        system: Option<&Bound<'_, PyAny>>,
        structure: Option<&Bound<'_, PyAny>>,
        structure_repair: bool,
        answer: Option<Py<PyAny>>,
        middleware: &Bound<'_, PyAny>,
        hooks: &Bound<'_, PyDict>,
        id: Option<String>,
        name: Option<String>,
        max_sub_agent_depth: Option<u32>,
    ) -> PyResult<Self> {
        let (config, mut held) = config_from(config)?;
        held.objects.extend(model.map(|model| model.clone().into_any().unbind()));
        let (tools, bindings) = tools_from(tools)?;
        let options = AgentOptions {
            model: model.map(|model| model.get().bind(&config)),
            params: params_from(params)?,
            system: system.map(system_from).transpose()?.map(Arc::new),
            tools,
            structure: structure.map(|schema| to_raw(schema, "structure")).transpose()?.map(Arc::new),
            structure_repair,
            strategy: Some(strategy_from(execution)?),
            middleware: onion_from(middleware, &mut held)?,
            tool_strategy: ToolUseStrategy { max_iterations },
            id: id.map(Into::into),
            name: name.map(Into::into),
            max_sub_agent_depth,
        };
        let callables =
            Arc::new(Mutex::new(Callables::new(bindings, hooks)?.with_answer(answer).with_execute(execute)?));
        Ok(Self { agent: CoreAgent::new(options, &RandomIds), callables, held })
    }

    /// The agent's id, a UUIDv4.
    #[getter]
    fn id(&self) -> &str {
        self.agent.id()
    }

    /// Says who gives the agent of Python, which middleware sees.
    fn belong_to(&self, owner: Py<PyAny>) {
        let before = lock(&self.callables).belong_to(owner);
        drop(before);
    }

    /// Starts a run; the coroutine gives its turn.
    fn run(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
    ) -> PyResult<Coroutine> {
        let caller = CallerContext::capture(slf.py())?;
        let (kept, machine, driver) = Self::prepare(slf, history, input, caller, false)?;
        Ok(Coroutine::new("run", kept, perform(machine, driver, Arc::clone(&slf.get().callables))))
    }

    /// Runs on this thread, without an event loop.
    fn run_sync(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let caller = CallerContext::without_loop(slf.py())?;
        let (_kept, machine, driver) = Self::prepare(slf, history, input, caller, true)?;
        sync::run_sync(slf.py(), perform(machine, driver, Arc::clone(&slf.get().callables)))
    }

    /// Starts a run that is listened to. `on_loop` tells whether tools run on the caller's event loop.
    fn stream(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        on_loop: bool,
        sub_agent_events: bool,
    ) -> PyResult<AgentStream> {
        let py = slf.py();
        let caller = CallerContext::without_loop(py)?;
        let place = if on_loop { Place::Polled(caller) } else { Place::Started(caller) };
        let start = Start::from_python(history, input)?;
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let host = PyHost::new(&slf.get().callables, place, RunMetadata::new(py, &kept, Arc::default())?);
        let context = RunContext { sub_agent_events, ..run_context(py, Arc::new(host), !on_loop)? };
        let stream = slf.get().agent.stream_with_history(start.history, start.input, context);
        let stream = stream.map_err(|error| crate::upp::error::to_exception(py, &error))?;
        AgentStream::new(py, stream, &slf.get().callables, kept)
    }

    /// Name, description and parameters of the tool that the agent is. UAP-1.0 §8.2.
    fn tool_definition<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
        description: Option<String>,
        parameter_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(String, String, Bound<'py, PyAny>)> {
        let schema = parameter_schema.map(|schema| to_raw(schema, "parameter_schema")).transpose()?;
        if schema.as_ref().is_some_and(|schema| !schema.is_object()) {
            return Err(PyTypeError::new_err("parameter_schema must be a JSON Schema, a dict"));
        }
        let options = ToToolOptions { name, description, parameter_schema: schema };
        let ToolDefinition { name, description, parameters, .. } = self.agent.to_tool(options).definition;
        Ok((name, description, json_to_python(py, parameters.get())?.into_bound(py)))
    }

    /// The task that arguments name, for a tool that is called by hand.
    #[staticmethod]
    fn task_of(arguments: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(task_of(&to_raw(arguments, "arguments")?))
    }

    /// What the tool answers for a turn, as plain data.
    #[staticmethod]
    fn result_of(py: Python<'_>, turn: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        json_to_python(py, result_of(&*extract::<PyTurn>(turn, "turn")?).get())
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 wants")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Never wait inside the collector: whoever holds the lock only clones a reference.
        self.held.traverse(&visit)?;
        match self.callables.try_lock() {
            Ok(callables) => callables.traverse(&visit),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let callables = std::mem::take(&mut *lock(&self.callables));
        drop(callables);
        self.held.clear();
    }
}

impl AgentCore {
    fn prepare(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        caller: CallerContext,
        waits: bool,
    ) -> PyResult<(GcRoots, Machine, Driver)> {
        let start = Start::from_python(history, input)?;
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let metadata = RunMetadata::new(slf.py(), &kept, Arc::default())?;
        let host = PyHost::new(&slf.get().callables, Place::Started(caller), metadata);
        let context = run_context(slf.py(), Arc::new(host), waits)?;
        let prepared = slf.get().agent.prepare(start.history, start.input, context);
        let (machine, driver) =
            prepared.map_err(|error| crate::upp::error::to_exception(slf.py(), &error))?;
        Ok((kept, machine, driver))
    }
}

/// Drives a run to its end and gives its turn.
pub(super) async fn perform(
    mut machine: Machine,
    driver: Driver,
    callables: Arc<Mutex<Callables>>,
) -> PyResult<Py<PyAny>> {
    let turn = driver.run(&mut machine).await;
    gil::require_held(|py| match turn {
        Ok(turn) => show_turn(py, &callables, turn),
        Err(error) => Err(crate::upp::error::to_exception(py, &error)),
    })
}

/// The model's own parameters.
pub(super) fn params_from(params: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<RawObject>> {
    let params = params.map(|value| to_raw_object(value, "params")).transpose()?;
    Ok(Arc::new(params.unwrap_or_default()))
}

/// Tools as the core and as the host see them, in the same order.
pub(super) fn tools_from(tools: &Bound<'_, PyList>) -> PyResult<(Vec<CoreTool>, Vec<ToolBinding>)> {
    let bindings = tools.iter().map(|tool| ToolBinding::new(&tool)).collect::<PyResult<Vec<_>>>()?;
    let tools = tools.iter().zip(&bindings).map(|(tool, binding)| core_tool(&tool, binding));
    Ok((tools.collect::<PyResult<_>>()?, bindings))
}

/// What the model sees of a tool.
fn core_tool(tool: &Bound<'_, PyAny>, binding: &ToolBinding) -> PyResult<CoreTool> {
    let parameters = to_raw(&tool.getattr("parameters")?, "parameters")?;
    if !parameters.is_object() {
        return Err(PyTypeError::new_err("parameters of a tool must be a JSON Schema, a dict"));
    }
    let metadata = tool.getattr("metadata")?;
    let definition = ToolDefinition {
        name: tool.getattr("name")?.extract()?,
        description: tool.getattr("description")?.extract()?,
        parameters,
        metadata: if metadata.is_none() { None } else { Some(to_raw_object(&metadata, "metadata")?) },
        extra: Extra::new(),
    };
    let tool = CoreTool::new(definition);
    let tool = match binding.agent() {
        Some(agent) => tool.with_agent(agent.get().agent.clone()),
        None => tool,
    };
    Ok(if binding.asks_approval() { tool.with_approval() } else { tool })
}

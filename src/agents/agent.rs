//! The methods of `turntree.Agent`: construction, runs and streams.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::agent_core::AgentCore;
use super::call_site::CallSite;
use super::functions::Functions;
use super::host::PyHost;
use super::inputs::{input_from, params_from, tools_from};
use super::middleware::hooks::middleware_from;
use super::parent_run::run_context;
use super::run::run_machine;
use super::run_metadata::RunMetadata;
use super::strategy::strategy_from;
use super::stream::AgentStream;
use crate::bridge::context::CallerContext;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::lock;
use crate::bridge::sync;
use crate::convert::json::{json_to_python, to_raw};
use crate::data::extract;
use crate::records::Turn as PyTurn;
use crate::thread::history_from;
use crate::upp::config::config_from;
use crate::upp::model::ModelReference;
use crate::upp::request::system_from;
use turntree_agents::driver::Driver;
use turntree_agents::host::RunContext;
use turntree_agents::machine::Machine;
use turntree_agents::sub_agent::{result_of, task_of};
use turntree_agents::{Agent as CoreAgent, AgentOptions, ToToolOptions, ToolUseStrategy};
use turntree_core::ids::RandomIds;
use turntree_core::message::ToolDefinition;
use turntree_core::message::message::History;
use turntree_upp::llm::Input;

/// The history and the input of a run.
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
        let (config, mut callbacks) = config_from(config)?;
        callbacks.objects.extend(model.map(|model| model.clone().into_any().unbind()));
        let (tools, bindings) = tools_from(tools)?;
        let options = AgentOptions {
            model: model.map(|model| model.get().bind(&config)),
            params: params_from(params)?,
            system: system.map(system_from).transpose()?.map(Arc::new),
            tools,
            structure: structure.map(|schema| to_raw(schema, "structure")).transpose()?.map(Arc::new),
            structure_repair,
            strategy: Some(strategy_from(execution)?),
            middleware: middleware_from(middleware, &mut callbacks)?,
            tool_strategy: ToolUseStrategy { max_iterations },
            id: id.map(Into::into),
            name: name.map(Into::into),
            max_sub_agent_depth,
        };
        let functions = Functions::new(bindings, hooks)?.with_answer(answer).with_execute(execute)?;
        Ok(Self::from_parts(CoreAgent::new(options, &RandomIds), functions, callbacks))
    }

    /// The id of the agent, a UUIDv4.
    #[getter]
    fn id(&self) -> &str {
        self.agent().id()
    }

    /// Set the function that returns the Python agent, for middleware.
    fn belong_to(&self, owner: Py<PyAny>) {
        let before = lock(self.functions()).set_owner(owner);
        drop(before);
    }

    /// Start a run on the caller's event loop and return a coroutine that returns the turn.
    ///
    /// Raises:
    ///     UPPError: The model does not support a requested feature. Raised immediately.
    ///     TypeError: An argument has the wrong type; the message names it.
    fn run(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
    ) -> PyResult<Coroutine> {
        let caller = CallerContext::capture(slf.py())?;
        let (kept, machine, driver) = Self::prepare(slf, history, input, caller, false)?;
        Ok(Coroutine::new("run", kept, run_machine(machine, driver, Arc::clone(slf.get().functions()))))
    }

    /// Run on this thread, without an event loop, and return the turn.
    ///
    /// Raises:
    ///     UPPError: As `run`, or the model call failed.
    fn run_sync(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let caller = CallerContext::without_loop(slf.py())?;
        let (_kept, machine, driver) = Self::prepare(slf, history, input, caller, true)?;
        sync::run_sync(slf.py(), run_machine(machine, driver, Arc::clone(slf.get().functions())))
    }

    /// Start a streamed run.
    ///
    /// Args:
    ///     history: The earlier messages.
    ///     input: The new input.
    ///     on_loop: Whether tools run on the caller's event loop. Otherwise they run on a loop in a background
    ///         thread.
    ///     sub_agent_events: Whether the stream includes the events of sub-agents.
    ///
    /// Raises:
    ///     UPPError: As `run`.
    fn stream(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        on_loop: bool,
        sub_agent_events: bool,
    ) -> PyResult<AgentStream> {
        let py = slf.py();
        let caller = CallerContext::without_loop(py)?;
        let call_site = if on_loop { CallSite::Polling(caller) } else { CallSite::Started(caller) };
        let start = Start::from_python(history, input)?;
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let host =
            PyHost::new(slf.get().functions(), call_site, RunMetadata::new(py, &kept, Arc::default())?);
        let context = RunContext { sub_agent_events, ..run_context(py, Arc::new(host), !on_loop)? };
        let stream = slf.get().agent().stream_with_history(start.history, start.input, context);
        let stream = stream.map_err(|error| crate::upp::error::to_exception(py, &error))?;
        AgentStream::new(py, stream, slf.get().functions(), kept)
    }

    /// Return the name, the description and the parameters of the agent as a tool.
    ///
    /// Raises:
    ///     TypeError: The schema is not a dict.
    ///
    /// Spec: UAP-1.0 §8.2.
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
        let ToolDefinition { name, description, parameters, .. } = self.agent().to_tool(options).definition;
        Ok((name, description, json_to_python(py, parameters.get())?.into_bound(py)))
    }

    /// Return the task from the arguments of a tool call.
    #[staticmethod]
    fn task_of(arguments: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(task_of(&to_raw(arguments, "arguments")?))
    }

    /// Return the tool result for a turn, as plain data.
    #[staticmethod]
    fn result_of(py: Python<'_>, turn: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        json_to_python(py, result_of(&*extract::<PyTurn>(turn, "turn")?).get())
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
        let host = PyHost::new(slf.get().functions(), CallSite::Started(caller), metadata);
        let context = run_context(slf.py(), Arc::new(host), waits)?;
        let prepared = slf.get().agent().prepare(start.history, start.input, context);
        let (machine, driver) =
            prepared.map_err(|error| crate::upp::error::to_exception(slf.py(), &error))?;
        Ok((kept, machine, driver))
    }
}

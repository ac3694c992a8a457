//! The methods of `turntree.Agent`: construction, runs and streams.

use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyDict, PyList};

use super::agent_core::AgentCore;
use super::call_site::{CallSite, RunMode};
use super::functions::Functions;
use super::host_conversions::turn_to_python;
use super::inputs::{input_from, params_from, tools_from};
use super::middleware::hooks::middleware_from;
use super::run::PreparedRun;
use super::run_options::RunOptions;
use super::strategy::strategy_from;
use super::stream::AgentStream;
use super::tool_exceptions::ToolExceptions;
use super::toolset::toolsets_from;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::convert::json::{json_to_python, to_raw};
use crate::data::extract;
use crate::error::{OrRaise as _, value_error};
use crate::records::Turn as PyTurn;
use crate::thread::history_from;
use crate::upp::config::config_from;
use crate::upp::model::ModelReference;
use crate::upp::request::system_from;
use turntree_agents::host::RunContext;
use turntree_agents::sub_agent::{result_of, task_of};
use turntree_agents::{Agent as CoreAgent, AgentOptions, ToToolOptions, ToolUseStrategy};
use turntree_core::ids::RandomIds;
use turntree_core::message::message::History;
use turntree_core::message::{ToolDefinition, Turn};
use turntree_upp::UppError;

#[pymethods]
impl AgentCore {
    #[new]
    #[pyo3(signature = (
        *, model, params, config, execution, execute, max_iterations, tools, toolsets, system, structure,
        structure_repair, output_retries, answer, middleware, hooks, id, name, max_sub_agent_depth, cleanup_timeout
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
        toolsets: &Bound<'_, PyList>,
        system: Option<&Bound<'_, PyAny>>,
        structure: Option<&Bound<'_, PyAny>>,
        structure_repair: bool,
        output_retries: Option<u32>,
        answer: Option<Py<PyAny>>,
        middleware: &Bound<'_, PyAny>,
        hooks: &Bound<'_, PyDict>,
        id: Option<String>,
        name: Option<String>,
        max_sub_agent_depth: Option<u32>,
        cleanup_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let cleanup_timeout =
            cleanup_timeout.map(Duration::try_from_secs_f64).transpose().map_err(value_error)?;
        let (config, mut callbacks) = config_from(config)?;
        callbacks.objects.extend(model.map(|model| model.clone().into_any().unbind()));
        let (tools, bindings) = tools_from(tools)?;
        let options = AgentOptions {
            model: model.map(|model| model.get().bind(&config)),
            params: params_from(params)?,
            system: system.map(system_from).transpose()?.map(Arc::new),
            tools,
            toolsets: toolsets_from(toolsets, &mut callbacks)?,
            structure: structure.map(|schema| to_raw(schema, "structure")).transpose()?.map(Arc::new),
            structure_repair,
            output_retries,
            validates_output: hooks.get_item("validate_output")?.is_some_and(|hook| !hook.is_none()),
            strategy: Some(strategy_from(execution)?),
            middleware: middleware_from(middleware, &mut callbacks)?,
            tool_strategy: ToolUseStrategy { max_iterations },
            id: id.map(Into::into),
            name: name.map(Into::into),
            max_sub_agent_depth,
        };
        let functions = Functions::new(bindings, hooks)?.with_answer(answer).with_execute(execute)?;
        let functions = functions.with_cleanup_timeout(cleanup_timeout);
        Ok(Self::from_parts(CoreAgent::new(options, &RandomIds), functions, callbacks))
    }

    /// The id of the agent, a UUIDv4.
    #[getter]
    fn id(&self) -> &str {
        self.agent().id()
    }

    /// Set the function that returns the Python agent, for middleware.
    fn set_owner(&self, owner: Py<PyAny>) {
        let before = lock(self.functions()).set_owner(owner);
        drop(before);
    }

    /// Start a run on the caller's event loop and return a coroutine that returns the turn.
    ///
    /// Args:
    ///     history: The earlier messages.
    ///     input: The new input.
    ///     seed: If given, the ids of the run are computed from this text: a repeated run has the same ids.
    ///     options: The options of this run, or None.
    ///
    /// Raises:
    ///     UPPError: The model does not support a requested feature. Raised immediately.
    ///     TypeError: An argument has the wrong type; the message names it.
    #[pyo3(signature = (history, input, seed = None, options = None))]
    fn run(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        seed: Option<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Coroutine> {
        let (run, turn) = Self::start(slf, RunMode::Awaited, history, input, seed, options)?;
        Ok(run.coroutine("run", turn))
    }

    /// Run on this thread, without an event loop, and return the turn.
    ///
    /// Raises:
    ///     UPPError: As `run`, or the model call failed.
    #[pyo3(signature = (history, input, options = None))]
    fn run_sync(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (run, turn) = Self::start(slf, RunMode::Blocking, history, input, None, options)?;
        run.block(slf.py(), turn)
    }

    /// Start a streamed run.
    ///
    /// Args:
    ///     history: The earlier messages.
    ///     input: The new input.
    ///     on_loop: Whether tools run on the caller's event loop. Otherwise they run on a loop in a background
    ///         thread.
    ///     sub_agent_events: Whether the stream includes the events of sub-agents.
    ///     options: The options of this run, or None.
    ///
    /// Raises:
    ///     UPPError: As `run`.
    #[pyo3(signature = (history, input, on_loop, sub_agent_events, options = None))]
    fn stream(
        slf: &Bound<'_, Self>,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        on_loop: bool,
        sub_agent_events: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<AgentStream> {
        let py = slf.py();
        let (history, input) = (earlier_messages(history)?, input_from(input)?);
        let (run, context) = Self::prepare(slf, RunMode::Streamed { on_loop }, None, options)?;
        let context = RunContext { sub_agent_events, ..context };
        let agent = slf.get().agent();
        if context.strategy_runs.is_some() {
            let stream = gil::mark_held(py, || agent.stream_in_strategy(history, input, context));
            return AgentStream::new(py, stream, run);
        }
        let stream =
            gil::mark_held(py, || agent.stream_with_history(history, input, context)).or_raise(py)?;
        AgentStream::new(py, stream, run)
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

    /// Return the turn of a run, with its data as the type of the agent's structure.
    fn typed_turn(&self, py: Python<'_>, turn: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let exceptions = ToolExceptions::new(&GcRoots::new([]));
        turn_to_python(py, self.functions(), &exceptions, extract::<PyTurn>(turn, "turn")?)
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
        mode: RunMode,
        seed: Option<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(PreparedRun, RunContext)> {
        let mut options = RunOptions::read(options)?;
        let run = PreparedRun::new([slf.clone().into_any().unbind()], slf.get().functions());
        let run = run.seeded(seed).with_deps(options.deps.take());
        let run = run.with_on_approval(options.on_approval.take());
        let metadata = options.metadata(Arc::default());
        let context = run.context(slf.py(), &CallSite::new(slf.py(), mode)?, metadata)?;
        let context = options.apply(&run.roots, context);
        Ok((run, context))
    }

    /// Prepares a run and returns the future of its turn.
    fn start(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        history: Option<&Bound<'_, PyAny>>,
        input: &Bound<'_, PyAny>,
        seed: Option<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(PreparedRun, TurnFuture)> {
        let (history, input) = (earlier_messages(history)?, input_from(input)?);
        let (run, context) = Self::prepare(slf, mode, seed, options)?;
        let (py, agent) = (slf.py(), slf.get().agent());
        if context.strategy_runs.is_some() {
            let turn = gil::mark_held(py, || agent.run_in_strategy(history, input, context));
            return Ok((run, turn));
        }
        let (machine, driver) = gil::mark_held(py, || agent.prepare(history, input, context)).or_raise(py)?;
        // Boxed here: it is large, and each caller moves it.
        Ok((run, Box::pin(driver.complete(machine))))
    }
}

/// A run, which starts when it is polled.
type TurnFuture = BoxFuture<'static, Result<Arc<Turn>, UppError>>;

/// Converts the history of a run; None is an empty one.
fn earlier_messages(history: Option<&Bound<'_, PyAny>>) -> PyResult<History> {
    history
        .filter(|history| !history.is_none())
        .map_or_else(|| Ok(History::new()), |history| history_from(history, "history"))
}

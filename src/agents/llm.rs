//! The native half of `turntree.upp.LLM`: construction, calls and streams.
//!
//! Spec: UPP-1.2 §10.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::agent_core::AgentCore;
use super::call_site::{CallSite, RunMode};
use super::functions::Functions;
use super::inputs::{CallInput, params_from, tools_from};
use super::run::PreparedRun;
use super::stream::AgentStream;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::{self, lock};
use crate::convert::json::to_raw;
use crate::error::{OrRaise as _, value_error};
use crate::upp::config::config_from;
use crate::upp::middleware::chain::MiddlewareChain;
use crate::upp::model::ModelReference;
use crate::upp::request::system_from;
use turntree_agents::host::{RunContext, StrategyScope};
use turntree_agents::{Llm, LlmOptions, ToolUseStrategy};
use turntree_core::ids::RandomIds;
use turntree_core::message::Turn;
use turntree_upp::UppError;

/// The native half of ``turntree.upp.LLM``. Any number of calls can run at the same time.
#[pyclass(frozen, weakref, module = "turntree._core")]
pub(crate) struct LlmCore {
    llm: Llm,
    functions: Arc<Mutex<Functions>>,
    /// The model object, and the callbacks of the LLM's configuration.
    callbacks: Callbacks,
    middleware: Py<MiddlewareChain>,
    /// The dependencies of the run that the calls belong to.
    deps: Option<Py<PyAny>>,
}

#[pymethods]
impl LlmCore {
    #[new]
    #[pyo3(signature = (
        *, model, params, config, max_iterations, tools, system, structure, structure_repair, output_retries, answer, hooks,
        middleware, cleanup_timeout
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
        output_retries: Option<u32>,
        answer: Option<Py<PyAny>>,
        hooks: &Bound<'_, PyDict>,
        middleware: Py<MiddlewareChain>,
        cleanup_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let cleanup_timeout =
            cleanup_timeout.map(Duration::try_from_secs_f64).transpose().map_err(value_error)?;
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
            output_retries,
            ..LlmOptions::new(model.get().bind(&config))
        };
        let functions =
            Functions::new(bindings, hooks)?.with_answer(answer).with_cleanup_timeout(cleanup_timeout);
        let functions = Arc::new(Mutex::new(functions));
        let llm = Llm::new(options, &RandomIds).or_raise(model.py())?;
        Ok(Self { llm, functions, callbacks, middleware, deps: None })
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
        let (py, llm) = (slf.py(), &slf.get().llm);
        let stream = gil::mark_held(py, || llm.stream(history, inputs, context)).or_raise(py)?;
        AgentStream::new(py, stream, run)
    }
}

garbage_collected!(LlmCore: middleware, functions, callbacks, deps);

impl LlmCore {
    /// Returns the model of a run with the tools of its agent, without the hooks of steps.
    ///
    /// # Errors
    /// `UPPError` if the model does not support a feature that the agent needs.
    pub(super) fn of_run(
        py: Python<'_>,
        run: &dyn StrategyScope,
        agent: &Py<AgentCore>,
        deps: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let llm = Llm::in_run(run, agent.get().agent().options(), &RandomIds).or_raise(py)?;
        let functions = Arc::new(Mutex::new(lock(agent.get().functions()).without_steps(py)));
        let mut callbacks = Callbacks::default();
        // The model can refer to functions that the agent owns.
        callbacks.objects.push(agent.clone_ref(py).into_any());
        let none = py.get_type::<MiddlewareChain>().call1((PyTuple::empty(py),))?.cast_into()?.unbind();
        Ok(Self { llm, functions, callbacks, middleware: none, deps })
    }

    fn prepare(
        slf: &Bound<'_, Self>,
        mode: RunMode,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<(PreparedRun, RunContext, CallInput)> {
        let (py, this) = (slf.py(), slf.get());
        let site = CallSite::new(py, mode)?;
        let input = CallInput::from_python(arguments, this.llm.model().provider())?;
        let deps = this.deps.as_ref().map(|deps| deps.clone_ref(py));
        let run = PreparedRun::new([slf.clone().into_any().unbind()], &this.functions).with_deps(deps);
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
        let (py, llm) = (slf.py(), &slf.get().llm);
        let (machine, driver) = gil::mark_held(py, || llm.start(history, inputs, context)).or_raise(py)?;
        Ok((run, driver.complete(machine)))
    }
}

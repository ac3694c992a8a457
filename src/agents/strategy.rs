//! Execution strategies: options of built-in strategies, and the context of strategies written in Python.
//!
//! Spec: UAP-1.0 §5.

use std::sync::{Arc, Mutex};

use crate::prelude::*;
use futures_util::future::{BoxFuture, ready};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::types::PyDict;
use tokio_util::sync::CancellationToken;

use super::agent_core::AgentCore;
use super::events::AgentStreamEvent;
use super::inputs::input_from;
use super::llm::LlmCore;
use super::run::PreparedRun;
use super::state::PlanStep;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil::lock;
use crate::convert::json::to_raw;
use crate::convert::text::text_of;
use crate::data::extract;
use crate::error::OrRaise as _;
use crate::records::Turn as PyTurn;
use crate::stream_events::StreamEvent;
use crate::thread::history_from;
use crate::to_python::attributes;
use turntree_agents::host::{CustomStrategy, HostError, StrategyScope};
use turntree_agents::types::{
    AgentStreamEvent as CoreEvent, StrategyOutcome, UapData, UapEvent as CoreUapEvent,
};
use turntree_agents::{LoopOptions, ObservationFormat, PlanOptions, ReactOptions, Strategy};
use turntree_core::ids::RandomIds;
use turntree_core::message::message::History;
use turntree_core::time::SystemClock;
use turntree_upp::llm::into_messages;

/// Converts a dict of options, which the Python half has validated, to a strategy.
///
/// # Errors
/// `TypeError` for an option of another type, `ValueError` for an unknown name.
pub(super) fn strategy_from(options: &Bound<'_, PyDict>) -> PyResult<Strategy> {
    let option = |name: &str| -> PyResult<Bound<'_, PyAny>> {
        let missing = || PyTypeError::new_err(format!("the execution strategy lacks {name}"));
        options.get_item(name)?.ok_or_else(missing)
    };
    let name: String = text_of(&option("name")?, "name")?;
    Ok(match name.as_str() {
        "loop" => Strategy::Loop(LoopOptions { max_iterations: option("max_iterations")?.extract()? }),
        "react" => {
            let format: String = text_of(&option("observation_format")?, "observation_format")?;
            let known = ObservationFormat::ALL.into_iter().find(|known| known.as_str() == format);
            Strategy::React(ReactOptions {
                max_steps: option("max_steps")?.extract()?,
                reasoning_prompt: text_of::<Option<String>>(
                    &option("reasoning_prompt")?,
                    "reasoning_prompt",
                )?
                .map(Into::into),
                observation_format: known
                    .ok_or_else(|| PyValueError::new_err("unknown observation_format"))?,
            })
        }
        "plan" => {
            let schema = option("plan_schema")?;
            let schema =
                if schema.is_none() { None } else { Some(Arc::new(to_raw(&schema, "plan_schema")?)) };
            Strategy::Plan(PlanOptions {
                max_plan_steps: option("max_plan_steps")?.extract()?,
                allow_replan: option("allow_replan")?.extract()?,
                plan_schema: schema,
                max_replans: option("max_replans")?.extract()?,
                max_iterations: option("max_iterations")?.extract()?,
            })
        }
        _ => Strategy::custom(Arc::new(PyStrategy {
            name: text_of(&option("custom_name")?, "the name of the strategy")?,
        })),
    })
}

/// A strategy written in Python. Its function is one of the agent's functions; the host calls it.
#[derive(Debug)]
struct PyStrategy {
    name: String,
}

impl CustomStrategy for PyStrategy {
    fn name(&self) -> &str {
        &self.name
    }

    fn execute(&self, _: Arc<dyn StrategyScope>) -> BoxFuture<'static, Result<StrategyOutcome, HostError>> {
        let message = "a strategy that is written in Python runs with its own agent only";
        Box::pin(ready(Err(HostError::raised("RuntimeError", message))))
    }
}

/// Converts the result of a strategy written in Python: the turn, the last step, reasoning and plan.
pub(super) fn strategy_outcome_from(value: &Bound<'_, PyAny>) -> PyResult<StrategyOutcome> {
    type Outcome<'py> = (Bound<'py, PyAny>, u32, Option<Vec<String>>, Option<Vec<Bound<'py, PyAny>>>);
    let (turn, step, reasoning, plan): Outcome<'_> = value.extract()?;
    let read = |(place, step): (usize, Bound<'_, PyAny>)| {
        let step = extract::<PlanStep>(&step, &format!("state.plan[{place}]"))?;
        Ok(Arc::unwrap_or_clone(step))
    };
    let plan =
        plan.map(|steps| steps.into_iter().enumerate().map(read).collect::<PyResult<_>>()).transpose()?;
    Ok(StrategyOutcome { turn: extract::<PyTurn>(&turn, "the turn of the strategy")?, step, reasoning, plan })
}

/// The context of a run for a strategy written in Python. It is available until the run ends.
#[derive(Clone)]
pub(super) struct Lease {
    context: Arc<Mutex<Option<Arc<dyn StrategyScope>>>>,
    ended: CancellationToken,
}

impl Lease {
    pub(super) fn new(context: Arc<dyn StrategyScope>) -> Self {
        Self { context: Arc::new(Mutex::new(Some(context))), ended: CancellationToken::new() }
    }

    /// Returns a guard that removes the context when it is dropped. Python objects that outlive the run then do not keep
    /// the run alive.
    pub(super) fn guard(&self) -> impl Drop + Send + 'static + use<> {
        struct End(Lease);
        impl Drop for End {
            fn drop(&mut self) {
                let context = lock(&self.0.context).take();
                drop(context);
                self.0.ended.cancel();
            }
        }
        End(self.clone())
    }

    fn get(&self) -> PyResult<Arc<dyn StrategyScope>> {
        let context = lock(&self.context).clone();
        context.ok_or_else(|| {
            PyRuntimeError::new_err("the run of this context is over; a context serves one run")
        })
    }
}

/// The native half of ``turntree.execution.ExecutionContext``. Valid for one run.
///
/// Raises:
///     RuntimeError: The run is over. Raised by everything except `metadata` and `ended`.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct StrategyContext {
    lease: Lease,
    agent: Py<AgentCore>,
    metadata: Py<PyDict>,
    deps: Option<Py<PyAny>>,
}

impl StrategyContext {
    pub(super) const fn new(
        lease: Lease,
        agent: Py<AgentCore>,
        metadata: Py<PyDict>,
        deps: Option<Py<PyAny>>,
    ) -> Self {
        Self { lease, agent, metadata, deps }
    }

    fn push(slf: &Bound<'_, Self>, event: CoreEvent) -> PyResult<Coroutine> {
        let events = slf.get().lease.get()?.events().cloned();
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        Ok(Coroutine::new("emit", roots, async move {
            if let Some(events) = events {
                events.push(event).await;
            }
            Ok(())
        }))
    }
}

attributes! { StrategyContext(slf) {
    /// The earlier messages, as a new list.
    history = slf.get().lease.get()?.setup().history;

    /// The messages of the input.
    input = slf.get().lease.get()?.state().messages;

    /// True if the run is streamed.
    is_streamed = slf.get().lease.get()?.events().is_some();

    /// Whether the run is over: it ended or was aborted.
    ended = slf.get().lease.ended.is_cancelled();
} }

#[pymethods]
impl StrategyContext {
    /// The metadata of the run.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.clone_ref(py)
    }

    /// The dependencies of the run.
    #[getter]
    fn deps(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.deps.as_ref().map(|deps| deps.clone_ref(py))
    }

    /// Return the agent's model with the agent's tools, without the hooks of steps.
    fn llm(&self, py: Python<'_>) -> PyResult<LlmCore> {
        LlmCore::of_run(py, &*self.lease.get()?, &self.agent, self.deps(py))
    }

    /// Run a built-in strategy as part of this run and return a coroutine that returns the turn.
    fn run(
        slf: &Bound<'_, Self>,
        execution: &Bound<'_, PyDict>,
        history: Option<&Bound<'_, PyAny>>,
        input: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Coroutine> {
        let context = slf.get().lease.get()?;
        let strategy = strategy_from(execution)?;
        let history: History = match history {
            Some(history) => history_from(history, "history")?,
            None => context.setup().history.clone(),
        };
        let input: History = match input {
            Some(input) => {
                let provider = context.model().provider();
                let messages = into_messages([input_from(input)?], provider, &RandomIds, &SystemClock);
                messages.or_raise(slf.py())?.into_iter().collect()
            }
            None => context.state().messages.clone(),
        };
        let run = PreparedRun::new([slf.clone().into_any().unbind()], slf.get().agent.get().functions());
        Ok(run.coroutine("run", async move { context.run(&strategy, history, input).await }))
    }

    /// Add an event of another stream to the run's stream.
    fn pass_on(slf: &Bound<'_, Self>, event: &Bound<'_, PyAny>) -> PyResult<Coroutine> {
        let event = match event.cast::<AgentStreamEvent>() {
            Ok(event) => AgentStreamEvent::core(event)?.clone(),
            Err(_) => CoreEvent::Upp(Arc::unwrap_or_clone(extract::<StreamEvent>(event, "event")?)),
        };
        Self::push(slf, event)
    }

    /// Add an event of this run to the run's stream.
    ///
    /// Raises:
    ///     ValueError: The event does not have this data.
    fn emit(slf: &Bound<'_, Self>, kind: &str, step: u32, data: &Bound<'_, PyAny>) -> PyResult<Coroutine> {
        let agent_id = Arc::clone(slf.get().agent.get().agent().id());
        let data = UapData::from_raw(kind, &to_raw(data, "data")?)
            .map_err(|error| PyValueError::new_err(format!("data: {error}")))?;
        Self::push(slf, CoreEvent::Uap(CoreUapEvent { step, agent_id, data }))
    }
}

garbage_collected!(StrategyContext: agent, metadata, deps);

//! Built-in middleware: logging, guardrails, memory, budget.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};

use super::callbacks::{PyCounter, PyRule, PySummarizer};
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::convert::json::to_raw;
use crate::error::{ToException as _, function as function_argument, not_constructible};
use turntree_agents::middleware::{
    Budget, Guardrails, LogRecord, Logging, Memory, Middleware as CoreMiddleware, Overflow, Rule,
};
use turntree_upp::middleware::Level;

/// A built-in middleware of agents, as returned by `logging`, `guardrails`, `memory` and `budget`.
#[pyclass(frozen, weakref, module = "turntree.middleware")]
pub(crate) struct AgentMiddleware {
    core: Arc<dyn CoreMiddleware>,
    callbacks: Callbacks,
    /// The function and its arguments that create the middleware in another process.
    recipe: Option<Py<PyAny>>,
}

impl AgentMiddleware {
    pub(super) fn core(&self) -> Arc<dyn CoreMiddleware> {
        Arc::clone(&self.core)
    }

    fn of(
        core: impl CoreMiddleware + 'static,
        functions: Vec<Arc<PyCallback>>,
        recipe: Option<Py<PyAny>>,
    ) -> Self {
        Self { core: Arc::new(core), callbacks: Callbacks { functions, ..Callbacks::default() }, recipe }
    }
}

/// A rule as Python gives it: a name, and a function or a schema.
type GivenRule<'py> = (String, Option<Bound<'py, PyAny>>, Bound<'py, PyAny>);

fn rules_from(rules: Vec<GivenRule<'_>>, functions: &mut Vec<Arc<PyCallback>>) -> PyResult<Vec<Rule>> {
    let rules = rules.into_iter().map(|(name, function, schema)| {
        let Some(function) = function else {
            let (py, schema) = (schema.py(), to_raw(&schema, "schema")?);
            let rule = py.detach(|| Rule::of_data(name, schema));
            return rule.map_err(|error| PyValueError::new_err(error.message));
        };
        let function = PyCallback::new(&function)?;
        functions.push(Arc::clone(&function));
        Ok(Rule::of_text(name.clone(), Arc::new(PyRule { name, function })))
    });
    rules.collect()
}

not_constructible!(
    AgentMiddleware,
    "write middleware.logging(), or a class of your own with `name` and some of before, after and on_error"
);

#[pymethods]
impl AgentMiddleware {
    /// Log runs through a function of level, message and exception.
    ///
    /// Raises:
    ///     ValueError: The level is unknown.
    #[staticmethod]
    #[pyo3(signature = (*, level, logger, include_messages, include_timing, recipe = None))]
    fn logging(
        level: &str,
        logger: &Bound<'_, PyAny>,
        include_messages: bool,
        include_timing: bool,
        recipe: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let function = PyCallback::new(function_argument(logger, "logger")?)?;
        let sink = Arc::clone(&function);
        let write = move |line: &LogRecord<'_>| {
            let written = gil::if_held(|py| -> PyResult<()> {
                let error = line.error.map(|error| error.to_exception(py).into_value(py));
                sink.bound(py)?.call1((line.level.as_str(), line.message, error))?;
                Ok(())
            });
            if let Some(Err(error)) = written {
                // A logger that fails must not end a run.
                gil::if_held(|py| error.write_unraisable(py, None));
            }
        };
        let known = Level::ALL.into_iter().find(|known| known.as_str() == level);
        let Some(level) = known else {
            let known = Level::ALL.map(|level| format!("\"{}\"", level.as_str())).join(", ");
            return Err(PyValueError::new_err(format!("level must be one of {known}, not \"{level}\"")));
        };
        let mut core = Logging::new(Arc::new(write));
        core.level = level;
        core.include_messages = include_messages;
        core.include_timing = include_timing;
        Ok(Self::of(core, vec![function], recipe))
    }

    /// Check inputs and outputs with rules: each a name, a function of a text or None, and a JSON Schema.
    ///
    /// Raises:
    ///     ValueError: A schema is not a valid JSON Schema.
    #[staticmethod]
    #[pyo3(signature = (*, name, input, output, hold, recipe = None))]
    fn guardrails(
        name: String,
        input: Vec<GivenRule<'_>>,
        output: Vec<GivenRule<'_>>,
        hold: bool,
        recipe: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut functions = Vec::new();
        let input = rules_from(input, &mut functions)?;
        let output = rules_from(output, &mut functions)?;
        Ok(Self::of(Guardrails { name, input, output, hold }, functions, recipe))
    }

    /// Limit the messages that are sent to a window.
    #[staticmethod]
    #[pyo3(signature = (
        *, name, max_tokens, max_turns, counter, summarize, summary_tokens, summary_input_tokens, sends_overflow,
        recipe = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the options of `memory`, all by keyword")]
    fn memory(
        name: String,
        max_tokens: Option<u64>,
        max_turns: Option<usize>,
        counter: Option<&Bound<'_, PyAny>>,
        summarize: Option<&Bound<'_, PyAny>>,
        summary_tokens: u64,
        summary_input_tokens: u64,
        sends_overflow: bool,
        recipe: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let overflow = if sends_overflow { Overflow::Send } else { Overflow::Error };
        let mut core = Memory::default();
        core.name = name;
        core.max_tokens = max_tokens;
        core.max_turns = max_turns;
        core.overflow = overflow;
        core.summary_tokens = summary_tokens;
        core.summary_input_tokens = summary_input_tokens;
        let mut functions = Vec::new();
        if let Some(counter) = counter {
            let function = PyCallback::new(function_argument(counter, "counter")?)?;
            functions.push(Arc::clone(&function));
            core = core.with_counter(Arc::new(PyCounter(function)));
        }
        if let Some(summarize) = summarize {
            let function = PyCallback::patient(function_argument(summarize, "summarize")?)?;
            functions.push(Arc::clone(&function));
            core = core.with_summarizer(Arc::new(PySummarizer(function)));
        }
        Ok(Self::of(core, functions, recipe))
    }

    /// Stop runs that exceed a limit of tokens, cost, steps or time.
    #[staticmethod]
    #[pyo3(signature = (*, name, tokens, cost, steps, seconds, by_session, ignore_unpriced, recipe = None))]
    #[expect(clippy::too_many_arguments, reason = "the options of `budget`, all by keyword")]
    fn budget(
        name: String,
        tokens: Option<u64>,
        cost: Option<f64>,
        steps: Option<u64>,
        seconds: Option<f64>,
        by_session: bool,
        ignore_unpriced: bool,
        recipe: Option<Py<PyAny>>,
    ) -> Self {
        let core = Budget { name, tokens, cost, steps, seconds, by_session, ignore_unpriced };
        Self::of(core, Vec::new(), recipe)
    }

    /// The name of the middleware.
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    /// Pickle the middleware by the arguments of its function.
    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let recipe = self.recipe.as_ref().map(|recipe| recipe.clone_ref(py));
        recipe.ok_or_else(|| {
            PyTypeError::new_err("this middleware cannot be pickled; create it in the process that uses it")
        })
    }

    fn __repr__(&self) -> String {
        format!("AgentMiddleware({:?})", self.core)
    }
}

garbage_collected!(AgentMiddleware: callbacks, recipe);

//! Tool calls, tool results, usage and turns as Python classes.
//!
//! Spec: UPP-1.2 §5, §6.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};

use super::bridge::gc::garbage_collected;
use super::convert::json::to_raw;
use super::data::{Data, DataClass, levels, value_of};
use super::to_python::{ToPython, attributes, data_class, generic_alias};
use turntree_agents::types::usage_by_agent::OF_TURN;
use turntree_core::json::Extra;
use turntree_core::message;

data_class! {
    /// A tool call that a model requests.
    ///
    /// Spec: UPP-1.2 §4.
    ToolCall as "ToolCall" in "turntree.upp" over message::ToolCall, inside BLOCK {
        /// Id of the call. Its result has the same id.
        tool_call_id,
        /// Name of the tool.
        tool_name,
        /// Arguments of the call, a new dict each time.
        arguments,
    }

    #[new]
    fn new(tool_call_id: String, tool_name: String, arguments: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let arguments = to_raw(arguments, "arguments")?;
        Ok(Self::holding(message::ToolCall { tool_call_id, tool_name, arguments, extra: Extra::new() }))
    }
}

data_class! {
    /// The result of a tool call.
    ///
    /// Spec: UPP-1.2 §4.
    ToolResult as "ToolResult" in "turntree.upp" over message::ToolResult, inside BLOCK {
        /// Id of the call.
        tool_call_id,
        /// The result as JSON data.
        result,
        /// Whether the tool failed.
        is_error = message::ToolResult::failed,
    }

    #[new]
    #[pyo3(signature = (tool_call_id, result, is_error = false))]
    fn new(tool_call_id: String, result: &Bound<'_, PyAny>, is_error: bool) -> PyResult<PyClassInitializer<Self>> {
        let result = to_raw(result, "result")?;
        Ok(Self::holding(message::ToolResult { tool_call_id, result, is_error: Some(is_error), extra: Extra::new() }))
    }
}

/// The record of one tool execution.
///
/// Spec: UPP-1.2 §5.
#[pyclass(frozen, extends = Data, module = "turntree.upp")]
pub(crate) struct ToolExecution {
    /// What the tool raised, in a turn that its run returned.
    exception: Option<Py<PyAny>>,
}

impl DataClass for ToolExecution {
    type Value = message::ToolExecution;
    const OUTER_LEVELS: usize = levels::MESSAGE;
    fn wrap(py: Python<'_>, value: Arc<message::ToolExecution>) -> PyResult<Py<PyAny>> {
        Self::with_exception(py, value, None)
    }
}

impl ToolExecution {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a message::ToolExecution> {
        value_of(slf.as_super())
    }

    fn with_exception(
        py: Python<'_>,
        value: Arc<message::ToolExecution>,
        exception: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let base = PyClassInitializer::from(Data::new(value));
        Ok(Py::new(py, base.add_subclass(Self { exception }))?.into_any())
    }
}

attributes! {
    ToolExecution {
        /// Name of the tool.
        tool_name,
        /// Id of the call.
        tool_call_id,
        /// Arguments of the call, after changes by hooks.
        arguments,
        /// The result that the model received.
        result,
        /// Whether the tool failed.
        is_error,
        /// Duration in milliseconds.
        duration,
        /// Whether the call was approved; None if no approval was required.
        approved,
    }
}

#[pymethods]
impl ToolExecution {
    /// The exception that the tool raised, with its traceback; None if it raised none.
    ///
    /// Only the turn that a run returns has it: it is not part of the data, and is not saved, pickled or compared.
    #[getter]
    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.exception.as_ref().map(|exception| exception.clone_ref(py))
    }
}

garbage_collected!(ToolExecution: exception);

data_class! {
    /// Tokens of one model call.
    ///
    /// Spec: UPP-1.2 §6.
    CycleUsage as "CycleUsage" in "turntree.upp" over message::CycleUsage, inside CYCLE_USAGE {
        /// Input tokens.
        input_tokens,
        /// Output tokens.
        output_tokens,
        /// Input tokens that were read from the vendor's cache.
        cache_read_tokens,
        /// Input tokens that were written to the vendor's cache.
        cache_write_tokens,
        /// All input tokens, cached reads and writes included, whatever the vendor.
        total_input_tokens = message::CycleUsage::total_input,
        /// Output tokens that the model spent on reasoning; 0 if the vendor does not report them.
        reasoning_tokens = |usage| usage.reasoning_tokens.unwrap_or_default(),
        /// Input and output tokens that are audio; 0 if the vendor does not report them.
        audio_tokens = |usage| usage.audio_tokens.unwrap_or_default(),
        /// Cost of the call in US dollars; None if it is not certain.
        cost,
    }
}

data_class! {
    /// Tokens of a model call, or of all calls of a turn.
    ///
    /// Spec: UPP-1.2 §6.
    TokenUsage as "TokenUsage" in "turntree.upp" over message::TokenUsage, inside USAGE {
        /// Input tokens.
        input_tokens,
        /// Output tokens.
        output_tokens,
        /// Total tokens, as the vendor counts them.
        total_tokens,
        /// Input tokens that were read from the vendor's cache.
        cache_read_tokens,
        /// Input tokens that were written to the vendor's cache.
        cache_write_tokens,
        /// Tokens written to the vendor's cache for one hour; None if the vendor does not report them.
        cache_write_1h_tokens,
        /// All input tokens, cached reads and writes included, whatever the vendor.
        total_input_tokens = message::TokenUsage::total_input,
        /// Output tokens that the model spent on reasoning; 0 if the vendor does not report them.
        reasoning_tokens = |usage| usage.reasoning_tokens.unwrap_or_default(),
        /// Input and output tokens that are audio; 0 if the vendor does not report them.
        audio_tokens = |usage| usage.audio_tokens.unwrap_or_default(),
        /// Model calls: 1 if this is not a sum.
        requests = message::TokenUsage::requests,
        /// One entry per model call, if this is a sum.
        cycles,
        /// Cost in US dollars; None if the cost of any call is not certain.
        cost,
        /// Usage of the other agents that worked in the turn, by name or id: sub-agents, and runs inside tools.
        by_agent = by_agent,
    }

    #[new]
    #[pyo3(signature = (input_tokens = 0, output_tokens = 0, total_tokens = None, cache_read_tokens = 0, cache_write_tokens = 0,
        *, total_input_tokens = None, reasoning_tokens = 0, audio_tokens = 0))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
    fn new(
        input_tokens: u64,
        output_tokens: u64,
        total_tokens: Option<u64>,
        cache_read_tokens: u64,
        cache_write_tokens: u64,
        total_input_tokens: Option<u64>,
        reasoning_tokens: u64,
        audio_tokens: u64,
    ) -> PyClassInitializer<Self> {
        let mut usage = message::TokenUsage::of_call(input_tokens, output_tokens);
        usage.total_tokens = total_tokens.unwrap_or(usage.total_tokens);
        (usage.cache_read_tokens, usage.cache_write_tokens) = (cache_read_tokens, cache_write_tokens);
        usage.total_input_tokens = total_input_tokens.filter(|total| *total != input_tokens);
        usage.reasoning_tokens = Some(reasoning_tokens).filter(|tokens| *tokens > 0);
        usage.audio_tokens = Some(audio_tokens).filter(|tokens| *tokens > 0);
        Self::holding(usage)
    }
}

/// The usage of the other agents of a turn.
fn by_agent(usage: &message::TokenUsage) -> BTreeMap<String, message::TokenUsage> {
    usage.extra.get(OF_TURN).and_then(|usages| usages.to().ok()).unwrap_or_default()
}

/// The messages and records of one run.
///
/// Spec: UPP-1.2 §6.
#[pyclass(frozen, extends = Data, module = "turntree.upp")]
pub(crate) struct Turn {
    /// The structured answer as an instance of the requested type.
    data: Option<Py<PyAny>>,
    /// The exceptions of the tools by the id of the call.
    exceptions: Option<Py<PyDict>>,
}

impl DataClass for Turn {
    type Value = message::Turn;
    const OUTER_LEVELS: usize = levels::MESSAGES;
    fn wrap(py: Python<'_>, turn: Arc<message::Turn>) -> PyResult<Py<PyAny>> {
        Self::of_run(py, turn, None, None)
    }
}

impl Turn {
    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a message::Turn> {
        value_of(slf.as_super())
    }

    /// The turn of a run: `data` is an instance of the requested type, `exceptions` has what tools raised by the id of the
    /// call. Pickling and copying make it plain data again.
    pub(crate) fn of_run(
        py: Python<'_>,
        turn: Arc<message::Turn>,
        data: Option<Py<PyAny>>,
        exceptions: Option<Py<PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let base = PyClassInitializer::from(Data::new(turn));
        Ok(Py::new(py, base.add_subclass(Self { data, exceptions }))?.into_any())
    }
}

impl ToPython for message::ToolExecution {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(ToolExecution::wrap(py, Arc::new(self.clone()))?.into_bound(py))
    }
}

impl ToPython for message::Turn {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(wrap_turn(py, Arc::new(self.clone()))?.into_bound(py))
    }
}

attributes! {
    Turn {
        /// The new messages in order, the user's message first.
        messages,
        /// Tokens of the agent's own model calls. Those of agents that it called are in ``usage.by_agent``.
        usage,
        /// Number of model calls.
        cycles,
        /// The last assistant message.
        response = message::Turn::response,
        /// Name of the agent that answered, if the conversation can be handed over; None if no handoff is involved.
        agent = |turn: &message::Turn| turntree_agents::handoff::agent_of_response(turn.response()),
        /// Text of the last assistant message, without its reasoning.
        text = |turn: &message::Turn| turn.response().text(),
        /// Id of the model that made the last assistant message; None if the message does not name it.
        model = |turn: &message::Turn| turntree_upp::routing::answered::model_of(turn.response()),
        /// Why the last model call stopped.
        ///
        /// One of ``end_turn``, ``max_tokens``, ``stop_sequence``, ``tool_use``, ``content_filter``, ``refusal``,
        /// ``pause_turn`` and ``error``.
        stop_reason = |turn: &message::Turn| turntree_upp::stop_reason::of_message(turn.response()).to_owned(),
        /// The vendor's responses as they arrived: one for each model call, if ``ModelSettings(raw=True)`` kept them.
        ///
        /// A response is a dict; a stream is the list of its events. Empty without the setting.
        raw = |turn: &message::Turn| {
            let raw = turn.messages.iter().filter_map(|message| turntree_upp::raw_response::of_message(message));
            raw.collect::<Vec<_>>()
        },
    }
}

#[pymethods]
impl Turn {
    /// Return an annotation with the type of `data`, for type checkers.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic_alias(cls, item)
    }

    /// The structured answer: an instance of the requested type, or plain data; None if none was requested.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match &slf.get().data {
            Some(data) => Ok(data.bind(slf.py()).clone()),
            None => Self::of(slf)?.data.to_python(slf.py()),
        }
    }

    /// Records of the tool executions, in the order in which they finished.
    #[getter]
    fn tool_executions<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, turn) = (slf.py(), Self::of(slf)?);
        let Some(exceptions) = &slf.get().exceptions else { return turn.tool_executions.to_python(py) };
        let record = |execution: &message::ToolExecution| {
            let exception = exceptions.bind(py).get_item(&execution.tool_call_id)?.map(Bound::unbind);
            ToolExecution::with_exception(py, Arc::new(execution.clone()), exception)
        };
        let records = turn.tool_executions.iter().map(record).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, records)?.into_any())
    }
}

garbage_collected!(Turn: data, exceptions);

/// A turn as a Python object.
pub(crate) fn wrap_turn(py: Python<'_>, turn: Arc<message::Turn>) -> PyResult<Py<PyAny>> {
    Turn::wrap(py, turn)
}

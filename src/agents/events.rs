//! `AgentStreamEvent`, `UapEvent` and `SubAgentRun`: the events of streamed runs.
//!
//! Spec: UAP-1.0 §12.2.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::PyString;

use crate::convert::text::quoted;
use crate::data::DataClass as _;
use crate::error::OrRaise as _;
use crate::to_python::{ToPython, attributes, data_class};
use turntree_agents::types::{
    AgentStreamEvent as CoreEvent, SubAgentRun as CoreSubAgentRun, UapEvent as CoreUapEvent,
};

data_class! {
    /// One event of a streamed run: of the agent, of the model or of a tool.
    ///
    /// Exactly one of `uap` and `upp` is set::
    ///
    ///     if event.upp and event.upp.type == "text_delta":
    ///         print(event.upp.delta["text"], end="")
    ///
    /// Spec: UAP-1.0 §12.2.
    AgentStreamEvent as "AgentStreamEvent" in "turntree" over CoreEvent {
        /// The event of the agent, or None.
        uap = |event| event.as_uap().cloned(),
        /// The event of the model or a tool, or None.
        upp = |event| event.as_upp().cloned(),
        /// The sub-agent run that the event belongs to, or None. Set only with ``sub_agent_events=True``.
        sub_agent = |event| event.sub_agent().cloned(),
    }

    /// The source of the event: "uap" for the agent, "upp" for the model or a tool.
    #[getter]
    fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
        Ok(match Self::of(slf)?.as_uap() {
            Some(_) => intern!(slf.py(), "uap").clone(),
            None => intern!(slf.py(), "upp").clone(),
        })
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let event = Self::of(slf)?;
        let of = event.sub_agent().map(|run| format!(", sub_agent={}", run.tool_name)).unwrap_or_default();
        Ok(match (event.as_uap(), event.as_upp()) {
            (Some(event), _) => {
                format!("AgentStreamEvent(uap={}, step={}{of})", event.data.kind(), event.step)
            }
            (None, Some(event)) => {
                format!("AgentStreamEvent(upp={}, index={}{of})", event.delta.kind(), event.index)
            }
            (None, None) => "AgentStreamEvent()".to_owned(),
        })
    }
}

impl AgentStreamEvent {
    /// The event of an instance.
    ///
    /// # Errors
    /// `TypeError` for a class that was created with another value.
    pub(crate) fn core<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a CoreEvent> {
        Self::of(slf)
    }
}

data_class! {
    /// One run of an agent as a tool of another agent. Part of events.
    ///
    /// Spec: UAP-1.0 §8.4.
    SubAgentRun as "SubAgentRun" in "turntree" over CoreSubAgentRun {
        /// The id of the agent, a UUIDv4.
        agent_id,
        /// The id of this run, a UUIDv4.
        turn_id,
        /// The id of the agent that called it; None if a model without an agent called it.
        parent_agent_id,
        /// The id of the run that called it; None if a model without an agent called it.
        parent_turn_id,
        /// The name of the tool.
        tool_name,
        /// The id of the call, as the model assigned it.
        tool_call_id,
        /// The number of runs that contain this run, from 1.
        depth,
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let CoreSubAgentRun { tool_name, tool_call_id, depth, .. } = Self::of(slf)?;
        let (tool_name, tool_call_id) = (quoted(tool_name), quoted(tool_call_id));
        Ok(format!("SubAgentRun(tool_name={tool_name}, tool_call_id={tool_call_id}, depth={depth})"))
    }
}

impl ToPython for Arc<CoreSubAgentRun> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(SubAgentRun::wrap(py, Self::clone(self))?.into_bound(py))
    }
}

data_class! {
    /// An event of an agent.
    ///
    /// ==================  ============================================================================
    /// `type`              `data`
    /// ==================  ============================================================================
    /// ``step_start``      ``{"stepNumber"}``; ``"stepId"`` if the step has an id; ``"planStepId"``, ``"plan"`` with `plan`
    /// ``step_end``        ``{"stepNumber", "usage"}`` and the ids; the usage of this step alone
    /// ``reasoning``       ``{"text"}``
    /// ``action``          ``{"toolCalls"}``: calls as dicts
    /// ``observation``     ``{"results"}``: results as dicts, in the order of the calls
    /// ``checkpoint``      ``{"checkpointId"}``
    /// ==================  ============================================================================
    ///
    /// Spec: UAP-1.0 §12.2.
    UapEvent as "UapEvent" in "turntree" over CoreUapEvent {
        /// The step, from 1.
        step,
        /// The id of the agent, a UUIDv4.
        agent_id,
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let event = Self::of(slf)?;
        Ok(format!("UapEvent(type=\"{}\", step={})", event.data.kind(), event.step))
    }
}

attributes! { UapEvent(slf) {
    /// The type of the event, such as ``step_start``.
    r#type = *Self::of(slf)?.data.kind();

    /// The data of the event, with the keys of the specification.
    data = Self::of(slf)?.data.to_raw().or_raise(slf.py())?;
} }

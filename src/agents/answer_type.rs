//! The type of a turn's structured answer: that of the agent that answered.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::prelude::*;
use pyo3::intern;

use super::agent_core::AgentCore;
use super::functions::Functions;
use crate::bridge::gil::lock;
use turntree_agents::handoff::agent_of_response;
use turntree_core::message::Turn;

/// How many agents are looked at to find the one that answered.
const MAX_AGENTS: usize = 1000;

/// Returns the type of the structured answer of a turn, if it is more than a JSON Schema. `functions`: those of the agent
/// that began the run. After a handoff, the turn names the agent that answered.
pub(super) fn answer_type(
    py: Python<'_>,
    functions: &Mutex<Functions>,
    turn: &Turn,
) -> PyResult<Option<Py<PyAny>>> {
    if let Some(name) = agent_of_response(turn.response())
        && let Some(agent) = successor(py, functions, &name)?
    {
        return Ok(own_type(py, agent.get().functions()));
    }
    Ok(own_type(py, functions))
}

fn own_type(py: Python<'_>, functions: &Mutex<Functions>) -> Option<Py<PyAny>> {
    lock(functions).answer.as_ref().map(|answer| answer.clone_ref(py))
}

/// Returns the agent with this name to which handoffs lead.
fn successor(py: Python<'_>, functions: &Mutex<Functions>, name: &str) -> PyResult<Option<Py<AgentCore>>> {
    let mut seen = Vec::new();
    let mut queue = VecDeque::from([handoffs(py, functions)]);
    while let Some(tools) = queue.pop_front() {
        for (tool, agent) in tools {
            let tool = tool.bind(py);
            let Some(target) = handoff_name(tool)? else { continue };
            if seen.len() >= MAX_AGENTS || seen.contains(&target) {
                continue;
            }
            let agent = match agent {
                Some(agent) => agent,
                None => tool.call_method0(intern!(py, "_handoff_target"))?.cast_into::<AgentCore>()?.unbind(),
            };
            if target == name {
                return Ok(Some(agent));
            }
            seen.push(target);
            queue.push_back(handoffs(py, agent.get().functions()));
        }
    }
    Ok(None)
}

/// The tools of an agent, each with the agent that it runs.
fn handoffs(py: Python<'_>, functions: &Mutex<Functions>) -> Vec<(Py<PyAny>, Option<Py<AgentCore>>)> {
    let functions = lock(functions);
    let tools = functions.tools.iter();
    tools
        .map(|tool| (tool.tool.clone_ref(py), tool.agent.as_ref().map(|agent| agent.clone_ref(py))))
        .collect()
}

fn handoff_name(tool: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let name = tool.getattr_opt(intern!(tool.py(), "_handoff"))?;
    name.filter(|name| !name.is_none()).map(|name| name.extract()).transpose()
}

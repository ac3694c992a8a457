//! Converts the inputs of agents and models: messages, parameters, tools.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::functions::ToolFunction;
use crate::content::content_from;
use crate::convert::json::{to_raw, to_raw_object};
use crate::message::{Message, message_from};
use turntree_agents::Tool as CoreTool;
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::{Body, Message as CoreMessage, ToolDefinition};
use turntree_core::time::SystemClock;
use turntree_upp::llm::Input;

/// Converts the input of a run: a message, or a text, a block or a list of both as one user message.
///
/// # Errors
/// `TypeError` with the path of the value; `turntree.ValidationError` for a dict that is not a message.
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

/// Converts the parameters of the model.
pub(super) fn params_from(params: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<RawObject>> {
    let params = params.map(|value| to_raw_object(value, "params")).transpose()?;
    Ok(Arc::new(params.unwrap_or_default()))
}

/// Returns the definitions and the functions of tools, in the same order.
pub(super) fn tools_from(tools: &Bound<'_, PyList>) -> PyResult<(Vec<CoreTool>, Vec<ToolFunction>)> {
    let functions = tools.iter().map(|tool| ToolFunction::new(&tool)).collect::<PyResult<Vec<_>>>()?;
    let tools = tools.iter().zip(&functions).map(|(tool, function)| core_tool(&tool, function));
    Ok((tools.collect::<PyResult<_>>()?, functions))
}

/// Returns the definition of a tool.
fn core_tool(tool: &Bound<'_, PyAny>, function: &ToolFunction) -> PyResult<CoreTool> {
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
    let tool = match &function.agent {
        Some(agent) => tool.with_agent(agent.get().agent().clone()),
        None => tool,
    };
    Ok(if function.approval.is_some() { tool.with_approval() } else { tool })
}

//! Converts the inputs of agents and models: messages, parameters, tools.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDateTime, PyDict, PyList, PyString, PyTuple};

use super::functions::ToolFunction;
use crate::bridge::gil;
use crate::content::{block_from, content_from};
use crate::convert::json::{to_raw, to_raw_object};
use crate::convert::text::text_of;
use crate::error::ToException as _;
use crate::message::{Message, check_not_foreign, message_from};
use crate::thread::history_from;
use turntree_agents::Tool as CoreTool;
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message as CoreMessage, ToolDefinition};
use turntree_core::time::{SystemClock, Timestamp};
use turntree_upp::UppError;
use turntree_upp::llm::Input;

/// Converts the input of a run: a message, or a text, a block or a list of both as one user message.
///
/// # Errors
/// `TypeError` with the path of the value; `turntree.ValidationError` for a dict that is not a message.
pub(crate) fn input_from(input: &Bound<'_, PyAny>) -> PyResult<Input> {
    if input.is_instance_of::<PyString>() {
        return Ok(Input::Text(text_of(input, "input")?));
    }
    let is_message = input.is_instance_of::<Message>()
        || input.cast::<PyDict>().is_ok_and(|dict| dict.contains("timestamp").unwrap_or(false));
    if is_message {
        return Ok(Input::Message(message_from(input, "input")?));
    }
    let content = if input.is_instance_of::<PyList>() {
        content_from(input, "input")?
    } else {
        vec![block_from(input, "input")?]
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
    gil::protect_thread();
    let functions = tools.iter().map(|tool| ToolFunction::new(&tool)).collect::<PyResult<Vec<_>>>()?;
    let tools = tools.iter().zip(&functions).map(|(tool, function)| core_tool(&tool, function));
    Ok((tools.collect::<PyResult<_>>()?, functions))
}

/// Returns the definition of a tool.
pub(super) fn core_tool(tool: &Bound<'_, PyAny>, function: &ToolFunction) -> PyResult<CoreTool> {
    let parameters = to_raw(&tool.getattr("parameters")?, "parameters")?;
    if !parameters.is_object() {
        return Err(PyTypeError::new_err("parameters of a tool must be a JSON Schema, a dict"));
    }
    let metadata = tool.getattr("metadata")?;
    let definition = ToolDefinition {
        name: text_of(&tool.getattr("name")?, "the name of a tool")?,
        description: text_of(&tool.getattr("description")?, "the description of a tool")?,
        parameters,
        metadata: if metadata.is_none() { None } else { Some(to_raw_object(&metadata, "metadata")?) },
        extra: Extra::new(),
    };
    let core = CoreTool::new(definition);
    let handoff = tool.getattr_opt(intern!(tool.py(), "_handoff"))?.filter(|agent| !agent.is_none());
    if let Some(agent) = handoff {
        let core = CoreTool { handoff: Some(agent.extract::<String>()?.into()), ..core.with_idempotence() };
        return Ok(match &function.agent {
            Some(agent) => core.with_agent(agent.get().agent().clone()),
            None => core,
        });
    }
    let core = match &function.agent {
        Some(agent) => core.with_agent(agent.get().agent().clone()),
        None if has_custom_schema(tool)? => core.with_validated_arguments(),
        None => core,
    };
    let core = if is_idempotent(tool)? { core.with_idempotence() } else { core };
    let retries = tool.getattr_opt(intern!(tool.py(), "retries"))?.filter(|retries| !retries.is_none());
    let core = match retries {
        Some(retries) => core.with_retries(retries.extract()?),
        None => core,
    };
    Ok(if function.approval.is_some() { core.with_approval() } else { core })
}

/// True if calls of the tool can be repeated. Tools of vendors do not say it.
fn is_idempotent(tool: &Bound<'_, PyAny>) -> PyResult<bool> {
    let idempotent = tool.getattr_opt(intern!(tool.py(), "idempotent"))?;
    idempotent.map_or(Ok(false), |idempotent| idempotent.extract())
}

/// True if the author of the tool wrote its schema. Tools of vendors have none.
fn has_custom_schema(tool: &Bound<'_, PyAny>) -> PyResult<bool> {
    let known = tool.getattr_opt(intern!(tool.py(), "_has_custom_schema"))?;
    known.map_or(Ok(false), |known| known.is_truthy())
}

/// The history and the inputs of a call.
pub(super) struct CallInput {
    pub(super) history: History,
    pub(super) inputs: Vec<Input>,
}

impl CallInput {
    /// Separates history and inputs by the type of the first argument.
    ///
    /// Spec: UPP-1.2 §10.1.
    ///
    /// # Errors
    /// `UPPError` `INVALID_REQUEST`, caused by what is wrong with the argument.
    pub(super) fn from_python(arguments: &Bound<'_, PyTuple>, provider: &str) -> PyResult<Self> {
        let py = arguments.py();
        Self::read(arguments).map_err(|cause| {
            let reason = cause.value(py).str().map(|reason| reason.to_string()).unwrap_or_default();
            let error = UppError::invalid_request(provider, format!("Invalid inference input: {reason}"));
            let error = error.to_exception(py);
            error.set_cause(py, Some(cause));
            error
        })
    }

    fn read(arguments: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let mut arguments = arguments.iter().enumerate().peekable();
        let history = arguments.peek().map(|(_, first)| history_of(first)).transpose()?.flatten();
        if history.is_some() {
            arguments.next();
        }
        let inputs = arguments.map(|(place, input)| call_input_from(&input, &format!("input[{place}]")));
        Ok(Self { history: history.unwrap_or_default(), inputs: inputs.collect::<PyResult<_>>()? })
    }
}

/// Returns the history if the first argument is one: a thread, an object or dict with a list of `messages`, an empty
/// list, or a list that starts with a message.
fn history_of(first: &Bound<'_, PyAny>) -> PyResult<Option<History>> {
    let py = first.py();
    let messages = match first.cast::<PyDict>() {
        Ok(dict) => dict.get_item(intern!(py, "messages"))?,
        Err(_) => first.getattr_opt(intern!(py, "messages"))?,
    };
    if let Some(messages) = messages.filter(is_list) {
        return history_from(&messages, "history").map(Some);
    }
    if !is_list(first) {
        return Ok(None);
    }
    match first.try_iter()?.next().transpose()? {
        None => Ok(Some(History::new())),
        Some(element) if looks_like_message(&element)? => history_from(first, "history").map(Some),
        Some(element) if check_not_foreign(&element, "history[0]").is_err() => {
            history_from(first, "history").map(Some)
        }
        Some(_) => Err(PyTypeError::new_err(
            "a list is a history and must hold messages; give texts and blocks one by one, as generate(*blocks)",
        )),
    }
}

fn is_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

/// Returns true for a message, or a dict with the members that every message has.
fn looks_like_message(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<Message>() {
        return Ok(true);
    }
    let Ok(dict) = value.cast::<PyDict>() else { return Ok(false) };
    let text = |name: &str| -> PyResult<Option<String>> {
        Ok(dict.get_item(name)?.and_then(|value| value.extract().ok()))
    };
    if text("id")?.is_none_or(|id| id.is_empty()) {
        return Ok(false);
    }
    let is_dated = match dict.get_item("timestamp")? {
        Some(time) if time.is_instance_of::<PyString>() => {
            time.extract::<String>().is_ok_and(|time| time.parse::<Timestamp>().is_ok())
        }
        Some(time) => time.is_instance_of::<PyDateTime>(),
        None => false,
    };
    let list =
        |name: &str| -> PyResult<bool> { Ok(dict.get_item(name)?.is_some_and(|value| is_list(&value))) };
    Ok(is_dated
        && match text("type")?.as_deref() {
            Some("user" | "assistant") => list("content")?,
            Some("tool_result") => list("results")?,
            _ => false,
        })
}

/// Converts a message, a text or a block.
fn call_input_from(input: &Bound<'_, PyAny>, what: &str) -> PyResult<Input> {
    if input.is_instance_of::<PyString>() {
        return Ok(Input::Text(text_of(input, what)?));
    }
    let is_message = input.is_instance_of::<Message>()
        || match input.cast::<PyDict>() {
            Ok(dict) => dict.contains("type")? && dict.contains("id")? && dict.contains("timestamp")?,
            Err(_) => false,
        };
    if is_message {
        message_from(input, what).map(Input::Message)
    } else {
        block_from(input, what).map(Input::Block)
    }
}

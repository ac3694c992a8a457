//! Messages of requests: what a run gets as history and as input.

use std::sync::Arc;

use turntree_core::json::{RawJson, parse_bytes};
use turntree_core::message::message::{Body, History};
use turntree_core::message::{Message, MessageKind};

use super::error::{ApiError, require_object};
use super::parameters::Parameters;
use crate::agent::{RunInput, RunOptions, ServedAgent};
use crate::wires::body_limits::BODY_LIMITS;

/// Parses the body of a request.
///
/// # Errors
/// It is not JSON, too deep, too large, or of another shape.
pub(in crate::wires) fn parse_body<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    Ok(parse_bytes(bytes, &BODY_LIMITS)?)
}

/// The input of a run: the user's last message, after the others. Without it, the model continues from the history.
/// Results of calls in a row become one message.
pub(in crate::wires) fn run_input(all: Vec<Arc<Message>>) -> RunInput {
    let mut messages: Vec<Arc<Message>> = Vec::with_capacity(all.len());
    for message in all {
        let are_results = |message: &Message| !message.results().is_empty();
        let continues = are_results(&message) && messages.last().is_some_and(|last| are_results(last));
        if continues
            && let Some(last) = messages.last_mut()
            && let Body::ToolResult { results } = &mut Arc::make_mut(last).body
        {
            results.extend(message.results().iter().cloned());
        } else {
            messages.push(message);
        }
    }
    let last = messages.pop_if(|message| message.kind() == MessageKind::User);
    let history: History = messages.into_iter().collect();
    RunInput::Messages { history, input: last.into_iter().collect() }
}

/// Checks that each call of a tool has its result in the next message, and that there are no other results.
///
/// # Errors
/// A call without a result, or a result without a call: no model accepts them.
pub(in crate::wires) fn check_calls<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    param: &str,
) -> Result<(), ApiError> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if let Body::ToolResult { results } = &message.body {
            for result in results {
                let place = open.iter().position(|id| *id == result.tool_call_id);
                let place = place.ok_or_else(|| no_call(param, &result.tool_call_id))?;
                open.swap_remove(place);
            }
        } else {
            no_open_calls(param, &open)?;
            open = message.tool_calls().iter().map(|call| call.tool_call_id.as_str()).collect();
        }
    }
    no_open_calls(param, &open)
}

fn no_call(param: &str, id: &str) -> ApiError {
    ApiError::invalid(
        param,
        format!(
            "the result of \"{id}\" has no call; messages with results must follow the message with the calls"
        ),
    )
}

fn no_open_calls(param: &str, open: &[&str]) -> Result<(), ApiError> {
    if open.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        param,
        format!("these calls have no results: {}; send the result of each call after them", open.join(", ")),
    ))
}

/// The form of the output: `response_format` of chat completions, `text.format` of responses.
#[derive(Debug, Clone, Default, serde::Deserialize)]
pub(in crate::wires) struct OutputFormat {
    #[serde(rename = "type")]
    pub(in crate::wires) kind: String,
    schema: Option<RawJson>,
    json_schema: Option<JsonSchemaFormat>,
}

#[derive(Debug, Clone, serde::Deserialize)]
struct JsonSchemaFormat {
    schema: Option<RawJson>,
}

impl OutputFormat {
    /// Adds the form to a run.
    ///
    /// # Errors
    /// The type is not known, or the schema is missing.
    pub(in crate::wires) fn apply(
        self,
        param: &str,
        options: &mut RunOptions,
        parameters: &mut Parameters,
    ) -> Result<(), ApiError> {
        match self.kind.as_str() {
            "text" => {}
            "json_object" => parameters.json_object = true,
            "json_schema" => {
                let schema = self.schema.or_else(|| self.json_schema.and_then(|format| format.schema));
                let schema = schema.ok_or_else(|| {
                    ApiError::missing(format!("{param}.schema"), "the format json_schema needs a schema")
                })?;
                require_object(&schema, &format!("{param}.schema"))?;
                options.structure = Some(Arc::new(schema));
            }
            kind => {
                let message =
                    format!("the format \"{kind}\" is not known; use text, json_object or json_schema");
                return Err(ApiError::invalid(format!("{param}.type"), message));
            }
        }
        Ok(())
    }
}

/// Adds parameters to the options of a run.
pub(in crate::wires) fn apply_parameters(
    agent: &ServedAgent,
    parameters: &Parameters,
    options: &mut RunOptions,
) {
    let (params, instruction) = parameters.of_agent(agent.agent());
    options.params = params;
    options.instructions.extend(instruction);
}

//! The request of a response, as a run.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use turntree_core::ids::IdSource;
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolDefinition};
use turntree_core::time::Clock;

use super::items::{InputItem, messages_of};
use crate::agent::messages::tools_to_upp;
use crate::agent::{RunOptions, ServedAgent, messages_to_upp};
use crate::types::{FunctionDefinition, FunctionTool, Number, ToolDefinition as UampTool};
use crate::wires::openai::conversation::{OutputFormat, apply_parameters};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::parameters::{Parameters, ToolChoice};

/// The request. Members that are not here are ignored.
#[derive(Debug, Clone, Deserialize)]
pub struct ResponsesRequest {
    model: Option<String>,
    input: Option<Input>,
    pub(super) instructions: Option<String>,
    pub(super) previous_response_id: Option<String>,
    conversation: Option<ConversationParam>,
    store: Option<bool>,
    stream: Option<bool>,
    background: Option<bool>,
    tools: Option<Vec<ToolParam>>,
    tool_choice: Option<RawJson>,
    text: Option<TextParam>,
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    pub(super) max_output_tokens: Option<Number>,
    pub(super) metadata: Option<RawJson>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<InputItem>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ConversationParam {
    Id(String),
    Object { id: String },
}

#[derive(Debug, Clone, Deserialize)]
struct TextParam {
    format: Option<OutputFormat>,
}

/// A tool, also of an unknown type.
#[derive(Debug, Clone, Deserialize)]
struct ToolParam {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<RawJson>,
    strict: Option<bool>,
}

/// The messages of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestMessages {
    /// The instructions of the request, and its system messages.
    pub instructions: Vec<String>,
    /// The other messages.
    pub messages: Vec<Arc<Message>>,
}

impl ResponsesRequest {
    /// The name of the agent.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether the response is streamed.
    pub fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether the response is stored. Default: it is.
    pub fn is_stored(&self) -> bool {
        self.store != Some(false)
    }

    /// The id of the conversation that the client names.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_ref().map(|conversation| match conversation {
            ConversationParam::Id(id) | ConversationParam::Object { id } => id.as_str(),
        })
    }

    /// Checks members that depend on each other.
    ///
    /// # Errors
    /// A combination that is not valid or not supported.
    pub fn check(&self) -> Result<(), ApiError> {
        let is_empty = match &self.input {
            None => true,
            Some(Input::Text(_)) => false,
            Some(Input::Items(items)) => items.is_empty(),
        };
        if is_empty {
            return Err(ApiError::missing("input", "the request needs input: a text, or at least one item"));
        }
        if self.background == Some(true) {
            let message = "responses in the background are not supported; leave background out, and stream";
            return Err(ApiError::unsupported("background", message));
        }
        if self.previous_response_id.is_some() && self.conversation.is_some() {
            let message = "previous_response_id and conversation exclude each other; send one of them";
            return Err(ApiError::invalid("previous_response_id", message));
        }
        Ok(())
    }

    /// The messages of the input.
    ///
    /// # Errors
    /// An item that is not valid or not supported.
    pub fn messages(&self, ids: &dyn IdSource, clock: &dyn Clock) -> Result<RequestMessages, ApiError> {
        let items = match &self.input {
            None => Vec::new(),
            Some(Input::Text(text)) => vec![InputItem::user(text)],
            Some(Input::Items(items)) => items.clone(),
        };
        let converted = messages_to_upp(&messages_of(items)?, ids, clock)
            .map_err(|error| ApiError::from(error).with_param("input"))?;
        let mut instructions: Vec<String> = self.instructions.iter().cloned().collect();
        instructions.extend(converted.instructions);
        let messages = converted.messages.into_iter().map(Arc::new).collect();
        Ok(RequestMessages { instructions, messages })
    }

    /// Adds tools, the form of the output and parameters to a run.
    ///
    /// # Errors
    /// A member is not valid or not supported.
    pub fn apply(&self, agent: &ServedAgent, options: &mut RunOptions) -> Result<(), ApiError> {
        let mut client_tools = self.client_tools()?;
        let names: Vec<String> = client_tools.iter().map(|tool| tool.name.clone()).collect();
        let mut parameters = Parameters {
            temperature: self.temperature.clone(),
            top_p: self.top_p.clone(),
            max_tokens: self.max_output_tokens.clone(),
            tool_choice: ToolChoice::read(self.tool_choice.as_ref(), &names)?,
            ..Parameters::default()
        };
        if parameters.tool_choice == ToolChoice::None {
            client_tools.clear();
        }
        options.client_tools = client_tools;
        if let Some(format) = self.text.as_ref().and_then(|text| text.format.clone()) {
            format.apply("text.format", options, &mut parameters)?;
        }
        apply_parameters(agent, &parameters, options);
        Ok(())
    }

    fn client_tools(&self) -> Result<Vec<ToolDefinition>, ApiError> {
        let tools = self.tools.iter().flatten().enumerate().map(|(index, tool)| {
            if tool.kind != "function" {
                let message = format!(
                    "tools of the type \"{}\" are not supported; the agent has its own, send tools of the type \
                     \"function\"",
                    tool.kind
                );
                return Err(ApiError::unsupported(format!("tools[{index}].type"), message));
            }
            let name = tool.name.clone().unwrap_or_default();
            let function = FunctionDefinition {
                name,
                description: tool.description.clone(),
                parameters: tool.parameters.clone().filter(|schema| !schema.is_null()),
                ..FunctionDefinition::default()
            };
            Ok(UampTool::Function(Box::new(FunctionTool { function, ..FunctionTool::default() })))
        });
        let tools: Vec<UampTool> = tools.collect::<Result<_, _>>()?;
        tools_to_upp(&tools).map_err(|error| ApiError::from(error).with_param("tools"))
    }

    /// The tools as the response repeats them.
    pub(super) fn tools_json(&self) -> Value {
        let tools = self.tools.iter().flatten().map(|tool| {
            serde_json::json!({
                "type": tool.kind,
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": tool.strict.unwrap_or(true),
            })
        });
        tools.collect()
    }

    /// `tool_choice` as the response repeats it.
    pub(super) fn tool_choice_json(&self) -> Value {
        let choice = self.tool_choice.as_ref().filter(|choice| !choice.is_null());
        choice.and_then(|choice| choice.to().ok()).unwrap_or_else(|| "auto".into())
    }

    /// The type of the output's form.
    pub(super) fn format_kind(&self) -> &str {
        let format = self.text.as_ref().and_then(|text| text.format.as_ref());
        format.map_or("text", |format| format.kind.as_str())
    }
}

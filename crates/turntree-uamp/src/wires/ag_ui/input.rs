//! The body of a request, and the run that it asks for.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::Clock;

use super::super::media::{MediaPart, Source};
use crate::agent::messages::tools_to_upp;
use crate::agent::{RunInput, RunOptions, messages_to_upp};
use crate::error::UampError;
use crate::types::{
    ContentItem, FunctionDefinition, FunctionTool, Message, MessageToolCall, Role, ToolDefinition,
};

/// `RunAgentInput`: the body of a request. Unknown members are ignored.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// The conversation; the front end chooses it.
    pub thread_id: String,
    /// The run; the front end chooses it.
    pub run_id: String,
    /// The state of the front end. The run has it in its metadata, as `ag_ui.state`.
    #[serde(default)]
    pub state: Value,
    /// The whole conversation.
    #[serde(default)]
    pub messages: Vec<InputMessage>,
    /// The tools of the front end.
    #[serde(default)]
    pub tools: Vec<InputTool>,
    /// What the agent should know: added to its instructions.
    #[serde(default)]
    pub context: Vec<ContextItem>,
    /// More for the application. The run has it in its metadata, as `ag_ui.forwardedProps`.
    #[serde(default)]
    pub forwarded_props: Value,
}

/// A message.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputMessage {
    /// `user`, `assistant`, `system`, `developer`, `tool`; messages with other roles are left out.
    pub role: String,
    /// The text, or the parts of a user's message.
    #[serde(default)]
    pub content: Option<InputContent>,
    /// The calls of an assistant.
    #[serde(default)]
    pub tool_calls: Option<Vec<MessageToolCall>>,
    /// The call that a tool answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// Why the tool has failed.
    #[serde(default)]
    pub error: Option<String>,
}

/// The content of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum InputContent {
    /// Text.
    Text(String),
    /// Parts.
    Parts(Vec<InputPart>),
    /// The content of an activity, which is not a part of the conversation.
    Other(serde::de::IgnoredAny),
}

/// A part of a message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputPart {
    /// `text`, `binary`, `image`, `audio`, `video`, `document`.
    pub r#type: String,
    /// The text.
    pub text: Option<String>,
    /// The media type of `binary`.
    pub mime_type: Option<String>,
    /// The URL of `binary`.
    pub url: Option<String>,
    /// The base64 data of `binary`.
    pub data: Option<String>,
    /// The name of the file.
    pub filename: Option<String>,
    /// The data of media.
    pub source: Option<InputSource>,
}

/// The data of media: `{type: "url" | "data", value, mimeType}`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSource {
    /// `url` or `data`.
    pub r#type: String,
    /// The URL or the base64 data.
    pub value: String,
    /// The media type.
    pub mime_type: Option<String>,
}

/// A tool of the front end.
#[derive(Debug, Clone, Deserialize)]
pub struct InputTool {
    /// The name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(default)]
    pub parameters: Option<RawJson>,
}

/// Something that the agent should know.
#[derive(Debug, Clone, Deserialize)]
pub struct ContextItem {
    /// What it is.
    #[serde(default)]
    pub description: String,
    /// Its value.
    pub value: String,
}

/// What a request asks for.
#[derive(Debug)]
pub struct Prepared {
    /// The conversation.
    pub input: RunInput,
    /// Instructions, tools and metadata.
    pub options: RunOptions,
}

/// The run of a request.
///
/// # Errors
/// A message, a tool or media is not valid.
pub fn prepare(input: RunAgentInput, ids: &dyn IdSource, clock: &dyn Clock) -> Result<Prepared, UampError> {
    let metadata = json!({
        "threadId": input.thread_id, "runId": input.run_id, "state": input.state,
        "forwardedProps": input.forwarded_props,
    });
    let messages: Vec<Message> = input.messages.into_iter().filter_map(message).collect();
    let converted = messages_to_upp(&messages, ids, clock)?;
    if converted.messages.is_empty() {
        return Err(UampError::InvalidEvent {
            pointer: "/messages".to_owned(),
            reason: "there is no message; send at least one of the user".to_owned(),
        });
    }
    let mut instructions = converted.instructions;
    let context = input.context.iter().map(|item| match item.description.as_str() {
        "" => item.value.clone(),
        description => format!("{description}: {}", item.value),
    });
    instructions.extend(context);
    let tools: Vec<ToolDefinition> = input.tools.into_iter().map(tool).collect();
    let mut members = RawObject::new();
    if let Ok(value) = RawJson::from_value(&metadata) {
        members.insert("ag_ui", value);
    }
    let options = RunOptions {
        instructions,
        client_tools: tools_to_upp(&tools)?,
        metadata: Arc::new(members),
        ..RunOptions::default()
    };
    let history = converted.messages.into_iter().map(Arc::new).collect();
    Ok(Prepared { input: RunInput::Messages { history, input: Vec::new() }, options })
}

fn tool(tool: InputTool) -> ToolDefinition {
    let function = FunctionDefinition {
        name: tool.name,
        description: Some(tool.description),
        parameters: tool.parameters,
        ..FunctionDefinition::default()
    };
    ToolDefinition::Function(Box::new(FunctionTool { function, ..FunctionTool::default() }))
}

/// A message of UAMP; `None` for messages that are not a part of the conversation.
fn message(message: InputMessage) -> Option<Message> {
    let role = match message.role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        "tool" => Role::Tool,
        _ => return None,
    };
    let (content, content_items) = match message.content {
        Some(InputContent::Text(text)) => (Some(text), None),
        Some(InputContent::Parts(parts)) => (None, Some(parts.into_iter().filter_map(item).collect())),
        Some(InputContent::Other(_)) | None => (None, None),
    };
    let content = message.error.filter(|_| role == Role::Tool).or(content);
    Some(Message {
        role,
        content,
        content_items,
        tool_calls: message.tool_calls,
        tool_call_id: message.tool_call_id,
        ..Message::default()
    })
}

/// The content item of a part; `None` for parts without data.
fn item(part: InputPart) -> Option<ContentItem> {
    if part.r#type == "text" {
        return part.text.map(ContentItem::text);
    }
    let (source, mime_type) = match part.source {
        Some(InputSource { r#type, value, mime_type }) => {
            (if r#type == "url" { Source::Url(value) } else { Source::Base64(value) }, mime_type)
        }
        None => (part.url.map(Source::Url).or_else(|| part.data.map(Source::Base64))?, part.mime_type),
    };
    let mime_type = mime_type.unwrap_or_else(|| default_type(&part.r#type).to_owned());
    Some(MediaPart { mime_type, source, filename: part.filename }.into_item())
}

fn default_type(kind: &str) -> &'static str {
    match kind {
        "image" => "image/png",
        "audio" => "audio/wav",
        "video" => "video/mp4",
        "document" => "application/pdf",
        _ => "application/octet-stream",
    }
}

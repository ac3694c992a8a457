//! The request of a completion, as a run.

use std::sync::Arc;

use serde::Deserialize;
use turntree_core::ids::IdSource;
use turntree_core::json::RawJson;
use turntree_core::time::Clock;

use crate::agent::messages::tools_to_upp;
use crate::agent::{RunOptions, RunRequest, ServedAgent, messages_to_upp};
use crate::types::{AudioContent, FileContent, ImageContent};
use crate::types::{ContentItem, Media, Message, MessageToolCall, Number, Role, ToolDefinition};
use crate::wires::openai::conversation::{OutputFormat, apply_parameters, check_calls, run_input};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::parameters::{Parameters, ToolChoice};

/// The request. Members that are not here are ignored.
#[derive(Debug, Clone, Deserialize)]
pub struct ChatRequest {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    tools: Option<Vec<ToolDefinition>>,
    tool_choice: Option<RawJson>,
    response_format: Option<OutputFormat>,
    n: Option<Number>,
    temperature: Option<Number>,
    top_p: Option<Number>,
    max_tokens: Option<Number>,
    max_completion_tokens: Option<Number>,
    stop: Option<Stop>,
    seed: Option<Number>,
    frequency_penalty: Option<Number>,
    presence_penalty: Option<Number>,
    modalities: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Many(Vec<String>),
}

/// A message.
#[derive(Debug, Clone, Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Content>,
    name: Option<String>,
    tool_call_id: Option<String>,
    tool_calls: Option<Vec<MessageToolCall>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of the content of a message.
#[derive(Debug, Clone, Default, Deserialize)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<ImageUrl>,
    input_audio: Option<InputAudio>,
    file: Option<InputFile>,
}

#[derive(Debug, Clone, Deserialize)]
struct ImageUrl {
    url: String,
}

#[derive(Debug, Clone, Deserialize)]
struct InputAudio {
    data: String,
    format: String,
}

#[derive(Debug, Clone, Deserialize)]
struct InputFile {
    file_data: Option<String>,
    filename: Option<String>,
}

impl ChatRequest {
    /// The name of the agent.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether the completion is streamed.
    pub fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether a streamed completion has a frame with the usage.
    pub fn includes_usage(&self) -> bool {
        self.stream_options.and_then(|options| options.include_usage) == Some(true)
    }

    /// The messages as UAMP has them.
    ///
    /// # Errors
    /// A message is not valid.
    pub fn messages(&self) -> Result<Vec<Message>, ApiError> {
        let messages = self.messages.iter().cloned().enumerate().map(|(index, message)| {
            message.into_message().map_err(|error| error.inside(&format!("messages[{index}]")))
        });
        messages.collect()
    }

    /// The run of the request.
    ///
    /// # Errors
    /// A member has a value that is not valid, or that the server does not support.
    pub fn into_run(
        self,
        agent: &Arc<ServedAgent>,
        ids: &dyn IdSource,
        clock: &dyn Clock,
    ) -> Result<RunRequest, ApiError> {
        self.check()?;
        let messages = self.messages()?;
        let tools = tools_to_upp(self.tools.as_deref().unwrap_or_default());
        let mut client_tools = tools.map_err(|error| ApiError::from(error).with_param("tools"))?;
        let names: Vec<String> = client_tools.iter().map(|tool| tool.name.clone()).collect();
        let mut parameters = Parameters {
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            stop: match self.stop {
                None => Vec::new(),
                Some(Stop::One(text)) => vec![text],
                Some(Stop::Many(texts)) => texts,
            },
            seed: self.seed,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            tool_choice: ToolChoice::read(self.tool_choice.as_ref(), &names)?,
            json_object: false,
        };
        if parameters.tool_choice == ToolChoice::None {
            client_tools.clear();
        }
        let converted = messages_to_upp(&messages, ids, clock)?;
        check_calls(&converted.messages, "messages")?;
        let instructions = converted.instructions;
        let mut options = RunOptions { instructions, client_tools, ..RunOptions::default() };
        if let Some(format) = self.response_format {
            format.apply("response_format", &mut options, &mut parameters)?;
        }
        apply_parameters(agent, &parameters, &mut options);
        let messages = converted.messages.into_iter().map(Arc::new).collect();
        Ok(RunRequest { agent: Arc::clone(agent), input: run_input(messages), options })
    }

    fn check(&self) -> Result<(), ApiError> {
        if self.messages.is_empty() {
            return Err(ApiError::invalid("messages", "messages must have at least one message")
                .with_code("empty_array"));
        }
        if self.n.as_ref().is_some_and(|n| n.as_u64() != Some(1)) {
            return Err(ApiError::unsupported("n", "an agent gives one choice; leave n out, or set it to 1"));
        }
        let is_audio = self.modalities.iter().flatten().any(|modality| modality != "text");
        if is_audio {
            return Err(ApiError::unsupported(
                "modalities",
                "completions are text; set modalities to [\"text\"]",
            ));
        }
        Ok(())
    }
}

impl ChatMessage {
    fn into_message(self) -> Result<Message, ApiError> {
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            role => {
                let message = format!(
                    "the role \"{role}\" is not known; use system, developer, user, assistant or tool"
                );
                return Err(ApiError::invalid(".role", message));
            }
        };
        if role == Role::Tool && self.tool_call_id.is_none() {
            return Err(ApiError::missing(".tool_call_id", "a message of a tool needs tool_call_id"));
        }
        if self.content.is_none() && role != Role::Assistant {
            return Err(ApiError::missing(".content", "the message needs content"));
        }
        let mut message = Message {
            role,
            name: self.name,
            tool_call_id: self.tool_call_id,
            tool_calls: self.tool_calls,
            ..Message::default()
        };
        match self.content {
            None => {}
            Some(Content::Text(text)) => message.content = Some(text),
            Some(Content::Parts(parts)) => {
                let items: Result<Vec<ContentItem>, ApiError> = parts
                    .into_iter()
                    .enumerate()
                    .map(|(index, part)| {
                        part.into_item().map_err(|error| error.inside(&format!(".content[{index}]")))
                    })
                    .collect();
                message.content_items = Some(items?);
            }
        }
        Ok(message)
    }
}

impl ContentPart {
    fn into_item(self) -> Result<ContentItem, ApiError> {
        let missing = |member: &str| {
            ApiError::missing(format!(".{member}"), format!("a part of this type needs {member}"))
        };
        Ok(match self.kind.as_str() {
            "text" => ContentItem::text(self.text.ok_or_else(|| missing("text"))?),
            "refusal" => ContentItem::text(self.refusal.ok_or_else(|| missing("refusal"))?),
            "image_url" => {
                let image = Media::from_url(self.image_url.ok_or_else(|| missing("image_url"))?.url);
                ContentItem::Image(Box::new(ImageContent { image, ..ImageContent::default() }))
            }
            "input_audio" => {
                let InputAudio { data, format } = self.input_audio.ok_or_else(|| missing("input_audio"))?;
                let format = Some(format.as_str().into());
                let audio = Media::Text(data);
                ContentItem::Audio(Box::new(AudioContent { audio, format, ..AudioContent::default() }))
            }
            "file" => file_item(self.file.ok_or_else(|| missing("file"))?)?,
            kind => {
                let message = format!(
                    "the type \"{kind}\" is not known; use text, image_url, input_audio, file or refusal"
                );
                return Err(ApiError::invalid(".type", message));
            }
        })
    }
}

/// A file as part of the request.
fn file_item(file: InputFile) -> Result<ContentItem, ApiError> {
    let data = file.file_data.ok_or_else(|| {
        ApiError::unsupported(".file.file_id", "the server keeps no files; send the file as file_data")
    })?;
    let media_type = data.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
    let mime_type = media_type.unwrap_or("application/pdf").to_owned();
    let filename = file.filename.unwrap_or_default();
    let file = Media::Text(data);
    Ok(ContentItem::File(Box::new(FileContent { file, filename, mime_type, ..FileContent::default() })))
}

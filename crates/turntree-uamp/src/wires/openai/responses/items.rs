//! Input items as messages.

use serde::Deserialize;
use serde_json::Value;

use crate::types::{
    AudioContent, ContentItem, FileContent, ImageContent, Media, Message, MessageToolCall, Role,
};
use crate::wires::openai::error::ApiError;

/// An item of the input. Which members it has depends on its type.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct InputItem {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<String>,
    file_data: Option<String>,
    file_url: Option<String>,
    filename: Option<String>,
    input_audio: Option<InputAudio>,
}

#[derive(Debug, Clone, Deserialize)]
struct InputAudio {
    data: String,
    format: String,
}

impl InputItem {
    /// A message of the user.
    pub fn user(text: &str) -> Self {
        Self {
            role: Some("user".to_owned()),
            content: Some(Content::Text(text.to_owned())),
            ..Self::default()
        }
    }
}

/// The messages of items. Calls in a row belong to one message.
///
/// # Errors
/// An item that is not valid or not supported; the error names its place in `input`.
pub fn messages_of(items: impl IntoIterator<Item = InputItem>) -> Result<Vec<Message>, ApiError> {
    let mut messages: Vec<Message> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        push(&mut messages, item).map_err(|error| error.inside(&format!("input[{index}]")))?;
    }
    Ok(messages)
}

fn push(messages: &mut Vec<Message>, item: InputItem) -> Result<(), ApiError> {
    match item.kind.as_deref().unwrap_or("message") {
        "message" => messages.push(message(item)?),
        "function_call" => {
            let call = MessageToolCall {
                id: required(item.call_id, "call_id")?,
                name: Some(required(item.name, "name")?),
                arguments: item.arguments,
                ..MessageToolCall::default()
            };
            match messages.last_mut() {
                Some(last) if last.role == Role::Assistant => {
                    last.tool_calls.get_or_insert_default().push(call);
                }
                _ => messages.push(Message {
                    role: Role::Assistant,
                    tool_calls: Some(vec![call]),
                    ..Message::default()
                }),
            }
        }
        "function_call_output" => messages.push(Message {
            role: Role::Tool,
            tool_call_id: Some(required(item.call_id, "call_id")?),
            content: Some(output_text(&required(item.output, "output")?)),
            ..Message::default()
        }),
        // Opaque items of an earlier response: the model thinks again.
        "reasoning" => {}
        kind => {
            let message = format!(
                "items of the type \"{kind}\" are not supported; use message, function_call or function_call_output"
            );
            return Err(ApiError::unsupported(".type", message));
        }
    }
    Ok(())
}

fn required<T>(value: Option<T>, member: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| {
        ApiError::missing(format!(".{member}"), format!("an item of this type needs {member}"))
    })
}

/// The output of a call: a text, or the texts of its parts.
fn output_text(output: &Value) -> String {
    if let Some(text) = output.as_str() {
        return text.to_owned();
    }
    let texts = output.as_array().map(|parts| {
        let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
        texts.map(|texts| texts.join("\n"))
    });
    texts.flatten().unwrap_or_else(|| output.to_string())
}

fn message(item: InputItem) -> Result<Message, ApiError> {
    let role = match required(item.role, "role")?.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        role => {
            let message =
                format!("the role \"{role}\" is not known; use system, developer, user or assistant");
            return Err(ApiError::invalid(".role", message));
        }
    };
    let mut message = Message { role, ..Message::default() };
    match required(item.content, "content")? {
        Content::Text(text) => message.content = Some(text),
        Content::Parts(parts) => {
            let items: Result<Vec<ContentItem>, ApiError> = parts
                .into_iter()
                .enumerate()
                .map(|(index, part)| {
                    content_item(part).map_err(|error| error.inside(&format!(".content[{index}]")))
                })
                .collect();
            message.content_items = Some(items?);
        }
    }
    Ok(message)
}

fn content_item(part: ContentPart) -> Result<ContentItem, ApiError> {
    Ok(match part.kind.as_str() {
        "input_text" | "output_text" | "text" => ContentItem::text(required(part.text, "text")?),
        "refusal" => ContentItem::text(required(part.refusal, "refusal")?),
        "input_image" => {
            let url = part.image_url.ok_or_else(|| no_files(".image_url", "image_url"))?;
            ContentItem::Image(Box::new(ImageContent {
                image: Media::from_url(url),
                ..ImageContent::default()
            }))
        }
        "input_file" => {
            let data = part.file_data.or(part.file_url).ok_or_else(|| no_files(".file_data", "file_data"))?;
            let media_type = data.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
            let mime_type = media_type.unwrap_or("application/pdf").to_owned();
            let filename = part.filename.unwrap_or_default();
            let file = Media::Text(data);
            ContentItem::File(Box::new(FileContent { file, filename, mime_type, ..FileContent::default() }))
        }
        "input_audio" => {
            let InputAudio { data, format } = required(part.input_audio, "input_audio")?;
            let format = Some(format.as_str().into());
            let audio = Media::Text(data);
            ContentItem::Audio(Box::new(AudioContent { audio, format, ..AudioContent::default() }))
        }
        kind => {
            let message = format!(
                "the type \"{kind}\" is not known; use input_text, output_text, input_image, input_file or input_audio"
            );
            return Err(ApiError::invalid(".type", message));
        }
    })
}

fn no_files(param: &str, member: &str) -> ApiError {
    ApiError::unsupported(param, format!("the server keeps no files; send the data as {member}"))
}

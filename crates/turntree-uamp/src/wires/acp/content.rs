//! Content blocks: those of prompts as messages, and those of messages for the client.

use serde::Deserialize;
use serde_json::{Value, json};
use turntree_core::ids::IdSource;
use turntree_core::message::{ContentBlock, Message as UppMessage};
use turntree_core::time::Clock;

use super::super::media::{MediaPart, Source};
use super::json_rpc::RpcError;
use crate::agent::messages::item_from_block;
use crate::agent::messages_to_upp;
use crate::types::{ContentItem, Message, Role};

/// A block of a prompt.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum PromptBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The data as base64.
        data: String,
        /// The media type.
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// The data as base64.
        data: String,
        /// The media type.
        mime_type: String,
    },
    /// A file of which the agent receives the name.
    ResourceLink {
        /// The URI.
        uri: String,
        /// The name.
        name: String,
        /// What it contains.
        #[serde(default)]
        description: Option<String>,
    },
    /// A file with its content.
    Resource {
        /// The file.
        resource: Resource,
    },
}

/// The content of a file: text, or data.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The media type.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// The text.
    #[serde(default)]
    pub text: Option<String>,
    /// The data as base64.
    #[serde(default)]
    pub blob: Option<String>,
}

/// The message of a prompt.
///
/// # Errors
/// The prompt is empty, or media is not base64 (-32602).
pub fn message(
    prompt: Vec<PromptBlock>,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<UppMessage, RpcError> {
    let items: Vec<ContentItem> =
        prompt.into_iter().enumerate().map(item).collect::<Result<_, RpcError>>()?;
    if items.is_empty() {
        return Err(RpcError::invalid_params("prompt: expected at least one block"));
    }
    let message = Message { role: Role::User, content_items: Some(items), ..Message::default() };
    let converted = messages_to_upp(&[message], ids, clock)
        .map_err(|error| RpcError::invalid_params(format!("prompt: {error}")))?;
    converted.messages.into_iter().next().ok_or_else(|| RpcError::internal("the prompt has no message"))
}

fn item((index, block): (usize, PromptBlock)) -> Result<ContentItem, RpcError> {
    let media = |mime_type: String, data: String, filename: Option<String>| {
        MediaPart { mime_type, source: Source::Base64(data), filename }.into_item()
    };
    Ok(match block {
        PromptBlock::Text { text } => ContentItem::text(text),
        PromptBlock::Image { data, mime_type } | PromptBlock::Audio { data, mime_type } => {
            media(mime_type, data, None)
        }
        PromptBlock::ResourceLink { uri, name, description } => {
            let about = description.map(|text| format!(": {text}")).unwrap_or_default();
            ContentItem::text(format!("[{name}]({uri}){about}"))
        }
        PromptBlock::Resource { resource } => match (resource.text, resource.blob) {
            (Some(text), _) => {
                let uri = resource.uri.replace('"', "%22");
                ContentItem::text(format!("<resource uri=\"{uri}\">\n{text}\n</resource>"))
            }
            (None, Some(blob)) => {
                let name = resource.uri.rsplit('/').next().unwrap_or_default().to_owned();
                media(resource.mime_type.unwrap_or_default(), blob, Some(name))
            }
            (None, None) => {
                let message = format!("prompt[{index}].resource: expected text or blob");
                return Err(RpcError::invalid_params(message));
            }
        },
    })
}

/// A block with text.
pub fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The block of a content item; `None` for tool calls, their results, and unknown items.
pub fn block_of_item(item: &ContentItem) -> Option<Value> {
    if let ContentItem::Text(text) = item {
        return Some(text_block(&text.text));
    }
    let MediaPart { mime_type, source, filename } = MediaPart::of_item(item)?;
    let name = filename.unwrap_or_else(|| "file".to_owned());
    Some(match (source, mime_type.split('/').next()) {
        (Source::Url(uri), _) => {
            json!({ "type": "resource_link", "uri": uri, "name": name, "mimeType": mime_type })
        }
        (Source::Base64(data), Some(kind @ ("image" | "audio"))) => {
            json!({ "type": kind, "data": data, "mimeType": mime_type })
        }
        (Source::Base64(blob), _) => json!({
            "type": "resource",
            "resource": { "uri": format!("attachment:{name}"), "blob": blob, "mimeType": mime_type },
        }),
    })
}

/// The block of a part of a stored message; `None` for parts that clients cannot show.
pub fn block_of_stored(block: &ContentBlock) -> Option<Value> {
    block_of_item(&item_from_block(block)?)
}

/// The text of the first line of a message: the title of a session that begins with it.
pub fn title(message: &UppMessage) -> Option<String> {
    let text = message.content().iter().find_map(|block| match block {
        ContentBlock::Text(block) => block.text.lines().map(str::trim).find(|line| !line.is_empty()),
        _ => None,
    })?;
    Some(text.chars().take(80).collect())
}

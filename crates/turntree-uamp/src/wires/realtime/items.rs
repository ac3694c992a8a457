//! Items of the conversation, and their messages.

use serde::Deserialize;
use serde_json::{Value, json};
use turntree_core::message::media::Binary;

use crate::types::{AudioContent, ContentItem, ImageContent, Media, Message, MessageToolCall, Role};
use crate::wires::openai::error::ApiError;

/// Samples of a second in audio of the format `pcm16`.
const SAMPLE_RATE: u32 = 24_000;

/// An item of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The id.
    pub id: String,
    /// The item as the client sees it, without the data of audio.
    pub json: Value,
    /// The message.
    pub message: Message,
}

/// An item as clients send it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ItemParam {
    /// The id that the client has chosen.
    pub id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    #[serde(default)]
    content: Vec<PartParam>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct PartParam {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    audio: Option<String>,
    transcript: Option<String>,
    image_url: Option<String>,
}

impl Item {
    /// The bytes of the item: what the client sees of it, and the data of its audio.
    pub fn size(&self) -> usize {
        let media = self.message.content_items.iter().flatten().filter_map(ContentItem::media);
        let data = media.filter_map(Media::base64).map(str::len).fold(0, usize::saturating_add);
        self.json.to_string().len().saturating_add(data)
    }

    /// Removes the content: models do not see the message.
    pub fn empty(&mut self) {
        if let Some(members) = self.json.as_object_mut() {
            members.insert("content".to_owned(), json!([]));
        }
        self.message = Message { role: self.message.role.clone(), ..Message::default() };
    }
}

fn required<T>(value: Option<T>, member: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| {
        ApiError::missing(format!("item.{member}"), format!("an item of this type needs {member}"))
    })
}

impl ItemParam {
    /// The item, with this id.
    ///
    /// # Errors
    /// A member is missing, not valid or not supported.
    pub fn into_item(self, id: String, takes_audio: bool) -> Result<Item, ApiError> {
        match self.kind.as_deref().unwrap_or("message") {
            "message" => self.into_message(id, takes_audio),
            "function_call" => {
                let (call_id, name) = (required(self.call_id, "call_id")?, required(self.name, "name")?);
                Ok(call_item(id, &call_id, &name, &self.arguments.unwrap_or_else(|| "{}".to_owned())))
            }
            "function_call_output" => {
                let (call_id, output) =
                    (required(self.call_id, "call_id")?, required(self.output, "output")?);
                let json = json!({
                    "id": id, "object": "realtime.item", "type": "function_call_output",
                    "status": "completed", "call_id": call_id, "output": output,
                });
                let message = Message { tool_call_id: Some(call_id), ..Message::text(Role::Tool, output) };
                Ok(Item { id, json, message })
            }
            kind => {
                let message = format!(
                    "items of the type \"{kind}\" are not supported; use message, function_call or \
                     function_call_output"
                );
                Err(ApiError::unsupported("item.type", message))
            }
        }
    }

    fn into_message(self, id: String, takes_audio: bool) -> Result<Item, ApiError> {
        let name = required(self.role, "role")?;
        let role = match name.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            role => {
                let message = format!("the role \"{role}\" is not known; use system, user or assistant");
                return Err(ApiError::invalid("item.role", message));
            }
        };
        let (mut items, mut parts) = (Vec::new(), Vec::new());
        for (index, part) in self.content.into_iter().enumerate() {
            let (item, json) = part
                .into_content(takes_audio)
                .map_err(|error| error.with_param(format!("item.content[{index}]")))?;
            items.push(item);
            parts.push(json);
        }
        let json = json!({
            "id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": name,
            "content": parts,
        });
        Ok(Item { id, json, message: Message { role, content_items: Some(items), ..Message::default() } })
    }
}

impl PartParam {
    fn into_content(self, takes_audio: bool) -> Result<(ContentItem, Value), ApiError> {
        let missing = |member: &str| ApiError::missing("item.content", format!("the part needs {member}"));
        match self.kind.as_str() {
            "input_text" | "text" | "output_text" => {
                let text = self.text.ok_or_else(|| missing("text"))?;
                let json = json!({ "type": self.kind, "text": text });
                Ok((ContentItem::text(text), json))
            }
            "input_audio" => {
                let audio = self.audio.ok_or_else(|| missing("audio"))?;
                let json = json!({ "type": "input_audio", "transcript": self.transcript });
                Ok((audio_content(&decoded(&audio)?, takes_audio)?, json))
            }
            "output_audio" | "audio" => {
                let text = self.transcript.ok_or_else(|| missing("transcript"))?;
                let json = json!({ "type": self.kind, "transcript": text });
                Ok((ContentItem::text(text), json))
            }
            "input_image" => {
                let url = self.image_url.ok_or_else(|| missing("image_url"))?;
                let json = json!({ "type": "input_image", "image_url": url });
                let image = Media::from_url(url);
                Ok((ContentItem::Image(Box::new(ImageContent { image, ..ImageContent::default() })), json))
            }
            kind => {
                Err(ApiError::invalid("item.content", format!("the type \"{kind}\" of a part is not known")))
            }
        }
    }
}

/// The bytes of audio.
///
/// # Errors
/// The text is not base64.
pub fn decoded(audio: &str) -> Result<Vec<u8>, ApiError> {
    let data = Binary::from_base64(audio);
    let data =
        data.map_err(|error| ApiError::invalid("audio", format!("the audio is not base64: {error}")))?;
    Ok(data.as_slice().to_vec())
}

/// An item with audio of the user.
///
/// # Errors
/// The model takes no audio.
pub fn audio_item(id: String, samples: &[u8], takes_audio: bool) -> Result<Item, ApiError> {
    let items = vec![audio_content(samples, takes_audio)?];
    let json = json!({
        "id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
        "content": [{ "type": "input_audio", "transcript": null }],
    });
    let message = Message { role: Role::User, content_items: Some(items), ..Message::default() };
    Ok(Item { id, json, message })
}

/// A call of a tool of the client.
pub fn call_item(id: String, call_id: &str, name: &str, arguments: &str) -> Item {
    let json = json!({
        "id": id, "object": "realtime.item", "type": "function_call", "status": "completed",
        "call_id": call_id, "name": name, "arguments": arguments,
    });
    let call = MessageToolCall {
        id: call_id.to_owned(),
        name: Some(name.to_owned()),
        arguments: Some(arguments.to_owned()),
        ..MessageToolCall::default()
    };
    let message = Message { role: Role::Assistant, tool_calls: Some(vec![call]), ..Message::default() };
    Item { id, json, message }
}

/// Audio of the format `pcm16` as a WAV file.
fn audio_content(samples: &[u8], takes_audio: bool) -> Result<ContentItem, ApiError> {
    if !takes_audio {
        let message = "the model of this agent takes no audio; send text";
        return Err(ApiError::unsupported("audio", message));
    }
    let length = u32::try_from(samples.len())
        .map_err(|_| ApiError::invalid("audio", "the audio is too long; send less"))?;
    let mut file = Vec::with_capacity(samples.len() + 44);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&length.saturating_add(36).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    // 16 bytes follow: PCM, one channel.
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    file.extend_from_slice(&(SAMPLE_RATE * 2).to_le_bytes());
    // Bytes and bits of a sample.
    file.extend_from_slice(&2_u16.to_le_bytes());
    file.extend_from_slice(&16_u16.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(samples);
    let audio = Media::Text(Binary::new(file).to_base64());
    let format = Some("wav".into());
    Ok(ContentItem::Audio(Box::new(AudioContent { audio, format, ..AudioContent::default() })))
}

//! Texts, media and tool metadata in vendors' formats, and errors that name the location of a block.

use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::UppError;
use crate::request::System;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::limits::Limits;
use turntree_core::message::content::{ContentBlock, Unknown};
use turntree_core::message::{DocumentSource, ImageSource, Message, ToolDefinition};

/// The text of a block of an answer, as the order of a vendor's parts counts it. It is empty for code that the vendor
/// ran, whose own parts are sent in its place.
pub fn answer_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::CodeExecution(_) => Some(""),
        other => other.as_text(),
    }
}

/// Data of a block. `Display` and `Serialize` write it as base64.
#[derive(Debug, Clone, Copy)]
pub enum MediaBytes<'a> {
    /// Base64 text, used as it is.
    Base64(&'a str),
    /// Bytes, encoded while they are written.
    Bytes(&'a [u8]),
}

impl<'a> MediaBytes<'a> {
    /// The data of an image; `None` if the image is at a URL.
    pub fn of_image(source: &'a ImageSource) -> Option<Self> {
        match source {
            ImageSource::Base64(source) => Some(Self::Base64(&source.data)),
            ImageSource::Bytes(source) => Some(Self::Bytes(source.data.as_slice())),
            ImageSource::Url(_) | ImageSource::Unknown(_) => None,
        }
    }

    /// The data of a base64 document.
    pub fn of_document(source: &'a DocumentSource) -> Option<Self> {
        match source {
            DocumentSource::Base64(source) => Some(Self::Base64(&source.data)),
            DocumentSource::Url(_) | DocumentSource::Text(_) | DocumentSource::Unknown(_) => None,
        }
    }
}

impl fmt::Display for MediaBytes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base64(text) => formatter.write_str(text),
            Self::Bytes(bytes) => Base64Display::new(bytes, &STANDARD).fmt(formatter),
        }
    }
}

impl Serialize for MediaBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Base64(text) => serializer.serialize_str(text),
            Self::Bytes(_) => serializer.collect_str(self),
        }
    }
}

/// A data URL such as `data:image/png;base64,…`, encoded while it is written.
#[derive(Debug, Clone, Copy)]
pub struct DataUrl<'a> {
    /// The media type.
    pub mime_type: &'a str,
    /// The data.
    pub data: MediaBytes<'a>,
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "data:{};base64,{}", self.mime_type, self.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The id of a file that the vendor keeps: a source `{"type": "file", "fileId": "…"}`, which UPP does not define.
pub fn file_id(source: &Unknown) -> Option<String> {
    let is_file = &*source.kind == "file";
    is_file.then(|| source.members.get("fileId")?.as_string()).flatten()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The short name of an audio format, from its media type.
pub fn audio_format(mime_type: &str) -> &str {
    match mime_type.rsplit('/').next().unwrap_or(mime_type) {
        "mpeg" => "mp3",
        "x-wav" | "wave" | "vnd.wave" => "wav",
        format => format,
    }
}

/// The location of a block in a conversation; for errors.
#[derive(Debug, Clone, Copy)]
pub struct BlockLocation<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The index of the message in the conversation, from 0.
    pub message: usize,
    /// The index of the block in the message, from 0.
    pub block: usize,
}

impl BlockLocation<'_> {
    /// The error for an unsupported block; `remedy` names what is supported instead.
    pub fn unsupported(&self, message: &Message, block: &ContentBlock, remedy: &str) -> UppError {
        let Self { provider, message: place, block: block_place } = self;
        let (id, kind) = (&message.id, block.kind());
        UppError::invalid_request(
            *provider,
            format!(
                "messages[{place}] (id {id}), content[{block_place}]: {provider} does not support this {kind} block; {remedy}"
            ),
        )
    }
}

/// The system prompt as one text: the texts of its blocks, joined by a blank line (UPP-1.2 §19.0).
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for a block without a text.
pub fn system_text<'a>(provider: &str, system: &'a System) -> Result<std::borrow::Cow<'a, str>, UppError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Block {
        Text(String),
        Object { text: String },
    }
    match system {
        System::Text(text) => Ok(text.as_str().into()),
        System::Blocks(blocks) => {
            let blocks: Vec<Block> = blocks.to().map_err(|_| {
                UppError::invalid_request(provider, "system: each block needs a \"text\" that is a string")
            })?;
            let texts: Vec<String> = blocks
                .into_iter()
                .map(|block| match block {
                    Block::Text(text) | Block::Object { text } => text,
                })
                .collect();
            Ok(texts.join("\n\n").into())
        }
    }
}

/// A value of a tool's metadata under a provider's name, such as `strict` or `cache_control`.
pub fn tool_metadata_value(tool: &ToolDefinition, provider: &str, name: &str) -> Option<RawJson> {
    tool.metadata.as_ref()?.get(provider).and_then(RawObject::from_raw)?.remove(name)
}

/// Reads the body of a response.
///
/// # Errors
/// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) if the body is empty, invalid JSON, of another
/// shape (UPP-1.2 §13.5), or exceeds [`Limits::PAYLOAD`].
pub fn read_body<'de, T: Deserialize<'de>>(provider: &str, body: &'de str) -> Result<T, UppError> {
    if body.trim().is_empty() {
        return Err(UppError::invalid_response(provider, "Empty response body"));
    }
    read(provider, body, "Failed to parse JSON response")
}

fn read<'de, T: Deserialize<'de>>(provider: &str, text: &'de str, failure: &str) -> Result<T, UppError> {
    let failed =
        |error: &dyn std::fmt::Display| UppError::invalid_response(provider, format!("{failure}: {error}"));
    Limits::PAYLOAD.check(text).map_err(|error| failed(&error).with_cause(error))?;
    serde_json::from_str(text).map_err(|error| failed(&error).with_cause(error))
}

/// Reads one frame of a stream; `None` if it is not a JSON document, such as a keep-alive.
///
/// # Errors
/// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) for a truncated document or another shape:
/// skipping it would lose a part of the response.
pub fn read_frame<'de, T: Deserialize<'de>>(provider: &str, data: &'de str) -> Result<Option<T>, UppError> {
    if !data.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    read(provider, data, "Failed to parse a stream event").map(Some)
}

/// Reads one line of a stream in which every line is a document.
///
/// # Errors
/// As [`read_frame`], and for a line that is not a document.
pub fn read_line<'de, T: Deserialize<'de>>(provider: &str, line: &'de str) -> Result<T, UppError> {
    read(provider, line, "Failed to parse a line of the stream")
}

/// The data of the last frame of a stream, of hosts that send one.
pub const END_OF_STREAM: &str = "[DONE]";

/// The error for a stream that ended before the vendor marked the end of the response.
pub fn cut_short(provider: &str) -> UppError {
    UppError::invalid_response(
        provider,
        format!("the stream from {provider} ended before the response was complete; send the request again"),
    )
}

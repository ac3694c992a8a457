//! The blocks of messages and of tool results, and which of them are supported.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::dialects::common::{MediaBytes, ResultContent, ResultPart, Unsupported, audio_format, hex};
use turntree_core::json::RawJson;
use turntree_core::message::content::{DocumentBlock, ImageBlock, raw_as_text};
use turntree_core::message::{ContentBlock, DocumentSource, ImageSource, ToolCall, ToolResult};

/// A block of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image(Media<'a>),
    Document(Document<'a>),
    Video(Media<'a>),
    Audio(Media<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolReturn<'a>),
    ReasoningContent(Reasoning<'a>),
    CachePoint(RawJson),
    /// A block of an earlier response, unchanged.
    #[serde(untagged)]
    Verbatim(&'a RawValue),
}

#[derive(Serialize)]
pub(super) struct Media<'a> {
    format: &'a str,
    source: Source<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Source<'a> {
    Bytes(MediaBytes<'a>),
    S3Location { uri: &'a str },
}

#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    name: String,
    source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<&'a RawJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the vendor's names")]
pub(super) struct ToolUse<'a> {
    tool_use_id: Cow<'a, str>,
    name: &'a str,
    input: &'a RawJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolReturn<'a> {
    tool_use_id: Cow<'a, str>,
    /// Parts that are already written: media in them belong to no message.
    content: Vec<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoning<'a> {
    reasoning_text: ReasoningText<'a>,
}

#[derive(Serialize)]
struct ReasoningText<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a RawValue>,
}

impl<'a> Block<'a> {
    pub(super) fn reasoning(text: &'a str, signature: &'a RawValue) -> Self {
        Self::ReasoningContent(Reasoning {
            reasoning_text: ReasoningText { text, signature: Some(signature) },
        })
    }

    pub(super) fn tool_use(call: &'a ToolCall) -> Self {
        Self::ToolUse(ToolUse {
            tool_use_id: sent_id(&call.tool_call_id),
            name: &call.tool_name,
            input: &call.arguments,
        })
    }

    /// The result of a call.
    ///
    /// # Errors
    /// A medium that tools cannot return.
    pub(super) fn tool_result(result: &'a ToolResult) -> Result<Self, Unsupported> {
        let content = match ResultContent::new(result, write_part)? {
            ResultContent::Parts(parts) => parts,
            ResultContent::Text(_) => vec![text_part(&raw_as_text(&result.result))],
        };
        Ok(Self::ToolResult(ToolReturn {
            tool_use_id: sent_id(&result.tool_call_id),
            content,
            status: result.is_error.map(|failed| if failed { "error" } else { "success" }),
        }))
    }
}

fn text_part(text: &str) -> RawJson {
    // The vendor refuses blank texts.
    let text = if text.trim().is_empty() { "(no output)" } else { text };
    RawJson::from_value(&Block::Text(text.into())).unwrap_or_default()
}

fn write_part(part: &ResultPart) -> Result<RawJson, &'static str> {
    match part {
        ResultPart::Text(text) => Ok(text_part(text)),
        ResultPart::Media(block) => match of_user(block, 0)? {
            Block::Audio(_) => Err("send it in a user message"),
            block => Ok(RawJson::from_value(&block).unwrap_or_default()),
        },
    }
}

/// A block of a user's message; `place` makes the names of documents unique.
///
/// # Errors
/// What to do instead of a block that is not supported.
pub(super) fn of_user(block: &ContentBlock, place: usize) -> Result<Block<'_>, &'static str> {
    match block {
        ContentBlock::Text(block) => Ok(Block::Text(block.text.as_str().into())),
        ContentBlock::Image(block) => image(block).map(Block::Image),
        ContentBlock::Document(block) => document(block, place).map(Block::Document),
        ContentBlock::Video(block) => {
            let format = video_format(&block.mime_type);
            Ok(Block::Video(Media {
                format,
                source: Source::Bytes(MediaBytes::Bytes(block.data.as_slice())),
            }))
        }
        ContentBlock::Audio(block) => {
            let format = audio_format(&block.mime_type);
            Ok(Block::Audio(Media {
                format,
                source: Source::Bytes(MediaBytes::Bytes(block.data.as_slice())),
            }))
        }
        _ => Err("send text, an image, a document, audio or video instead"),
    }
}

fn image(block: &ImageBlock) -> Result<Media<'_>, &'static str> {
    let source = match &block.source {
        ImageSource::Url(source) => bucket(&source.url)?,
        other => Source::Bytes(MediaBytes::of_image(other).ok_or("give the image as base64 or bytes")?),
    };
    Ok(Media { format: subtype(&block.mime_type), source })
}

fn document(block: &DocumentBlock, place: usize) -> Result<Document<'_>, &'static str> {
    let source = match &block.source {
        DocumentSource::Url(source) => bucket(&source.url)?,
        DocumentSource::Text(source) => Source::Bytes(MediaBytes::Bytes(source.data.as_bytes())),
        other => Source::Bytes(MediaBytes::of_document(other).ok_or("give the document as base64 or text")?),
    };
    Ok(Document {
        format: document_format(&block.mime_type)
            .ok_or("give it as PDF, Word, Excel, CSV, HTML, Markdown or plain text")?,
        name: document_name(block.title.as_deref(), place),
        source,
        citations: block.extra.get("citations"),
    })
}

/// The vendor fetches from S3 only.
fn bucket(url: &str) -> Result<Source<'_>, &'static str> {
    if url.starts_with("s3://") {
        Ok(Source::S3Location { uri: url })
    } else {
        Err("give it as base64, or as an s3:// URL: Bedrock fetches no other URLs")
    }
}

fn subtype(mime_type: &str) -> &str {
    match mime_type.rsplit('/').next().unwrap_or(mime_type) {
        "jpg" => "jpeg",
        format => format,
    }
}

fn video_format(mime_type: &str) -> &str {
    match subtype(mime_type) {
        "quicktime" => "mov",
        "x-matroska" => "mkv",
        "3gpp" => "three_gp",
        "x-flv" => "flv",
        "x-ms-wmv" => "wmv",
        format => format,
    }
}

fn document_format(mime_type: &str) -> Option<&'static str> {
    Some(match mime_type {
        "application/pdf" => "pdf",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        "text/plain" => "txt",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        _ => return None,
    })
}

/// The vendor requires a name of letters, digits, single spaces, hyphens, parentheses and brackets, unique in the request.
fn document_name(title: Option<&str>, place: usize) -> String {
    const LONGEST: usize = 150;
    let is_taken = |character: char| character.is_ascii_alphanumeric() || "-()[]".contains(character);
    let words: String = title
        .unwrap_or("document")
        .chars()
        .map(|character| if is_taken(character) { character } else { ' ' })
        .take(LONGEST)
        .collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    let name = if words.is_empty() { "document".to_owned() } else { words.join(" ") };
    if place == 0 { name } else { format!("{name} {}", place + 1) }
}

/// An id in the characters and the length that the vendor accepts, the same for a call and its result.
fn sent_id(id: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let is_taken =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | ':');
    if !id.is_empty() && id.len() <= LONGEST && id.chars().all(is_taken) {
        return Cow::Borrowed(id);
    }
    let mut digits = hex(&Sha256::digest(id));
    digits.truncate(LONGEST / 2);
    digits.into()
}

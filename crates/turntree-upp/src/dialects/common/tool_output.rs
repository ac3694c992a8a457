//! Media in the results of tools.

use serde::{Deserialize, Serialize};

use super::body::ResultText;
use crate::dialects::borrowed_text::BorrowedText;
use crate::error::UppError;
use turntree_core::json::RawJson;
use turntree_core::message::{ContentBlock, Message, ToolResult};

/// One part of a result with media.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultPart {
    /// A text; other JSON values are texts too.
    Text(String),
    /// An image, a document, audio or video.
    Media(Box<ContentBlock>),
}

/// The parts of a result that is an image, a document, audio or video, or a list in which one of them is. `None` for other
/// results, which are sent as text.
///
/// ```
/// use turntree_core::json::RawJson;
/// use turntree_upp::dialects::common::result_parts;
///
/// let image = r#"{"type":"image","mimeType":"image/png","source":{"type":"url","url":"https://host/a.png"}}"#;
/// let result = RawJson::from_text(format!(r#"["a cat",{image}]"#))?;
/// assert_eq!(result_parts(&result).map(|parts| parts.len()), Some(2));
/// assert_eq!(result_parts(&RawJson::from_text(r#"{"type":"image"}"#.to_owned())?), None);
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn result_parts(result: &RawJson) -> Option<Vec<ResultPart>> {
    if result.is_object() {
        return media(result).map(|block| vec![block]);
    }
    if !result.is_array() || !result.get().contains("\"mimeType\"") {
        return None;
    }
    let items: Vec<RawJson> = result.to().ok()?;
    let parts = items.iter().map(|item| media(item).unwrap_or_else(|| ResultPart::Text(text(item))));
    // Vendors refuse empty texts.
    let parts = parts.filter(|part| !matches!(part, ResultPart::Text(text) if text.is_empty()));
    let parts: Vec<ResultPart> = parts.collect();
    parts.iter().any(|part| matches!(part, ResultPart::Media(_))).then_some(parts)
}

fn media(item: &RawJson) -> Option<ResultPart> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: BorrowedText<'a>,
        #[serde(rename = "mimeType")]
        _mime_type: String,
    }
    let kind: Kind<'_> = serde_json::from_str(item.get()).ok()?;
    if !matches!(kind.kind.as_str(), "image" | "document" | "audio" | "video") {
        return None;
    }
    item.to().ok().map(|block| ResultPart::Media(Box::new(block)))
}

fn text(item: &RawJson) -> String {
    #[derive(Deserialize)]
    struct Text {
        #[serde(rename = "type")]
        kind: String,
        text: String,
    }
    match serde_json::from_str::<Text>(item.get()) {
        Ok(block) if block.kind == "text" => block.text,
        _ => turntree_core::message::content::raw_as_text(item),
    }
}

/// The content of a result: one text, or parts that are already written.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ResultContent<'a> {
    /// A text.
    Text(ResultText<'a>),
    /// Parts in the vendor's format.
    Parts(Vec<RawJson>),
}

impl<'a> ResultContent<'a> {
    /// Writes a result. `write` writes one part, or returns what to do instead.
    ///
    /// # Errors
    /// The kind of a medium that is not supported, and what to do instead.
    pub fn new(
        result: &'a ToolResult,
        write: impl Fn(&ResultPart) -> Result<RawJson, &'static str>,
    ) -> Result<Self, Unsupported> {
        let Some(parts) = result_parts(&result.result) else {
            return Ok(Self::Text(ResultText(&result.result)));
        };
        let written = parts
            .iter()
            .map(|part| write(part).map_err(|remedy| Unsupported { kind: part.kind().to_owned(), remedy }));
        written.collect::<Result<_, _>>().map(Self::Parts)
    }
}

impl ResultPart {
    fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Media(block) => block.kind(),
        }
    }
}

/// A medium that a vendor does not take as the result of a tool.
#[derive(Debug)]
pub struct Unsupported {
    kind: String,
    remedy: &'static str,
}

impl Unsupported {
    /// The error, with the place of the result.
    pub fn at(self, provider: &str, place: usize, message: &Message, result: &ToolResult) -> UppError {
        let Self { kind, remedy } = self;
        let (id, call) = (&message.id, &result.tool_call_id);
        UppError::invalid_request(
            provider,
            format!(
                "messages[{place}] (id {id}), result of the call {call}: {provider} does not take this {kind} as the \
                 result of a tool; {remedy}"
            ),
        )
    }
}

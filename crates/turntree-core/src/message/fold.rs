//! Folds the deltas of one message into a message.
//!
//! Stream decoders fold the events that they emit, so that the streamed response equals the whole one. An aborted run
//! folds the events that arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::content::{BytesSource, CodeExecutionBlock, ContentBlock, ImageBlock, ImageSource};
use super::event::{Delta, StreamEvent, ToolCallDelta};
use super::media::Binary;
use super::tool::ToolCall;
use crate::json::{Extra, RawJson, RawObject};
use crate::limits::Limits;

/// A partial message, built from deltas.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    blocks: BTreeMap<u32, Block>,
}

#[derive(Debug, Clone)]
enum Block {
    Text(String),
    Reasoning(String),
    Image(Vec<u8>),
    CodeExecution(CodeExecutionBlock),
    ToolCall { tool_call_id: Arc<str>, tool_name: Arc<str>, arguments_json: String },
}

/// The folded message: content with reasoning first, and tool calls in order of their index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Folded {
    /// The content blocks.
    pub content: Vec<ContentBlock>,
    /// The tool calls.
    pub tool_calls: Vec<ToolCall>,
}

impl Fold {
    /// Adds one event. Events without content are ignored, and deltas whose index belongs to a block of another kind.
    pub fn push(&mut self, event: &StreamEvent) {
        match &event.delta {
            Delta::Text(delta) => self.text(event.index, &delta.text),
            Delta::Reasoning(delta) => self.reasoning(event.index, &delta.text),
            Delta::Image(delta) => {
                let block = self.blocks.entry(event.index).or_insert_with(|| Block::Image(Vec::new()));
                if let Block::Image(data) = block {
                    data.extend_from_slice(delta.data.as_slice());
                }
            }
            Delta::CodeExecution(delta) => {
                self.blocks.insert(event.index, Block::CodeExecution(delta.into()));
            }
            Delta::ToolCall(delta) => self.tool_call(event.index, delta),
            _ => {}
        }
    }

    /// Adds text to a block. An empty piece creates the block.
    pub fn text(&mut self, index: u32, piece: &str) {
        if let Block::Text(text) = self.blocks.entry(index).or_insert_with(|| Block::Text(String::new())) {
            text.push_str(piece);
        }
    }

    /// Adds reasoning to a block. An empty piece creates the block.
    pub fn reasoning(&mut self, index: u32, piece: &str) {
        if let Block::Reasoning(text) =
            self.blocks.entry(index).or_insert_with(|| Block::Reasoning(String::new()))
        {
            text.push_str(piece);
        }
    }

    fn tool_call(&mut self, index: u32, delta: &ToolCallDelta) {
        let block = self.blocks.entry(index).or_insert_with(|| Block::ToolCall {
            tool_call_id: Arc::clone(&delta.tool_call_id),
            tool_name: Arc::clone(&delta.tool_name),
            arguments_json: String::new(),
        });
        if let Block::ToolCall { arguments_json, .. } = block {
            arguments_json.push_str(&delta.arguments_json);
        }
    }

    /// True if no content has arrived.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the message, without empty text and reasoning blocks.
    pub fn finish(self) -> Folded {
        let mut folded = Folded::default();
        let mut rest = Vec::new();
        for block in self.blocks.into_values() {
            match block {
                Block::Reasoning(text) if !text.is_empty() => {
                    folded.content.push(ContentBlock::reasoning(text));
                }
                Block::Text(text) if !text.is_empty() => rest.push(ContentBlock::text(text)),
                Block::Image(data) => rest.push(image_of_bytes(data)),
                Block::CodeExecution(block) => rest.push(block.into()),
                Block::ToolCall { tool_call_id, tool_name, arguments_json } => {
                    folded.tool_calls.push(ToolCall {
                        tool_call_id: tool_call_id.to_string(),
                        tool_name: tool_name.to_string(),
                        arguments: arguments_of(arguments_json),
                        extra: Extra::new(),
                    });
                }
                Block::Reasoning(_) | Block::Text(_) => {}
            }
        }
        folded.content.extend(rest);
        folded
    }
}

/// The member with the text of arguments that exceed a limit. Pydantic AI has the same name for such texts.
const OVER_LIMITS: &str = "INVALID_JSON";

/// Parses the arguments of a tool call. A text that is not a JSON object becomes `{}`. The text of an object that exceeds
/// [`Limits::PAYLOAD`] stays a text, in `{"INVALID_JSON": text}`, because a document with the object could not be read again.
///
/// Spec: UPP-1.2 §10.4, decision U32
pub fn arguments_of(text: String) -> RawJson {
    if Limits::PAYLOAD.check(&text).is_ok() {
        return RawJson::from_text(text)
            .ok()
            .filter(RawJson::is_object)
            .unwrap_or_else(RawJson::empty_object);
    }
    if text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&text).is_ok() {
        return RawJson::from_value(&BTreeMap::from([(OVER_LIMITS, text)])).unwrap_or_default();
    }
    RawJson::empty_object()
}

/// True if [`arguments_of`] kept a text that exceeds a limit.
pub fn are_over_limits(arguments: &RawJson) -> bool {
    arguments.get().len() > Limits::PAYLOAD.depth
        && RawObject::from_raw(arguments).is_some_and(|object| {
            let text = object.get(OVER_LIMITS).and_then(RawJson::as_string);
            object.len() == 1 && text.is_some_and(|text| Limits::PAYLOAD.check(&text).is_err())
        })
}

/// An image block of these bytes. The first bytes determine the media type.
fn image_of_bytes(data: Vec<u8>) -> ContentBlock {
    let mime_type = match data.as_slice() {
        [0xff, 0xd8, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', ..] => "image/webp",
        _ => "image/png",
    };
    let source = ImageSource::Bytes(BytesSource { data: Binary::new(data), extra: Extra::new() });
    let mime_type = mime_type.to_owned();
    ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() }.into()
}

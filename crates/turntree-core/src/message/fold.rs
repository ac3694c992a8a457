//! Folding: the deltas of one message, put together again.
//!
//! Stream decoders fold what they emit, so that the streamed answer and the whole one cannot differ; an aborted run
//! folds what had arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::{BytesSource, ContentBlock, ImageBlock, ImageSource};
use super::event::{Delta, StreamEvent, ToolCallDelta};
use super::media::Binary;
use super::tool::ToolCall;
use crate::json::{Extra, RawJson};
use crate::limits::Limits;

/// A message in the making.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    blocks: BTreeMap<u32, Block>,
}

#[derive(Debug, Clone)]
enum Block {
    Text(String),
    Reasoning(String),
    Image(Vec<u8>),
    ToolCall { tool_call_id: Arc<str>, tool_name: Arc<str>, arguments_json: String },
}

/// What was folded: content with reasoning first, and the calls in order of their index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Folded {
    /// The blocks.
    pub content: Vec<ContentBlock>,
    /// The calls.
    pub tool_calls: Vec<ToolCall>,
}

impl Fold {
    /// Takes one event. Events that carry no content are ignored; so is a delta whose index belongs to another kind.
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
            Delta::ToolCall(delta) => self.tool_call(event.index, delta),
            _ => {}
        }
    }

    /// Adds text to a block; an empty piece makes sure that the block is there.
    pub fn text(&mut self, index: u32, piece: &str) {
        if let Block::Text(text) = self.blocks.entry(index).or_insert_with(|| Block::Text(String::new())) {
            text.push_str(piece);
        }
    }

    /// Adds thinking to a block; an empty piece makes sure that the block is there.
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

    /// Whether nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Puts the message together. Empty text and reasoning blocks are left out.
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

/// The arguments of a call from the text a model wrote: what is not a JSON object becomes `{}` (UPP-1.2 §10.4), and so
/// does one that passes [`Limits::PAYLOAD`], since no document with it could be read again.
pub fn arguments_of(text: String) -> RawJson {
    if Limits::PAYLOAD.check(&text).is_err() {
        return RawJson::empty_object();
    }
    match RawJson::from_text(text) {
        Ok(arguments) if arguments.is_object() => arguments,
        _ => RawJson::empty_object(),
    }
}

/// An image block over bytes, its media type told by their first few.
fn image_of_bytes(data: Vec<u8>) -> ContentBlock {
    let mime_type = match data.as_slice() {
        [0xff, 0xd8, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', ..] => "image/webp",
        _ => "image/png",
    };
    let source = ImageSource::Bytes(BytesSource { data: Binary::new(data), extra: Extra::new() });
    let mime_type = mime_type.to_owned();
    ContentBlock::Image(ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() })
}

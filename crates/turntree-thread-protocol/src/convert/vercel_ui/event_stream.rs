//! A running model or agent as a UI message stream: stream events in, chunks out.
//!
//! Spec: UPP-1.2 §11.1; UI message stream §3, §4.

use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::chunk::{Chunk, without_prototypes};
use super::message::Optional;
use crate::convert::portable::object;
use turntree_core::json::RawJson;
use turntree_core::message::{CodeExecutionBlock, Delta, StreamEvent, ToolCall};

/// The result of a call that an error interrupted.
const CUT_SHORT: &str = "Tool execution was interrupted by an error.";

/// An open block of the response.
#[derive(Debug)]
enum Block {
    Text(String),
    Reasoning(String),
    Media { kind: &'static str, data: Vec<u8> },
    Call { id: String, name: String, arguments: String },
}

/// Converts the events of one run to the chunks of one stream.
///
/// A step is a model response and the results of its tool calls. The converter only stores open blocks and calls.
#[derive(Debug, Default)]
pub struct EventStream {
    message_id: Option<String>,
    metadata: Option<RawJson>,
    started: bool,
    ended: bool,
    in_step: bool,
    blocks: BTreeMap<u32, Block>,
    /// Announced calls, and whether they have a result.
    calls: HashMap<String, bool>,
    /// Calls that the user has denied.
    denied: HashSet<String>,
    count: usize,
}

impl EventStream {
    /// Creates a stream that has not started.
    pub fn new(message_id: Option<String>, metadata: Option<RawJson>) -> Self {
        Self { message_id, metadata, ..Self::default() }
    }

    /// Continues the message of an earlier stream: the client has these calls, and waits for their results.
    #[must_use]
    pub fn continuing(self, calls: impl IntoIterator<Item = String>) -> Self {
        Self { calls: calls.into_iter().map(|call| (call, false)).collect(), ..self }
    }

    /// The user has denied these calls: their results are sent as denials.
    #[must_use]
    pub fn denying(self, calls: impl IntoIterator<Item = String>) -> Self {
        Self { denied: calls.into_iter().collect(), ..self }
    }

    /// The chunks that show a call which waits for an approval, under an id that only this call has. `asks`: the client
    /// knows requests for approval, which majors before 6 do not; without it the call has no result.
    pub fn approval(&mut self, id: &str, call: &ToolCall, asks: bool) -> Vec<Chunk> {
        if self.ended {
            return Vec::new();
        }
        let mut chunks = self.start();
        self.announce(id, &call.tool_name, &call.arguments, &mut chunks);
        if asks {
            let approval_id = Some(id.to_owned());
            chunks.push(Chunk { approval_id, ..Chunk::tool("tool-approval-request", id) });
        }
        chunks
    }

    /// The first chunk. Send it immediately, so that the client sees a response.
    pub fn start(&mut self) -> Vec<Chunk> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        let metadata = self.metadata.take().map(|metadata| without_prototypes(&metadata).unwrap_or(metadata));
        vec![Chunk {
            message_id: self.message_id.take(),
            message_metadata: Optional(metadata),
            ..Chunk::of("start")
        }]
    }

    /// The chunks of an event; none after the end of the stream.
    pub fn event(&mut self, event: &StreamEvent) -> Vec<Chunk> {
        if self.ended {
            return Vec::new();
        }
        let mut chunks = self.start();
        match &event.delta {
            Delta::MessageStart(_) => self.open_step(&mut chunks, true),
            Delta::MessageStop(_) => self.close_blocks(&mut chunks),
            Delta::ContentBlockStop(_) => self.close_block(event.index, &mut chunks),
            Delta::Text(delta) | Delta::Object(delta) => {
                self.text(event.index, &delta.text, false, &mut chunks);
            }
            Delta::Reasoning(delta) => self.text(event.index, &delta.text, true, &mut chunks),
            Delta::Image(delta) => self.media(event.index, "image", delta.data.as_slice(), &mut chunks),
            Delta::Audio(delta) => self.media(event.index, "audio", delta.data.as_slice(), &mut chunks),
            Delta::Video(delta) => self.media(event.index, "video", delta.data.as_slice(), &mut chunks),
            // The protocol has no part for code that a vendor ran.
            Delta::CodeExecution(delta) => {
                let text = CodeExecutionBlock::from(delta).to_markdown();
                self.text(event.index, &text, false, &mut chunks);
            }
            Delta::ToolCall(delta) => {
                let (id, name) = (&*delta.tool_call_id, &*delta.tool_name);
                self.call(event.index, id, name, &delta.arguments_json, &mut chunks);
            }
            Delta::ToolExecutionStart(start) => {
                let arguments = start.extra.get("arguments").cloned().unwrap_or_else(RawJson::empty_object);
                self.announce(&start.tool_call_id, &start.tool_name, &arguments, &mut chunks);
            }
            Delta::ToolExecutionEnd(end) => {
                self.announce(&end.tool_call_id, &end.tool_name, &RawJson::empty_object(), &mut chunks);
                self.calls.insert(end.tool_call_id.clone(), true);
                chunks.push(if self.denied.contains(&end.tool_call_id) {
                    Chunk::tool("tool-output-denied", &end.tool_call_id)
                } else {
                    result(&end.tool_call_id, &end.result, end.is_error)
                });
            }
            Delta::ContentBlockStart(_) | Delta::Unknown { .. } => {}
        }
        chunks
    }

    /// The last chunks of a successful run.
    pub fn finish(&mut self) -> Vec<Chunk> {
        let waits = self.calls.values().any(|answered| !answered);
        self.end(|stream, chunks| {
            stream.close_step(chunks);
            let reason = if waits { "tool-calls" } else { "stop" };
            chunks.push(Chunk { finish_reason: Some(reason.to_owned()), ..Chunk::of("finish") });
        })
    }

    /// The last chunks of a failed run. Open calls get an error result, so that no client waits for them.
    pub fn error(&mut self, text: &str) -> Vec<Chunk> {
        self.end(|stream, chunks| {
            stream.close_blocks(chunks);
            let mut waiting: Vec<String> =
                stream.calls.iter().filter(|(_, answered)| !**answered).map(|(id, _)| id.clone()).collect();
            waiting.sort();
            for id in waiting {
                let error_text = Some(CUT_SHORT.to_owned());
                chunks.push(Chunk { error_text, ..Chunk::tool("tool-output-error", &id) });
            }
            stream.close_step(chunks);
            chunks.push(Chunk::error(text));
            chunks.push(Chunk { finish_reason: Some("error".to_owned()), ..Chunk::of("finish") });
        })
    }

    /// The last chunks of an aborted run.
    pub fn abort(&mut self) -> Vec<Chunk> {
        self.end(|stream, chunks| {
            stream.close_step(chunks);
            chunks.push(Chunk::of("abort"));
        })
    }

    fn end(&mut self, close: impl FnOnce(&mut Self, &mut Vec<Chunk>)) -> Vec<Chunk> {
        if self.ended {
            return Vec::new();
        }
        let mut chunks = self.start();
        close(self, &mut chunks);
        self.ended = true;
        chunks
    }

    fn open_step(&mut self, chunks: &mut Vec<Chunk>, anew: bool) {
        if self.in_step && !anew {
            return;
        }
        self.close_step(chunks);
        self.in_step = true;
        chunks.push(Chunk::of("start-step"));
    }

    fn close_step(&mut self, chunks: &mut Vec<Chunk>) {
        self.close_blocks(chunks);
        if std::mem::take(&mut self.in_step) {
            chunks.push(Chunk::of("finish-step"));
        }
    }

    fn close_blocks(&mut self, chunks: &mut Vec<Chunk>) {
        for index in self.blocks.keys().copied().collect::<Vec<_>>() {
            self.close_block(index, chunks);
        }
    }

    fn close_block(&mut self, index: u32, chunks: &mut Vec<Chunk>) {
        match self.blocks.remove(&index) {
            None => {}
            Some(Block::Text(id)) => chunks.push(Chunk::block("text-end", &id)),
            Some(Block::Reasoning(id)) => chunks.push(Chunk::block("reasoning-end", &id)),
            Some(Block::Media { kind, data }) => {
                let media_type = media_type(kind, &data);
                let url = format!("data:{media_type};base64,{}", STANDARD.encode(&data));
                let media_type = Some(media_type.to_owned());
                chunks.push(Chunk { url: Some(url), media_type, ..Chunk::of("file") });
            }
            Some(Block::Call { id, name, arguments }) => {
                chunks.push(Chunk {
                    tool_name: Some(name),
                    input: input(&arguments).into(),
                    ..Chunk::tool("tool-input-available", &id)
                });
            }
        }
    }

    fn text(&mut self, index: u32, text: &str, is_reasoning: bool, chunks: &mut Vec<Chunk>) {
        if text.is_empty() {
            return;
        }
        self.open_step(chunks, false);
        let kind = if is_reasoning { "reasoning" } else { "text" };
        let id = match (self.blocks.get(&index), is_reasoning) {
            (Some(Block::Text(id)), false) | (Some(Block::Reasoning(id)), true) => id.clone(),
            _ => {
                self.close_block(index, chunks);
                self.count += 1;
                let id = format!("{kind}-{}", self.count);
                chunks.push(Chunk::block(&format!("{kind}-start"), &id));
                let block = if is_reasoning { Block::Reasoning(id.clone()) } else { Block::Text(id.clone()) };
                self.blocks.insert(index, block);
                id
            }
        };
        let delta = Some(text.to_owned());
        chunks.push(Chunk { delta, ..Chunk::block(&format!("{kind}-delta"), &id) });
    }

    fn media(&mut self, index: u32, kind: &'static str, piece: &[u8], chunks: &mut Vec<Chunk>) {
        self.open_step(chunks, false);
        if let Some(Block::Media { data, .. }) = self.blocks.get_mut(&index) {
            data.extend_from_slice(piece);
            return;
        }
        self.close_block(index, chunks);
        self.blocks.insert(index, Block::Media { kind, data: piece.to_vec() });
    }

    fn call(&mut self, index: u32, id: &str, name: &str, piece: &str, chunks: &mut Vec<Chunk>) {
        self.open_step(chunks, false);
        let goes_on = matches!(self.blocks.get(&index), Some(Block::Call { id: open, .. }) if open == id);
        if !goes_on {
            self.close_block(index, chunks);
            self.calls.insert(id.to_owned(), false);
            chunks.push(Chunk { tool_name: Some(name.to_owned()), ..Chunk::tool("tool-input-start", id) });
            let call = Block::Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
            self.blocks.insert(index, call);
        }
        if piece.is_empty() {
            return;
        }
        if let Some(Block::Call { arguments, .. }) = self.blocks.get_mut(&index) {
            arguments.push_str(piece);
        }
        let input_text_delta = Some(piece.to_owned());
        chunks.push(Chunk { input_text_delta, ..Chunk::tool("tool-input-delta", id) });
    }

    /// Announces a call if needed: clients give up on a result without a call.
    fn announce(&mut self, id: &str, name: &str, arguments: &RawJson, chunks: &mut Vec<Chunk>) {
        let is_this = |block: &Block| matches!(block, Block::Call { id: open, .. } if open == id);
        if let Some(index) = self.blocks.iter().find(|(_, block)| is_this(block)).map(|(index, _)| *index) {
            self.close_block(index, chunks);
        }
        if self.calls.contains_key(id) {
            return;
        }
        self.open_step(chunks, false);
        self.calls.insert(id.to_owned(), false);
        chunks.push(Chunk {
            tool_name: Some(name.to_owned()),
            input: input(arguments.get()).into(),
            ..Chunk::tool("tool-input-available", id)
        });
    }
}

fn result(id: &str, value: &RawJson, is_error: bool) -> Chunk {
    if is_error {
        let text = value.as_string().unwrap_or_else(|| value.get().to_owned());
        return Chunk { error_text: Some(text), ..Chunk::tool("tool-output-error", id) };
    }
    let output = without_prototypes(value).unwrap_or_else(|| value.clone());
    Chunk { output: output.into(), ..Chunk::tool("tool-output-available", id) }
}

/// The arguments as an object.
fn input(arguments: &str) -> RawJson {
    if arguments.trim().is_empty() {
        return RawJson::empty_object();
    }
    match RawJson::from_embedded(arguments) {
        Some(value) if value.is_object() => without_prototypes(&value).unwrap_or(value),
        _ => object(&[("INVALID_JSON", RawJson::from_str_value(arguments))]),
    }
}

/// The media type by the first bytes of the data, otherwise the default of the kind.
fn media_type(kind: &str, data: &[u8]) -> &'static str {
    match (kind, data) {
        ("image", [0xFF, 0xD8, ..]) => "image/jpeg",
        ("image", [b'G', b'I', b'F', ..]) => "image/gif",
        ("image", [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..]) => "image/webp",
        ("image", _) => "image/png",
        ("audio", [b'I', b'D', b'3', ..] | [0xFF, 0xFB, ..]) => "audio/mpeg",
        ("audio", [b'O', b'g', b'g', b'S', ..]) => "audio/ogg",
        ("audio", _) => "audio/wav",
        ("video", [0x1A, 0x45, 0xDF, 0xA3, ..]) => "video/webm",
        _ => "video/mp4",
    }
}

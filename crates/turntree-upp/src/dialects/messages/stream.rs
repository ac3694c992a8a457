//! Reads streamed responses, and builds the same parts as from a whole response.
//!
//! Spec: UPP-1.2 §11, §19.1

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, Part, Usage, assemble};
use super::code_execution::{self, ServerCall};
use super::decode::{Block, ResponseBody, is_tool, read_block};
use super::{DecodeContext, Structure, reported_error};
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::cut_short;
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::StreamEvent;
use turntree_core::message::fold::arguments_of;

/// Any event. Payloads stay text until the type is known.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// An event that extends a block, the most frequent one, parsed in one pass. Any other event is parsed as a [`Frame`],
/// with the same result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Growth<'a> {
    #[serde(borrow, rename = "type")]
    kind: BorrowedText<'a>,
    index: u32,
    #[serde(borrow)]
    delta: Delta<'a>,
}

impl<'a> Growth<'a> {
    const KIND: &'static str = "content_block_delta";

    fn read(event: Option<&str>, data: &'a str) -> Option<Self> {
        let growth: Self = (event == Some(Self::KIND)).then(|| serde_json::from_str(data).ok()).flatten()?;
        (growth.kind.as_str() == Self::KIND).then_some(growth)
    }
}

/// The type of an event or block, for unknown kinds.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    text: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    signature: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<BorrowedText<'a>>,
    #[serde(default)]
    citation: Option<RawJson>,
}

/// The members of `message_delta`.
#[derive(Deserialize)]
struct HeadDelta<'a> {
    #[serde(borrow, default)]
    stop_reason: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    stop_sequence: Option<BorrowedText<'a>>,
    #[serde(default)]
    container: Option<RawJson>,
}

/// A block so far.
#[derive(Debug)]
struct OpenBlock {
    /// The vendor's index, which some vendors use more than once.
    vendor_index: u32,
    index: u32,
    is_open: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Text { text: String, citations: Vec<RawJson> },
    Thinking { text: String, signature: String },
    ToolUse(Call),
    Verbatim { kind: String, block: RawObject, json: String },
}

#[derive(Debug)]
struct Call {
    id: Arc<str>,
    name: Arc<str>,
    /// The input at the start of the block: the arguments, unless pieces follow.
    input: RawJson,
    caller: Option<RawJson>,
    json: String,
    is_announced: bool,
    /// True if it is the structured output, which is emitted as text instead of a call.
    is_answer: bool,
}

/// Decodes one stream.
#[derive(Debug)]
pub(super) struct Decoder {
    context: DecodeContext,
    head: Head,
    slots: Vec<OpenBlock>,
    has_started: bool,
    is_whole: bool,
}

impl Decoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self { context, head: Head::default(), slots: Vec::new(), has_started: false, is_whole: false }
    }

    fn read<'a, T: Deserialize<'a>>(&self, raw: Option<&'a RawValue>) -> Result<T, UppError> {
        let raw = raw.map_or("null", RawValue::get);
        serde_json::from_str(raw).map_err(|error| self.context.broken(error))
    }

    fn start(&mut self, events: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.has_started, true) {
            events.push(StreamEvent::message_start());
        }
    }

    /// Emits a text, and the structured output if requested.
    fn text(context: DecodeContext, index: u32, piece: &str, events: &mut Vec<StreamEvent>) {
        if piece.is_empty() {
            return;
        }
        events.push(StreamEvent::text(index, piece));
        if context.structure != Structure::None {
            events.push(StreamEvent::object(index, piece));
        }
    }

    fn open(&mut self, vendor_index: u32, state: State, events: &mut Vec<StreamEvent>) -> usize {
        self.start(events);
        let is_taken = self.slots.iter().any(|slot| slot.index == vendor_index);
        let next = || self.slots.iter().map(|slot| slot.index).max().unwrap_or(0).saturating_add(1);
        let index = if is_taken { next() } else { vendor_index };
        events.push(StreamEvent::block_start(index));
        self.slots.push(OpenBlock { vendor_index, index, is_open: true, state });
        self.slots.len() - 1
    }

    fn find(&self, vendor_index: u32) -> Option<usize> {
        self.slots.iter().rposition(|slot| slot.is_open && slot.vendor_index == vendor_index)
    }

    /// The open block of this index, if its kind is known.
    fn known(&mut self, vendor_index: u32) -> Option<&mut OpenBlock> {
        let slot = self.find(vendor_index).and_then(|place| self.slots.get_mut(place));
        slot.filter(|slot| !matches!(slot.state, State::Verbatim { .. }))
    }

    fn block_start(
        &mut self,
        vendor_index: u32,
        raw: Option<&RawValue>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let raw =
            raw.ok_or_else(|| self.context.broken("a content_block_start event has no \"content_block\""))?;
        let kind: Kind<'_> = self.read(Some(raw))?;
        let state = match kind.kind.as_ref().map_or("", BorrowedText::as_str) {
            "tool_use" => self.call(self.read(Some(raw))?),
            _ => State::of(read_block(raw, self.context)?),
        };
        let place = self.open(vendor_index, state, events);
        let Some(slot) = self.slots.get(place) else { return Ok(()) };
        match &slot.state {
            State::Text { text, .. } => Self::text(self.context, slot.index, text, events),
            State::Thinking { text, .. } if !text.is_empty() => {
                events.push(StreamEvent::reasoning(slot.index, text.as_str()));
            }
            State::Verbatim { kind, .. } if code_execution::is_result(kind) => {
                let call = code_execution::call_id(raw.get()).and_then(|id| self.server_call(&id));
                let block = code_execution::block_of(raw.get(), call.as_ref());
                events.push(StreamEvent::code_execution(slot.index, &block));
            }
            State::Verbatim { .. } | State::Thinking { .. } | State::ToolUse(_) => {}
        }
        Ok(())
    }

    /// The call of a tool that the vendor runs.
    fn server_call(&self, id: &str) -> Option<ServerCall> {
        let mut calls = self.slots.iter().rev().filter_map(|slot| match &slot.state {
            State::Verbatim { kind, block, json } if kind == ServerCall::KIND => {
                ServerCall::read(RawJson::from_value(block).ok()?.get(), json)
            }
            _ => None,
        });
        calls.find(|call| call.id == id)
    }

    fn call(&self, block: Block<'_>) -> State {
        let name: Arc<str> = block.name.map(BorrowedText::owned).unwrap_or_default().into();
        State::ToolUse(Call {
            id: block.id.map(BorrowedText::owned).unwrap_or_default().into(),
            is_answer: self.context.is_answer(&name),
            name,
            input: block.input.filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object),
            caller: block.caller.filter(is_tool),
            json: String::new(),
            is_announced: false,
        })
    }

    fn block_delta(
        &mut self,
        vendor_index: u32,
        raw: Option<&RawValue>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let raw = raw.ok_or_else(|| self.context.broken("a content_block_delta event has no \"delta\""))?;
        let delta: Delta<'_> = match serde_json::from_str(raw.get()) {
            Ok(delta) => delta,
            Err(error) if self.read::<Kind<'_>>(Some(raw))?.is_known_delta() => {
                return Err(self.context.broken(error));
            }
            // Blocks of unknown kinds may have any shape.
            Err(_) => Delta {
                kind: None,
                text: None,
                thinking: None,
                signature: None,
                partial_json: None,
                citation: None,
            },
        };
        let place = match (self.find(vendor_index), delta.kind.as_ref().map_or("", BorrowedText::as_str)) {
            (Some(place), _) => place,
            (None, "text_delta") => {
                self.open(vendor_index, State::Text { text: String::new(), citations: Vec::new() }, events)
            }
            (None, "thinking_delta") => {
                let state = State::Thinking { text: String::new(), signature: String::new() };
                self.open(vendor_index, state, events)
            }
            (None, _) => return Ok(()),
        };
        let context = self.context;
        if let Some(slot) = self.slots.get_mut(place) {
            slot.grow(delta, Some(raw), context, events);
        }
        Ok(())
    }

    fn block_stop(&mut self, vendor_index: u32, events: &mut Vec<StreamEvent>) {
        let context = self.context;
        let place = self.find(vendor_index);
        if let Some(slot) = place.and_then(|place| self.slots.get_mut(place)) {
            slot.close(context, events);
        }
    }

    fn message_start(
        &mut self,
        raw: Option<&RawValue>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        self.head =
            self.read::<Option<ResponseBody<'_>>>(raw)?.map(ResponseBody::into_head).unwrap_or_default();
        self.start(events);
        Ok(())
    }

    fn message_delta(&mut self, delta: Option<&RawValue>, usage: Option<&RawValue>) -> Result<(), UppError> {
        if let Some(delta) = self.read::<Option<HeadDelta<'_>>>(delta)? {
            let head = &mut self.head;
            head.stop_reason = delta.stop_reason.map(BorrowedText::owned).or(head.stop_reason.take());
            head.stop_sequence = delta.stop_sequence.map(BorrowedText::owned).or(head.stop_sequence.take());
            head.container = delta.container.filter(|raw| !raw.is_null()).or(head.container.take());
        }
        if let Some(usage) = usage.and_then(|usage| serde_json::from_str::<Usage>(usage.get()).ok()) {
            self.head.usage.update(usage);
        }
        Ok(())
    }

    fn message_stop(&mut self, events: &mut Vec<StreamEvent>) {
        self.start(events);
        let context = self.context;
        self.slots.iter_mut().filter(|slot| slot.is_open).for_each(|slot| slot.close(context, events));
        events.push(StreamEvent::message_stop());
        self.is_whole = true;
    }
}

impl Kind<'_> {
    fn is_known_event(&self, event: Option<&str>) -> bool {
        let kind = self.kind.as_ref().map(BorrowedText::as_str).or(event);
        kind.is_some_and(|kind| kind.starts_with("message_") || kind.starts_with("content_block_"))
    }

    fn is_known_delta(&self) -> bool {
        let kind = self.kind.as_ref().map_or("", BorrowedText::as_str);
        matches!(
            kind,
            "text_delta" | "input_json_delta" | "thinking_delta" | "signature_delta" | "citations_delta"
        )
    }
}

impl State {
    fn of(part: Part) -> Self {
        match part {
            Part::Text { text, citations } => {
                let citations = citations.and_then(|list| list.to().ok()).unwrap_or_default();
                Self::Text { text, citations }
            }
            Part::Thinking { text, signature } => {
                Self::Thinking { text, signature: signature.unwrap_or_default() }
            }
            Part::Verbatim { kind, block } => Self::Verbatim {
                kind,
                block: RawObject::from_raw(&block).unwrap_or_default(),
                json: String::new(),
            },
            // Calls are created by `Decoder::call`, which knows whether they are the structured output.
            Part::ToolUse { id, name, input, caller } => Self::ToolUse(Call {
                id: id.into(),
                name: name.into(),
                input,
                caller,
                json: String::new(),
                is_announced: false,
                is_answer: false,
            }),
        }
    }

    fn into_part(self) -> Part {
        match self {
            Self::Text { text, citations } => {
                let citations =
                    (!citations.is_empty()).then(|| RawJson::from_value(&citations).ok()).flatten();
                Part::Text { text, citations }
            }
            Self::Thinking { text, signature } => {
                Part::Thinking { text, signature: (!signature.is_empty()).then_some(signature) }
            }
            Self::ToolUse(call) => call.into_part(),
            Self::Verbatim { kind, mut block, json } => {
                if let Some(input) = RawJson::from_embedded(&json) {
                    block.insert("input", input);
                }
                Part::Verbatim { kind, block: RawJson::from_value(&block).unwrap_or_default() }
            }
        }
    }
}

impl Call {
    fn into_part(self) -> Part {
        let input = match self.json.trim().is_empty() {
            true => self.input,
            // A truncated structured output is not returned as data, but its text is preserved.
            false if self.is_answer && serde_json::from_str::<&RawValue>(&self.json).is_err() => {
                return Part::Text { text: self.json, citations: None };
            }
            false => arguments_of(self.json),
        };
        Part::ToolUse { id: self.id.to_string(), name: self.name.to_string(), input, caller: self.caller }
    }

    fn piece(&mut self, index: u32, piece: &str, context: DecodeContext, events: &mut Vec<StreamEvent>) {
        self.json.push_str(piece);
        self.announce(index, piece, context, events);
    }

    fn announce(&mut self, index: u32, piece: &str, context: DecodeContext, events: &mut Vec<StreamEvent>) {
        if self.is_answer {
            Decoder::text(context, index, piece, events);
        } else {
            self.is_announced = true;
            events.push(StreamEvent::tool_call(index, Arc::clone(&self.id), Arc::clone(&self.name), piece));
        }
    }
}

impl OpenBlock {
    /// Adds the next piece. `raw` is its JSON, needed only for blocks of an unknown kind.
    fn grow(
        &mut self,
        delta: Delta<'_>,
        raw: Option<&RawValue>,
        context: DecodeContext,
        events: &mut Vec<StreamEvent>,
    ) {
        let index = self.index;
        match (&mut self.state, delta) {
            (State::Text { text, .. }, Delta { text: Some(piece), .. }) => {
                text.push_str(piece.as_str());
                Decoder::text(context, index, piece.as_str(), events);
            }
            (State::Text { citations, .. }, Delta { citation: Some(citation), .. }) => {
                citations.push(citation);
            }
            (State::Thinking { text, .. }, Delta { thinking: Some(piece), .. }) => {
                text.push_str(piece.as_str());
                if !piece.as_str().is_empty() {
                    events.push(StreamEvent::reasoning(index, piece.as_str()));
                }
            }
            (State::Thinking { signature, .. }, Delta { signature: Some(piece), .. }) => {
                signature.push_str(piece.as_str());
            }
            (State::ToolUse(call), Delta { partial_json: Some(piece), .. }) => {
                call.piece(index, piece.as_str(), context, events);
            }
            (State::Verbatim { json, .. }, Delta { partial_json: Some(piece), .. }) => {
                json.push_str(piece.as_str());
            }
            (State::Verbatim { block, .. }, _) => raw.into_iter().for_each(|raw| merge(block, raw)),
            _ => {}
        }
    }

    fn close(&mut self, context: DecodeContext, events: &mut Vec<StreamEvent>) {
        self.is_open = false;
        if let State::ToolUse(call) = &mut self.state
            && call.json.is_empty()
            && !call.is_announced
        {
            let input = call.input.get().to_owned();
            call.announce(self.index, &input, context, events);
        }
        events.push(StreamEvent::block_stop(self.index));
    }
}

/// Merges a piece into a block of an unknown kind: texts are appended, other values replaced.
fn merge(block: &mut RawObject, delta: &RawValue) {
    let Ok(delta) = serde_json::from_str::<RawObject>(delta.get()) else { return };
    for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
        let old = block.get(key).and_then(RawJson::as_string);
        let grown = old.zip(value.as_string()).map(|(old, new)| RawJson::from_str_value(&(old + &new)));
        block.insert(key, grown.unwrap_or_else(|| value.clone()));
    }
}

impl StreamDecoder for Decoder {
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if self.is_whole || !data.trim_start().starts_with('{') {
            return Ok(());
        }
        let context = self.context;
        if let Some(growth) = Growth::read(event, data)
            && let Some(slot) = self.known(growth.index)
        {
            slot.grow(growth.delta, None, context, events);
            return Ok(());
        }
        let frame: Frame<'_> = match serde_json::from_str(data) {
            Ok(frame) => frame,
            Err(error) => {
                let kind: Kind<'_> =
                    serde_json::from_str(data).map_err(|error| self.context.broken(error))?;
                return if kind.is_known_event(event) { Err(self.context.broken(error)) } else { Ok(()) };
            }
        };
        let index = frame.index.unwrap_or_default();
        match frame.kind.as_ref().map(BorrowedText::as_str).or(event).unwrap_or_default() {
            "message_start" => self.message_start(frame.message, events),
            "content_block_start" => self.block_start(index, frame.content_block, events),
            "content_block_delta" => self.block_delta(index, frame.delta, events),
            "content_block_stop" => {
                self.block_stop(index, events);
                Ok(())
            }
            "message_delta" => self.message_delta(frame.delta, frame.usage),
            "message_stop" => {
                self.message_stop(events);
                Ok(())
            }
            "error" => Err(reported_error(self.context.provider, data)),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.is_whole
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        _events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        if !self.is_whole {
            return Err(cut_short(self.context.provider));
        }
        let parts = self.slots.into_iter().map(|slot| slot.state.into_part()).collect();
        Ok(assemble(parts, self.head, self.context, sources))
    }
}

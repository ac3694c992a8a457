//! Reads streamed responses, and builds the same items as from a whole response.
//!
//! Spec: UPP-1.2 §11, §19.2

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, assemble};
use super::code_execution;
use super::context::DecodeContext;
use super::decode::ResponseBody;
use super::output_item::{
    FunctionCallItem, ItemKind, MessageItem, MessagePart, OutputItem, REASONING_SEPARATOR, read_item,
};
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::cut_short;
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::message::StreamEvent;
use turntree_core::message::event::{DataDelta, Delta};
use turntree_core::message::media::Binary;

/// Any event. Payloads stay text until the type is known.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(default)]
    output_index: Option<u32>,
    #[serde(default)]
    content_index: Option<u32>,
    #[serde(default)]
    summary_index: Option<u32>,
    #[serde(borrow, default)]
    item_id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    delta: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    text: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    refusal: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    arguments: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The effect of a frame, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Started,
    ItemAdded,
    ItemDone,
    Grows(Channel),
    Is(Channel),
    ArgumentsGrow,
    ArgumentsAre,
    Ended,
    Failed,
    Error,
    /// No effect: progress of provider tools, parts that other events contain too, unknown events.
    Other,
}

/// The kinds of text in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Text,
    Refusal,
    Summary,
    Thoughts,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "response.created" | "response.queued" | "response.in_progress" => Self::Started,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.output_text.delta" | "response.content_part.delta" => Self::Grows(Channel::Text),
            "response.output_text.done" => Self::Is(Channel::Text),
            "response.refusal.delta" => Self::Grows(Channel::Refusal),
            "response.refusal.done" => Self::Is(Channel::Refusal),
            "response.reasoning_summary_text.delta" => Self::Grows(Channel::Summary),
            "response.reasoning_summary_text.done" => Self::Is(Channel::Summary),
            "response.reasoning_text.delta" | "response.reasoning.delta" => Self::Grows(Channel::Thoughts),
            "response.reasoning_text.done" | "response.reasoning.done" => Self::Is(Channel::Thoughts),
            "response.function_call_arguments.delta" => Self::ArgumentsGrow,
            "response.function_call_arguments.done" => Self::ArgumentsAre,
            "response.completed" | "response.incomplete" | "response.done" => Self::Ended,
            "response.failed" | "response.cancelled" => Self::Failed,
            "error" | "response.error" => Self::Error,
            _ => Self::Other,
        }
    }
}

/// An item so far.
#[derive(Debug)]
struct OpenItem {
    /// The vendor's index of the item.
    place: u32,
    /// The index of its first block.
    index: u32,
    /// True if a text uses that index already.
    is_index_taken: bool,
    is_open: bool,
    texts: Vec<PartialText>,
    call: Option<Call>,
    /// The finished item.
    item: Option<OutputItem>,
}

/// A text so far. The parts of a reasoning item are one text; those of a message are one text each.
#[derive(Debug)]
struct PartialText {
    channel: Channel,
    index: u32,
    part: u32,
    text: String,
    /// The start of the current part.
    part_start: Option<usize>,
}

#[derive(Debug, Default)]
struct Call {
    id: Arc<str>,
    name: Arc<str>,
    arguments: String,
    is_announced: bool,
}

/// Decodes one stream.
#[derive(Debug)]
pub(super) struct Decoder {
    context: DecodeContext,
    slots: Vec<OpenItem>,
    next_index: u32,
    has_started: bool,
    /// True after the vendor has marked the end of the response.
    end: Option<(Head, Vec<OutputItem>)>,
}

impl Decoder {
    pub(super) const fn new(context: DecodeContext) -> Self {
        Self { context, slots: Vec::new(), next_index: 0, has_started: false, end: None }
    }

    fn start(&mut self, events: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.has_started, true) {
            events.push(StreamEvent::message_start());
        }
    }

    /// The position of an item; opens one for an item without a start event.
    fn place(&mut self, output_index: u32, events: &mut Vec<StreamEvent>) -> usize {
        // The current item is nearly always the last one.
        if let Some(place) = self.slots.iter().rposition(|slot| slot.place == output_index) {
            return place;
        }
        self.start(events);
        let index = take(&mut self.next_index);
        events.push(StreamEvent::block_start(index));
        let (texts, call, item) = (Vec::new(), None, None);
        self.slots.push(OpenItem {
            place: output_index,
            index,
            is_index_taken: false,
            is_open: true,
            texts,
            call,
            item,
        });
        self.slots.len() - 1
    }

    fn added(&mut self, frame: &Frame<'_>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let item =
            frame.item.ok_or_else(|| self.context.broken("an output_item.added event has no \"item\""))?;
        let place = self.place(frame.output_index.unwrap_or_default(), events);
        let kind: ItemKind<'_> =
            serde_json::from_str(item.get()).map_err(|error| self.context.broken(error))?;
        // Only calls have content before they are finished.
        if kind.kind.is_some_and(|kind| kind.as_str() == "function_call")
            && let OutputItem::Call(call) = read_item(item.get(), &self.context)?
            && let Some(slot) = self.slots.get_mut(place)
        {
            slot.call.get_or_insert_default().name_as(&call);
        }
        Ok(())
    }

    fn grows(&mut self, channel: Channel, frame: &Frame<'_>, is_whole: bool, events: &mut Vec<StreamEvent>) {
        let piece =
            if is_whole { frame.text.as_ref().or(frame.refusal.as_ref()) } else { frame.delta.as_ref() };
        let Some(piece) = piece else { return };
        let place = self.place(frame.output_index.unwrap_or_default(), events);
        let part = match channel {
            Channel::Summary => frame.summary_index,
            _ => frame.content_index,
        };
        let (is_structured, next_index) = (self.context.is_structured, &mut self.next_index);
        if let Some(slot) = self.slots.get_mut(place) {
            let text = slot.text(channel, part.unwrap_or_default(), next_index, events);
            if is_whole {
                text.settle(piece.as_str(), is_structured, events);
            } else {
                text.grow(piece.as_str(), is_structured, events);
            }
        }
    }

    fn arguments(&mut self, frame: &Frame<'_>, is_whole: bool, events: &mut Vec<StreamEvent>) {
        let piece = if is_whole { frame.arguments.as_ref() } else { frame.delta.as_ref() };
        let Some(piece) = piece else { return };
        let place = self.place(frame.output_index.unwrap_or_default(), events);
        let Some(slot) = self.slots.get_mut(place) else { return };
        let index = slot.index;
        let call = slot.call.get_or_insert_with(|| Call {
            id: frame.item_id.as_ref().map_or("", BorrowedText::as_str).into(),
            ..Call::default()
        });
        if is_whole {
            call.settle(index, piece.as_str(), events);
        } else {
            call.grow(index, piece.as_str(), events);
        }
    }

    fn done(&mut self, frame: &Frame<'_>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let item =
            frame.item.ok_or_else(|| self.context.broken("an output_item.done event has no \"item\""))?;
        let item = read_item(item.get(), &self.context)?;
        let place = self.place(frame.output_index.unwrap_or_default(), events);
        self.settle(place, &item, events);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.item.get_or_insert(item);
        }
        Ok(())
    }

    /// Emits the content of a finished item that no event contained.
    fn settle(&mut self, place: usize, item: &OutputItem, events: &mut Vec<StreamEvent>) {
        let (is_structured, next_index) = (self.context.is_structured, &mut self.next_index);
        if let Some(slot) = self.slots.get_mut(place).filter(|slot| slot.is_open) {
            slot.settle(item, is_structured, next_index, events);
            slot.close(events);
        }
    }

    fn ended(
        &mut self,
        frame: &Frame<'_>,
        name: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        self.start(events);
        let text = frame.response.map_or("{}", RawValue::get);
        let mut answer = ResponseBody::read(text, &self.context)?;
        // The vendor's own list of items is used if it is not empty; some vendors send it empty.
        let items = answer.items(&self.context)?;
        let items = items.filter(|items| !items.is_empty() && items.len() >= self.slots.len());
        self.slots.sort_by_key(|slot| slot.place);
        for (place, item) in items.iter().flatten().enumerate() {
            if place >= self.slots.len() {
                let unused = self.slots.last().map_or(0, |slot| slot.place.saturating_add(1));
                self.place(unused, events);
            }
            self.settle(place, item, events);
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.is_open) {
            slot.close(events);
        }
        events.push(StreamEvent::message_stop());
        let mut head = answer.into_head(text, &self.context);
        if name == "response.incomplete" {
            head.status = Some("incomplete".to_owned());
        }
        let slots = std::mem::take(&mut self.slots);
        let items = items.unwrap_or_else(|| slots.into_iter().map(OpenItem::into_output).collect());
        self.end = Some((head, items));
        Ok(())
    }

    fn failed(&self, frame: &Frame<'_>, name: &str, data: &str) -> UppError {
        let response = frame.response.map(|response| ResponseBody::read(response.get(), &self.context));
        match (response, name) {
            (Some(Err(error)), _) => error,
            (_, "response.cancelled") => ResponseBody::read(r#"{"status":"cancelled"}"#, &self.context)
                .err()
                .unwrap_or_else(|| self.context.reported(data)),
            _ => self.context.reported(frame.error.map_or(r#"{"code":"failed"}"#, RawValue::get)),
        }
    }
}

fn take(next_index: &mut u32) -> u32 {
    let index = *next_index;
    *next_index = index.saturating_add(1);
    index
}

impl OpenItem {
    /// The text of a channel; in a message, the text of one part.
    fn text(
        &mut self,
        channel: Channel,
        part: u32,
        next_index: &mut u32,
        events: &mut Vec<StreamEvent>,
    ) -> &mut PartialText {
        let is_one_text = matches!(channel, Channel::Summary | Channel::Thoughts);
        let found =
            self.texts.iter().position(|text| text.channel == channel && (is_one_text || text.part == part));
        let place = found.unwrap_or_else(|| {
            let is_first = !std::mem::replace(&mut self.is_index_taken, true);
            let index = if is_first { self.index } else { take(next_index) };
            if !is_first {
                events.push(StreamEvent::block_start(index));
            }
            self.texts.push(PartialText { channel, index, part, text: String::new(), part_start: None });
            self.texts.len() - 1
        });
        // The position was found or created above.
        #[expect(clippy::indexing_slicing, reason = "a place of this list")]
        let text = &mut self.texts[place];
        if text.part != part {
            text.part = part;
            text.part_start = None;
        }
        text
    }

    /// Emits the content of the item that no event contained.
    fn settle(
        &mut self,
        item: &OutputItem,
        is_structured: bool,
        next_index: &mut u32,
        events: &mut Vec<StreamEvent>,
    ) {
        match item {
            OutputItem::Message(item) => {
                for (part, item) in (0..).zip(&item.parts).filter(|(_, item)| !item.text.is_empty()) {
                    let channel = if item.is_refusal { Channel::Refusal } else { Channel::Text };
                    self.text(channel, part, next_index, events).settle(&item.text, is_structured, events);
                }
            }
            OutputItem::Reasoning { summary, thoughts, .. } => {
                for (channel, whole) in [(Channel::Thoughts, thoughts), (Channel::Summary, summary)] {
                    if !whole.is_empty() {
                        let last = self.texts.iter().find(|text| text.channel == channel);
                        let last = last.map_or(0, |text| text.part);
                        let text = self.text(channel, last, next_index, events);
                        text.part_start = (!text.text.is_empty()).then_some(0);
                        text.settle(whole, is_structured, events);
                    }
                }
            }
            OutputItem::Call(call) => {
                let index = self.index;
                let arriving = self.call.get_or_insert_default();
                arriving.name_as(call);
                arriving.settle(index, &call.arguments, events);
            }
            OutputItem::Image { result, .. } => {
                if let Ok(data) = Binary::from_base64(result) {
                    let delta = DataDelta { data, ..DataDelta::default() };
                    events.push(StreamEvent::new(self.index, Delta::Image(delta)));
                }
            }
            OutputItem::Verbatim(item) => {
                let code = code_execution::block_of(item.get());
                events.extend(code.map(|block| StreamEvent::code_execution(self.index, &block)));
            }
        }
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) {
        self.is_open = false;
        if let Some(call) = self.call.as_mut().filter(|call| !call.is_announced && !call.name.is_empty()) {
            call.announce(self.index, "{}", events);
        }
        events.push(StreamEvent::block_stop(self.index));
        let others = self.texts.iter().map(|text| text.index).filter(|index| *index != self.index);
        events.extend(others.map(StreamEvent::block_stop));
    }

    /// The finished item, or what has arrived of an unfinished one.
    fn into_output(self) -> OutputItem {
        if let Some(item) = self.item {
            return item;
        }
        if let Some(call) = self.call {
            return OutputItem::Call(FunctionCallItem {
                id: None,
                call_id: call.id.to_string(),
                name: call.name.to_string(),
                arguments: call.arguments,
                namespace: None,
            });
        }
        let is_reasoning =
            self.texts.iter().any(|text| matches!(text.channel, Channel::Summary | Channel::Thoughts));
        if is_reasoning {
            let (mut summary, mut thoughts) = (String::new(), String::new());
            for text in self.texts {
                let whole = if text.channel == Channel::Summary { &mut summary } else { &mut thoughts };
                whole.push_str(&text.text);
            }
            return OutputItem::Reasoning { summary, thoughts, sealed: None };
        }
        let parts = self.texts.into_iter().map(|text| MessagePart {
            is_refusal: text.channel == Channel::Refusal,
            text: text.text,
            annotations: None,
            logprobs: None,
        });
        OutputItem::Message(MessageItem { parts: parts.collect(), ..MessageItem::default() })
    }
}

impl PartialText {
    fn grow(&mut self, piece: &str, is_structured: bool, events: &mut Vec<StreamEvent>) {
        if piece.is_empty() {
            return;
        }
        if self.part_start.is_none() {
            if !self.text.is_empty() {
                self.text.push_str(REASONING_SEPARATOR);
                events.push(StreamEvent::reasoning(self.index, REASONING_SEPARATOR));
            }
            self.part_start = Some(self.text.len());
        }
        self.text.push_str(piece);
        match self.channel {
            Channel::Summary | Channel::Thoughts => events.push(StreamEvent::reasoning(self.index, piece)),
            Channel::Text | Channel::Refusal => events.push(StreamEvent::text(self.index, piece)),
        }
        if is_structured && self.channel == Channel::Text {
            events.push(StreamEvent::object(self.index, piece));
        }
    }

    /// Finishes a part: emits what is missing.
    fn settle(&mut self, whole: &str, is_structured: bool, events: &mut Vec<StreamEvent>) {
        let start = self.part_start.unwrap_or(self.text.len());
        if let Some(rest) = whole.strip_prefix(self.text.get(start..).unwrap_or_default()) {
            self.grow(rest, is_structured, events);
        } else {
            // The final text differs from the events so far. They cannot be undone, but the response has the final
            // text.
            self.text.truncate(start);
            self.text.push_str(whole);
        }
    }
}

impl Call {
    /// Takes name and id of the call from an item.
    fn name_as(&mut self, item: &FunctionCallItem) {
        if self.is_announced {
            return;
        }
        self.id = item.call_id.as_str().into();
        self.name = item.name.as_str().into();
    }

    fn announce(&mut self, index: u32, piece: &str, events: &mut Vec<StreamEvent>) {
        self.is_announced = true;
        events.push(StreamEvent::tool_call(index, Arc::clone(&self.id), Arc::clone(&self.name), piece));
    }

    fn grow(&mut self, index: u32, piece: &str, events: &mut Vec<StreamEvent>) {
        if !piece.is_empty() {
            self.arguments.push_str(piece);
            self.announce(index, piece, events);
        }
    }

    /// Finishes the arguments: emits what is missing.
    fn settle(&mut self, index: u32, whole: &str, events: &mut Vec<StreamEvent>) {
        match whole.strip_prefix(self.arguments.as_str()).map(str::to_owned) {
            Some(rest) => self.grow(index, &rest, events),
            None => whole.clone_into(&mut self.arguments),
        }
    }
}

impl StreamDecoder for Decoder {
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if self.end.is_some() || !data.trim_start().starts_with('{') {
            return Ok(());
        }
        let frame: Frame<'_> = match serde_json::from_str(data) {
            Ok(frame) => frame,
            Err(error) => {
                // Unknown events may have any shape.
                let kind: ItemKind<'_> =
                    serde_json::from_str(data).map_err(|error| self.context.broken(error))?;
                let name = kind.kind.as_ref().map(BorrowedText::as_str).or(event).unwrap_or_default();
                // Some vendors send the delta of a part as an object; the finished part follows.
                let is_skipped = Kind::of(name) == Kind::Other || name == "response.content_part.delta";
                return if is_skipped { Ok(()) } else { Err(self.context.broken(error)) };
            }
        };
        let name = frame.kind.as_ref().map(BorrowedText::as_str).or(event).unwrap_or_default();
        match Kind::of(name) {
            Kind::Started => self.start(events),
            Kind::ItemAdded => self.added(&frame, events)?,
            Kind::ItemDone => self.done(&frame, events)?,
            Kind::Grows(channel) => self.grows(channel, &frame, false, events),
            Kind::Is(channel) => self.grows(channel, &frame, true, events),
            Kind::ArgumentsGrow => self.arguments(&frame, false, events),
            Kind::ArgumentsAre => self.arguments(&frame, true, events),
            Kind::Ended => self.ended(&frame, name, events)?,
            Kind::Failed => return Err(self.failed(&frame, name, data)),
            Kind::Error => return Err(self.context.reported(data)),
            // A gateway may report an error without an event type.
            Kind::Other if name.is_empty() && frame.error.is_some() => {
                return Err(self.context.reported(data));
            }
            Kind::Other => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        _events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        let Some((head, items)) = self.end else {
            return Err(cut_short(&self.context.provider));
        };
        Ok(assemble(items, head, &self.context, sources))
    }
}

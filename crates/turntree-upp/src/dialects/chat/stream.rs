//! Reads streamed responses.
//!
//! Block indices are unique: the text has index 0; every other block (a tool call, reasoning, a refusal) takes the
//! next free index from 1 when it first appears.
//!
//! Spec: UPP-1.2 §11.1, §19.3

use std::sync::Arc;

use super::ChatOptions;
use super::code_execution::StreamedRuns;
use super::completion::{Call, ChatMessage, Completion, Function};
use super::decode::{ResponseFields, body_error, pictures, thinking, unreadable_arguments, vendor_error};
use super::metadata::MetadataCollector;
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::common::{
    LenientText, MOST_ITEMS, ResponseParts, VendorError, cut_short, data_of, new_call_id, read_frame,
};
use crate::error::UppError;
use crate::request::{ModelResponse, StopReason};
use turntree_core::ids::IdSource;
use turntree_core::message::content::ImageBlock;
use turntree_core::message::event::{DataDelta, Delta};
use turntree_core::message::fold::Fold;
use turntree_core::message::media::Binary;
use turntree_core::message::{ContentBlock, ImageSource, StreamEvent, TokenUsage};

/// The index of the text block.
const TEXT: u32 = 0;

/// Decodes one stream.
pub(super) struct ChatStreamDecoder {
    options: Arc<ChatOptions>,
    ids: Arc<dyn IdSource>,
    is_structured: bool,
    started: bool,
    /// True after `[DONE]`.
    is_marked: bool,
    fold: Fold,
    /// The text so far, if structured output is requested.
    text: String,
    /// The number of blocks other than the text.
    blocks: u32,
    reasoning: Option<u32>,
    refusal: Option<u32>,
    calls: Vec<PartialToolCall>,
    /// Images arrive whole and are not changed.
    pictures: Vec<ImageBlock>,
    /// Code that the vendor ran.
    runs: StreamedRuns,
    /// The reasoning, if it is also stored in the metadata.
    thinking: String,
    stored: MetadataCollector,
    id: String,
    model: String,
    finish_reason: String,
    system_fingerprint: String,
    service_tier: String,
    usage: Option<TokenUsage>,
}

struct PartialToolCall {
    /// The host's index; some hosts send none, some send the same for all calls.
    wire_index: Option<u32>,
    block: u32,
    /// Empty until the host has sent it.
    id: Arc<str>,
    name: Arc<str>,
    /// Arguments that arrived before the name.
    pending: String,
    has_delta: bool,
}

impl ChatStreamDecoder {
    pub(super) fn new(options: Arc<ChatOptions>, ids: Arc<dyn IdSource>, is_structured: bool) -> Self {
        Self {
            options,
            ids,
            is_structured,
            started: false,
            is_marked: false,
            fold: Fold::default(),
            text: String::new(),
            blocks: 0,
            reasoning: None,
            refusal: None,
            calls: Vec::new(),
            pictures: Vec::new(),
            runs: StreamedRuns::default(),
            thinking: String::new(),
            stored: MetadataCollector::default(),
            id: String::new(),
            model: String::new(),
            finish_reason: String::new(),
            system_fingerprint: String::new(),
            service_tier: String::new(),
            usage: None,
        }
    }

    fn update(&mut self, chunk: &Completion<'_>) {
        if self.id.is_empty() {
            update(&mut self.id, &chunk.id);
        }
        update(&mut self.model, &chunk.model);
        update(&mut self.system_fingerprint, &chunk.system_fingerprint);
        update(&mut self.service_tier, &chunk.service_tier);
        let of_choice = chunk.choices.iter().flatten().find(|choice| choice.is_first());
        let of_choice = of_choice.and_then(|choice| choice.usage);
        let of_groq = chunk.x_groq.as_ref().and_then(|groq| groq.usage);
        if let Some(usage) = chunk.usage.or(of_groq).or(of_choice) {
            let mut usage = usage.into_usage(&self.options);
            // UPP-1.2 §19.0: the total of a stream is the sum.
            usage.total_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            self.usage = Some(usage);
        }
    }

    fn received(
        &mut self,
        received: &ChatMessage<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let thinking = thinking(&self.options, received);
        if !thinking.is_empty() {
            let index = *self.reasoning.get_or_insert_with(|| next_block(&mut self.blocks));
            self.fold.reasoning(index, &thinking);
            if self.options.reasoning_metadata_member.is_some() {
                self.thinking.push_str(&thinking);
            }
            events.push(StreamEvent::reasoning(index, &*thinking));
        }
        if self.options.reasoning_details {
            self.stored.details(received, true);
        }
        let Self { options, runs, blocks, .. } = self;
        runs.update(options, received, || next_block(blocks), events);
        let text = received.content.as_str();
        if !text.is_empty() {
            self.fold.text(TEXT, text);
            events.push(StreamEvent::text(TEXT, text));
            if self.is_structured {
                self.text.push_str(text);
                events.push(StreamEvent::object(TEXT, text));
            }
        }
        let refusal = received.refusal.as_str();
        if !refusal.is_empty() {
            let index = *self.refusal.get_or_insert_with(|| next_block(&mut self.blocks));
            self.fold.text(index, refusal);
            events.push(StreamEvent::text(index, refusal));
        }
        for call in received.tool_calls.iter().flatten() {
            self.call(call, events)?;
        }
        for picture in pictures(received) {
            let index = next_block(&mut self.blocks);
            if let ImageSource::Base64(source) = &picture.source
                && let Ok(data) = Binary::from_base64(&source.data)
            {
                let delta = DataDelta { data, ..DataDelta::default() };
                events.push(StreamEvent::new(index, Delta::Image(delta)));
            }
            self.pictures.push(picture);
        }
        Ok(())
    }

    fn call(&mut self, piece: &Call<'_>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if self.calls.len() > MOST_ITEMS {
            let message = format!("the response has more than {MOST_ITEMS} tool calls");
            return Err(UppError::invalid_response(&*self.options.endpoint.provider, message));
        }
        let nothing = Function::default();
        let function = piece.function.as_ref().unwrap_or(&nothing);
        let ids = Arc::clone(&self.ids);
        let Some(call) = self.call_of(piece, function) else { return Ok(()) };
        if call.id.is_empty() && !piece.id.is_empty() {
            call.id = piece.id.as_str().into();
        }
        if call.name.is_empty() {
            call.name = function.name.as_str().into();
        }
        let read = function.arguments_onto(&mut call.pending);
        let event = call.next_event(&*ids);
        read.map_err(|error| unreadable_arguments(&self.options.endpoint.provider, error))?;
        self.emit(event, events);
        Ok(())
    }

    /// The call that a piece belongs to; creates it if necessary.
    fn call_of(&mut self, piece: &Call<'_>, function: &Function<'_>) -> Option<&mut PartialToolCall> {
        let id = piece.id.as_str();
        let is_opening = !function.name.is_empty();
        let known = match piece.index {
            // Searches the latest first: hosts that send the same index for all calls are distinguished by id.
            Some(index) => self.calls.iter().rposition(|call| call.wire_index == Some(index)),
            None if !id.is_empty() => self.calls.iter().rposition(|call| *call.id == *id),
            None if is_opening => None,
            None => self.calls.len().checked_sub(1),
        };
        let is_same =
            |call: &PartialToolCall| id.is_empty() || call.id.is_empty() || *call.id == *id || !is_opening;
        let known = known.filter(|place| self.calls.get(*place).is_some_and(is_same));
        if known.is_none() {
            let block = next_block(&mut self.blocks);
            self.calls.push(PartialToolCall::new(piece.index, block));
        }
        match known {
            Some(place) => self.calls.get_mut(place),
            None => self.calls.last_mut(),
        }
    }

    fn emit(&mut self, event: Option<StreamEvent>, events: &mut Vec<StreamEvent>) {
        if let Some(event) = event {
            self.fold.push(&event);
            events.push(event);
        }
    }
}

impl PartialToolCall {
    fn new(wire_index: Option<u32>, block: u32) -> Self {
        let nothing: Arc<str> = Arc::from("");
        Self {
            wire_index,
            block,
            id: Arc::clone(&nothing),
            name: nothing,
            pending: String::new(),
            has_delta: false,
        }
    }

    /// The event with the arguments so far, once the name is known.
    fn next_event(&mut self, ids: &dyn IdSource) -> Option<StreamEvent> {
        if self.name.is_empty() || self.pending.is_empty() {
            return None;
        }
        if self.id.is_empty() {
            self.id = new_call_id(ids).into();
        }
        self.has_delta = true;
        let arguments = std::mem::take(&mut self.pending);
        Some(StreamEvent::tool_call(self.block, Arc::clone(&self.id), Arc::clone(&self.name), arguments))
    }

    /// The event of a call without arguments, which get their default here.
    fn last_event(&mut self, ids: &dyn IdSource) -> Option<StreamEvent> {
        if !self.has_delta && self.pending.is_empty() {
            self.pending.push_str("{}");
        }
        self.next_event(ids)
    }
}

impl StreamDecoder for ChatStreamDecoder {
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let provider = &*self.options.endpoint.provider;
        if event == Some("error") {
            return Err(VendorError::of_body(data).into_error(provider));
        }
        let Some(chunk) = read_frame::<Completion<'_>>(provider, data)? else {
            return Ok(());
        };
        // Also errors without the member `error`, as vLLM and `FastAPI` send.
        if chunk.choices.is_none()
            && let Some(error) = VendorError::reported(data)
        {
            return Err(error.into_error(provider));
        }
        let of_choice = chunk.choices.iter().flatten().find_map(|choice| choice.error);
        let of_groq = chunk.x_groq.as_ref().and_then(|groq| groq.error);
        let error = body_error(provider, chunk.error, data);
        if let Some(error) = error.or_else(|| vendor_error(provider, of_choice.or(of_groq))) {
            return Err(error);
        }
        self.update(&chunk);
        if !std::mem::replace(&mut self.started, true) {
            events.push(StreamEvent::message_start());
        }
        if !self.options.metadata_members.is_empty() {
            let choice = chunk.choices.iter().flatten().find(|choice| choice.is_first());
            self.stored.update(&self.options, &chunk, choice);
        }
        for choice in chunk.choices.iter().flatten().filter(|choice| choice.is_first()) {
            // Some hosts send a whole response as their only chunk.
            for received in choice.delta.iter().chain(&choice.message) {
                self.received(received, events)?;
            }
            self.stored.logprobs(choice);
            update(&mut self.finish_reason, &choice.finish_reason);
        }
        Ok(())
    }

    fn marked_end(&mut self) {
        self.is_marked = true;
    }

    fn finish(
        mut self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        // Some hosts end with `[DONE]` only.
        let is_whole = !self.finish_reason.is_empty() || self.is_marked && self.started;
        if !is_whole {
            return Err(cut_short(&self.options.endpoint.provider));
        }
        let mut calls = std::mem::take(&mut self.calls);
        for call in &mut calls {
            self.emit(call.last_event(&*self.ids), events);
        }
        let runs = self.runs.finish(|| next_block(&mut self.blocks), events);
        // Not at the finish reason, since some hosts send more after it.
        events.push(StreamEvent::message_stop());
        let mut folded = self.fold.finish();
        // The answer was written after the code had run.
        let is_reasoning = |block: &ContentBlock| matches!(block, ContentBlock::Reasoning(_));
        let thoughts = folded.content.iter().take_while(|block| is_reasoning(block)).count();
        folded.content.splice(thoughts..thoughts, runs);
        folded.content.extend(self.pictures.into_iter().map(ContentBlock::from));
        let reported = ResponseFields {
            model: &self.model,
            finish_reason: &self.finish_reason,
            system_fingerprint: &self.system_fingerprint,
            service_tier: &self.service_tier,
            thinking: &self.thinking,
            refused: self.refusal.is_some(),
        };
        let answer = ResponseParts {
            content: folded.content,
            tool_calls: folded.tool_calls,
            metadata: reported.metadata(&self.options, self.stored),
            usage: self.usage.unwrap_or_default(),
            stop_reason: match (reported.finish_reason, calls.is_empty()) {
                ("", false) => StopReason::ToolUse,
                _ => reported.stop_reason(),
            },
            data: self.is_structured.then(|| data_of(&self.text)).flatten(),
            id: self.id,
        };
        Ok(answer.into_response(&self.options.endpoint.provider, sources))
    }
}

/// Replaces a value by a later one that is not empty.
fn update(known: &mut String, reported: &LenientText<'_>) {
    if !reported.is_empty() && known != reported.as_str() {
        reported.as_str().clone_into(known);
    }
}

const fn next_block(blocks: &mut u32) -> u32 {
    *blocks = blocks.saturating_add(1);
    *blocks
}

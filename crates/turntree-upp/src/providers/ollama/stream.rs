//! Reads streamed responses: one JSON document a line.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::PROVIDER;
use super::decode::{Call, Line, LineMessage};
use super::metadata::MetadataCollector;
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::common::{ResponseParts, VendorError, cut_short, data_of, new_call_id, read_line};
use crate::error::UppError;
use crate::request::{ModelResponse, StopReason};
use turntree_core::ids::IdSource;
use turntree_core::json::Extra;
use turntree_core::message::fold::{Fold, arguments_of};
use turntree_core::message::{StreamEvent, TokenUsage, ToolCall};

/// The index of the text block. Thinking and calls take the next free index from 1 (UPP-1.2 §11.1).
const TEXT: u32 = 0;

/// Decodes one stream.
pub(super) struct OllamaStreamDecoder {
    run: ResponseAccumulator,
    ids: Arc<dyn IdSource>,
}

impl OllamaStreamDecoder {
    pub(super) fn new(ids: Arc<dyn IdSource>, is_structured: bool) -> Self {
        Self { run: ResponseAccumulator::new(is_structured), ids }
    }
}

impl StreamDecoder for OllamaStreamDecoder {
    fn frame(
        &mut self,
        _event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let line: Line<'_> = read_line(PROVIDER, data)?;
        reported(&line, data)?;
        self.run.line(line, &*self.ids, events);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.run.is_done
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        if !self.run.is_done {
            return Err(cut_short(PROVIDER));
        }
        events.push(StreamEvent::message_stop());
        Ok(self.run.into_response(sources))
    }
}

/// The error of a line or a body; its explanation may be beside the member `error`.
pub(super) fn reported(line: &Line<'_>, text: &str) -> Result<(), UppError> {
    match line.error.map(RawValue::get) {
        None | Some("null") => Ok(()),
        Some(_) => Err(VendorError::of_body(text).into_error(PROVIDER)),
    }
}

/// Accumulates one response.
pub(super) struct ResponseAccumulator {
    is_structured: bool,
    is_started: bool,
    is_done: bool,
    fold: Fold,
    text: String,
    thinking: String,
    /// The index of the reasoning block.
    reasoning: Option<u32>,
    /// The number of blocks other than the text.
    blocks: u32,
    tool_calls: Vec<ToolCall>,
    metadata: MetadataCollector,
    usage: TokenUsage,
}

impl ResponseAccumulator {
    pub(super) fn new(is_structured: bool) -> Self {
        Self {
            is_structured,
            is_started: false,
            is_done: false,
            fold: Fold::default(),
            text: String::new(),
            thinking: String::new(),
            reasoning: None,
            blocks: 0,
            tool_calls: Vec::new(),
            metadata: MetadataCollector::default(),
            usage: TokenUsage::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fold.is_empty() && self.tool_calls.is_empty() && !self.is_done
    }

    pub(super) fn line(&mut self, line: Line<'_>, ids: &dyn IdSource, events: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.is_started, true) {
            events.push(StreamEvent::message_start());
        }
        if let Some(message) = &line.message {
            self.message(message, ids, events);
        }
        self.update(line);
    }

    fn message(&mut self, message: &LineMessage<'_>, ids: &dyn IdSource, events: &mut Vec<StreamEvent>) {
        let thinking = message.thinking.as_str();
        if !thinking.is_empty() {
            let index = *self.reasoning.get_or_insert_with(|| {
                self.blocks += 1;
                self.blocks
            });
            self.thinking.push_str(thinking);
            self.fold.reasoning(index, thinking);
            events.push(StreamEvent::reasoning(index, thinking));
        }
        let text = message.content.as_str();
        if !text.is_empty() {
            self.fold.text(TEXT, text);
            events.push(StreamEvent::text(TEXT, text));
            if self.is_structured {
                self.text.push_str(text);
                events.push(StreamEvent::object(TEXT, text));
            }
        }
        let named = |call: &&Call<'_>| !call.function.name.is_empty();
        for call in message.tool_calls.iter().flatten().filter(named) {
            self.call(call, ids, events);
        }
    }

    fn call(&mut self, call: &Call<'_>, ids: &dyn IdSource, events: &mut Vec<StreamEvent>) {
        let id: Arc<str> = match call.id.as_str() {
            "" => new_call_id(ids).into(),
            id => id.into(),
        };
        let name = call.function.name.as_str();
        let arguments = arguments_of(call.function.arguments().into_owned());
        self.blocks += 1;
        events.push(StreamEvent::tool_call(self.blocks, Arc::clone(&id), name.into(), arguments.get()));
        self.tool_calls.push(ToolCall {
            tool_call_id: id.to_string(),
            tool_name: name.to_owned(),
            arguments,
            extra: Extra::new(),
        });
    }

    fn update(&mut self, line: Line<'_>) {
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            let counts = (line.prompt_eval_count.unwrap_or_default(), line.eval_count.unwrap_or_default());
            self.usage = TokenUsage::of_call(counts.0.0, counts.1.0);
        }
        self.is_done |= line.done;
        self.metadata.update(line);
    }

    pub(super) fn into_response(self, sources: Sources<'_>) -> ModelResponse {
        let stop_reason = match self.metadata.done_reason() {
            "length" => StopReason::MaxTokens,
            _ if !self.tool_calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        let answer = ResponseParts {
            id: String::new(),
            content: self.fold.finish().content,
            tool_calls: self.tool_calls,
            metadata: self.metadata.into_object(&self.thinking),
            usage: self.usage,
            stop_reason,
            data: self.is_structured.then(|| data_of(&self.text)).flatten(),
        };
        answer.into_response(PROVIDER, sources)
    }
}

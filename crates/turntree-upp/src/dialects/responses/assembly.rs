//! Combines output items into a message, for whole and streamed responses.

use std::sync::Arc;

use serde::Deserialize;

use super::code_execution;
use super::context::DecodeContext;
use super::metadata::{OrderEntry, ResponseMetadata};
use super::output_item::{FunctionCallItem, MessageItem, OutputItem};
use crate::dialect::Sources;
use crate::dialects::common::{Cost, Count, data_of, if_readable};
use crate::request::{ModelResponse, StopReason};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::content::{Base64Source, ImageBlock};
use turntree_core::message::fold::arguments_of;
use turntree_core::message::{Body, ContentBlock, ImageSource, Message, TokenUsage, ToolCall};

/// Values of the response as a whole.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) status: Option<String>,
    pub(super) incomplete_reason: Option<String>,
    pub(super) usage: Usage,
    /// Members that the vendor's options select.
    pub(super) stored: RawObject,
}

/// The vendor's token counts.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: Option<Count>,
    #[serde(default)]
    output_tokens: Option<Count>,
    #[serde(default)]
    total_tokens: Option<Count>,
    #[serde(default)]
    cost: Option<Cost>,
    /// The cost of xAI.
    #[serde(default)]
    cost_in_usd_ticks: Count,
    #[serde(default, deserialize_with = "if_readable")]
    input_tokens_details: Option<InputDetails>,
    #[serde(default, deserialize_with = "if_readable")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<Count>,
    #[serde(default)]
    audio_tokens: Option<Count>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the vendor's names")]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<Count>,
    #[serde(default)]
    cache_write_tokens: Option<Count>,
    #[serde(default)]
    audio_tokens: Option<Count>,
}

impl Usage {
    fn into_usage(self, reports_cost: bool) -> TokenUsage {
        let sum = TokenUsage::of_call(count(self.input_tokens), count(self.output_tokens));
        let read = self.input_tokens_details.unwrap_or_default();
        let written = self.output_tokens_details.unwrap_or_default();
        let cost = || self.cost.and_then(Cost::dollars).or_else(|| self.cost_in_usd_ticks.dollars_of_ticks());
        let audio = count(read.audio_tokens).saturating_add(count(written.audio_tokens));
        TokenUsage {
            total_tokens: self.total_tokens.map_or(sum.total_tokens, |total| total.0),
            cache_read_tokens: count(read.cached_tokens),
            cache_write_tokens: count(read.cache_write_tokens),
            reasoning_tokens: written.reasoning_tokens.and_then(Count::if_any),
            audio_tokens: Count(audio).if_any(),
            cost: reports_cost.then(cost).flatten(),
            ..sum
        }
    }
}

fn count(reported: Option<Count>) -> u64 {
    reported.unwrap_or_default().0
}

/// Builds the response.
pub(super) fn assemble(
    items: Vec<OutputItem>,
    head: Head,
    context: &DecodeContext,
    sources: Sources<'_>,
) -> ModelResponse {
    let mut assembly = Assembly::default();
    for item in items {
        assembly.add(item);
    }
    assembly.finish(head, context, sources)
}

#[derive(Default)]
struct Assembly {
    reasoning: Vec<ContentBlock>,
    rest: Vec<ContentBlock>,
    calls: Vec<FunctionCallItem>,
    sealed: Vec<RawJson>,
    annotations: Vec<Option<RawJson>>,
    logprobs: Vec<Option<RawJson>>,
    order: Vec<OrderEntry>,
    messages: usize,
    /// True if the order of items differs from the default: one message, then calls.
    is_ordered: bool,
    is_refused: bool,
}

/// The list, if it has a value.
fn if_any(values: Vec<Option<RawJson>>) -> Vec<Option<RawJson>> {
    if values.iter().any(Option::is_some) { values } else { Vec::new() }
}

impl Assembly {
    fn add(&mut self, item: OutputItem) {
        match item {
            OutputItem::Message(item) => self.message(item),
            OutputItem::Reasoning { summary, thoughts, sealed } => {
                let shown = [thoughts, summary].into_iter().filter(|text| !text.is_empty());
                self.reasoning.extend(shown.map(ContentBlock::reasoning));
                if let Some(sealed) = sealed {
                    self.is_ordered = true;
                    self.sealed.push(sealed);
                    self.order.push(OrderEntry::Next("reasoning"));
                }
            }
            // A call without a name or id cannot be run or answered.
            OutputItem::Call(call) if call.name.is_empty() || call.call_id.is_empty() => {}
            OutputItem::Call(call) => {
                self.calls.push(call);
                self.order.push(OrderEntry::Next("function_call"));
            }
            OutputItem::Image { result, mime_type, rest } => {
                self.is_ordered = true;
                let source = ImageSource::Base64(Base64Source { data: result, extra: Extra::new() });
                let (width, height) = (None, None);
                let image = ImageBlock { source, mime_type, width, height, extra: Extra::new() };
                self.rest.push(image.into());
                self.order.push(OrderEntry::Image { kind: "image", item: rest });
            }
            OutputItem::Verbatim(item) => {
                self.is_ordered = true;
                self.rest.extend(code_execution::block_of(item.get()).map(ContentBlock::from));
                self.order.push(OrderEntry::Verbatim(item));
            }
        }
    }

    fn message(&mut self, item: MessageItem) {
        self.is_refused |= item.parts.iter().any(|part| part.is_refusal);
        let mut texts = 0;
        for part in item.parts.into_iter().filter(|part| !part.text.is_empty()) {
            texts += 1;
            self.rest.push(ContentBlock::text(part.text));
            self.annotations.push(part.annotations);
            self.logprobs.push(part.logprobs);
        }
        if texts == 0 {
            return;
        }
        self.is_ordered |= self.messages > 0 || !self.calls.is_empty() || item.phase.is_some();
        self.messages += 1;
        self.order.push(OrderEntry::Message { kind: "message", id: item.id, phase: item.phase, texts });
    }

    fn data(&self, context: &DecodeContext) -> Option<RawJson> {
        if !context.is_structured || self.is_refused {
            return None;
        }
        self.rest.iter().rev().filter_map(ContentBlock::as_text).find_map(data_of)
    }

    fn stop_reason(&self, head: &Head) -> StopReason {
        match head.status.as_deref() {
            _ if self.is_refused => StopReason::ContentFilter,
            Some("failed") => StopReason::Error,
            Some("incomplete") if head.incomplete_reason.as_deref() == Some("max_output_tokens") => {
                StopReason::MaxTokens
            }
            Some("incomplete") => StopReason::EndTurn,
            Some("queued" | "in_progress") => StopReason::PauseTurn,
            _ if !self.calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        }
    }

    fn finish(mut self, head: Head, context: &DecodeContext, sources: Sources<'_>) -> ModelResponse {
        let (stop_reason, data) = (self.stop_reason(&head), self.data(context));
        let tool_calls = self.calls.iter().map(|call| ToolCall {
            tool_call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            arguments: arguments_of(call.arguments.clone()),
            extra: Extra::new(),
        });
        let tool_calls: Vec<ToolCall> = tool_calls.collect();
        let response_metadata = ResponseMetadata {
            model: head.model,
            status: head.status,
            response_id: head.id.clone(),
            function_call_items: self.calls,
            reasoning_encrypted_content: self.sealed.last().map(|sealed| sealed.get().to_owned()),
            reasoning_items: if self.sealed.len() > 1 { self.sealed } else { Vec::new() },
            output_items: if self.is_ordered { self.order } else { Vec::new() },
            annotations: if_any(self.annotations),
            logprobs: if_any(self.logprobs),
            incomplete_reason: head.incomplete_reason,
            stored: head.stored,
        };
        let mut metadata = RawObject::new();
        metadata.insert(&*context.provider, RawJson::from_value(&response_metadata).unwrap_or_default());
        let mut content = self.reasoning;
        content.append(&mut self.rest);
        let message = Message {
            id: head.id.filter(|id| !id.is_empty()).unwrap_or_else(|| sources.ids.string()),
            timestamp: sources.clock.now(),
            metadata: Some(metadata),
            body: Body::Assistant { content, tool_calls: (!tool_calls.is_empty()).then_some(tool_calls) },
            extra: Extra::new(),
        };
        ModelResponse {
            message: Arc::new(message),
            usage: head.usage.into_usage(context.reports_cost),
            stop_reason,
            data,
        }
    }
}

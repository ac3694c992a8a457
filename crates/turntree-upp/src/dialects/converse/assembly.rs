//! Combines the blocks of a response into a message, for whole and streamed responses.

use serde::Deserialize;

use super::code_execution;
use super::metadata::{OrderEntry, ResponseMetadata};
use super::{DecodeContext, PROVIDER, Structure};
use crate::dialect::Sources;
use crate::dialects::common::{BoundedVec, Count, ResponseParts, data_of, if_readable};
use crate::request::{ModelResponse, StopReason};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::{ContentBlock, TokenUsage, ToolCall};

/// One block of a response.
#[derive(Debug)]
pub(super) enum Part {
    Text {
        text: String,
        citations: Option<RawJson>,
    },
    Reasoning {
        text: String,
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        input: RawJson,
    },
    Media(ContentBlock),
    /// A block that UPP does not define.
    Verbatim(RawJson),
}

/// Values of the response as a whole.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) trace: Option<RawJson>,
    pub(super) additional: Option<RawJson>,
}

/// The vendor's token counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_write_input_tokens: Count,
    #[serde(default, deserialize_with = "if_readable")]
    cache_details: Option<BoundedVec<CacheDetail>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CacheDetail {
    #[serde(default)]
    ttl: Option<String>,
    #[serde(default)]
    input_tokens: Count,
}

impl Usage {
    /// The vendor counts cached tokens apart from the input tokens, and in the total.
    fn into_usage(self) -> TokenUsage {
        let counted = TokenUsage::of_call(self.input_tokens.0, self.output_tokens.0);
        let details = self.cache_details.iter().flat_map(BoundedVec::iter);
        let hour = details.filter(|detail| detail.ttl.as_deref() == Some("1h"));
        let hour = hour.fold(0, |sum: u64, detail| sum.saturating_add(detail.input_tokens.0));
        let usage = TokenUsage {
            total_tokens: self.total_tokens.if_any().unwrap_or(counted.total_tokens),
            cache_read_tokens: self.cache_read_input_tokens.0,
            cache_write_tokens: self.cache_write_input_tokens.0,
            cache_write_1h_tokens: Count(hour).if_any(),
            ..counted
        };
        usage.with_cache_apart()
    }
}

#[derive(Default)]
struct Assembly {
    reasoning: Vec<ContentBlock>,
    rest: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    signatures: Vec<Option<String>>,
    citations: Vec<Option<RawJson>>,
    order: Vec<OrderEntry>,
    /// True if the order of blocks differs from the default: reasoning, text, calls.
    is_ordered: bool,
    rank: u8,
    data: Option<RawJson>,
    answer_id: Option<String>,
}

/// Builds the response.
pub(super) fn assemble(
    parts: impl IntoIterator<Item = Part>,
    head: Head,
    context: DecodeContext,
    sources: Sources<'_>,
) -> ModelResponse {
    let mut assembly = Assembly::default();
    for part in parts {
        assembly.add(part, context);
    }
    assembly.finish(head, context, sources)
}

impl Assembly {
    fn add(&mut self, part: Part, context: DecodeContext) {
        match part {
            Part::Text { text, .. } | Part::Reasoning { text, signature: None } if text.is_empty() => {}
            Part::Text { text, citations } => self.text(text, citations),
            Part::Reasoning { text, signature } => {
                self.place(0, "reasoning");
                self.reasoning.push(ContentBlock::reasoning(text));
                self.signatures.push(signature);
            }
            Part::ToolUse { id, name, input } if context.is_answer(&name) => {
                self.text(input.get().to_owned(), None);
                self.answer_id = Some(id);
                self.data = Some(input);
            }
            Part::ToolUse { id, name, input } => {
                self.place(2, "tool_use");
                let extra = Extra::new();
                self.calls.push(ToolCall { tool_call_id: id, tool_name: name, arguments: input, extra });
            }
            Part::Media(block) => self.rest.push(block),
            Part::Verbatim(block) => {
                self.is_ordered = true;
                self.rest
                    .extend(code_execution::block_of(block.get(), self.verbatim()).map(ContentBlock::from));
                self.rest.extend(code_execution::images_of(block.get()).map(ContentBlock::from));
                self.order.push(OrderEntry::Verbatim(block));
            }
        }
    }

    /// The blocks so far that UPP does not define.
    fn verbatim(&self) -> impl Iterator<Item = &str> {
        self.order.iter().filter_map(|entry| match entry {
            OrderEntry::Verbatim(block) => Some(block.get()),
            OrderEntry::Next(_) => None,
        })
    }

    fn text(&mut self, text: String, citations: Option<RawJson>) {
        self.place(1, "text");
        self.rest.push(ContentBlock::text(text));
        self.citations.push(citations);
    }

    fn place(&mut self, rank: u8, kind: &'static str) {
        self.is_ordered |= rank < self.rank;
        self.rank = rank;
        self.order.push(OrderEntry::Next(kind));
    }

    fn finish(mut self, head: Head, context: DecodeContext, sources: Sources<'_>) -> ModelResponse {
        if self.data.is_none() && context.structure != Structure::None {
            let is_promised = context.structure == Structure::Native;
            let mut values = self.rest.iter().filter_map(ContentBlock::as_text).filter_map(data_of);
            self.data = values.find(|value| is_promised || value.is_object());
        }
        let stop_reason = match stop_reason(head.stop_reason.as_deref()) {
            // The only call was the structured output: no tool remains to be run.
            StopReason::ToolUse if self.answer_id.is_some() && self.calls.is_empty() => StopReason::EndTurn,
            other => other,
        };
        let metadata = ResponseMetadata {
            stop_reason: head.stop_reason,
            signatures: self.signatures.iter().any(Option::is_some).then_some(self.signatures),
            citations: self.citations.iter().any(Option::is_some).then_some(self.citations),
            json_response_id: self.answer_id,
            blocks: self.is_ordered.then_some(self.order),
            trace: head.trace,
            additional: head.additional,
        };
        let mut content = self.reasoning;
        content.append(&mut self.rest);
        let parts = ResponseParts {
            id: String::new(),
            content,
            tool_calls: self.calls,
            metadata: RawJson::from_value(&metadata).ok().and_then(|raw| raw.to().ok()).unwrap_or_default(),
            usage: head.usage.into_usage(),
            stop_reason,
            data: self.data,
        };
        parts.into_response(PROVIDER, sources)
    }
}

/// The vendor's stop reasons that UPP defines too.
fn stop_reason(vendor: Option<&str>) -> StopReason {
    match vendor {
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("stop_sequence") => StopReason::StopSequence,
        Some("tool_use") => StopReason::ToolUse,
        Some("guardrail_intervened" | "content_filtered") => StopReason::ContentFilter,
        Some("malformed_model_output" | "malformed_tool_use") => StopReason::Error,
        _ => StopReason::EndTurn,
    }
}

//! Combines the parts of a response into a message, for whole and streamed responses.

use std::sync::Arc;

use serde::Deserialize;

use super::code_execution::{self, ServerCall};
use super::metadata::{OrderEntry, ResponseMetadata};
use super::{DecodeContext, Structure};
use crate::dialect::Sources;
use crate::dialects::common::{BoundedVec, Count, LenientText, data_of, if_readable};
use crate::request::{ModelResponse, StopReason};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::{Body, ContentBlock, Message, TokenUsage, ToolCall};

/// One block of a response.
#[derive(Debug)]
pub(super) enum Part {
    Text {
        text: String,
        citations: Option<RawJson>,
    },
    Thinking {
        text: String,
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        input: RawJson,
        /// The vendor's tool that made the call, if it was not the model.
        caller: Option<RawJson>,
    },
    /// A kind of block that UPP does not define.
    Verbatim {
        kind: String,
        block: RawJson,
    },
}

/// Values of the response as a whole.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) container: Option<RawJson>,
    pub(super) usage: Usage,
}

/// The vendor's token counts. A later report overwrites the counts it contains.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: Option<Count>,
    #[serde(default)]
    output_tokens: Option<Count>,
    #[serde(default)]
    cache_read_input_tokens: Option<Count>,
    #[serde(default)]
    cache_creation_input_tokens: Option<Count>,
    #[serde(default, deserialize_with = "if_readable")]
    cache_creation: Option<Lifetimes>,
    #[serde(default, deserialize_with = "if_readable")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(default, deserialize_with = "if_readable")]
    iterations: Option<Compactions>,
}

/// The tokens of the calls that summarized the conversation. The other counts do not contain them.
#[derive(Debug, Default, Clone, Copy)]
struct Compactions {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cache_write_1h: u64,
}

impl<'de> Deserialize<'de> for Compactions {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Iteration<'a> {
            #[serde(borrow, default, rename = "type")]
            kind: LenientText<'a>,
            #[serde(default)]
            input_tokens: Count,
            #[serde(default)]
            output_tokens: Count,
            #[serde(default)]
            cache_read_input_tokens: Count,
            #[serde(default)]
            cache_creation_input_tokens: Count,
            #[serde(default)]
            cache_creation: Option<Lifetimes>,
        }
        let iterations = BoundedVec::<Iteration<'de>>::deserialize(deserializer)?;
        let compactions = iterations.iter().filter(|iteration| iteration.kind.as_str() == "compaction");
        Ok(compactions.fold(Self::default(), |sum, usage| Self {
            input: sum.input.saturating_add(usage.input_tokens.0),
            output: sum.output.saturating_add(usage.output_tokens.0),
            cache_read: sum.cache_read.saturating_add(usage.cache_read_input_tokens.0),
            cache_write: sum.cache_write.saturating_add(usage.cache_creation_input_tokens.0),
            cache_write_1h: sum.cache_write_1h.saturating_add(hour_of(usage.cache_creation)),
        }))
    }
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<Count>,
}

/// Tokens written to the cache, by lifetime.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Lifetimes {
    #[serde(default)]
    ephemeral_1h_input_tokens: Option<Count>,
}

impl Usage {
    /// Applies a later report.
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_creation = later.cache_creation.or(self.cache_creation);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
        self.iterations = later.iterations.or(self.iterations);
    }

    fn into_usage(self) -> TokenUsage {
        let summaries = self.iterations.unwrap_or_default();
        let thinking = self.output_tokens_details.and_then(|details| details.thinking_tokens);
        let add = |reported: Option<Count>, summaries: u64| count(reported).saturating_add(summaries);
        let hour = hour_of(self.cache_creation).saturating_add(summaries.cache_write_1h);
        let usage = TokenUsage {
            reasoning_tokens: thinking.and_then(Count::if_any),
            cache_write_1h_tokens: Count(hour).if_any(),
            cache_read_tokens: add(self.cache_read_input_tokens, summaries.cache_read),
            cache_write_tokens: add(self.cache_creation_input_tokens, summaries.cache_write),
            ..TokenUsage::of_call(
                add(self.input_tokens, summaries.input),
                add(self.output_tokens, summaries.output),
            )
        };
        usage.with_cache_apart()
    }
}

fn hour_of(lifetimes: Option<Lifetimes>) -> u64 {
    count(lifetimes.and_then(|lifetimes| lifetimes.ephemeral_1h_input_tokens))
}

fn count(reported: Option<Count>) -> u64 {
    reported.unwrap_or_default().0
}

/// Builds the response.
pub(super) fn assemble(
    parts: Vec<Part>,
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

#[derive(Default)]
struct Assembly {
    reasoning: Vec<ContentBlock>,
    texts: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    /// The calls of tools that the vendor ran.
    server_calls: Vec<ServerCall>,
    signatures: Vec<Option<String>>,
    order: Vec<OrderEntry>,
    /// True if the order of blocks differs from the default: reasoning, text, calls.
    is_ordered: bool,
    rank: u8,
    data: Option<RawJson>,
    answer_id: Option<String>,
}

impl Assembly {
    fn add(&mut self, part: Part, context: DecodeContext) {
        match part {
            Part::Text { text, .. } if text.is_empty() => {}
            Part::Text { text, citations: None } => self.text(text, OrderEntry::Next("text")),
            Part::Text { text, citations: Some(citations) } => {
                self.is_ordered = true;
                self.text(text, OrderEntry::Text { kind: "text", citations });
            }
            Part::Thinking { text, signature } if text.is_empty() => {
                // Hidden thinking must be sent back with the next request.
                if let Some(block) = signature.and_then(|signature| hidden_thinking(&signature)) {
                    self.verbatim(block);
                }
            }
            Part::Thinking { text, signature } => {
                self.place(0, OrderEntry::Next("thinking"));
                self.reasoning.push(ContentBlock::reasoning(text));
                self.signatures.push(signature);
            }
            Part::ToolUse { id, name, input, .. } if context.is_answer(&name) => {
                self.text(input.get().to_owned(), OrderEntry::Next("text"));
                self.answer_id = Some(id);
                self.data = Some(input);
            }
            Part::ToolUse { id, name, input, caller } => {
                self.is_ordered |= caller.is_some();
                self.place(
                    2,
                    match caller {
                        None => OrderEntry::Next("tool_use"),
                        Some(caller) => OrderEntry::ToolUse { kind: "tool_use", caller },
                    },
                );
                self.calls.push(ToolCall {
                    tool_call_id: id,
                    tool_name: name,
                    arguments: input,
                    extra: Extra::new(),
                });
            }
            Part::Verbatim { kind, block } => {
                if kind == ServerCall::KIND {
                    self.server_calls.extend(ServerCall::read(block.get(), ""));
                }
                if code_execution::is_result(&kind) {
                    let id = code_execution::call_id(block.get());
                    let call = self.server_calls.iter().find(|call| Some(&call.id) == id.as_ref());
                    self.texts.push(code_execution::block_of(block.get(), call).into());
                }
                self.verbatim(block);
            }
        }
    }

    fn text(&mut self, text: String, entry: OrderEntry) {
        self.place(1, entry);
        self.texts.push(ContentBlock::text(text));
    }

    fn verbatim(&mut self, block: RawJson) {
        self.is_ordered = true;
        self.order.push(OrderEntry::Verbatim(block));
    }

    fn place(&mut self, rank: u8, entry: OrderEntry) {
        self.is_ordered |= rank < self.rank;
        self.rank = rank;
        self.order.push(entry);
    }

    fn finish(mut self, head: Head, context: DecodeContext, sources: Sources<'_>) -> ModelResponse {
        if self.data.is_none() && context.structure != Structure::None {
            // A text may happen to be a JSON number or string. If the vendor does not enforce the schema, only an
            // object counts.
            let is_promised = matches!(context.structure, Structure::Native | Structure::Beta);
            let mut values = self.texts.iter().filter_map(ContentBlock::as_text).filter_map(data_of);
            self.data = values.find(|value| is_promised || value.is_object());
        }
        let stop_reason = match stop_reason(head.stop_reason.as_deref()) {
            // The only call was the structured output: no tool remains to be run.
            StopReason::ToolUse if self.answer_id.is_some() && self.calls.is_empty() => StopReason::EndTurn,
            other => other,
        };
        let response_metadata = ResponseMetadata {
            stop_reason: head.stop_reason,
            stop_sequence: head.stop_sequence,
            model: head.model,
            thinking_signature: self.signatures.iter().rev().find_map(Clone::clone),
            thinking_signatures: self.signatures.iter().any(Option::is_some).then_some(self.signatures),
            json_response_id: self.answer_id,
            blocks: self.is_ordered.then_some(self.order),
            container: head.container,
        };
        let mut metadata = RawObject::new();
        metadata.insert(context.provider, RawJson::from_value(&response_metadata).unwrap_or_default());
        let mut content = self.reasoning;
        content.append(&mut self.texts);
        let tool_calls = (!self.calls.is_empty()).then_some(self.calls);
        let message = Message {
            id: head.id.filter(|id| !id.is_empty()).unwrap_or_else(|| sources.ids.string()),
            timestamp: sources.clock.now(),
            metadata: Some(metadata),
            body: Body::Assistant { content, tool_calls },
            extra: Extra::new(),
        };
        ModelResponse {
            message: Arc::new(message),
            usage: head.usage.into_usage(),
            stop_reason,
            data: self.data,
        }
    }
}

fn hidden_thinking(signature: &str) -> Option<RawJson> {
    #[derive(serde::Serialize)]
    struct Block<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        thinking: &'static str,
        signature: &'a str,
    }
    RawJson::from_value(&Block { kind: "thinking", thinking: "", signature }).ok()
}

/// UPP-1.2 §19.0: the vendor's stop reasons that UPP defines too.
fn stop_reason(vendor: Option<&str>) -> StopReason {
    match vendor {
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("stop_sequence") => StopReason::StopSequence,
        Some("tool_use") => StopReason::ToolUse,
        Some("pause_turn") => StopReason::PauseTurn,
        Some("refusal") => StopReason::ContentFilter,
        _ => StopReason::EndTurn,
    }
}

//! Requests and responses of language models, independent of the vendor.

use std::sync::Arc;

use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, TokenUsage, ToolDefinition};

/// The system prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum System {
    /// One text.
    Text(String),
    /// Blocks as a JSON array. Each has a `text` and vendor-specific members such as `cache_control`.
    ///
    /// Spec: UPP-1.3
    Blocks(RawJson),
}

impl System {
    /// The prompt with a text after it.
    #[must_use]
    pub fn with_text(&self, added: &str) -> Self {
        match self {
            Self::Text(text) => Self::Text(format!("{text}\n\n{added}")),
            Self::Blocks(blocks) => {
                let mut list: Vec<RawJson> = blocks.to().unwrap_or_default();
                let block: RawObject = [("type", "text"), ("text", added)]
                    .map(|(name, text)| (name, RawJson::from_str_value(text)))
                    .into_iter()
                    .collect();
                list.extend(RawJson::from_value(&block));
                RawJson::from_value(&list).map_or_else(|_| self.clone(), Self::Blocks)
            }
        }
    }
}

/// One call of a model. Cheap to clone: large members are shared.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The conversation, oldest message first.
    pub messages: History,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The vendor's own parameters, passed through unchanged.
    pub params: Arc<RawObject>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// The JSON Schema of the structured output, if requested.
    pub structure: Option<Arc<RawJson>>,
    /// True if the vendor is to enforce `structure`, false if not; `None` is the default of the dialect. Set by
    /// [`structured_output::settle`](crate::structured_output::settle).
    pub strict: Option<bool>,
}

/// Why a model stopped.
///
/// Spec: UPP-1.2 §19.0
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StopReason {
    /// The response is complete.
    #[default]
    EndTurn,
    /// The token limit was reached.
    MaxTokens,
    /// A stop sequence was generated.
    StopSequence,
    /// The model calls tools.
    ToolUse,
    /// The model paused; it continues when it is called again.
    PauseTurn,
    /// The model or a content filter refused.
    ContentFilter,
    /// The model failed.
    Error,
}

impl StopReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::EndTurn,
        Self::MaxTokens,
        Self::StopSequence,
        Self::ToolUse,
        Self::PauseTurn,
        Self::ContentFilter,
        Self::Error,
    ];

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::ToolUse => "tool_use",
            Self::PauseTurn => "pause_turn",
            Self::ContentFilter => "content_filter",
            Self::Error => "error",
        }
    }
}

/// The response of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// The assistant's message. Its metadata holds the vendor's values under the provider's name.
    pub message: Arc<Message>,
    /// The tokens of this call.
    pub usage: TokenUsage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The structured output, if it was requested and received.
    pub data: Option<RawJson>,
}

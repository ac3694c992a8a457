//! What a model is asked, and what it answers, in words that no vendor owns.

use std::sync::Arc;

use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, TokenUsage, ToolDefinition};

/// The system prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum System {
    /// One text.
    Text(String),
    /// Blocks, a JSON array; each has a `text`, and what else the vendor knows (as `cache_control`). UPP-1.3.
    Blocks(RawJson),
}

/// One call of a model. Cheap to clone: everything large is shared.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The conversation, oldest first.
    pub messages: History,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The vendor's own parameters, passed on as they are.
    pub params: Arc<RawObject>,
    /// The tools it may call.
    pub tools: Arc<[ToolDefinition]>,
    /// JSON Schema of the structured answer, when one is wanted.
    pub structure: Option<Arc<RawJson>>,
}

/// Why a model stopped, in the words of UPP-1.2 §19.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StopReason {
    /// It was done.
    #[default]
    EndTurn,
    /// It ran out of tokens.
    MaxTokens,
    /// It met a stop sequence.
    StopSequence,
    /// It wants tools called.
    ToolUse,
    /// It will go on when asked again.
    PauseTurn,
    /// It, or its guard, refused.
    ContentFilter,
    /// It failed.
    Error,
}

impl StopReason {
    /// Its name.
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

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// The assistant's message; its metadata hold the vendor's facts under the provider's name.
    pub message: Arc<Message>,
    /// Tokens of this call.
    pub usage: TokenUsage,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// The structured answer, when one was asked for and came.
    pub data: Option<RawJson>,
}

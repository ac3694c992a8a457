//! Answers as every dialect ends them.

use std::sync::Arc;

use crate::dialect::Sources;
use crate::request::{ModelResponse, StopReason};
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::limits::Limits;
use turntree_core::message::{Body, ContentBlock, Message, TokenUsage, ToolCall};

/// What an answer came to, streamed or not.
#[derive(Debug, Default)]
pub struct ResponseParts {
    /// The vendor's id of the message; empty where it gives none.
    pub id: String,
    /// The blocks, reasoning first.
    pub content: Vec<ContentBlock>,
    /// The calls, in their order.
    pub tool_calls: Vec<ToolCall>,
    /// What the vendor says of itself, for its namespace.
    pub facts: RawObject,
    /// Tokens of this call.
    pub usage: TokenUsage,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// The structured answer.
    pub data: Option<RawJson>,
}

impl ResponseParts {
    /// As a response; id and time come from the sources where the vendor gives none.
    pub fn into_response(self, provider: &str, sources: Sources<'_>) -> ModelResponse {
        let namespace = RawJson::from_value(&self.facts).ok().filter(|_| !self.facts.is_empty());
        let tool_calls = (!self.tool_calls.is_empty()).then_some(self.tool_calls);
        let message = Message {
            id: if self.id.is_empty() { sources.ids.string() } else { self.id },
            timestamp: sources.clock.now(),
            metadata: namespace.map(|facts| [(provider, facts)].into_iter().collect()),
            body: Body::Assistant { content: self.content, tool_calls },
            extra: Extra::new(),
        };
        ModelResponse {
            message: Arc::new(message),
            usage: self.usage,
            stop_reason: self.stop_reason,
            data: self.data,
        }
    }
}

/// The structured answer, if the text is one and within [`Limits::PAYLOAD`].
pub fn data_of(text: &str) -> Option<RawJson> {
    Limits::PAYLOAD.check(text).ok()?;
    RawJson::from_text(text.trim().to_owned()).ok()
}

/// An id for a call that came without one; unique in whatever conversation it ends up.
pub fn new_call_id(ids: &dyn IdSource) -> String {
    format!("call_{}", ids.string())
}

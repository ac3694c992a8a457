//! Builds the response from the parts that a dialect has decoded.

use std::sync::Arc;

use crate::dialect::Sources;
use crate::request::{ModelResponse, StopReason};
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::{Body, ContentBlock, Message, TokenUsage, ToolCall};

/// The parts of a response, streamed or not.
#[derive(Debug, Default)]
pub struct ResponseParts {
    /// The vendor's id of the message; empty if there is none.
    pub id: String,
    /// The blocks, reasoning first.
    pub content: Vec<ContentBlock>,
    /// The tool calls in order.
    pub tool_calls: Vec<ToolCall>,
    /// The provider metadata, for the provider's namespace.
    pub metadata: RawObject,
    /// The tokens of this call.
    pub usage: TokenUsage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The structured output.
    pub data: Option<RawJson>,
}

impl ResponseParts {
    /// Builds the response. The sources provide id and timestamp if the vendor sends none.
    pub fn into_response(self, provider: &str, sources: Sources<'_>) -> ModelResponse {
        let namespace = RawJson::from_value(&self.metadata).ok().filter(|_| !self.metadata.is_empty());
        let tool_calls = (!self.tool_calls.is_empty()).then_some(self.tool_calls);
        let message = Message {
            id: if self.id.is_empty() { sources.ids.string() } else { self.id },
            timestamp: sources.clock.now(),
            metadata: namespace
                .map(|provider_metadata| [(provider, provider_metadata)].into_iter().collect()),
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

/// The structured output in a text, if the text is JSON within [`Limits::PAYLOAD`](turntree_core::limits::Limits::PAYLOAD).
pub fn data_of(text: &str) -> Option<RawJson> {
    RawJson::from_embedded(text)
}

/// Creates the id of a call that has none. It is unique in any conversation.
pub fn new_call_id(ids: &dyn IdSource) -> String {
    format!("call_{}", ids.string())
}

//! `OpenRouter`: Chat Completions, or Responses.
//!
//! Spec: UPP-1.2 §19.6

use crate::dialects::chat::{ChatDialect, ChatOptions, Documents, Member};
use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions, openai_limits};
use crate::dialects::responses::{self, Media, ResponsesDialect, ResponsesOptions};
use crate::provider::Capabilities;

const PROVIDER: &str = "openrouter";
const BASE_URL: &str = "https://openrouter.ai/api/v1";
const KEY_VARIABLES: &[&str] = &["OPENROUTER_API_KEY"];

/// `openrouter(model)`: `https://openrouter.ai/api/v1/chat/completions`, key in `OPENROUTER_API_KEY`.
///
/// Supports all media, sends `reasoning_details` back, marks texts, tools and the system prompt for caches, and
/// returns images that models generate.
pub fn openrouter() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        capabilities: Capabilities::ALL,
        documents: Documents::Any,
        reasoning_details: true,
        metadata_members: &[Member::Provider, Member::NativeFinishReason, Member::Annotations],
        cache_control: true,
        native_tools: true,
        images_in_answers: true,
        reports_cost: true,
        ..ChatOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

/// `openrouter(model, api="responses")`: `https://openrouter.ai/api/v1/responses`.
pub fn openrouter_responses() -> ResponsesDialect {
    ResponsesDialect::new(ResponsesOptions {
        capabilities: Capabilities::ALL,
        documents: responses::Documents::Any,
        media: Media::Parts,
        image_detail: Some("auto"),
        native_tools: false,
        items_need_ids: true,
        stream_options: true,
        reports_cost: true,
        ..ResponsesOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

/// Embeddings: `/embeddings` under the same prefix.
///
/// Spec: UPP-1.2 §15
pub const fn openrouter_embedding() -> EmbeddingsDialect {
    EmbeddingsDialect::new(EmbeddingsOptions {
        provider: std::borrow::Cow::Borrowed(PROVIDER),
        limits: openai_limits,
        input_type: true,
    })
}

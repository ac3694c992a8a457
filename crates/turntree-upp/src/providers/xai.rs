//! xAI: Chat Completions, Responses, or Messages.
//!
//! Spec: UPP-1.2 §19.7

use crate::config::ProviderConfig;
use crate::dialects::chat::{ChatDialect, ChatOptions, Member};
use crate::dialects::images::{ImagesDialect, ImagesOptions};
use crate::dialects::messages::{MessagesDialect, MessagesOptions};
use crate::dialects::responses::{Documents, ResponsesDialect, ResponsesOptions};
use crate::image::ImageCapabilities;
use crate::provider::Capabilities;

const PROVIDER: &str = "xai";
const BASE_URL: &str = "https://api.x.ai/v1";
const KEY_VARIABLES: &[&str] = &["XAI_API_KEY"];
const CAPABILITIES: Capabilities = Capabilities { image_input: true, ..Capabilities::TEXT };

/// `xai(model)`: `https://api.x.ai/v1/chat/completions`, key in `XAI_API_KEY`. Stores the citations of a response.
pub fn xai() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        capabilities: CAPABILITIES,
        metadata_members: &[Member::Citations, Member::InlineCitations],
        reports_cost: true,
        reasoning_apart: true,
        ..ChatOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

/// `xai(model, api="responses")`: `https://api.x.ai/v1/responses`. Stores the citations of a response.
pub fn xai_responses() -> ResponsesDialect {
    ResponsesDialect::new(ResponsesOptions {
        capabilities: CAPABILITIES,
        documents: Documents::None,
        joins_texts: true,
        reasoning_needs_content: true,
        metadata_members: &["citations", "inline_citations"],
        reports_cost: true,
        ..ResponsesOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

/// `xai(model, api="messages")`: `https://api.x.ai/v1/messages`, the key as `x-api-key`.
///
/// `api_version` of the configuration sets the version of the API.
pub fn xai_messages(config: &ProviderConfig) -> MessagesDialect {
    let dialect = MessagesDialect::new(MessagesOptions {
        provider: PROVIDER,
        base_url: BASE_URL,
        key_variables: KEY_VARIABLES,
        documents: false,
        cache_control: false,
        native_tools: false,
        enforces_schemas: false,
        fills_empty_answers: true,
    });
    match &config.api_version {
        Some(version) => dialect.with_api_version(version.as_str()),
        None => dialect,
    }
}

/// Images: `/images/generations` under the same prefix.
///
/// Spec: UPP-1.2 §16
pub const fn xai_image() -> ImagesDialect {
    ImagesDialect::new(ImagesOptions {
        provider: PROVIDER,
        capabilities: |_| ImageCapabilities {
            generate: true,
            streaming: false,
            edit: false,
            max_images: Some(10),
        },
        media_type: "image/jpeg",
    })
}

//! `OpenAI`'s Chat Completions.
//!
//! Spec: UPP-1.2 §19.3

use crate::dialects::chat::{ChatDialect, ChatOptions, Documents};
use crate::endpoint::Endpoint;
use crate::provider::Capabilities;

const BASE_URL: &str = "https://api.openai.com/v1";

/// `openai(model, api="completions")`: `https://api.openai.com/v1/chat/completions`, key in `OPENAI_API_KEY`.
pub fn openai_chat() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        endpoint: Endpoint::vendor("openai", BASE_URL, &["OPENAI_API_KEY"]),
        capabilities: Capabilities { image_input: true, document_input: true, ..Capabilities::TEXT },
        documents: Documents::PdfData,
        ends_with_done: true,
        ..ChatOptions::new("openai", BASE_URL)
    })
}

//! `OpenAI`'s Chat Completions. UPP-1.2 §19.3.

use crate::dialects::chat::{ChatDialect, ChatOptions, Documents};
use crate::provider::Capabilities;

/// `openai(model, api="completions")`: `https://api.openai.com/v1/chat/completions`, key in `OPENAI_API_KEY`.
pub fn openai_chat() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        key_variables: &["OPENAI_API_KEY"],
        key_is_optional: false,
        capabilities: Capabilities { image_input: true, document_input: true, ..Capabilities::TEXT },
        documents: Documents::PdfData,
        ends_with_done: true,
        ..ChatOptions::new("openai", "https://api.openai.com/v1")
    })
}

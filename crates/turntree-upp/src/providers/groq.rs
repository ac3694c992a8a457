//! Groq.
//!
//! Spec: UPP-1.2 §19.8

use crate::dialects::chat::{ChatDialect, ChatOptions, Member};
use crate::provider::Capabilities;

/// `groq(model)`: `https://api.groq.com/openai/v1/chat/completions`, key in `GROQ_API_KEY`.
///
/// Provider tools are requested in `params.tools`; their results are in the metadata as `executed_tools`.
pub fn groq() -> ChatDialect {
    let base_url = "https://api.groq.com/openai/v1";
    ChatDialect::new(ChatOptions {
        capabilities: Capabilities { image_input: true, ..Capabilities::TEXT },
        metadata_members: &[Member::ExecutedTools],
        native_tools: true,
        ..ChatOptions::vendor("groq", base_url, &["GROQ_API_KEY"])
    })
}

//! Moonshot (Kimi).
//!
//! Spec: UPP-1.2 §19.8

use crate::dialects::chat::{ChatDialect, ChatOptions, Replay};
use crate::provider::Capabilities;

/// `moonshot(model)`: `https://api.moonshot.ai/v1/chat/completions`, key in `MOONSHOT_API_KEY` or `KIMI_API_KEY`.
///
/// Thinking models require their `reasoning_content` back: it is taken from the metadata, or from the reasoning
/// blocks.
pub fn moonshot() -> ChatDialect {
    let key_variables = &["MOONSHOT_API_KEY", "KIMI_API_KEY"];
    ChatDialect::new(ChatOptions {
        capabilities: Capabilities { image_input: true, video_input: true, ..Capabilities::TEXT },
        reasoning: Replay::Member("reasoning_content"),
        reasoning_metadata_member: Some("reasoning_content"),
        native_tools: true,
        ..ChatOptions::vendor("moonshot", "https://api.moonshot.ai/v1", key_variables)
    })
}

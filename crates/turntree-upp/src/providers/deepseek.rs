//! `DeepSeek`: Chat Completions, or Responses.

use crate::dialects::chat::{ChatDialect, ChatOptions, Replay, StructureForm};
use crate::dialects::responses::{Documents, ResponsesDialect, ResponsesOptions};
use crate::provider::Capabilities;

const PROVIDER: &str = "deepseek";
const BASE_URL: &str = "https://api.deepseek.com";
const KEY_VARIABLES: &[&str] = &["DEEPSEEK_API_KEY"];

/// `deepseek(model)`: `https://api.deepseek.com/chat/completions`, key in `DEEPSEEK_API_KEY`. Text only.
///
/// In thinking mode the API refuses assistant messages with tool calls that lack `reasoning_content`, even an empty
/// one. It does not enforce schemas, so the schema is part of the system prompt.
pub fn deepseek() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        reasoning: Replay::RequiredWithCalls("reasoning_content"),
        structure: StructureForm::JsonObject,
        ..ChatOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

/// `deepseek(model, api="responses")`: `https://api.deepseek.com/responses`.
pub fn deepseek_responses() -> ResponsesDialect {
    ResponsesDialect::new(ResponsesOptions {
        capabilities: Capabilities::TEXT,
        documents: Documents::None,
        ..ResponsesOptions::vendor(PROVIDER, BASE_URL, KEY_VARIABLES)
    })
}

//! Any host that speaks Chat Completions: vLLM, llama.cpp, LM Studio, gateways.

use crate::upp::dialects::chat::{ChatDialect, ChatOptions};

/// The name of the provider, and of its metadata's namespace.
pub const PROVIDER: &str = "openai_compatible";

/// A host at a prefix as `http://localhost:8000/v1`. A key is sent when the configuration has one; the environment is
/// not asked, so that no vendor's key reaches another's host.
pub fn openai_compatible(base_url: impl Into<String>) -> ChatDialect {
    ChatDialect::new(ChatOptions::new(PROVIDER, base_url.into()))
}

//! Any host that speaks Chat Completions: vLLM, llama.cpp, LM Studio, gateways.

use crate::dialects::chat::{ChatDialect, ChatOptions};
use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions};
use crate::embedding::EmbeddingLimits;

/// The name of the provider, and of its metadata's namespace.
pub const PROVIDER: &str = "openai_compatible";

/// A host at a prefix as `http://localhost:8000/v1`. A key is sent when the configuration has one; the environment is
/// not asked, so that no vendor's key reaches another's host.
pub fn openai_compatible(base_url: impl Into<String>) -> ChatDialect {
    ChatDialect::new(ChatOptions::new(PROVIDER, base_url.into()))
}

/// The embeddings of such a host, and of those that serve embeddings alone, as Voyage does. Nothing is known of their
/// limits; an input type is sent as `input_type` when the caller gives one.
pub const fn openai_compatible_embedding() -> EmbeddingsDialect {
    EmbeddingsDialect::new(EmbeddingsOptions {
        provider: std::borrow::Cow::Borrowed(PROVIDER),
        limits: |_| EmbeddingLimits {
            batch_size: None,
            input_length: None,
            dimensions: None,
            image_input: false,
        },
        input_type: true,
    })
}

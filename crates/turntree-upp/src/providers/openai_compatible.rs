//! Any host with the Chat Completions API: vLLM, llama.cpp, LM Studio, gateways.

use crate::dialects::chat::{ChatDialect, ChatOptions};
use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions};
use crate::embedding::EmbeddingLimits;

/// The provider's name; also the namespace of its metadata.
pub const PROVIDER: &str = "openai_compatible";

/// A host at a prefix such as `http://localhost:8000/v1`. A key is sent only if the configuration has one. The
/// environment is not read, so that a vendor's key is not sent to another host.
pub fn openai_compatible(base_url: impl Into<String>) -> ChatDialect {
    ChatDialect::new(ChatOptions::new(PROVIDER, base_url.into()))
}

/// Embeddings of such a host, or of a vendor with embeddings only, such as Voyage. The limits are unknown; an input
/// type is sent as `input_type`.
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

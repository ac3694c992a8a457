//! Mistral.

use crate::dialects::chat::{CallIds, ChatDialect, ChatOptions, Documents, Replay};
use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions};
use crate::embedding::EmbeddingLimits;
use crate::provider::Capabilities;

/// `mistral(model)`: `https://api.mistral.ai/v1/chat/completions`, key in `MISTRAL_API_KEY`.
///
/// Differences from Chat Completions: reasoning is part of the content, in both directions; documents are links; call
/// ids have nine letters or digits, so ids of other vendors are replaced; a message "OK" of the assistant is inserted
/// between tool results and a user message; streams report their usage without `stream_options`.
pub fn mistral() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        capabilities: Capabilities {
            image_input: true,
            document_input: true,
            audio_input: true,
            ..Capabilities::TEXT
        },
        documents: Documents::Links,
        reasoning: Replay::Parts,
        call_ids: CallIds::NineCharacters,
        after_results: Some("OK"),
        stream_options: false,
        ..ChatOptions::vendor("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"])
    })
}

/// Embeddings: `/embeddings` under the same prefix. The tokens of a request are limited, not its inputs.
pub const fn mistral_embedding() -> EmbeddingsDialect {
    EmbeddingsDialect::new(EmbeddingsOptions {
        provider: std::borrow::Cow::Borrowed("mistral"),
        limits: |_| EmbeddingLimits {
            batch_size: None,
            input_length: Some(8192),
            dimensions: None,
            image_input: false,
        },
        input_type: false,
    })
}

//! Mistral.

use crate::dialects::chat::{CallIds, ChatDialect, ChatOptions, Documents, Replay};
use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions};
use crate::embedding::EmbeddingLimits;
use crate::provider::Capabilities;

/// `mistral(model)`: `https://api.mistral.ai/v1/chat/completions`, key in `MISTRAL_API_KEY`.
///
/// Its dialect of the wire: thinking stands among the parts of the content, in both directions; documents are links;
/// ids of calls have nine letters or digits, and those of other vendors are sent under such a name; a user who speaks
/// right after tool results is answered with "OK" first; streams tell their usage unasked.
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

/// Its embeddings: `/embeddings` under the same prefix. It bounds the tokens of a call, not its inputs.
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

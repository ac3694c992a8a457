//! One file a vendor: its dialect, or the data in which it differs from one that several share.

pub mod anthropic;
pub mod cerebras;
pub mod deepseek;
pub mod google;
pub mod groq;
pub mod mistral;
pub mod moonshot;
pub mod ollama;
pub mod openai;
pub mod openai_chat;
pub mod openai_compatible;
pub mod openrouter;
pub mod responses;
pub mod scripted;
pub mod xai;

use std::sync::Arc;

use super::embedding::EmbeddingDialect;
use super::image::ImageDialect;

/// The embeddings of a provider, by its name; `None` where it has none.
pub fn embedding_wire(provider: &str) -> Option<Arc<dyn EmbeddingDialect>> {
    Some(match provider {
        "openai" => Arc::new(openai::openai_embedding()),
        "google" => Arc::new(google::google_embedding()),
        "ollama" => Arc::new(ollama::embedding::ollama_embedding()),
        "openrouter" => Arc::new(openrouter::openrouter_embedding()),
        "mistral" => Arc::new(mistral::mistral_embedding()),
        openai_compatible::PROVIDER => Arc::new(openai_compatible::openai_compatible_embedding()),
        _ => return None,
    })
}

/// The pictures of a provider, by its name; `None` where it makes none.
pub fn image_wire(provider: &str) -> Option<Arc<dyn ImageDialect>> {
    Some(match provider {
        "openai" => Arc::new(openai::openai_image()),
        "google" => Arc::new(google::google_image()),
        "xai" => Arc::new(xai::xai_image()),
        _ => return None,
    })
}

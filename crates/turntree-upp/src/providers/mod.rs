//! One file for each vendor: its dialect, or the options of a shared dialect.

pub mod anthropic;
pub mod bedrock;
pub mod cerebras;
pub mod custom;
pub mod deepseek;
pub mod factory;
pub mod google;
pub mod groq;
pub mod hosts;
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

/// The embedding dialect of a provider; `None` if it has no embeddings.
pub fn embedding_dialect(provider: &str) -> Option<Arc<dyn EmbeddingDialect>> {
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

/// The image dialect of a provider; `None` if it has no images.
pub fn image_dialect(provider: &str) -> Option<Arc<dyn ImageDialect>> {
    Some(match provider {
        "openai" => Arc::new(openai::openai_image()),
        "google" => Arc::new(google::google_image()),
        "xai" => Arc::new(xai::xai_image()),
        _ => return None,
    })
}

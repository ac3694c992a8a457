//! `OpenAI`'s Responses API, embeddings and images. Chat Completions are in [`super::openai_chat`].
//!
//! Spec: UPP-1.2 §19.2

use crate::dialects::embeddings::{EmbeddingsDialect, EmbeddingsOptions, openai_limits};
use crate::dialects::images::{ImagesDialect, ImagesOptions};
use crate::dialects::responses::{ResponsesDialect, ResponsesOptions};
use crate::image::ImageCapabilities;

/// `openai(model)`: `https://api.openai.com/v1/responses`, key in `OPENAI_API_KEY`.
pub const fn openai() -> ResponsesDialect {
    ResponsesDialect::new(ResponsesOptions::OPENAI)
}

/// Embeddings: `/embeddings` under the same prefix.
///
/// Spec: UPP-1.2 §15
pub const fn openai_embedding() -> EmbeddingsDialect {
    EmbeddingsDialect::new(EmbeddingsOptions {
        provider: std::borrow::Cow::Borrowed("openai"),
        limits: openai_limits,
        input_type: false,
    })
}

/// Images: `/images/generations` and `/images/edits` under the same prefix.
///
/// Spec: UPP-1.2 §16
pub const fn openai_image() -> ImagesDialect {
    ImagesDialect::new(ImagesOptions { provider: "openai", capabilities: images_of, media_type: "image/png" })
}

fn images_of(model_id: &str) -> ImageCapabilities {
    let is_dall_e_3 = model_id.starts_with("dall-e-3");
    ImageCapabilities {
        generate: true,
        streaming: model_id.starts_with("gpt-image"),
        edit: !is_dall_e_3,
        max_images: Some(if model_id.starts_with("gpt-image") || model_id == "dall-e-2" { 10 } else { 1 }),
    }
}

//! Google's Gemini API.
//!
//! Spec: UPP-1.2 §19.4

use crate::config::ProviderConfig;
use crate::dialects::gemini::embedding::GeminiEmbeddings;
use crate::dialects::gemini::imagen::Imagen;
use crate::dialects::gemini::{GeminiDialect, GeminiOptions};

/// `google(model)`: `https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent`, key in
/// `GOOGLE_API_KEY`, or else in `GEMINI_API_KEY`.
///
/// `api_version` of the configuration replaces the version. With the base URL
/// `https://aiplatform.googleapis.com/v1/publishers/google` the same dialect works for Vertex AI with express keys.
///
/// ```
/// use turntree_upp::ProviderConfig;
/// use turntree_upp::dialect::Dialect as _;
/// use turntree_upp::providers::google::google;
///
/// let dialect = google(&ProviderConfig::default());
/// assert_eq!(dialect.path("gemini-2.5-flash", true), "/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
/// ```
pub fn google(config: &ProviderConfig) -> GeminiDialect {
    let dialect = GeminiDialect::new(GeminiOptions::GOOGLE);
    match &config.api_version {
        Some(version) => dialect.with_api_version(version),
        None => dialect,
    }
}

/// `vertex(model)`: the same format at Vertex AI, with a bearer token. The URL has the project and the location.
pub fn vertex(base_url: String) -> GeminiDialect {
    GeminiDialect::new(GeminiOptions::VERTEX).with_token_at(base_url)
}

/// Embeddings: `/models/{model}:batchEmbedContents`.
///
/// Spec: UPP-1.2 §15
pub const fn google_embedding() -> GeminiEmbeddings {
    GeminiEmbeddings { provider: GeminiOptions::GOOGLE.provider }
}

/// Imagen: `/models/{model}:predict`.
///
/// Spec: UPP-1.2 §16
pub const fn google_image() -> Imagen {
    Imagen { provider: GeminiOptions::GOOGLE.provider }
}

//! Embeddings: `/api/embed`.
//!
//! Spec: UPP-1.2 §15

use std::sync::Arc;

use super::PROVIDER;
use crate::dialects::common::BodyWriter;
use crate::dialects::embeddings::{Texts, metadata_members, namespaced, no_vectors};
use crate::embedding::dialect::read_vectors;
use crate::embedding::{
    Embedding, EmbeddingDialect, EmbeddingLimits, EmbeddingRequest, EmbeddingResult, EmbeddingUsage, Vector,
};
use crate::error::UppError;
use turntree_core::json::{Extra, RawJson, json_object};

/// Ollama's embedding dialect.
#[derive(Debug, Clone, Copy)]
pub struct OllamaEmbeddings;

/// Ollama's embedding dialect, for [`HttpEmbeddingModel`](crate::embedding::HttpEmbeddingModel).
pub const fn ollama_embedding() -> OllamaEmbeddings {
    OllamaEmbeddings
}

impl EmbeddingDialect for OllamaEmbeddings {
    fn limits(&self, _model_id: &str) -> EmbeddingLimits {
        EmbeddingLimits {
            batch_size: Some(512),
            input_length: Some(8192),
            dimensions: Some(768),
            image_input: false,
        }
    }

    fn path(&self, _model_id: &str) -> String {
        "/api/embed".to_owned()
    }

    fn encode(&self, model_id: &str, request: &EmbeddingRequest) -> Result<Vec<u8>, UppError> {
        let mut body = BodyWriter::new(PROVIDER, &request.params);
        body.member("model", model_id)?;
        body.member("input", &Texts(&request.inputs))?;
        Ok(body.finish())
    }

    fn decode(&self, body: &str) -> Result<EmbeddingResult, UppError> {
        let answer: ResponseBody = read_vectors(PROVIDER, body)?;
        let Some(vectors) = answer.embeddings else { return Err(no_vectors(PROVIDER, &answer.extra)) };
        let embeddings = vectors.into_iter().enumerate();
        let durations = [("totalDuration", answer.total_duration), ("loadDuration", answer.load_duration)];
        let durations = durations.into_iter().filter_map(|(name, duration)| Some((name, duration?)));
        Ok(EmbeddingResult {
            embeddings: embeddings.map(|(place, vector)| Arc::new(Embedding::new(vector, place))).collect(),
            usage: EmbeddingUsage {
                total_tokens: answer.prompt_eval_count.unwrap_or_default(),
                extra: Extra::new(),
            },
            metadata: namespaced(PROVIDER, metadata_members(&answer.extra, &[]).chain(durations)),
            extra: Extra::new(),
        })
    }
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The vectors.
        pub embeddings: Option<Vec<Vector>> = "embeddings",
        /// Input tokens.
        pub prompt_eval_count: Option<u64> = "prompt_eval_count",
        /// In nanoseconds.
        pub total_duration: Option<RawJson> = "total_duration",
        /// In nanoseconds.
        pub load_duration: Option<RawJson> = "load_duration",
    }
}

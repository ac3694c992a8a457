//! Embeddings with `batchEmbedContents`: one request for each text, in one body.
//!
//! Spec: UPP-1.2 §15

use std::sync::Arc;

use serde::Serialize;

use crate::dialects::common::BodyWriter;
use crate::dialects::embeddings::{metadata_members, namespaced, no_vectors};
use crate::embedding::dialect::read_vectors;
use crate::embedding::{
    Embedding, EmbeddingDialect, EmbeddingInputType, EmbeddingLimits, EmbeddingRequest, EmbeddingResult,
    EmbeddingUsage, Vector,
};
use crate::error::UppError;
use turntree_core::json::{Extra, RawJson, RawObject, json_object};

/// The embedding dialect.
#[derive(Debug, Clone, Copy)]
pub struct GeminiEmbeddings {
    /// The provider's name.
    pub provider: &'static str,
}

/// The resource name of a model. Names with a collection, such as tuned models, are used as they are.
pub(super) fn resource(model_id: &str) -> String {
    if model_id.contains('/') { model_id.to_owned() } else { format!("models/{model_id}") }
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
}

impl EmbeddingDialect for GeminiEmbeddings {
    fn limits(&self, _model_id: &str) -> EmbeddingLimits {
        EmbeddingLimits {
            batch_size: Some(100),
            input_length: Some(2048),
            dimensions: Some(3072),
            image_input: false,
        }
    }

    fn path(&self, model_id: &str) -> String {
        format!("/{}:batchEmbedContents", resource(model_id))
    }

    fn encode(&self, model_id: &str, request: &EmbeddingRequest) -> Result<Vec<u8>, UppError> {
        let resource = resource(model_id);
        let task = request.input_type.map(|input_type| match input_type {
            EmbeddingInputType::Document => "RETRIEVAL_DOCUMENT",
            EmbeddingInputType::Query => "RETRIEVAL_QUERY",
        });
        let mut bytes = br#"{"requests":["#.to_vec();
        for (place, input) in request.inputs.iter().enumerate() {
            let text = input.as_text().ok_or_else(|| {
                UppError::invalid_request(self.provider, format!("inputs[{place}]: only texts are supported"))
            })?;
            let mut one = BodyWriter::new(self.provider, &request.params);
            one.member("model", &resource)?;
            one.member("content", &Content { parts: [Part { text }] })?;
            if let Some(task) = task {
                one.member("taskType", task)?;
            }
            if place > 0 {
                bytes.push(b',');
            }
            bytes.extend(one.finish());
        }
        bytes.extend(b"]}");
        Ok(bytes)
    }

    fn decode(&self, body: &str) -> Result<EmbeddingResult, UppError> {
        let answer: ResponseBody = read_vectors(self.provider, body)?;
        let Some(found) = answer.embeddings else { return Err(no_vectors(self.provider, &answer.extra)) };
        let embeddings: Vec<Arc<Embedding>> = found
            .into_iter()
            .enumerate()
            .map(|(place, item)| Arc::new(embedding(self.provider, place, item)))
            .collect();
        let usage = answer.usage_metadata.unwrap_or_default();
        let count = |name: &str| usage.get(name).and_then(|count| count.to::<u64>().ok());
        let counted = embeddings.iter().filter_map(|embedding| embedding.tokens).sum();
        let reported = count("totalTokenCount").or_else(|| count("promptTokenCount"));
        Ok(EmbeddingResult {
            embeddings,
            usage: EmbeddingUsage { total_tokens: reported.unwrap_or(counted), extra: Extra::new() },
            metadata: namespaced(self.provider, metadata_members(&answer.extra, &[])),
            extra: Extra::new(),
        })
    }
}

fn embedding(provider: &str, place: usize, item: Item) -> Embedding {
    let statistics = item.statistics.unwrap_or_default();
    let count = |name: &str| statistics.get(name).and_then(number);
    let tokens = count("tokenCount").or_else(|| count("token_count"));
    let counted = ["tokenCount", "token_count"];
    let others = statistics.iter().filter(|(name, _)| !counted.contains(name));
    let message =
        metadata_members(&item.extra, &["shape"]).chain(others.map(|(name, value)| (name, value.clone())));
    Embedding { tokens, metadata: namespaced(provider, message), ..Embedding::new(item.values, place) }
}

/// Protocol buffers write counts as fractions or strings.
fn number(count: &RawJson) -> Option<u64> {
    count.to::<crate::dialects::common::Count>().ok().map(|count| count.0)
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The embeddings.
        pub embeddings: Option<Vec<Item>> = "embeddings",
        /// The token usage.
        pub usage_metadata: Option<RawObject> = "usageMetadata",
    }
}

json_object! {
    #[derive(Debug)]
    struct Item {
        /// The numbers.
        pub values: Vector = "values",
        /// Statistics of the input.
        pub statistics: Option<RawObject> = "statistics",
    }
}

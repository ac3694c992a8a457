//! OpenAI's embeddings format, `POST …/embeddings`, which other vendors support too.
//!
//! Spec: UPP-1.2 §15

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeSeq as _, Serializer};

use super::common::{BodyWriter, VendorError};
use crate::embedding::dialect::read_vectors;
use crate::embedding::{
    Embedding, EmbeddingDialect, EmbeddingInput, EmbeddingLimits, EmbeddingRequest, EmbeddingResult,
    EmbeddingUsage, Vector,
};
use crate::error::UppError;
use turntree_core::json::{Extra, RawJson, RawObject, json_object};

/// The differences between hosts of this format.
#[derive(Debug, Clone)]
pub struct EmbeddingsOptions {
    /// The provider's name: in errors, and as the namespace of metadata.
    pub provider: Cow<'static, str>,
    /// The limits of a model.
    pub limits: fn(model_id: &str) -> EmbeddingLimits,
    /// True if `input_type` is supported.
    pub input_type: bool,
}

/// The embeddings dialect of one host.
#[derive(Debug, Clone)]
pub struct EmbeddingsDialect(EmbeddingsOptions);

impl EmbeddingsDialect {
    /// Creates the dialect of a host.
    pub const fn new(options: EmbeddingsOptions) -> Self {
        Self(options)
    }
}

/// The limits of `OpenAI`'s models, on any host.
pub fn openai_limits(model_id: &str) -> EmbeddingLimits {
    EmbeddingLimits {
        batch_size: Some(2048),
        input_length: Some(8191),
        dimensions: Some(if model_id.contains("3-large") { 3072 } else { 1536 }),
        image_input: false,
    }
}

impl EmbeddingDialect for EmbeddingsDialect {
    fn limits(&self, model_id: &str) -> EmbeddingLimits {
        (self.0.limits)(model_id)
    }

    fn path(&self, _model_id: &str) -> String {
        "/embeddings".to_owned()
    }

    fn encode(&self, model_id: &str, request: &EmbeddingRequest) -> Result<Vec<u8>, UppError> {
        let mut body = BodyWriter::new(&self.0.provider, &request.params);
        body.member("model", model_id)?;
        body.member("input", &Texts(&request.inputs))?;
        if let (true, Some(input_type)) = (self.0.input_type, request.input_type) {
            body.member("input_type", input_type.as_str())?;
        }
        Ok(body.finish())
    }

    fn decode(&self, body: &str) -> Result<EmbeddingResult, UppError> {
        let provider = &*self.0.provider;
        let answer: ResponseBody = read_vectors(provider, body)?;
        let Some(data) = answer.data else { return Err(no_vectors(provider, &answer.extra)) };
        let embeddings = data.into_iter().enumerate().map(|(place, item)| {
            let place = item.index.map_or(place, |index| usize::try_from(index).unwrap_or(usize::MAX));
            let metadata = namespaced(provider, metadata_members(&item.extra, &["object"]));
            Arc::new(Embedding { metadata, ..Embedding::new(item.embedding, place) })
        });
        let embeddings = embeddings.collect();
        let usage = answer.usage.unwrap_or_default();
        let count = |name: &str| usage.get(name).and_then(|count| count.to::<u64>().ok());
        let total_tokens = count("total_tokens").or_else(|| count("prompt_tokens")).unwrap_or_default();
        let spent = usage.iter().filter(|(name, _)| !["total_tokens", "prompt_tokens"].contains(name));
        let message = metadata_members(&answer.extra, &["object"])
            .chain(spent.map(|(name, value)| (name, value.clone())));
        Ok(EmbeddingResult {
            embeddings,
            usage: EmbeddingUsage { total_tokens, extra: Extra::new() },
            metadata: namespaced(provider, message),
            extra: Extra::new(),
        })
    }
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The embeddings.
        pub data: Option<Vec<Item>> = "data",
        /// The token usage.
        pub usage: Option<RawObject> = "usage",
    }
}

json_object! {
    #[derive(Debug)]
    struct Item {
        /// The numbers.
        pub embedding: Vector = "embedding",
        /// The position of the input.
        pub index: Option<u64> = "index",
    }
}

/// The texts of a request. Models with image input use other formats.
pub(crate) struct Texts<'a>(pub(crate) &'a [EmbeddingInput]);

impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut texts = serializer.serialize_seq(Some(self.0.len()))?;
        for input in self.0 {
            let text = input.as_text();
            texts.serialize_element(
                text.ok_or_else(|| serde::ser::Error::custom("only texts are supported"))?,
            )?;
        }
        texts.end()
    }
}

/// The error of a successful response without embeddings.
pub(crate) fn no_vectors(provider: &str, members: &Extra) -> UppError {
    match members.get("error") {
        Some(_) => VendorError::of_members(members).into_error(provider),
        None => UppError::invalid_response(provider, format!("the response of {provider} has no embeddings")),
    }
}

/// The members that are stored as metadata: all except those in `without`.
pub(crate) fn metadata_members<'a>(
    members: &'a Extra,
    without: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, RawJson)> {
    let stored = members.iter().filter(|(name, value)| !without.contains(name) && !value.is_null());
    stored.map(|(name, value)| (name, value.clone()))
}

/// The metadata under the provider's name; `None` if there is none.
pub(crate) fn namespaced<'a>(
    provider: &str,
    provider_metadata: impl IntoIterator<Item = (&'a str, RawJson)>,
) -> Option<RawObject> {
    let provider_metadata: RawObject = provider_metadata.into_iter().collect();
    let namespace = RawJson::from_value(&provider_metadata).ok().filter(|_| !provider_metadata.is_empty())?;
    Some([(provider, namespace)].into_iter().collect())
}

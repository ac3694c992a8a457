//! The embeddings wire that `OpenAI` began and others took over: `POST …/embeddings`. UPP-1.2 §15.

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

/// In what hosts of the wire differ.
#[derive(Debug, Clone)]
pub struct EmbeddingsOptions {
    /// The provider's name: in errors, and as the namespace of metadata.
    pub provider: Cow<'static, str>,
    /// What its models take and give.
    pub limits: fn(model_id: &str) -> EmbeddingLimits,
    /// Whether it knows `input_type`.
    pub input_type: bool,
}

/// The wire as one host speaks it.
#[derive(Debug, Clone)]
pub struct EmbeddingsDialect(EmbeddingsOptions);

impl EmbeddingsDialect {
    /// The wire of a host.
    pub const fn new(options: EmbeddingsOptions) -> Self {
        Self(options)
    }
}

/// `OpenAI`'s models, wherever they are served.
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
            let metadata = namespaced(provider, facts(&item.extra, &["object"]));
            Arc::new(Embedding { metadata, ..Embedding::new(item.embedding, place) })
        });
        let embeddings = embeddings.collect();
        let usage = answer.usage.unwrap_or_default();
        let count = |name: &str| usage.get(name).and_then(|count| count.to::<u64>().ok());
        let total_tokens = count("total_tokens").or_else(|| count("prompt_tokens")).unwrap_or_default();
        let spent = usage.iter().filter(|(name, _)| !["total_tokens", "prompt_tokens"].contains(name));
        let said = facts(&answer.extra, &["object"]).chain(spent.map(|(name, value)| (name, value.clone())));
        Ok(EmbeddingResult {
            embeddings,
            usage: EmbeddingUsage { total_tokens, extra: Extra::new() },
            metadata: namespaced(provider, said),
            extra: Extra::new(),
        })
    }
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The pictures or vectors.
        pub data: Option<Vec<Item>> = "data",
        /// What it cost.
        pub usage: Option<RawObject> = "usage",
    }
}

json_object! {
    #[derive(Debug)]
    struct Item {
        /// The numbers.
        pub embedding: Vector = "embedding",
        /// Whose vector.
        pub index: Option<u64> = "index",
    }
}

/// The texts of a request; models that take pictures have a wire of their own.
pub(crate) struct Texts<'a>(pub(crate) &'a [EmbeddingInput]);

impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut texts = serializer.serialize_seq(Some(self.0.len()))?;
        for input in self.0 {
            let text = input.as_text();
            texts
                .serialize_element(text.ok_or_else(|| serde::ser::Error::custom("only texts are taken"))?)?;
        }
        texts.end()
    }
}

/// A success without vectors: the vendor tells an error in it, or nothing at all.
pub(crate) fn no_vectors(provider: &str, members: &Extra) -> UppError {
    match members.get("error") {
        Some(error) => VendorError::of_json(error).into_error(provider),
        None => UppError::invalid_response(provider, format!("the answer of {provider} holds no vectors")),
    }
}

/// Members that are kept as metadata, but for some.
pub(crate) fn facts<'a>(
    members: &'a Extra,
    without: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, RawJson)> {
    let kept = members.iter().filter(|(name, value)| !without.contains(name) && !value.is_null());
    kept.map(|(name, value)| (name, value.clone()))
}

/// StoredMetadata under the provider's name; nothing where there are none.
pub(crate) fn namespaced<'a>(
    provider: &str,
    facts: impl IntoIterator<Item = (&'a str, RawJson)>,
) -> Option<RawObject> {
    let facts: RawObject = facts.into_iter().collect();
    let namespace = RawJson::from_value(&facts).ok().filter(|_| !facts.is_empty())?;
    Some([(provider, namespace)].into_iter().collect())
}

//! Embeddings: texts and images in, vectors out.
//!
//! | file | content |
//! |---|---|
//! | this file | request, result, and the trait [`EmbeddingModel`] |
//! | `vector` | the numbers of an embedding |
//! | `dialect` | vendors' formats without I/O, and the model that uses one over HTTP |
//! | `batches` | splits inputs into batches and runs the call |
//!
//! Spec: UPP-1.2 §15

pub mod batches;
pub mod dialect;
pub mod vector;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::error::UppError;
use turntree_core::json::object::Field;
use turntree_core::json::{RawObject, json_object};
use turntree_core::message::content::ImageBlock;

pub use batches::{EmbedOptions, EmbeddingStream, embed};
pub use dialect::{EmbeddingDialect, HttpEmbeddingModel};
pub use vector::Vector;

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingInput {
    /// A text.
    Text(Arc<str>),
    /// An image.
    Image(Box<ImageBlock>),
}

impl EmbeddingInput {
    /// The text, if the input is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }
}

impl From<&str> for EmbeddingInput {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for EmbeddingInput {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// The purpose of the vectors. Some models embed documents and search queries differently.
///
/// Spec: UPP-1.3
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbeddingInputType {
    /// The inputs are documents to be searched.
    Document,
    /// The inputs are search queries.
    Query,
}

impl EmbeddingInputType {
    /// All purposes.
    pub const ALL: [Self; 2] = [Self::Document, Self::Query];

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Query => "query",
        }
    }
}

/// One request to a model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// At least one input, at most [`EmbeddingLimits::batch_size`].
    pub inputs: Arc<[EmbeddingInput]>,
    /// The vendor's own parameters, passed through unchanged.
    pub params: Arc<RawObject>,
    /// The purpose of the vectors, if the caller set it.
    pub input_type: Option<EmbeddingInputType>,
}

/// The limits of a model, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbeddingLimits {
    /// Maximum inputs of one request; `None` if unknown.
    pub batch_size: Option<usize>,
    /// Maximum tokens of one input.
    pub input_length: Option<usize>,
    /// Numbers in a vector, unless a parameter sets another number.
    pub dimensions: Option<usize>,
    /// True if images are supported.
    pub image_input: bool,
}

json_object! {
    /// The vector of one input.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Embedding {
        /// The numbers.
        pub vector: Vector = "vector",
        /// How many numbers the vector has.
        pub dimensions: u64 = "dimensions",
        /// The position of the input, from 0.
        pub index: u64 = "index",
        /// Tokens of the input, if the vendor reports them.
        pub tokens: Option<u64> = "tokens",
        /// Other values from the vendor, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// The token usage of an embedding call.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct EmbeddingUsage {
        /// Tokens of all inputs; 0 if the vendor does not report them.
        pub total_tokens: u64 = "totalTokens", default,
    }
}

impl Field for EmbeddingUsage {}

json_object! {
    /// The vectors of all inputs.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct EmbeddingResult {
        /// One embedding for each input, in the order of the inputs.
        pub embeddings: Vec<Arc<Embedding>> = "embeddings",
        /// The token usage.
        pub usage: EmbeddingUsage = "usage", default,
        /// Other values from the vendor, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// Reported after each batch of a chunked call.
    #[derive(Debug, Clone, PartialEq)]
    pub struct EmbeddingProgress {
        /// The embeddings of the batch; their `index` counts over all inputs.
        pub embeddings: Vec<Arc<Embedding>> = "embeddings",
        /// Inputs completed so far.
        pub completed: u64 = "completed",
        /// All inputs.
        pub total: u64 = "total",
        /// Share of the inputs completed so far, from 0 to 100.
        pub percent: f64 = "percent",
    }
}

impl Embedding {
    /// An embedding without metadata.
    pub fn new(vector: Vector, index: usize) -> Self {
        let dimensions = vector.len() as u64;
        Self {
            vector,
            dimensions,
            index: index as u64,
            tokens: None,
            metadata: None,
            extra: turntree_core::json::Extra::new(),
        }
    }
}

/// An embedding model: provider, model id and configuration.
///
/// Applications call it with [`embed`], which checks the inputs and respects the limits.
pub trait EmbeddingModel: Send + Sync + fmt::Debug {
    /// The vendor's name of the model.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// The model's limits.
    fn limits(&self) -> EmbeddingLimits;

    /// Embeds each input. The embeddings may be in any order; `index` is the position of the input.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>>;
}

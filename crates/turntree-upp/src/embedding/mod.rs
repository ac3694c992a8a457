//! Embeddings: texts in, vectors out. UPP-1.2 §15.
//!
//! | file | what |
//! |---|---|
//! | this one | what is asked and answered, and [`EmbeddingModel`], the door for whatever makes vectors |
//! | `vector` | the numbers |
//! | `wire` | a vendor's format without I/O, and the model that speaks it over HTTP |
//! | `run` | inputs in batches: the one place where a call starts and ends |

pub mod run;
pub mod vector;
pub mod wire;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::error::UppError;
use turntree_core::json::object::Field;
use turntree_core::json::{RawObject, json_object};
use turntree_core::message::content::ImageBlock;

pub use run::{EmbedOptions, EmbeddingStream, embed};
pub use vector::Vector;
pub use wire::{EmbeddingDialect, HttpEmbeddingModel};

/// What a vector is wanted of.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingInput {
    /// A text.
    Text(Arc<str>),
    /// A picture.
    Image(Box<ImageBlock>),
}

impl EmbeddingInput {
    /// The text, if it is one.
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

/// What the vectors are for; some models make others of what is searched and of what searches. UPP-1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbeddingInputType {
    /// The inputs will be searched.
    Document,
    /// The inputs search.
    Query,
}

impl EmbeddingInputType {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Query => "query",
        }
    }
}

/// One call of a model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// At least one, at most [`EmbeddingLimits::batch_size`].
    pub inputs: Arc<[EmbeddingInput]>,
    /// The vendor's own parameters, passed on as they are.
    pub params: Arc<RawObject>,
    /// What the vectors are for, where the caller says so.
    pub input_type: Option<EmbeddingInputType>,
}

/// What a model takes and gives, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbeddingLimits {
    /// Most inputs of one call; `None` where nobody knows.
    pub batch_size: Option<usize>,
    /// Most tokens of one input.
    pub input_length: Option<usize>,
    /// Numbers of a vector, unless parameters say otherwise.
    pub dimensions: Option<usize>,
    /// Whether it takes pictures.
    pub image_input: bool,
}

json_object! {
    /// A vector of one input.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Embedding {
        /// The numbers.
        pub vector: Vector = "vector",
        /// How many numbers.
        pub dimensions: u64 = "dimensions",
        /// Which of the inputs, from 0.
        pub index: u64 = "index",
        /// Tokens of the input, where the vendor says.
        pub tokens: Option<u64> = "tokens",
        /// What else the vendor says of it, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// What embedding cost.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct EmbeddingUsage {
        /// Tokens of all inputs; 0 where the vendor does not say.
        pub total_tokens: u64 = "totalTokens", default,
    }
}

impl Field for EmbeddingUsage {}

json_object! {
    /// The vectors of all inputs.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct EmbeddingResult {
        /// One an input, in the order of the inputs.
        pub embeddings: Vec<Arc<Embedding>> = "embeddings",
        /// What they cost.
        pub usage: EmbeddingUsage = "usage", default,
        /// What else the vendor says, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// One batch of a chunked call is done.
    #[derive(Debug, Clone, PartialEq)]
    pub struct EmbeddingProgress {
        /// Its vectors; their `index` counts over all inputs.
        pub embeddings: Vec<Arc<Embedding>> = "embeddings",
        /// Inputs done so far.
        pub completed: u64 = "completed",
        /// All inputs.
        pub total: u64 = "total",
        /// Done so far, from 0 to 100.
        pub percent: f64 = "percent",
    }
}

impl Embedding {
    /// A vector at a place.
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

/// A model that makes vectors: a provider bound to a model id and a configuration.
///
/// [`embed`] is how it is called: it checks inputs and keeps to the limits.
pub trait EmbeddingModel: Send + Sync + fmt::Debug {
    /// The vendor's name for it.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// What it takes and gives.
    fn limits(&self) -> EmbeddingLimits;

    /// Makes a vector of each input, in any order; `index` tells whose it is.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>>;
}

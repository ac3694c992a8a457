//! Pictures made and changed by models. UPP-1.2 §16.
//!
//! | file | what |
//! |---|---|
//! | this one | what is asked and answered, and [`ImageModel`], the door for whatever makes pictures |
//! | `wire` | a vendor's format without I/O, and the model that speaks it over HTTP |
//! | `run` | the one place where a call starts and ends |

pub mod run;
pub mod wire;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::error::UppError;
use super::result_stream::Steps;
use turntree_core::json::object::Field;
use turntree_core::json::union::tagged_union;
use turntree_core::json::{Extra, RawObject, json_object};
use turntree_core::message::content::ImageBlock;

pub use run::{ImageStream, edit, generate, stream};
pub use wire::{HttpImageModel, ImageDecoder, ImageDialect};

/// What a model can do. Static facts of a provider and a model id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageCapabilities {
    /// Makes pictures.
    pub generate: bool,
    /// Shows previews while it makes them.
    pub streaming: bool,
    /// Changes pictures.
    pub edit: bool,
    /// Most pictures of one call, where it is known.
    pub max_images: Option<u32>,
}

/// A picture to be changed.
///
/// The mask says where: by the convention of the vendor, as `OpenAI`'s "the transparent part of the mask is drawn anew".
#[derive(Debug, Clone, PartialEq)]
pub struct EditSource {
    /// The picture; its data must be here, not at a URL.
    pub image: ImageBlock,
    /// Where to change it; everywhere without one.
    pub mask: Option<ImageBlock>,
}

/// One call of a model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// What to draw, or what to change.
    pub prompt: Arc<str>,
    /// The picture to change, when it is an edit.
    pub source: Option<Arc<EditSource>>,
    /// The vendor's own parameters, passed on as they are.
    pub params: Arc<RawObject>,
}

json_object! {
    /// A finished picture.
    #[derive(Debug, Clone, PartialEq)]
    pub struct GeneratedImage {
        /// The picture.
        pub image: ImageBlock = "image",
        /// What else the vendor says of it, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// What pictures cost, as far as the vendor says.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageUsage {
        /// How many pictures.
        pub images_generated: Option<u64> = "imagesGenerated",
        /// Tokens of prompt and pictures that were read.
        pub input_tokens: Option<u64> = "inputTokens",
        /// Tokens of the pictures that were made.
        pub output_tokens: Option<u64> = "outputTokens",
        /// Money, in the vendor's currency.
        pub cost: Option<f64> = "cost",
    }
}

json_object! {
    /// The pictures of a call.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageResult {
        /// The pictures, in the vendor's order.
        pub images: Vec<GeneratedImage> = "images",
        /// What else the vendor says, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
        /// What they cost.
        pub usage: Option<ImageUsage> = "usage",
    }
}

json_object! {
    /// A picture that is not finished.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImagePreview {
        tag "type" = "preview",
        /// As far as it is.
        pub image: ImageBlock = "image",
        /// Which preview, from 0.
        pub index: u32 = "index",
        /// What else the vendor says, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A picture that is finished.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImageComplete {
        tag "type" = "complete",
        /// The picture.
        pub image: GeneratedImage = "image",
        /// Which picture of the call, from 0.
        pub index: u32 = "index",
    }
}

tagged_union! {
    /// One step of a streamed call.
    pub enum ImageEvent by "type" {
        /// Not finished.
        Preview(ImagePreview) = "preview",
        /// Finished.
        Complete(ImageComplete) = "complete",
    }
}

impl Field for GeneratedImage {}
impl Field for ImageUsage {}

impl GeneratedImage {
    /// A picture of which nothing more is said.
    pub fn new(image: ImageBlock) -> Self {
        Self { image, metadata: None, extra: Extra::new() }
    }
}

/// The steps of a streamed call.
pub type ImageSteps = Steps<ImageEvent, ImageResult>;

/// A model that makes pictures: a provider bound to a model id and a configuration.
///
/// [`generate`], [`edit`] and [`stream`] are how it is called: they check what it can do.
pub trait ImageModel: Send + Sync + fmt::Debug {
    /// The vendor's name for it.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// What it can do.
    fn capabilities(&self) -> ImageCapabilities;

    /// Makes pictures, or changes the one of the request.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call.
    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>>;

    /// Makes pictures and shows them on the way.
    fn stream(&self, request: ImageRequest) -> ImageSteps;
}

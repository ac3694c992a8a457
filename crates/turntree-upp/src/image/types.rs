//! Requests, results and events of image models.

use std::sync::Arc;

use turntree_core::json::object::Field;
use turntree_core::json::union::tagged_union;
use turntree_core::json::{Extra, RawObject, json_object};
use turntree_core::message::content::ImageBlock;

/// What a model supports. Depends on the provider and the model id only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageCapabilities {
    /// Image generation.
    pub generate: bool,
    /// Previews while an image is generated.
    pub streaming: bool,
    /// Image editing.
    pub edit: bool,
    /// Maximum images of one request, if known.
    pub max_images: Option<u32>,
}

/// The image to edit.
///
/// What the mask means depends on the vendor: `OpenAI` replaces the part where the mask is transparent.
#[derive(Debug, Clone, PartialEq)]
pub struct EditSource {
    /// The image; as data, not as a URL.
    pub image: ImageBlock,
    /// Where to change the image; the whole image if there is no mask.
    pub mask: Option<ImageBlock>,
}

/// One request to a model. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// What to generate or change.
    pub prompt: Arc<str>,
    /// The image to edit; `None` for generation.
    pub source: Option<Arc<EditSource>>,
    /// The vendor's own parameters, passed through unchanged.
    pub params: Arc<RawObject>,
}

json_object! {
    /// A finished image.
    #[derive(Debug, Clone, PartialEq)]
    pub struct GeneratedImage {
        /// The image.
        pub image: ImageBlock = "image",
        /// Other values from the vendor, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// The usage of an image call, as far as the vendor reports it.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageUsage {
        /// How many images were generated.
        pub images_generated: Option<u64> = "imagesGenerated",
        /// Input tokens: prompt and images.
        pub input_tokens: Option<u64> = "inputTokens",
        /// Output tokens: generated images.
        pub output_tokens: Option<u64> = "outputTokens",
        /// The cost, in the vendor's currency.
        pub cost: Option<f64> = "cost",
    }
}

json_object! {
    /// The images of a call.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct ImageResult {
        /// The images, in the vendor's order.
        pub images: Vec<GeneratedImage> = "images",
        /// Other values from the vendor, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
        /// The usage.
        pub usage: Option<ImageUsage> = "usage",
    }
}

json_object! {
    /// A preview of an unfinished image.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImagePreview {
        tag "type" = "preview",
        /// The image so far.
        pub image: ImageBlock = "image",
        /// The number of the preview, from 0.
        pub index: u32 = "index",
        /// Other values from the vendor, under the provider's name.
        pub metadata: Option<RawObject> = "metadata",
    }
}

json_object! {
    /// A finished image of a stream.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ImageComplete {
        tag "type" = "complete",
        /// The image.
        pub image: GeneratedImage = "image",
        /// The number of the image in the call, from 0.
        pub index: u32 = "index",
    }
}

tagged_union! {
    /// An event of a streamed call.
    pub enum ImageEvent by "type" {
        /// A preview.
        Preview(ImagePreview) = "preview",
        /// A finished image.
        Complete(ImageComplete) = "complete",
    }
}

impl Field for GeneratedImage {}
impl Field for ImageUsage {}

impl GeneratedImage {
    /// An image without metadata.
    pub fn new(image: ImageBlock) -> Self {
        Self { image, metadata: None, extra: Extra::new() }
    }
}

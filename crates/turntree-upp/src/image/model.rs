//! The trait of all image models.

use std::fmt;

use futures_util::future::BoxFuture;

use super::{ImageCapabilities, ImageEvent, ImageRequest, ImageResult};
use crate::error::UppError;
use crate::result_stream::Steps;

/// The items of a streamed call.
pub type ImageSteps = Steps<ImageEvent, ImageResult>;

/// An image model: provider, model id and configuration.
///
/// Applications call it with [`generate`](super::generate), [`edit`](super::edit) and [`stream`](super::stream), which check what the model supports.
pub trait ImageModel: Send + Sync + fmt::Debug {
    /// The vendor's name of the model.
    fn model_id(&self) -> &str;

    /// The provider's name; also the namespace of its metadata.
    fn provider(&self) -> &str;

    /// What the model supports.
    fn capabilities(&self) -> ImageCapabilities;

    /// Generates images, or edits the image of the request.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>>;

    /// Generates images with previews.
    fn stream(&self, request: ImageRequest) -> ImageSteps;
}

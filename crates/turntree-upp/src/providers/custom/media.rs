//! Embedding and image models made of functions of the application.
//!
//! Spec: UPP-1.2 §15, §16

use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use futures_util::{StreamExt as _, TryFutureExt as _, stream};

use crate::embedding::{EmbeddingLimits, EmbeddingModel, EmbeddingRequest, EmbeddingResult};
use crate::error::{Modality, UppError};
use crate::image::{
    ImageCapabilities, ImageComplete, ImageEvent, ImageModel, ImageRequest, ImageResult, ImageSteps,
};
use crate::result_stream::Step;
use turntree_core::json::Extra;

/// Embeds the inputs of a request.
pub type EmbedFunction =
    Arc<dyn Fn(EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> + Send + Sync>;

/// Generates images, or edits the image of a request.
pub type ImageFunction =
    Arc<dyn Fn(ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>> + Send + Sync>;

/// An embedding model that calls a function of the application.
#[derive(Clone)]
pub struct CustomEmbeddingModel {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The name of the model.
    pub model_id: Arc<str>,
    /// The limits of a call of the function.
    pub limits: EmbeddingLimits,
    /// The function.
    pub embed: EmbedFunction,
}

impl fmt::Debug for CustomEmbeddingModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CustomEmbeddingModel({}:{})", self.provider, self.model_id)
    }
}

impl EmbeddingModel for CustomEmbeddingModel {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn limits(&self) -> EmbeddingLimits {
        self.limits
    }

    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> {
        (self.embed)(request)
    }
}

/// An image model that calls functions of the application.
#[derive(Clone)]
pub struct CustomImageModel {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The name of the model.
    pub model_id: Arc<str>,
    /// Generates images.
    pub generate: Option<ImageFunction>,
    /// Edits the image of the request.
    pub edit: Option<ImageFunction>,
}

impl fmt::Debug for CustomImageModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CustomImageModel({}:{})", self.provider, self.model_id)
    }
}

impl ImageModel for CustomImageModel {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn capabilities(&self) -> ImageCapabilities {
        let generate = self.generate.is_some();
        ImageCapabilities { generate, streaming: generate, edit: self.edit.is_some(), max_images: None }
    }

    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>> {
        let function = if request.source.is_some() { &self.edit } else { &self.generate };
        match function {
            Some(function) => function(request),
            None => Box::pin(ready(Err(UppError::unsupported(&self.provider, Modality::Image)))),
        }
    }

    /// Streams the finished images. The functions have no previews.
    fn stream(&self, request: ImageRequest) -> ImageSteps {
        let steps = self.generate(request).map_ok(|result| {
            let finished = result.images.iter().cloned().zip(0..).map(|(image, index)| {
                Step::Event(ImageEvent::Complete(ImageComplete { image, index, extra: Extra::new() }))
            });
            let steps: Vec<_> = finished.collect();
            stream::iter(steps.into_iter().chain([Step::Done(Arc::new(result))]).map(Ok))
        });
        steps.try_flatten_stream().boxed()
    }
}

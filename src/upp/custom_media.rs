//! Embeddings and images of providers that are written in Python: the functions `embed`, `generate_image` and `edit`.
//!
//! Spec: UPP-1.2 §9, §15, §16.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _, stream};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::custom::CustomModel;
use super::embedding::EmbeddingResult as PyEmbeddingResult;
use super::image::{GeneratedImage as PyGeneratedImage, ImageResult as PyImageResult};
use crate::bridge::callbacks::PyCallback;
use crate::content::block_from;
use crate::data::extract;
use crate::to_python::ToPython;
use turntree_core::json::Extra;
use turntree_core::message::ContentBlock;
use turntree_upp::embedding::{
    EmbeddingInput, EmbeddingInputType, EmbeddingLimits, EmbeddingModel, EmbeddingRequest, EmbeddingResult,
};
use turntree_upp::error::UppError;
use turntree_upp::image::{
    GeneratedImage, ImageCapabilities, ImageComplete, ImageEvent, ImageModel, ImageRequest, ImageResult,
    ImageSteps,
};
use turntree_upp::provider::Model as _;
use turntree_upp::result_stream::Step;

impl CustomModel {
    /// Calls a function of the application and reads its return value.
    async fn call<T>(
        self,
        function: Arc<PyCallback>,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
    ) -> Result<T, UppError> {
        let call = self.held(|py| function.call(py, arguments(py)?))?;
        let given = call.await;
        self.held(|py| read(given?.bind(py)))
    }
}

/// An embedding model that calls a function of the application.
#[derive(Debug, Clone)]
pub(crate) struct CustomEmbeddings(pub(crate) CustomModel);

impl EmbeddingModel for CustomEmbeddings {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn limits(&self) -> EmbeddingLimits {
        EmbeddingLimits {
            batch_size: self.0.media().batch_size,
            image_input: self.0.capabilities().image_input,
            ..EmbeddingLimits::default()
        }
    }

    fn embed(&self, request: EmbeddingRequest) -> BoxFuture<'static, Result<EmbeddingResult, UppError>> {
        let Some(function) = self.0.media().embed.clone() else {
            return Box::pin(std::future::ready(Err(self.0.without("embedding"))));
        };
        let arguments = move |py: Python<'_>| {
            let inputs: Vec<Bound<'_, PyAny>> = request
                .inputs
                .iter()
                .map(|input| match input {
                    EmbeddingInput::Text(text) => text.to_python(py),
                    EmbeddingInput::Image(image) => (**image).clone().to_python(py),
                })
                .collect::<PyResult<_>>()?;
            let input_type = request.input_type.map(EmbeddingInputType::as_str);
            Ok((PyList::new(py, inputs)?, request.params.to_python(py)?, input_type)
                .into_pyobject(py)?
                .unbind())
        };
        let read = |given: &Bound<'_, PyAny>| {
            extract::<PyEmbeddingResult>(given, "the return value of embed").map(|result| (*result).clone())
        };
        Box::pin(self.0.clone().call(function, arguments, read))
    }
}

/// An image model that calls functions of the application.
#[derive(Debug, Clone)]
pub(crate) struct CustomImages(pub(crate) CustomModel);

impl CustomImages {
    fn ask(
        &self,
        request: ImageRequest,
    ) -> impl Future<Output = Result<ImageResult, UppError>> + Send + use<> {
        let media = self.0.media();
        let function =
            if request.source.is_some() { media.edit.clone() } else { media.generate_image.clone() };
        let (model, missing) = (self.0.clone(), self.0.without("image"));
        async move {
            let function = function.ok_or(missing)?;
            let arguments = move |py: Python<'_>| {
                let source = request.source.as_deref();
                let picture = source.map(|source| source.image.clone().to_python(py)).transpose()?;
                let mask = source.and_then(|source| source.mask.clone());
                let mask = mask.map(|mask| mask.to_python(py)).transpose()?;
                Ok((&*request.prompt, request.params.to_python(py)?, picture, mask)
                    .into_pyobject(py)?
                    .unbind())
            };
            model.call(function, arguments, images_from).await
        }
    }
}

impl ImageModel for CustomImages {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn capabilities(&self) -> ImageCapabilities {
        let media = self.0.media();
        let generate = media.generate_image.is_some();
        ImageCapabilities { generate, streaming: generate, edit: media.edit.is_some(), max_images: None }
    }

    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>> {
        Box::pin(self.ask(request))
    }

    /// Streams the finished images. Functions of the application have no previews.
    fn stream(&self, request: ImageRequest) -> ImageSteps {
        let steps = self.ask(request).map_ok(|result| {
            let finished = result.images.iter().cloned().zip(0..).map(|(image, index)| {
                Step::Event(ImageEvent::Complete(ImageComplete { image, index, extra: Extra::new() }))
            });
            let steps: Vec<_> = finished.collect();
            stream::iter(steps.into_iter().chain([Step::Done(Arc::new(result))]).map(Ok))
        });
        steps.try_flatten_stream().boxed()
    }
}

/// Reads an `ImageResult`, one image, or a list of images.
fn images_from(given: &Bound<'_, PyAny>) -> PyResult<ImageResult> {
    const WHAT: &str = "the return value of generate_image";
    let is_result = given.is_instance_of::<PyImageResult>()
        || given.cast::<PyDict>().is_ok_and(|dict| dict.contains("images").unwrap_or(false));
    if is_result {
        return extract::<PyImageResult>(given, WHAT).map(|result| (*result).clone());
    }
    let images = match given.extract::<Vec<Bound<'_, PyAny>>>() {
        Ok(items) => items.iter().map(image_from).collect::<PyResult<_>>()?,
        Err(_) => vec![image_from(given)?],
    };
    Ok(ImageResult { images, ..ImageResult::default() })
}

fn image_from(given: &Bound<'_, PyAny>) -> PyResult<GeneratedImage> {
    if given.is_instance_of::<PyGeneratedImage>() {
        return extract::<PyGeneratedImage>(given, "an image").map(|image| (*image).clone());
    }
    match block_from(given, "an image")? {
        ContentBlock::Image(image) => Ok(GeneratedImage::new(image)),
        other => Err(PyTypeError::new_err(format!(
            "generate_image must return images, not a block of type {}",
            other.kind()
        ))),
    }
}

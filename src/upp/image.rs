//! Pictures from models as Python objects, and the native half of `turntree.upp.image`. UPP-1.2 §16.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::config::config_from;
use super::middleware::chain::MiddlewareChain;
use super::model::ModelReference;
use super::result_stream::ResultStream;
use crate::agents::tracing;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil;
use crate::bridge::sync;
use crate::content::block_from;
use crate::convert::json::to_raw_object;
use crate::data::DataClass as _;
use crate::to_python::{ToPython, data_class};
use turntree_core::json::RawObject;
use turntree_core::message::ContentBlock;
use turntree_core::message::content::ImageBlock;
use turntree_upp::image::{
    self, EditSource, ImageEvent as CoreEvent, ImageModel, ImageRequest, ImageResult as CoreResult,
};
use turntree_upp::{Modality, UppError};

data_class! {
    /// A finished picture. UPP-1.2 §16.
    GeneratedImage as "GeneratedImage" in "turntree.upp" over image::GeneratedImage {
        /// The picture, an `Image`.
        image,
        /// What else the vendor says of it, under the provider's name; None where it says nothing.
        metadata,
    }
}

data_class! {
    /// What pictures cost, as far as the vendor says. UPP-1.2 §16.
    ImageUsage as "ImageUsage" in "turntree.upp" over image::ImageUsage {
        /// How many pictures.
        images_generated,
        /// Tokens of prompt and pictures that were read.
        input_tokens,
        /// Tokens of the pictures that were made.
        output_tokens,
        /// Money, in the vendor's currency.
        cost,
    }
}

data_class! {
    /// The pictures of a call. UPP-1.2 §16.
    ImageResult as "ImageResult" in "turntree.upp" over CoreResult {
        /// The pictures, in the vendor's order.
        images,
        /// What else the vendor says, under the provider's name; None where it says nothing.
        metadata,
        /// What they cost; None where the vendor does not say.
        usage,
    }
}

data_class! {
    /// One step of a streamed call: a preview or a finished picture. UPP-1.2 §16.
    ImageEvent as "ImageEvent" in "turntree.upp" over CoreEvent {}

    /// What happened: `preview` or `complete`.
    #[getter(r#type)]
    fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyString::intern(slf.py(), Self::of(slf)?.kind()).into_any())
    }

    /// The picture: an `Image` of a preview, a `GeneratedImage` of a finished one.
    #[getter]
    fn image<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::of(slf)? {
            CoreEvent::Preview(event) => event.image.to_python(slf.py()),
            CoreEvent::Complete(event) => event.image.to_python(slf.py()),
            CoreEvent::Unknown(_) => Ok(slf.py().None().into_bound(slf.py())),
        }
    }

    /// Which preview, or which picture of the call, from 0.
    #[getter]
    fn index(slf: &Bound<'_, Self>) -> PyResult<u32> {
        Ok(match Self::of(slf)? {
            CoreEvent::Preview(event) => event.index,
            CoreEvent::Complete(event) => event.index,
            CoreEvent::Unknown(_) => 0,
        })
    }

    /// What else the vendor says, under the provider's name; None where it says nothing.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::of(slf)? {
            CoreEvent::Preview(event) => event.metadata.to_python(slf.py()),
            CoreEvent::Complete(event) => event.image.metadata.to_python(slf.py()),
            CoreEvent::Unknown(_) => Ok(slf.py().None().into_bound(slf.py())),
        }
    }
}

/// The native half of `turntree.upp.ImageModel`.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct ImageModelCore {
    model: Arc<dyn ImageModel>,
    params: Arc<RawObject>,
    /// The model's object, and what the configuration was given.
    held: Callbacks,
    middleware: Py<MiddlewareChain>,
}

#[pymethods]
impl ImageModelCore {
    #[new]
    #[pyo3(signature = (*, model, params, config, middleware))]
    fn new(
        model: &Bound<'_, ModelReference>,
        params: Option<&Bound<'_, PyAny>>,
        config: &Bound<'_, PyAny>,
        middleware: Py<MiddlewareChain>,
    ) -> PyResult<Self> {
        let (config, mut held) = config_from(config)?;
        held.objects.push(model.clone().into_any().unbind());
        let params = params.map_or_else(|| Ok(RawObject::new()), |value| to_raw_object(value, "params"))?;
        let bound = model.get().bind_image(&config);
        let model = bound.map_err(|error| crate::upp::error::to_exception(model.py(), &error))?;
        Ok(Self { model, params: Arc::new(params), held, middleware })
    }

    /// What the model can do, by name.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let capabilities = self.model.capabilities();
        let dict = PyDict::new(py);
        dict.set_item("generate", capabilities.generate)?;
        dict.set_item("streaming", capabilities.streaming)?;
        dict.set_item("edit", capabilities.edit)?;
        dict.set_item("max_images", capabilities.max_images)?;
        Ok(dict)
    }

    /// Starts a call; the coroutine gives its result. With `image` it is an edit.
    fn generate(
        slf: &Bound<'_, Self>,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Coroutine> {
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let call = slf.get().call(prompt, image, mask, &kept)?;
        Ok(Coroutine::new("generate", kept, call))
    }

    /// As `generate`, waited for on this thread.
    fn generate_sync(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        sync::run_sync(prompt.py(), self.call(prompt, image, mask, &GcRoots::default())?)
    }

    /// Starts a call that is listened to.
    fn stream(slf: &Bound<'_, Self>, prompt: &Bound<'_, PyAny>) -> PyResult<ResultStream> {
        let this = slf.get();
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let middleware = this.middleware.get().for_call(&kept);
        let stream = image::stream(&this.model, this.request(prompt, None, None)?, middleware);
        let stream = stream.map_err(|error| crate::upp::error::to_exception(slf.py(), &error))?;
        ResultStream::new::<ImageEvent, ImageResult>(slf.py(), stream, Modality::Image, kept)
    }
}

garbage_collected!(ImageModelCore: middleware, held);

impl ImageModelCore {
    fn request(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ImageRequest> {
        let source = match image {
            Some(image) => Some(Arc::new(EditSource {
                image: picture(image, "image")?,
                mask: mask.map(|mask| picture(mask, "mask")).transpose()?,
            })),
            None => None,
        };
        Ok(ImageRequest { prompt: prompt_from(prompt)?.into(), source, params: Arc::clone(&self.params) })
    }

    fn call(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
        kept: &GcRoots,
    ) -> PyResult<impl Future<Output = PyResult<Py<PyAny>>> + Send + use<>> {
        let (model, request) = (Arc::clone(&self.model), self.request(prompt, image, mask)?);
        let middleware = self.middleware.get().for_call(kept);
        let call = async move {
            match request.source {
                Some(_) => image::edit(model, request, middleware).await,
                None => image::generate(model, request, middleware).await,
            }
        };
        let asked = (self.model.provider(), self.model.model_id());
        let call = tracing::media(prompt.py(), ("generate_content", Some("image")), asked, |_| None, call);
        Ok(async move {
            let result: Result<_, UppError> = call.await;
            gil::require_held(|py| match result {
                Ok(result) => ImageResult::wrap(py, result),
                Err(error) => Err(crate::upp::error::to_exception(py, &error)),
            })
        })
    }
}

/// A text, or a dict with one as the specification's `{prompt}`.
pub(super) fn prompt_from(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let given = match value.cast::<PyDict>() {
        Ok(dict) => dict.get_item("prompt")?.unwrap_or_else(|| value.clone()),
        Err(_) => value.clone(),
    };
    super::config::text(&given, "prompt")
}

fn picture(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ImageBlock> {
    match block_from(value, what)? {
        ContentBlock::Image(block) => Ok(block),
        _ => Err(PyTypeError::new_err(format!("{what} must be an Image, not another kind of block"))),
    }
}

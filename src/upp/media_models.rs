//! The native halves of `turntree.upp.EmbeddingModel` and `turntree.upp.ImageModel`.
//!
//! Spec: UPP-1.2 §15, §16.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::PyClass;
use pyo3::exceptions::PyValueError;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use super::config::config_from;
use super::embedding::{EmbeddingProgress, EmbeddingResult, input_type_of, inputs_from};
use super::error::to_exception;
use super::image::{ImageEvent, ImageResult, prompt_from};
use super::middleware::chain::MiddlewareChain;
use super::model::ModelReference;
use super::result_stream::ResultStream;
use crate::agents::tracing::PyTracer;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{Collect, GcRoots, garbage_collected};
use crate::bridge::{gil, sync};
use crate::content::image_from;
use crate::convert::json::to_raw_object;
use crate::data::DataClass;
use crate::error::wrong_type;
use turntree_core::json::RawObject;
use turntree_core::telemetry::Tracer;
use turntree_upp::CallLayers;
use turntree_upp::embedding::{self, EmbedOptions, EmbeddingModel, EmbeddingStream};
use turntree_upp::image::{self, EditSource, ImageModel, ImageRequest};
use turntree_upp::{Modality, ProviderConfig, UppError};

/// A model that is bound to its configuration, parameters and middleware.
struct BoundModel<M: ?Sized> {
    model: Arc<M>,
    params: Arc<RawObject>,
    /// The model's reference, and the callbacks of the configuration.
    callbacks: Callbacks,
    middleware: Py<MiddlewareChain>,
}

impl<M: ?Sized> BoundModel<M> {
    fn new(
        reference: &Bound<'_, ModelReference>,
        params: Option<&Bound<'_, PyAny>>,
        config: &Bound<'_, PyAny>,
        middleware: Py<MiddlewareChain>,
        bind: fn(&ModelReference, &ProviderConfig) -> Result<Arc<M>, UppError>,
    ) -> PyResult<Self> {
        let (config, mut callbacks) = config_from(config)?;
        callbacks.objects.push(reference.clone().into_any().unbind());
        let params = params.map_or_else(|| Ok(RawObject::new()), |value| to_raw_object(value, "params"))?;
        let model = bind(reference.get(), &config).map_err(|error| to_exception(reference.py(), &error))?;
        Ok(Self { model, params: Arc::new(params), callbacks, middleware })
    }

    /// Middleware and tracer of one call.
    fn layers(&self, py: Python<'_>, roots: &GcRoots) -> CallLayers {
        let tracer = PyTracer::of(py, None).map(|tracer| tracer as Arc<dyn Tracer>);
        CallLayers { middleware: self.middleware.get().for_call(roots), tracer }
    }
}

impl<M: ?Sized> Collect for BoundModel<M> {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.middleware.traverse(visit)?;
        self.callbacks.traverse(visit)
    }

    fn clear(&self) {
        self.callbacks.clear();
    }
}

/// The result of a call as a data class.
async fn wrapped<C: DataClass>(
    call: impl Future<Output = Result<Arc<C::Value>, UppError>> + Send,
) -> PyResult<Py<PyAny>> {
    let result = call.await;
    gil::require_held(|py| match result {
        Ok(result) => C::wrap(py, result),
        Err(error) => Err(to_exception(py, &error)),
    })
}

/// The roots of a call that refers to its model's object.
fn roots_of<T: PyClass>(slf: &Bound<'_, T>) -> GcRoots {
    GcRoots::new([slf.clone().into_any().unbind()])
}

/// The native half of ``turntree.upp.EmbeddingModel``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct EmbeddingModelCore(BoundModel<dyn EmbeddingModel>);

garbage_collected!(EmbeddingModelCore: 0);

#[pymethods]
impl EmbeddingModelCore {
    #[new]
    #[pyo3(signature = (*, model, params, config, middleware))]
    fn new(
        model: &Bound<'_, ModelReference>,
        params: Option<&Bound<'_, PyAny>>,
        config: &Bound<'_, PyAny>,
        middleware: Py<MiddlewareChain>,
    ) -> PyResult<Self> {
        BoundModel::new(model, params, config, middleware, ModelReference::bind_embedding).map(Self)
    }

    /// Start a call and return a coroutine that returns the result.
    fn embed(
        slf: &Bound<'_, Self>,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<Coroutine> {
        let roots = roots_of(slf);
        let stream = slf.get().start(inputs, options_from(batch_size, concurrency, input_type)?, &roots)?;
        Ok(Coroutine::new("embed", roots, result(stream)))
    }

    /// As `embed`, but block this thread until the result.
    fn embed_sync(
        &self,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let options = options_from(batch_size, concurrency, input_type)?;
        let stream = self.start(inputs, options, &GcRoots::default())?;
        sync::run_sync(inputs.py(), result(stream))
    }

    /// Start a streamed call.
    fn stream(
        slf: &Bound<'_, Self>,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<ResultStream> {
        let roots = roots_of(slf);
        let options = options_from(batch_size, concurrency, input_type)?;
        let stream = slf.get().start(inputs, EmbedOptions { chunked: true, ..options }, &roots)?;
        ResultStream::new::<EmbeddingProgress, EmbeddingResult>(slf.py(), stream, Modality::Embedding, roots)
    }
}

impl EmbeddingModelCore {
    fn start(
        &self,
        inputs: &Bound<'_, PyAny>,
        mut options: EmbedOptions,
        roots: &GcRoots,
    ) -> PyResult<EmbeddingStream> {
        options.layers = self.0.layers(inputs.py(), roots);
        let params = Arc::clone(&self.0.params);
        let stream = embedding::embed(Arc::clone(&self.0.model), inputs_from(inputs)?, params, options);
        stream.map_err(|error| to_exception(inputs.py(), &error))
    }
}

async fn result(mut stream: EmbeddingStream) -> PyResult<Py<PyAny>> {
    wrapped::<EmbeddingResult>(async move { stream.result().await }).await
}

fn options_from(
    batch_size: Option<&Bound<'_, PyAny>>,
    concurrency: &Bound<'_, PyAny>,
    input_type: Option<&str>,
) -> PyResult<EmbedOptions> {
    Ok(EmbedOptions {
        batch_size: batch_size.map(|size| positive(size, "batch_size")).transpose()?,
        concurrency: positive(concurrency, "concurrency")?,
        input_type: input_type.map(input_type_of).transpose()?,
        ..EmbedOptions::default()
    })
}

fn positive(value: &Bound<'_, PyAny>, what: &str) -> PyResult<NonZeroUsize> {
    let number: i64 = value.extract().map_err(|_| wrong_type(value, what, "an int"))?;
    let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
    number.ok_or_else(|| PyValueError::new_err(format!("{what} must be at least 1")))
}

/// The native half of ``turntree.upp.ImageModel``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct ImageModelCore(BoundModel<dyn ImageModel>);

garbage_collected!(ImageModelCore: 0);

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
        BoundModel::new(model, params, config, middleware, ModelReference::bind_image).map(Self)
    }

    /// Capabilities of the model.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let capabilities = self.0.model.capabilities();
        let dict = PyDict::new(py);
        dict.set_item("generate", capabilities.generate)?;
        dict.set_item("streaming", capabilities.streaming)?;
        dict.set_item("edit", capabilities.edit)?;
        dict.set_item("max_images", capabilities.max_images)?;
        Ok(dict)
    }

    /// Start a call and return a coroutine that returns the result. Edits `image` if it is given.
    fn generate(
        slf: &Bound<'_, Self>,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Coroutine> {
        let roots = roots_of(slf);
        let call = slf.get().call(prompt, image, mask, &roots)?;
        Ok(Coroutine::new("generate", roots, call))
    }

    /// As `generate`, but block this thread until the result.
    fn generate_sync(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        sync::run_sync(prompt.py(), self.call(prompt, image, mask, &GcRoots::default())?)
    }

    /// Start a streamed call.
    fn stream(slf: &Bound<'_, Self>, prompt: &Bound<'_, PyAny>) -> PyResult<ResultStream> {
        let (this, roots) = (slf.get(), roots_of(slf));
        let layers = this.0.layers(slf.py(), &roots);
        let stream = image::stream(&this.0.model, this.request(prompt, None, None)?, layers);
        let stream = stream.map_err(|error| to_exception(slf.py(), &error))?;
        ResultStream::new::<ImageEvent, ImageResult>(slf.py(), stream, Modality::Image, roots)
    }
}

impl ImageModelCore {
    fn request(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ImageRequest> {
        let source = image.map(|image| {
            let image = image_from(image, "image")?;
            let mask = mask.map(|mask| image_from(mask, "mask")).transpose()?;
            Ok::<_, PyErr>(Arc::new(EditSource { image, mask }))
        });
        let (prompt, params) = (prompt_from(prompt)?.into(), Arc::clone(&self.0.params));
        Ok(ImageRequest { prompt, source: source.transpose()?, params })
    }

    fn call(
        &self,
        prompt: &Bound<'_, PyAny>,
        image: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
        roots: &GcRoots,
    ) -> PyResult<impl Future<Output = PyResult<Py<PyAny>>> + Send + use<>> {
        let (model, request) = (Arc::clone(&self.0.model), self.request(prompt, image, mask)?);
        let layers = self.0.layers(prompt.py(), roots);
        let call = async move {
            match request.source {
                Some(_) => image::edit(model, request, layers).await,
                None => image::generate(model, request, layers).await,
            }
        };
        Ok(wrapped::<ImageResult>(call))
    }
}

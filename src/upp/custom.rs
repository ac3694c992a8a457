//! Providers that are written in Python: an object with `generate`, `stream`, `embed`, `generate_image` or `edit`.
//!
//! The Python half (`turntree.upp._custom_provider`) wraps each as one function: `generate(request)` returns the response,
//! and `stream(request, sink)` pushes events and returns the response or None. A stream therefore runs in one task (or
//! one thread), and can use cancel scopes.
//!
//! Spec: UPP-1.2 §9, §15, §16.

use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyTimeoutError, PyTypeError};
use pyo3::types::{PyDict, PyList, PyTuple};

use super::embedding::EmbeddingResult as PyEmbeddingResult;
use super::error::from_exception;
use super::image::{GeneratedImage as PyGeneratedImage, ImageResult as PyImageResult};
use super::request::ModelRequest;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::content::image_from;
use crate::convert::json::{to_raw, to_raw_object};
use crate::convert::text::text_of;
use crate::data::extract;
use crate::error::choose;
use crate::message::content_and_calls;
use crate::records::TokenUsage as PyTokenUsage;
use crate::stream_events::StreamEvent;
use crate::to_python::ToPython;
use turntree_upp::embedding::{EmbeddingInputType, EmbeddingLimits, EmbeddingResult};
use turntree_upp::image::{GeneratedImage, ImageResult};
use turntree_upp::providers::custom::{
    CustomEmbeddingModel, CustomImageModel, CustomModel, CustomResponse, EmbedFunction, EventSender,
    GenerateFunction, ImageFunction, StreamClosed, StreamFunction,
};
use turntree_upp::{Capabilities, ErrorCode, StopReason, UppError};

/// The models of a provider that is written in Python.
pub(crate) struct CustomModels {
    pub(super) llm: CustomModel,
    pub(super) embedding: Option<CustomEmbeddingModel>,
    pub(super) image: Option<CustomImageModel>,
}

impl CustomModels {
    /// Creates the models of these functions. Also returns the functions, for the garbage collector.
    ///
    /// # Errors
    /// `TypeError` for an option of the wrong type.
    pub(crate) fn from_python(
        provider: &str,
        model_id: &str,
        capabilities: &Bound<'_, PyDict>,
        generate: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        media: &Bound<'_, PyDict>,
    ) -> PyResult<(Self, Callbacks)> {
        let (provider, model_id): (Arc<str>, Arc<str>) = (provider.into(), model_id.into());
        let mut callbacks = Callbacks::default();
        let mut function = |callable: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Function>> {
            let callback = callable.map(PyCallback::patient).transpose()?;
            callbacks.functions.extend(callback.clone());
            Ok(callback.map(|callback| Function { callback, provider: Arc::clone(&provider) }))
        };
        let capabilities = Capabilities::from_flags(|name| {
            capabilities.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())
        })?;
        let mut llm = CustomModel::new(&*provider, &*model_id, capabilities);
        if let Some(generate) = function(generate)? {
            llm = llm.with_generate(generate.into_generate());
        }
        if let Some(stream) = function(stream)? {
            llm = llm.with_stream(stream.into_stream());
        }
        let limits = EmbeddingLimits {
            batch_size: media.get_item("batch_size")?.map(|size| size.extract()).transpose()?,
            image_input: capabilities.image_input,
            ..EmbeddingLimits::default()
        };
        let embed = function(media.get_item("embed")?.as_ref())?.map(Function::into_embed);
        let generate = function(media.get_item("generate_image")?.as_ref())?.map(Function::into_image);
        let edit = function(media.get_item("edit")?.as_ref())?.map(Function::into_image);
        let names = || (Arc::clone(&provider), Arc::clone(&model_id));
        let embedding = embed.map(|embed| {
            let (provider, model_id) = names();
            CustomEmbeddingModel { provider, model_id, limits, embed }
        });
        let image = (generate.is_some() || edit.is_some()).then(|| {
            let (provider, model_id) = names();
            CustomImageModel { provider, model_id, generate, edit }
        });
        Ok((Self { llm, embedding, image }, callbacks))
    }
}

/// A function of a provider.
struct Function {
    callback: Arc<PyCallback>,
    /// The provider's name, for errors.
    provider: Arc<str>,
}

impl Function {
    /// Calls the function when the future is first polled, and converts its return value.
    fn call<T: Send + 'static>(
        &self,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send + 'static,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, UppError>> {
        let (callback, provider) = (Arc::clone(&self.callback), Arc::clone(&self.provider));
        Box::pin(async move {
            let value = callback.call_and_read(arguments, read).await;
            value.map_err(|error| error_of(&provider, error))
        })
    }

    fn into_generate(self) -> GenerateFunction {
        Arc::new(move |request| self.call(|py| (ModelRequest(request),).into_pyobject(py), whole_response))
    }

    fn into_stream(self) -> StreamFunction {
        Arc::new(move |request, sender| {
            let arguments = (ModelRequest(request), EventSink(sender));
            self.call(|py| arguments.into_pyobject(py), response_from)
        })
    }

    fn into_embed(self) -> EmbedFunction {
        Arc::new(move |request| {
            self.call(
                move |py| {
                    let input_type = request.input_type.map(EmbeddingInputType::as_str);
                    let inputs = request.inputs.to_vec().to_python(py)?;
                    (inputs, request.params.to_python(py)?, input_type).into_pyobject(py)
                },
                embeddings_from,
            )
        })
    }

    fn into_image(self) -> ImageFunction {
        Arc::new(move |request| {
            self.call(
                move |py| {
                    let source = request.source.as_deref();
                    let image = source.map(|source| &source.image).to_python(py)?;
                    let mask = source.and_then(|source| source.mask.as_ref()).to_python(py)?;
                    (&*request.prompt, request.params.to_python(py)?, image, mask).into_pyobject(py)
                },
                images_from,
            )
        })
    }
}

/// An exception of a function as an error of the provider, which raises the same object again.
pub(super) fn error_of(provider: &str, raised: PyErr) -> UppError {
    let mut raised = Some(raised);
    let converted = gil::if_held(|py| {
        let raised = raised.take()?;
        let code = match () {
            () if raised.is_instance_of::<PyTimeoutError>(py) => ErrorCode::Timeout,
            () if raised.is_instance_of::<PyConnectionError>(py) => ErrorCode::NetworkError,
            () => ErrorCode::ProviderError,
        };
        let error = from_exception(py, raised);
        let is_named = !error.provider.is_empty() || error.code != ErrorCode::ProviderError;
        Some(if is_named { error } else { UppError { code, provider: provider.to_owned(), ..error } })
    });
    converted.flatten().unwrap_or_else(|| {
        let message = "a provider that is written in Python must be called from a Python thread";
        UppError::new(ErrorCode::ProviderError, provider, message)
    })
}

/// Reads the tuple of the Python half: `(items, usage, stop_reason, data, metadata, id)`.
fn response_from(value: &Bound<'_, PyAny>) -> PyResult<CustomResponse> {
    type Object<'py> = Option<Bound<'py, PyAny>>;
    type Members<'py> =
        (Option<Bound<'py, PyList>>, Object<'py>, Option<String>, Object<'py>, Object<'py>, Option<String>);
    let (items, usage, stop_reason, data, metadata, id): Members<'_> = text_of(value, "response")?;
    let usage = usage.map(|usage| extract::<PyTokenUsage>(&usage, "usage")).transpose()?;
    let reason = |name: String| choose("stop_reason", &name, &StopReason::ALL, StopReason::as_str);
    let metadata = metadata.map(|metadata| to_raw_object(&metadata, "metadata")).transpose()?;
    Ok(CustomResponse {
        content: items.map(|items| content_and_calls(&items, "response")).transpose()?,
        usage: usage.map(Arc::unwrap_or_clone).unwrap_or_default(),
        stop_reason: stop_reason.map(reason).transpose()?,
        data: data.map(|data| to_raw(&data, "data")).transpose()?,
        metadata: metadata.unwrap_or_default(),
        id,
    })
}

/// As [`response_from`], for a function that has streamed nothing.
fn whole_response(value: &Bound<'_, PyAny>) -> PyResult<CustomResponse> {
    let response = response_from(value)?;
    if response.content.is_none() {
        return Err(PyTypeError::new_err("generate must return a response, not None"));
    }
    Ok(response)
}

fn embeddings_from(value: &Bound<'_, PyAny>) -> PyResult<EmbeddingResult> {
    extract::<PyEmbeddingResult>(value, "the return value of embed").map(Arc::unwrap_or_clone)
}

/// Reads an `ImageResult`, one image, or a list of images.
fn images_from(value: &Bound<'_, PyAny>) -> PyResult<ImageResult> {
    let is_result = value.is_instance_of::<PyImageResult>()
        || value.cast::<PyDict>().is_ok_and(|dict| dict.contains("images").unwrap_or(false));
    if is_result {
        let result = extract::<PyImageResult>(value, "the return value of generate_image");
        return result.map(Arc::unwrap_or_clone);
    }
    let images = match value.extract::<Vec<Bound<'_, PyAny>>>() {
        Ok(items) => items.iter().map(generated_image_from).collect::<PyResult<_>>()?,
        Err(_) => vec![generated_image_from(value)?],
    };
    Ok(ImageResult { images, ..ImageResult::default() })
}

fn generated_image_from(value: &Bound<'_, PyAny>) -> PyResult<GeneratedImage> {
    if value.is_instance_of::<PyGeneratedImage>() {
        return extract::<PyGeneratedImage>(value, "an image").map(Arc::unwrap_or_clone);
    }
    image_from(value, "each image of generate_image").map(GeneratedImage::new)
}

/// Receives the events of a stream that is implemented in Python.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct EventSink(EventSender);

#[pymethods]
impl EventSink {
    /// Add an event and return whether there is space for another.
    fn push(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let event = extract::<StreamEvent>(event, "event").map(Arc::unwrap_or_clone)?;
        self.0.send(event).map_err(stream_closed)
    }

    /// Block this thread until there is space.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.wait()).map_err(stream_closed)
    }

    /// Call a function once, when there is space or the reader has closed the stream; immediately if so now.
    fn when_room(&self, py: Python<'_>, function: Py<PyAny>) {
        let call = move || {
            let _ = gil::if_held(|py| function.call0(py).map(drop));
        };
        gil::mark_held(py, || self.0.on_space(Box::new(call)));
    }
}

fn stream_closed(error: StreamClosed) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

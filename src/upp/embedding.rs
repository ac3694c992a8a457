//! Embeddings as Python objects: vectors, results, and the native half of `turntree.upp.embedding`. UPP-1.2 §15.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};

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
use crate::data::{Data, DataClass as _};
use crate::to_python::{ToPython, data_class};
use turntree_core::json::RawObject;
use turntree_core::message::ContentBlock;
use turntree_upp::embedding::{
    self, EmbedOptions, EmbeddingInput, EmbeddingInputType, EmbeddingModel, EmbeddingStream, Vector,
};
use turntree_upp::{Modality, UppError};

data_class! {
    /// The vector of one input. UPP-1.2 §15.
    Embedding as "Embedding" in "turntree.upp" over embedding::Embedding {
        /// The numbers, a list of the caller's own; `buffer` gives them without a float object each.
        vector,
        /// How many numbers.
        dimensions,
        /// Which of the inputs, from 0.
        index,
        /// Tokens of the input, where the vendor says.
        tokens,
        /// What else the vendor says of it, under the provider's name; None where it says nothing.
        metadata,
    }

    /// The numbers in memory, read-only: a `memoryview` of 32-bit floats, or of 64-bit ones where the vendor sent decimals.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let vector = &Self::of(slf)?.vector;
        matrix(slf.py(), &[vector], (vector.len(),))
    }
}

data_class! {
    /// What embedding cost. UPP-1.2 §15.
    EmbeddingUsage as "EmbeddingUsage" in "turntree.upp" over embedding::EmbeddingUsage {
        /// Tokens of all inputs; 0 where the vendor does not say.
        total_tokens,
    }
}

data_class! {
    /// The vectors of all inputs. UPP-1.2 §15.
    EmbeddingResult as "EmbeddingResult" in "turntree.upp" over embedding::EmbeddingResult {
        /// One an input, in the order of the inputs.
        embeddings,
        /// What they cost.
        usage,
        /// What else the vendor says, under the provider's name; None where it says nothing.
        metadata,
    }

    /// All numbers in memory, read-only: a two-dimensional `memoryview`, one row an input, as `numpy.asarray` takes it.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let vectors: Vec<&Vector> = Self::of(slf)?.embeddings.iter().map(|embedding| &embedding.vector).collect();
        let columns = vectors.first().map_or(0, |vector| vector.len());
        let width = vectors.first().map_or(0, |vector| vector.width());
        if vectors.is_empty() || vectors.iter().any(|vector| vector.len() != columns || vector.width() != width) {
            let message = "the vectors make no matrix: there are none, or they differ in length";
            return Err(PyValueError::new_err(message));
        }
        matrix(slf.py(), &vectors, (vectors.len(), columns))
    }
}

data_class! {
    /// One batch of a chunked call is done. UPP-1.2 §15.
    EmbeddingProgress as "EmbeddingProgress" in "turntree.upp" over embedding::EmbeddingProgress {
        /// Its vectors; their `index` counts over all inputs.
        embeddings,
        /// Inputs done so far.
        completed,
        /// All inputs.
        total,
        /// Done so far, from 0 to 100.
        percent,
    }
}

impl ToPython for Vector {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.iter())?.into_any())
    }
}

impl ToPython for EmbeddingInput {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Text(text) => Ok(PyString::new(py, text).into_any()),
            Self::Image(image) => image.to_python(py),
        }
    }
}

impl ToPython for Arc<embedding::Embedding> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Embedding::wrap(py, Self::clone(self))?.into_bound(py))
    }
}

/// One copy of the numbers as a `memoryview`: the stable ABI of Python 3.10 lets no class of ours be a buffer itself.
fn matrix<'py>(
    py: Python<'py>,
    vectors: &[&Vector],
    shape: impl IntoPyObject<'py, Error = PyErr>,
) -> PyResult<Bound<'py, PyAny>> {
    let (width, numbers) =
        (vectors.first().map_or(0, |vector| vector.width()), vectors.iter().map(|v| v.len()));
    let mut bytes = Vec::with_capacity(width * numbers.sum::<usize>());
    for vector in vectors {
        vector.write_native(&mut bytes);
    }
    let format = if width == size_of::<f32>() { "f" } else { "d" };
    let view = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "memoryview"))?;
    let view = view.call1((PyBytes::new(py, &bytes),))?;
    view.call_method1(intern!(py, "cast"), (format, shape))
}

/// The native half of `turntree.upp.EmbeddingModel`.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct EmbeddingModelCore {
    model: Arc<dyn EmbeddingModel>,
    params: Arc<RawObject>,
    /// The model's object, and what the configuration was given.
    held: Callbacks,
    middleware: Py<MiddlewareChain>,
}

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
        let (config, mut held) = config_from(config)?;
        held.objects.push(model.clone().into_any().unbind());
        let params = params.map_or_else(|| Ok(RawObject::new()), |value| to_raw_object(value, "params"))?;
        let bound = model.get().bind_embedding(&config);
        let model = bound.map_err(|error| crate::upp::error::to_exception(model.py(), &error))?;
        Ok(Self { model, params: Arc::new(params), held, middleware })
    }

    /// Starts a call; the coroutine gives its result.
    fn embed(
        slf: &Bound<'_, Self>,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<Coroutine> {
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let options = options_from(batch_size, concurrency, input_type)?;
        let stream = slf.get().start(inputs, options, &kept)?;
        Ok(Coroutine::new("embed", kept, slf.get().result(slf.py(), stream)))
    }

    /// As `embed`, waited for on this thread.
    fn embed_sync(
        &self,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let options = options_from(batch_size, concurrency, input_type)?;
        let stream = self.start(inputs, options, &GcRoots::default())?;
        sync::run_sync(inputs.py(), self.result(inputs.py(), stream))
    }

    /// Starts a call that is listened to.
    fn stream(
        slf: &Bound<'_, Self>,
        inputs: &Bound<'_, PyAny>,
        batch_size: Option<&Bound<'_, PyAny>>,
        concurrency: &Bound<'_, PyAny>,
        input_type: Option<&str>,
    ) -> PyResult<ResultStream> {
        let kept = GcRoots::new([slf.clone().into_any().unbind()]);
        let options = options_from(batch_size, concurrency, input_type)?;
        let stream = slf.get().start(inputs, EmbedOptions { chunked: true, ..options }, &kept)?;
        ResultStream::new::<EmbeddingProgress, EmbeddingResult>(slf.py(), stream, Modality::Embedding, kept)
    }
}

garbage_collected!(EmbeddingModelCore: middleware, held);

impl EmbeddingModelCore {
    fn start(
        &self,
        inputs: &Bound<'_, PyAny>,
        mut options: EmbedOptions,
        kept: &GcRoots,
    ) -> PyResult<EmbeddingStream> {
        options.middleware = self.middleware.get().for_call(kept);
        let params = Arc::clone(&self.params);
        let stream = embedding::embed(Arc::clone(&self.model), inputs_from(inputs)?, params, options);
        stream.map_err(|error| crate::upp::error::to_exception(inputs.py(), &error))
    }

    fn result(
        &self,
        py: Python<'_>,
        mut stream: EmbeddingStream,
    ) -> impl Future<Output = PyResult<Py<PyAny>>> + Send + use<> {
        let model = (self.model.provider(), self.model.model_id());
        // 0 where the vendor does not say.
        let tokens = |result: &Arc<embedding::EmbeddingResult>| {
            Some(result.usage.total_tokens).filter(|tokens| *tokens > 0)
        };
        let call = async move { stream.result().await };
        let call = tracing::media(py, ("embeddings", None), model, tokens, call);
        async move {
            let result: Result<_, UppError> = call.await;
            gil::require_held(|py| match result {
                Ok(result) => EmbeddingResult::wrap(py, result),
                Err(error) => Err(crate::upp::error::to_exception(py, &error)),
            })
        }
    }
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
    let number: i64 = value.extract().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{what} must be an int, not {found}"))
    })?;
    let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
    number.ok_or_else(|| PyValueError::new_err(format!("{what} must be at least 1")))
}

pub(super) fn input_type_of(name: &str) -> PyResult<EmbeddingInputType> {
    [EmbeddingInputType::Document, EmbeddingInputType::Query]
        .into_iter()
        .find(|known| known.as_str() == name)
        .ok_or_else(|| {
            PyValueError::new_err(format!("input_type must be \"document\" or \"query\", not \"{name}\""))
        })
}

/// One input, or any iterable of them.
pub(super) fn inputs_from(value: &Bound<'_, PyAny>) -> PyResult<Vec<EmbeddingInput>> {
    let is_one = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<Data>()
        || value.cast::<PyMapping>().is_ok();
    if is_one {
        return Ok(vec![input_from(value, "inputs")?]);
    }
    let wrong = || {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("inputs must be a str, a block, or a list of them, not {found}"))
    };
    if value.is_instance_of::<PyBytes>() {
        return Err(wrong());
    }
    let items = value.try_iter().map_err(|_| wrong())?;
    items.enumerate().map(|(place, item)| input_from(&item?, &format!("inputs[{place}]"))).collect()
}

fn input_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<EmbeddingInput> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.into());
    }
    match block_from(value, what)? {
        ContentBlock::Text(block) => Ok(block.text.into()),
        ContentBlock::Image(block) => Ok(EmbeddingInput::Image(Box::new(block))),
        other => Err(PyTypeError::new_err(format!(
            "{what} must be a text or an image, not a block of type {}",
            other.kind()
        ))),
    }
}

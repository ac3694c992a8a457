//! Embeddings as data classes: vectors, usage, results, progress; and the inputs of a call.
//!
//! Spec: UPP-1.2 §15.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};

use crate::content::block_from;
use crate::convert::text::text_of;
use crate::data::{Data, DataClass as _};
use crate::error::{choose, wrong_type};
use crate::to_python::{ToPython, data_class};
use turntree_core::message::ContentBlock;
use turntree_upp::embedding::{self, EmbeddingInput, EmbeddingInputType, Vector};

data_class! {
    /// The embedding vector of one input.
    ///
    /// Spec: UPP-1.2 §15.
    Embedding as "Embedding" in "turntree.upp" over embedding::Embedding {
        /// The numbers, a new list each time; `buffer` has them without a float object each.
        vector,
        /// Number of dimensions.
        dimensions,
        /// Index of the input, from 0.
        index,
        /// Tokens of the input; None if the vendor does not report them.
        tokens,
        /// Metadata of the vendor, under the provider's name, or None.
        metadata,
    }

    /// The numbers in memory, read-only, for ``numpy.asarray`` without copying.
    ///
    /// 32-bit floats (format ``f``), or 64-bit ones (``d``) where the vendor sent decimals.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let vector = &Self::of(slf)?.vector;
        matrix(slf.py(), &[vector], (vector.len(),))
    }
}

data_class! {
    /// Usage of an embedding call.
    ///
    /// Spec: UPP-1.2 §15.
    EmbeddingUsage as "EmbeddingUsage" in "turntree.upp" over embedding::EmbeddingUsage {
        /// Tokens of all inputs; 0 if the vendor does not report them.
        total_tokens,
    }
}

data_class! {
    /// The embeddings of all inputs.
    ///
    /// Spec: UPP-1.2 §15.
    EmbeddingResult as "EmbeddingResult" in "turntree.upp" over embedding::EmbeddingResult {
        /// One embedding per input, in the order of the inputs.
        embeddings,
        /// Usage of the call.
        usage,
        /// Metadata of the vendor, under the provider's name, or None.
        ///
        /// Values that differ between several calls are lists with one item per call.
        metadata,
    }

    /// All numbers in memory, read-only, one row per input, for ``numpy.asarray`` without copying.
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
    /// Progress of a batched call: one batch is finished.
    ///
    /// Spec: UPP-1.2 §15.
    EmbeddingProgress as "EmbeddingProgress" in "turntree.upp" over embedding::EmbeddingProgress {
        /// Embeddings of the batch; their `index` counts over all inputs.
        embeddings,
        /// Number of finished inputs.
        completed,
        /// Number of all inputs.
        total,
        /// Finished inputs in percent, from 0 to 100.
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

/// Reads the purpose of the vectors.
pub(super) fn input_type_of(name: &str) -> PyResult<EmbeddingInputType> {
    choose("input_type", name, &EmbeddingInputType::ALL, EmbeddingInputType::as_str)
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
    let wrong = || wrong_type(value, "inputs", "a str, a block, or a list of them");
    if value.is_instance_of::<PyBytes>() {
        return Err(wrong());
    }
    let items = value.try_iter().map_err(|_| wrong())?;
    items.enumerate().map(|(place, item)| input_from(&item?, &format!("inputs[{place}]"))).collect()
}

fn input_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<EmbeddingInput> {
    if value.is_instance_of::<PyString>() {
        return Ok(text_of::<&str>(value, what)?.into());
    }
    match block_from(value, what)? {
        ContentBlock::Text(block) => Ok(block.text.into()),
        ContentBlock::Image(block) => Ok(EmbeddingInput::Image(block)),
        other => Err(PyTypeError::new_err(format!(
            "{what} must be a text or an image, not a block of type {}",
            other.kind()
        ))),
    }
}

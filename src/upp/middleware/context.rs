//! What a hook sees of its call.

use std::sync::Arc;

use pyo3::prelude::*;

use super::request::{CallRequest, CallResponse};
use super::state::CallState;
use crate::bridge::gc::garbage_collected;
use crate::data::DataClass as _;
use crate::to_python::ToPython;
use crate::upp::embedding::EmbeddingResult;
use crate::upp::image::ImageResult;
use turntree_upp::middleware::{CallContext as CoreContext, Response};

/// One call of a model, as its middleware sees it. All hooks of a call get the same object. UPP-1.2 §17.
#[pyclass(frozen, weakref, module = "turntree.upp.middleware")]
pub(crate) struct CallContext {
    core: Arc<CoreContext>,
    request: std::sync::OnceLock<Py<CallRequest>>,
}

impl CallContext {
    /// The one handle of a call.
    pub(super) fn new(core: Arc<CoreContext>) -> Self {
        Self { core, request: std::sync::OnceLock::new() }
    }

    /// Takes over what a hook changed of the request.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.request.get().map_or(Ok(()), |request| request.get().settle(py))
    }
}

#[pymethods]
impl CallContext {
    /// What kind of model: "llm", "embedding" or "image".
    #[getter]
    fn modality(&self) -> &'static str {
        self.core.modality.as_str()
    }

    /// The vendor's name of the model.
    #[getter]
    fn model_id(&self) -> &str {
        &self.core.model_id
    }

    /// Whose model.
    #[getter]
    fn provider(&self) -> &str {
        &self.core.provider
    }

    /// Whether somebody listens to a stream.
    #[getter]
    fn streaming(&self) -> bool {
        self.core.streaming
    }

    /// What is asked. Changes made in `on_start` and `on_request` take effect.
    #[getter]
    fn request(&self, py: Python<'_>) -> PyResult<Py<CallRequest>> {
        if let Some(request) = self.request.get() {
            return Ok(request.clone_ref(py));
        }
        let request = Py::new(py, CallRequest::new(Arc::clone(&self.core)))?;
        Ok(self.request.get_or_init(|| request).clone_ref(py))
    }

    /// The last answer, once there is one: a `CallResponse` of a language model, an `EmbeddingResult`, an `ImageResult`.
    #[getter]
    fn response(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(match self.core.response() {
            Some(Response::Llm(response)) => Some(Py::new(py, CallResponse(response))?.into_any()),
            Some(Response::Embedding(result)) => Some(EmbeddingResult::wrap(py, result)?),
            Some(Response::Image(result)) => Some(ImageResult::wrap(py, result)?),
            None => None,
        })
    }

    /// Why a language model stopped last, as `end_turn`; None before it has.
    #[getter]
    fn stop_reason(&self) -> Option<&'static str> {
        self.core.stop_reason().map(turntree_upp::StopReason::as_str)
    }

    /// What middlewares keep with the call.
    #[getter]
    fn state(&self) -> CallState {
        CallState(Arc::clone(&self.core))
    }

    /// When the call began.
    #[getter]
    fn start_time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.core.start_time.to_python(py)
    }

    /// When the call was over; None while it is not.
    #[getter]
    fn end_time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.core.end_time().to_python(py)
    }

    fn __repr__(&self) -> String {
        let core = &self.core;
        let modality = core.modality.as_str();
        format!("CallContext({modality} {}/{}, streaming={})", core.provider, core.model_id, core.streaming)
    }
}

garbage_collected!(CallContext: request, core);

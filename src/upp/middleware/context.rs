//! The context of a call, as middleware hooks receive it.

use std::sync::Arc;

use crate::error::not_constructible;
use crate::prelude::*;

use super::request::{CallRequest, CallResponse};
use super::state::CallState;
use crate::bridge::gc::garbage_collected;
use crate::data::DataClass as _;
use crate::to_python::ToPython;
use crate::upp::embedding::EmbeddingResult;
use crate::upp::image::ImageResult;
use turntree_upp::middleware::{CallContext as CoreContext, Response};

/// The context of one model call. All hooks of a call receive the same object.
///
/// Spec: UPP-1.2 §17.
#[pyclass(frozen, weakref, module = "turntree.upp.middleware")]
pub(crate) struct CallContext {
    core: Arc<CoreContext>,
    request: std::sync::OnceLock<Py<CallRequest>>,
}

impl CallContext {
    /// The Python object of a call's context.
    pub(super) fn new(core: Arc<CoreContext>) -> Self {
        Self { core, request: std::sync::OnceLock::new() }
    }

    /// Applies a hook's changes to the request.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.request.get().map_or(Ok(()), |request| request.get().settle(py))
    }
}

not_constructible!(CallContext, "the hooks of a middleware receive it");

#[pymethods]
impl CallContext {
    /// Kind of model: "llm", "embedding" or "image".
    #[getter]
    fn modality(&self) -> &'static str {
        self.core.modality.as_str()
    }

    /// The vendor's name of the model.
    #[getter]
    fn model_id(&self) -> &str {
        &self.core.model_id
    }

    /// Name of the provider.
    #[getter]
    fn provider(&self) -> &str {
        &self.core.provider
    }

    /// Whether the call is streamed.
    #[getter]
    fn streaming(&self) -> bool {
        self.core.streaming
    }

    /// The request. Changes in `on_start` and `on_request` take effect.
    #[getter]
    fn request(&self, py: Python<'_>) -> PyResult<Py<CallRequest>> {
        if let Some(request) = self.request.get() {
            return Ok(request.clone_ref(py));
        }
        let request = Py::new(py, CallRequest::new(Arc::clone(&self.core)))?;
        Ok(self.request.get_or_init(|| request).clone_ref(py))
    }

    /// The last response; None before it.
    ///
    /// A `CallResponse` of a language model, an `EmbeddingResult` or an `ImageResult`.
    #[getter]
    fn response(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(match self.core.response() {
            Some(Response::Llm(response)) => Some(Py::new(py, CallResponse(response))?.into_any()),
            Some(Response::Embedding(result)) => Some(EmbeddingResult::wrap(py, result)?),
            Some(Response::Image(result)) => Some(ImageResult::wrap(py, result)?),
            None => None,
        })
    }

    /// Last stop reason of a language model, such as `end_turn`; None before the first response.
    #[getter]
    fn stop_reason(&self) -> Option<&'static str> {
        self.core.stop_reason().map(turntree_upp::StopReason::as_str)
    }

    /// The state that middlewares store with the call.
    #[getter]
    fn state(&self) -> CallState {
        CallState(Arc::clone(&self.core))
    }

    /// Start time of the call.
    #[getter]
    fn start_time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.core.start_time.to_python(py)
    }

    /// End time of the call; None while it runs.
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

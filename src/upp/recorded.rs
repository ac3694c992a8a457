//! Models whose responses a function of the application records: durable engines record each call as a step.
//!
//! The function receives a [`ModelCall`]. It returns the JSON text that `ModelCall.run` has returned, now or in an earlier
//! process.

use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::custom::error_of;
use super::request::ModelRequest as PyModelRequest;
use crate::bridge::callbacks::PyCallback;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::error::{OrRaise as _, choose};
use turntree_core::json::{RawJson, write};
use turntree_core::message::{Message, TokenUsage};
use turntree_upp::{
    Capabilities, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason, UppError,
};

/// A model that calls another one through a function.
pub(super) struct RecordedModel {
    model: Arc<dyn Model>,
    record: Arc<PyCallback>,
}

impl RecordedModel {
    pub(super) fn new(model: Arc<dyn Model>, record: Arc<PyCallback>) -> Self {
        Self { model, record }
    }
}

impl std::fmt::Debug for RecordedModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RecordedModel").field(&self.model).finish()
    }
}

impl Model for RecordedModel {
    fn model_id(&self) -> &str {
        self.model.model_id()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { streaming: false, ..self.model.capabilities() }
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let (record, provider) = (Arc::clone(&self.record), self.provider().to_owned());
        let call = ModelCall { model: Arc::clone(&self.model), request };
        Box::pin(async move {
            let response = record.call_and_read(|py| (call,).into_pyobject(py), response_from).await;
            response.map_err(|error| error_of(&provider, error))
        })
    }

    /// The response as the only item: a recorded response has no events.
    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.complete(request).map(|response| response.map(ModelEvent::Done)).into_stream().boxed()
    }
}

/// A call of a model that has not been made.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct ModelCall {
    model: Arc<dyn Model>,
    request: ModelRequest,
}

#[pymethods]
impl ModelCall {
    /// The request.
    #[getter]
    fn request(&self) -> PyModelRequest {
        PyModelRequest(self.request.clone())
    }

    /// The id of the last message of the request, or None.
    #[getter]
    fn last_message_id(&self) -> Option<&str> {
        self.request.messages.last().map(|message| message.id.as_str())
    }

    /// Call the model and return the response as JSON text.
    ///
    /// Raises:
    ///     UPPError: The call failed.
    fn run(&self) -> Coroutine {
        let response = self.model.complete(self.request.clone());
        Coroutine::new("model", GcRoots::new([]), async move {
            let response = response.await.or_raise_held()?;
            gil::require_held(|py| write_response(py, &response))
        })
    }

    fn __repr__(&self) -> String {
        format!("ModelCall({} messages)", self.request.messages.len())
    }
}

/// A response as JSON text.
pub(super) fn write_response(py: Python<'_>, response: &ModelResponse) -> PyResult<String> {
    write(&Written::from(response)).or_raise(py)
}

/// A response as it is written.
#[derive(Serialize)]
struct Written<'a> {
    message: &'a Message,
    usage: &'a TokenUsage,
    stop_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawJson>,
}

impl<'a> From<&'a ModelResponse> for Written<'a> {
    fn from(response: &'a ModelResponse) -> Self {
        let ModelResponse { message, usage, stop_reason, data } = response;
        Self { message, usage, stop_reason: stop_reason.as_str(), data: data.as_ref() }
    }
}

/// A response as it is read.
#[derive(Deserialize)]
struct Recorded {
    message: Message,
    usage: TokenUsage,
    stop_reason: String,
    #[serde(default)]
    data: Option<RawJson>,
}

fn response_from(value: &Bound<'_, PyAny>) -> PyResult<ModelResponse> {
    let text: String = value.extract()?;
    let Recorded { message, usage, stop_reason, data } = serde_json::from_str(&text).or_raise(value.py())?;
    let stop_reason = choose("stop_reason", &stop_reason, &StopReason::ALL, StopReason::as_str)?;
    Ok(ModelResponse { message: Arc::new(message), usage, stop_reason, data })
}

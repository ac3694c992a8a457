//! Providers that are written in Python: an object with `generate`, `stream`, or both. Embeddings and images are in
//! [`super::custom_media`].
//!
//! The Python half (`turntree.upp._custom_provider`) wraps each as one function: `generate(request)` returns the response, and
//! `stream(request, sink)` pushes events and returns the response or None. A stream therefore runs in one task (or one
//! thread), and can use cancel scopes.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _, TryFutureExt as _, stream};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyTimeoutError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::request::ModelRequest;
use crate::bridge::call::Call;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil::{self, lock};
use crate::convert::json::{to_raw, to_raw_object};
use crate::data::extract;
use crate::message::content_and_calls;
use crate::records::{StreamEvent, TokenUsage as PyTokenUsage};
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::fold::Fold;
use turntree_core::message::{Body, ContentBlock, Delta, Message, StreamEvent as CoreEvent, TokenUsage};
use turntree_core::time::{Clock as _, SystemClock};
use turntree_upp::dialects::common::{data_of, new_call_id};
use turntree_upp::error::{ErrorCode, UppError};
use turntree_upp::provider::{Capabilities, Model, ModelEvent, ModelStream};
use turntree_upp::provider_tools;
use turntree_upp::providers::scripted::events_of;
use turntree_upp::request::{ModelRequest as CoreRequest, ModelResponse, StopReason};

/// Capacity of the queue. A stream waits while the queue is full.
const CAPACITY: usize = 256;

/// A model of a provider that is written in Python. Cloning shares its functions.
#[derive(Clone)]
pub(crate) struct CustomModel {
    provider: Arc<str>,
    model_id: Arc<str>,
    capabilities: Capabilities,
    generate: Option<Arc<PyCallback>>,
    stream: Option<Arc<PyCallback>>,
    media: MediaFunctions,
}

/// The functions of a provider for embeddings and images.
#[derive(Clone, Default)]
pub(crate) struct MediaFunctions {
    /// Embeds inputs.
    pub(crate) embed: Option<Arc<PyCallback>>,
    /// Maximum number of inputs of one call of `embed`.
    pub(crate) batch_size: Option<usize>,
    /// Generates images.
    pub(crate) generate_image: Option<Arc<PyCallback>>,
    /// Edits an image.
    pub(crate) edit: Option<Arc<PyCallback>>,
}

impl CustomModel {
    /// Creates a model of these functions. Also returns the functions, for the garbage collector.
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
        let mut held = Callbacks::default();
        let mut function = |callable: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Arc<PyCallback>>> {
            let function = callable.map(PyCallback::patient).transpose()?;
            held.functions.extend(function.clone());
            Ok(function)
        };
        let can = |name: &str| -> PyResult<bool> {
            capabilities.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())
        };
        let model = Self {
            provider: provider.into(),
            model_id: model_id.into(),
            capabilities: Capabilities {
                streaming: can("streaming")?,
                tools: can("tools")?,
                structured_output: can("structured_output")?,
                image_input: can("image_input")?,
                document_input: can("document_input")?,
                video_input: can("video_input")?,
                audio_input: can("audio_input")?,
            },
            generate: function(generate)?,
            stream: function(stream)?,
            media: MediaFunctions {
                embed: function(media.get_item("embed")?.as_ref())?,
                batch_size: media.get_item("batch_size")?.map(|size| size.extract()).transpose()?,
                generate_image: function(media.get_item("generate_image")?.as_ref())?,
                edit: function(media.get_item("edit")?.as_ref())?,
            },
        };
        Ok((model, held))
    }

    /// A Python exception as an error of this provider, which raises the same object again.
    fn raised(&self, py: Python<'_>, raised: PyErr) -> UppError {
        let code = match () {
            () if raised.is_instance_of::<PyTimeoutError>(py) => ErrorCode::Timeout,
            () if raised.is_instance_of::<PyConnectionError>(py) => ErrorCode::NetworkError,
            () => ErrorCode::ProviderError,
        };
        let error = crate::upp::error::from_exception(py, raised);
        if error.provider.is_empty() && error.code == ErrorCode::ProviderError {
            return UppError { code, provider: self.provider.to_string(), ..error };
        }
        error
    }

    /// Its functions for embeddings and images.
    pub(crate) const fn media(&self) -> &MediaFunctions {
        &self.media
    }

    /// Whether it has `generate` or `stream`.
    pub(crate) const fn is_llm(&self) -> bool {
        self.generate.is_some() || self.stream.is_some()
    }

    /// The error of a modality that the provider does not support.
    pub(crate) fn without(&self, modality: &str) -> UppError {
        let provider = &self.provider;
        let message = format!("Provider '{provider}' does not support {modality} modality");
        UppError::invalid_request(&**provider, message)
    }

    /// Runs `work` with the GIL. An exception becomes an error of this provider.
    pub(crate) fn held<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, UppError> {
        let done = gil::if_held(|py| work(py).map_err(|error| self.raised(py, error)));
        done.unwrap_or_else(|| {
            let message = "a provider that is written in Python must be called from a Python thread";
            Err(UppError::new(ErrorCode::ProviderError, &*self.provider, message))
        })
    }

    /// The request as the function receives it.
    fn settle(&self, request: &CoreRequest) -> Result<CoreRequest, UppError> {
        provider_tools::settle(request, &self.provider, true).map(std::borrow::Cow::into_owned)
    }

    async fn generate(
        self,
        function: Arc<PyCallback>,
        request: CoreRequest,
    ) -> Result<ModelResponse, UppError> {
        let request = self.settle(&request)?;
        let shown = ModelRequest(request.clone());
        let call = self.held(|py| function.call(py, PyTuple::new(py, [Py::new(py, shown)?])?.unbind()))?;
        let given = call.await;
        self.held(|py| self.response(&request, given?.bind(py), None))
    }

    /// Opens the stream of the provider's own `stream` function.
    fn open(self, function: &Arc<PyCallback>, request: &CoreRequest) -> Result<CustomStream, UppError> {
        let request = self.settle(request)?;
        let queue = Arc::new(Queue::default());
        let (shown, sink) = (ModelRequest(request.clone()), EventSink(Arc::clone(&queue)));
        let call = self.held(|py| {
            let arguments = (Py::new(py, shown)?, Py::new(py, sink)?);
            function.call(py, arguments.into_pyobject(py)?.unbind())
        })?;
        Ok(CustomStream {
            model: self,
            request,
            queue,
            call,
            fold: Fold::default(),
            stage: Stage::Fresh,
            given: None,
            rest: VecDeque::new(),
        })
    }

    /// The response from the tuple of the Python half: `(items, usage, stop_reason, data, metadata, id)`.
    fn response(
        &self,
        request: &CoreRequest,
        given: &Bound<'_, PyAny>,
        folded: Option<Fold>,
    ) -> PyResult<ModelResponse> {
        let given = given.cast::<PyTuple>()?;
        let item = |place: usize| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(Some(given.get_item(place)?).filter(|value| !value.is_none()))
        };
        let (content, mut tool_calls) = match (item(0)?, folded) {
            (Some(items), _) => content_and_calls(items.cast::<PyList>()?, "response")?,
            (None, Some(folded)) => {
                let folded = folded.finish();
                (folded.content, folded.tool_calls)
            }
            (None, None) => return Err(PyTypeError::new_err("generate must return a response, not None")),
        };
        for call in tool_calls.iter_mut().filter(|call| call.tool_call_id.is_empty()) {
            call.tool_call_id = new_call_id(&RandomIds);
        }
        let usage = match item(1)? {
            Some(usage) => (*extract::<PyTokenUsage>(&usage, "usage")?).clone(),
            None => TokenUsage::default(),
        };
        let given_reason: Option<String> = item(2)?.map(|reason| reason.extract()).transpose()?;
        let stop_reason = match given_reason {
            Some(name) => stop_reason(&name)?,
            None if tool_calls.is_empty() => StopReason::EndTurn,
            None => StopReason::ToolUse,
        };
        let data = match item(3)? {
            Some(data) => Some(to_raw(&data, "data")?),
            None => request.structure.as_ref().and_then(|_| {
                let text: String = content.iter().filter_map(ContentBlock::as_text).collect();
                data_of(&text)
            }),
        };
        let metadata = item(4)?.map(|metadata| to_raw_object(&metadata, "metadata")).transpose()?;
        let message = Message {
            id: item(5)?.map(|id| id.extract()).transpose()?.unwrap_or_else(|| RandomIds.string()),
            timestamp: SystemClock.now(),
            metadata: Some(self.with_model_id(metadata.unwrap_or_default())),
            body: Body::Assistant { content, tool_calls: (!tool_calls.is_empty()).then_some(tool_calls) },
            extra: Extra::new(),
        };
        Ok(ModelResponse { message: Arc::new(message), usage, stop_reason, data })
    }

    /// Adds the model id to the metadata of the provider.
    fn with_model_id(&self, mut metadata: RawObject) -> RawObject {
        let mut fields = metadata.get(&self.provider).and_then(RawObject::from_raw).unwrap_or_default();
        if fields.get("model").is_none() {
            fields.insert("model", RawJson::from_str_value(&self.model_id));
            metadata.insert(&*self.provider, RawJson::from_value(&fields).unwrap_or_default());
        }
        metadata
    }
}

fn stop_reason(name: &str) -> PyResult<StopReason> {
    let all = [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::ToolUse,
        StopReason::PauseTurn,
        StopReason::ContentFilter,
        StopReason::Error,
    ];
    all.into_iter().find(|reason| reason.as_str() == name).ok_or_else(|| {
        let names = all.map(StopReason::as_str).join(", ");
        pyo3::exceptions::PyValueError::new_err(format!("stop_reason must be one of {names}, not \"{name}\""))
    })
}

impl fmt::Debug for CustomModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CustomModel")
            .field("provider", &self.provider)
            .field("model_id", &self.model_id)
            .finish_non_exhaustive()
    }
}

impl Model for CustomModel {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn complete(&self, request: CoreRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        if let Some(function) = &self.generate {
            return Box::pin(self.clone().generate(Arc::clone(function), request));
        }
        let mut events = self.stream(request);
        let provider = Arc::clone(&self.provider);
        Box::pin(async move {
            while let Some(event) = events.next().await {
                if let ModelEvent::Done(response) = event? {
                    return Ok(response);
                }
            }
            Err(UppError::invalid_response(&*provider, "the stream ended without a response"))
        })
    }

    fn stream(&self, request: CoreRequest) -> ModelStream {
        let model = self.clone();
        if let Some(function) = self.stream.clone() {
            return Box::pin(async move { model.open(&function, &request) }.try_flatten_stream());
        }
        let Some(function) = self.generate.clone() else {
            return Box::pin(stream::iter([Err(self.without("llm"))]));
        };
        let whole = async move {
            let is_structured = request.structure.is_some();
            let response = model.generate(function, request).await?;
            let message = &response.message;
            let events = events_of(message.content(), message.tool_calls(), is_structured);
            let events = events.into_iter().map(ModelEvent::Event).chain([ModelEvent::Done(response)]);
            Ok(stream::iter(events.map(Ok)))
        };
        Box::pin(whole.try_flatten_stream())
    }
}

/// The queue between the function that pushes events and the run that reads them.
#[derive(Default)]
struct Queue {
    queued: Mutex<Queued>,
    /// Notifies waiting threads when there is space, or when the reader has closed the stream.
    has_room: Condvar,
}

/// State of the queue. Never call Python while it is locked.
#[derive(Default)]
struct Queued {
    events: VecDeque<CoreEvent>,
    waker: Option<Waker>,
    /// Called when there is space.
    room: Option<Py<PyAny>>,
    is_closed: bool,
}

/// Receives the events of a stream that is implemented in Python.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct EventSink(Arc<Queue>);

#[pymethods]
impl EventSink {
    /// Add an event and return whether there is space for another.
    fn push(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let event = (*extract::<StreamEvent>(event, "event")?).clone();
        let (waker, has_room) = {
            let mut queued = lock(&self.0.queued);
            if queued.is_closed {
                return Err(stream_closed());
            }
            queued.events.push_back(event);
            (queued.waker.take(), queued.events.len() < CAPACITY)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(has_room)
    }

    /// Block this thread until there is space.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        // The reader takes events and closes the queue without the GIL, so no notification is missed.
        let is_closed = py.detach(|| {
            let is_full = |queued: &mut Queued| queued.events.len() > CAPACITY / 2 && !queued.is_closed;
            let queued = self.0.has_room.wait_while(lock(&self.0.queued), is_full);
            queued.unwrap_or_else(PoisonError::into_inner).is_closed
        });
        if is_closed { Err(stream_closed()) } else { Ok(()) }
    }

    /// Call a function once, when there is space or the reader has closed the stream; immediately if so now.
    fn when_room(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
        {
            let mut queued = lock(&self.0.queued);
            if queued.events.len() >= CAPACITY && !queued.is_closed {
                queued.room = Some(function);
                return Ok(());
            }
        }
        function.call0(py).map(drop)
    }
}

fn stream_closed() -> PyErr {
    PyRuntimeError::new_err("the reader has closed the stream; stop pushing events")
}

enum Stage {
    /// No event was returned.
    Fresh,
    /// The message has started, and perhaps stopped.
    Begun {
        is_stopped: bool,
    },
    Over,
}

/// A stream that is written in Python.
struct CustomStream {
    model: CustomModel,
    request: CoreRequest,
    queue: Arc<Queue>,
    call: Call,
    fold: Fold,
    stage: Stage,
    /// The function's return value.
    given: Option<PyResult<Py<PyAny>>>,
    /// Remaining events after the return.
    rest: VecDeque<ModelEvent>,
}

impl CustomStream {
    /// Takes the next queued event. The first event is always the start of the message.
    fn next_event(&mut self) -> Option<CoreEvent> {
        let mut queued = lock(&self.queue.queued);
        let is_start =
            queued.events.front().is_some_and(|event| matches!(event.delta, Delta::MessageStart(_)));
        if matches!(self.stage, Stage::Fresh) && !queued.events.is_empty() {
            self.stage = Stage::Begun { is_stopped: false };
            if !is_start {
                return Some(CoreEvent::message_start());
            }
        }
        let event = queued.events.pop_front()?;
        let has_room = queued.events.len() <= CAPACITY / 2;
        let room = if has_room { queued.room.take() } else { None };
        drop(queued);
        if has_room {
            self.queue.has_room.notify_all();
        }
        if let Some(room) = room {
            notify_space(room);
        }
        if matches!(event.delta, Delta::MessageStop(_)) {
            self.stage = Stage::Begun { is_stopped: true };
        }
        self.fold.push(&event);
        Some(event)
    }

    /// Queues the remaining events and the response, after the function has ended and its events were returned.
    fn finish(&mut self, given: PyResult<Py<PyAny>>) -> Result<(), UppError> {
        let (model, request) = (&self.model, &self.request);
        let folded = std::mem::take(&mut self.fold);
        let response = model.held(|py| model.response(request, given?.bind(py), Some(folded)))?;
        let last = match self.stage {
            Stage::Fresh => {
                let message = &response.message;
                events_of(message.content(), message.tool_calls(), request.structure.is_some())
            }
            Stage::Begun { is_stopped: false } => vec![CoreEvent::message_stop()],
            Stage::Begun { is_stopped: true } | Stage::Over => Vec::new(),
        };
        self.rest.extend(last.into_iter().map(ModelEvent::Event));
        self.rest.push_back(ModelEvent::Done(response));
        self.stage = Stage::Over;
        Ok(())
    }
}

/// Notifies Python that there is space. Ignores errors of the callback.
fn notify_space(room: Py<PyAny>) {
    let _ = gil::if_held(move |py| room.call0(py).map(drop));
}

impl Stream for CustomStream {
    type Item = Result<ModelEvent, UppError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.rest.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if matches!(this.stage, Stage::Over) {
                return Poll::Ready(None);
            }
            lock(&this.queue.queued).waker = Some(context.waker().clone());
            if let Some(event) = this.next_event() {
                return Poll::Ready(Some(Ok(ModelEvent::Event(event))));
            }
            if let Some(given) = this.given.take() {
                if let Err(error) = this.finish(given) {
                    this.stage = Stage::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            match Pin::new(&mut this.call).poll(context) {
                // First return the events that were pushed before the function returned.
                Poll::Ready(given) => this.given = Some(given),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for CustomStream {
    fn drop(&mut self) {
        let room = {
            let mut queued = lock(&self.queue.queued);
            queued.is_closed = true;
            queued.room.take()
        };
        self.queue.has_room.notify_all();
        if let Some(room) = room {
            notify_space(room);
        }
    }
}

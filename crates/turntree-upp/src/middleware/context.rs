//! What a hook sees of a call, and may change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use crate::embedding::{EmbeddingRequest, EmbeddingResult};
use crate::error::Modality;
use crate::image::{ImageRequest, ImageResult};
use crate::request::{ModelRequest, ModelResponse, StopReason};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_core::time::{Clock, Timestamp};

/// What is asked. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Request {
    /// Of a language model. Changes of all members take effect.
    Llm(ModelRequest),
    /// Of a model that makes vectors: all inputs of the call, before they are cut into batches.
    Embedding(EmbeddingRequest),
    /// Of a model that makes pictures.
    Image(ImageRequest),
}

impl From<EmbeddingRequest> for Request {
    fn from(request: EmbeddingRequest) -> Self {
        Self::Embedding(request)
    }
}

impl From<ImageRequest> for Request {
    fn from(request: ImageRequest) -> Self {
        Self::Image(request)
    }
}

/// What was answered. Cheap to clone, except that of a language model.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// By a language model: its last answer.
    Llm(ModelResponse),
    /// By a model that makes vectors: those of all inputs.
    Embedding(Arc<EmbeddingResult>),
    /// By a model that makes pictures.
    Image(Arc<ImageResult>),
}

impl From<Arc<EmbeddingResult>> for Response {
    fn from(result: Arc<EmbeddingResult>) -> Self {
        Self::Embedding(result)
    }
}

impl From<Arc<ImageResult>> for Response {
    fn from(result: Arc<ImageResult>) -> Self {
        Self::Image(result)
    }
}

/// One call of a model, as its middleware sees it. UPP-1.2 §17.
#[derive(Debug)]
pub struct CallContext {
    /// What kind of model.
    pub modality: Modality,
    /// The vendor's name for it.
    pub model_id: Arc<str>,
    /// Whose model.
    pub provider: Arc<str>,
    /// Whether somebody listens.
    pub streaming: bool,
    /// When the call began.
    pub start_time: Timestamp,
    /// What middlewares keep with the call.
    pub state: State,
    clock: Arc<dyn Clock>,
    request: Mutex<Request>,
    outcome: Mutex<Outcome>,
    pub(super) given: Given,
}

#[derive(Debug, Default)]
struct Outcome {
    response: Option<Response>,
    end_time: Option<Timestamp>,
}

/// The conversation as the caller gave it: history, then inputs. See [`super::turn_start`].
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) messages: History,
    pub(super) history: usize,
    /// What a middleware has put before it, as older than this call.
    pub(super) stored: Mutex<Vec<Arc<Message>>>,
}

/// Who is called, and how.
#[derive(Debug, Clone)]
pub struct Called {
    /// What kind of model.
    pub modality: Modality,
    /// The vendor's name for it.
    pub model_id: Arc<str>,
    /// Whose model.
    pub provider: Arc<str>,
    /// Whether somebody listens.
    pub streaming: bool,
}

impl CallContext {
    /// The context of a call of a language model; the first `history` messages of the request are not new.
    pub fn llm(called: Called, request: ModelRequest, history: usize, clock: Arc<dyn Clock>) -> Self {
        let given = Given { messages: request.messages.clone(), history, stored: Mutex::default() };
        Self::with_request(called, Request::Llm(request), given, clock)
    }

    /// The context of a call of a model that makes vectors.
    pub fn embedding(called: Called, request: EmbeddingRequest, clock: Arc<dyn Clock>) -> Self {
        Self::of_request(called, Request::Embedding(request), clock)
    }

    /// The context of a call of a model that makes pictures.
    pub fn image(called: Called, request: ImageRequest, clock: Arc<dyn Clock>) -> Self {
        Self::of_request(called, Request::Image(request), clock)
    }

    /// The context of a call without a conversation.
    pub(crate) fn of_request(called: Called, request: Request, clock: Arc<dyn Clock>) -> Self {
        Self::with_request(called, request, Given::default(), clock)
    }

    fn with_request(called: Called, request: Request, given: Given, clock: Arc<dyn Clock>) -> Self {
        let Called { modality, model_id, provider, streaming } = called;
        let start_time = clock.now();
        Self {
            modality,
            model_id,
            provider,
            streaming,
            start_time,
            state: State::default(),
            clock,
            request: Mutex::new(request),
            outcome: Mutex::default(),
            given,
        }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is asked, as it stands.
    pub fn request(&self) -> Request {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is asked. Takes effect until the call is sent: in `on_start` and `on_request`.
    pub fn set_request(&self, request: Request) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// What a language model is asked; `None` for other models.
    pub fn llm_request(&self) -> Option<ModelRequest> {
        match self.request() {
            Request::Llm(request) => Some(request),
            Request::Embedding(_) | Request::Image(_) => None,
        }
    }

    /// What a model that makes vectors is asked; `None` for other models.
    pub fn embedding_request(&self) -> Option<EmbeddingRequest> {
        match self.request() {
            Request::Embedding(request) => Some(request),
            Request::Llm(_) | Request::Image(_) => None,
        }
    }

    /// What a model that makes pictures is asked; `None` for other models.
    pub fn image_request(&self) -> Option<ImageRequest> {
        match self.request() {
            Request::Image(request) => Some(request),
            Request::Llm(_) | Request::Embedding(_) => None,
        }
    }

    /// The last answer, once there is one.
    pub fn response(&self) -> Option<Response> {
        self.outcome().response.clone()
    }

    /// Why a language model stopped last.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match &self.outcome().response {
            Some(Response::Llm(response)) => Some(response.stop_reason),
            _ => None,
        }
    }

    /// When the call was over.
    pub fn end_time(&self) -> Option<Timestamp> {
        self.outcome().end_time
    }

    /// Remembers an answer; the last one counts.
    pub fn set_response(&self, response: Response) {
        self.outcome().response = Some(response);
    }

    /// Remembers when the call was over; the first time counts.
    pub(super) fn finish(&self) {
        let now = self.clock.now();
        self.outcome().end_time.get_or_insert(now);
    }
}

//! The data of a call that hooks can read and change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use crate::embedding::{EmbeddingRequest, EmbeddingResult};
use crate::error::Modality;
use crate::image::{ImageRequest, ImageResult};
use crate::request::{ModelRequest, ModelResponse, StopReason};
use turntree_core::message::Message;
use turntree_core::message::message::History;
use turntree_core::time::{Clock, Timestamp};

/// The request of a call. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Request {
    /// To a language model. All members may be changed.
    Llm(ModelRequest),
    /// To an embedding model: all inputs of the call, before they are split into batches.
    Embedding(EmbeddingRequest),
    /// To an image model.
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

/// The response of a call. Cheap to clone, except that of a language model.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// The last response of a language model.
    Llm(ModelResponse),
    /// The embeddings of all inputs.
    Embedding(Arc<EmbeddingResult>),
    /// The images.
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

/// One call of a model, for its middleware.
///
/// Spec: UPP-1.2 §17
#[derive(Debug)]
pub struct CallContext {
    /// The kind of model.
    pub modality: Modality,
    /// The vendor's name of the model.
    pub model_id: Arc<str>,
    /// The provider's name.
    pub provider: Arc<str>,
    /// True if the caller reads a stream.
    pub streaming: bool,
    /// When the call began.
    pub start_time: Timestamp,
    /// State that middleware stores with the call.
    pub state: State,
    clock: Arc<dyn Clock>,
    request: Mutex<Request>,
    outcome: Mutex<Outcome>,
    pub(super) original: OriginalConversation,
}

#[derive(Debug, Default)]
struct Outcome {
    response: Option<Response>,
    end_time: Option<Timestamp>,
}

/// The conversation as the caller passed it: history, then inputs. See [`super::turn_start`].
#[derive(Debug, Default)]
pub(super) struct OriginalConversation {
    pub(super) messages: History,
    pub(super) history: usize,
    /// Messages that middleware has inserted before the history.
    pub(super) stored: Mutex<Vec<Arc<Message>>>,
}

/// Model and mode of a call.
#[derive(Debug, Clone)]
pub struct CalledModel {
    /// The kind of model.
    pub modality: Modality,
    /// The vendor's name of the model.
    pub model_id: Arc<str>,
    /// The provider's name.
    pub provider: Arc<str>,
    /// True if the caller reads a stream.
    pub streaming: bool,
}

impl CallContext {
    /// The context of a language model call; the first `history` messages of the request are not new.
    pub fn llm(called: CalledModel, request: ModelRequest, history: usize, clock: Arc<dyn Clock>) -> Self {
        let original =
            OriginalConversation { messages: request.messages.clone(), history, stored: Mutex::default() };
        Self::with_request(called, Request::Llm(request), original, clock)
    }

    /// The context of an embedding call.
    pub fn embedding(called: CalledModel, request: EmbeddingRequest, clock: Arc<dyn Clock>) -> Self {
        Self::of_request(called, Request::Embedding(request), clock)
    }

    /// The context of an image call.
    pub fn image(called: CalledModel, request: ImageRequest, clock: Arc<dyn Clock>) -> Self {
        Self::of_request(called, Request::Image(request), clock)
    }

    /// The context of a call without a conversation.
    pub(crate) fn of_request(called: CalledModel, request: Request, clock: Arc<dyn Clock>) -> Self {
        Self::with_request(called, request, OriginalConversation::default(), clock)
    }

    fn with_request(
        called: CalledModel,
        request: Request,
        original: OriginalConversation,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let CalledModel { modality, model_id, provider, streaming } = called;
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
            original,
        }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current request.
    pub fn request(&self) -> Request {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the request. Has an effect before the call is sent: in `on_start` and `on_request`.
    pub fn set_request(&self, request: Request) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// The request to a language model; `None` for other models.
    pub fn llm_request(&self) -> Option<ModelRequest> {
        match self.request() {
            Request::Llm(request) => Some(request),
            Request::Embedding(_) | Request::Image(_) => None,
        }
    }

    /// The request to an embedding model; `None` for other models.
    pub fn embedding_request(&self) -> Option<EmbeddingRequest> {
        match self.request() {
            Request::Embedding(request) => Some(request),
            Request::Llm(_) | Request::Image(_) => None,
        }
    }

    /// The request to an image model; `None` for other models.
    pub fn image_request(&self) -> Option<ImageRequest> {
        match self.request() {
            Request::Image(request) => Some(request),
            Request::Llm(_) | Request::Embedding(_) => None,
        }
    }

    /// The last response, if there is one.
    pub fn response(&self) -> Option<Response> {
        self.outcome().response.clone()
    }

    /// Why the language model stopped last.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match &self.outcome().response {
            Some(Response::Llm(response)) => Some(response.stop_reason),
            _ => None,
        }
    }

    /// When the call ended.
    pub fn end_time(&self) -> Option<Timestamp> {
        self.outcome().end_time
    }

    /// Stores a response. Replaces an earlier one.
    pub fn set_response(&self, response: Response) {
        self.outcome().response = Some(response);
    }

    /// Stores the end time, unless it is stored already.
    pub(super) fn finish(&self) {
        let now = self.clock.now();
        self.outcome().end_time.get_or_insert(now);
    }
}

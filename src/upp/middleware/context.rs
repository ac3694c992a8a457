//! What a hook sees of a call, and may change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use crate::core::time::{Clock, Timestamp};
use crate::message::Message;
use crate::message::message::History;
use crate::upp::error::Modality;
use crate::upp::request::{ModelRequest, ModelResponse, StopReason};

/// What is asked. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Request {
    /// Of a language model. Changes of all members take effect.
    Llm(ModelRequest),
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// By a language model: its last answer.
    Llm(ModelResponse),
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
        let Request::Llm(request) = self.request();
        Some(request)
    }

    /// The last answer, once there is one.
    pub fn response(&self) -> Option<Response> {
        self.outcome().response.clone()
    }

    /// Why the model stopped last.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let Response::Llm(response) = self.response()?;
        Some(response.stop_reason)
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

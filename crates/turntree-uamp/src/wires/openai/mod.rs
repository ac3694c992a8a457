//! The HTTP API of OpenAI: chat completions, responses, models.
//!
//! ```text
//!   request ──> RunRequest ──> AgentRun ──AgentOutput──> Reply ──ReplyPart──> one body, or frames of an event stream
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`chat`] | `POST /chat/completions` |
//! | [`responses`] | `/responses` |
//! | [`models`] | `GET /models`, `GET /models/{id}` |
//! | `reply` | the output of a run as these protocols know it: text, reasoning, calls, one end |
//! | `parameters` | parameters of requests in the words of the agent's model |
//! | `payment` | payments of responses |
//! | `common` | what all paths share |
//! | `conversation` | messages of requests: what a run gets as history and as input |
//! | [`error`] | errors as OpenAI writes them |
//!
//! Spec: UAMP-1.0 §13; OpenAI API reference, "Chat Completions", "Responses" and "Models"

pub mod chat;
mod common;
pub(super) mod conversation;
pub mod error;
pub mod models;
pub(super) mod parameters;
pub(super) mod payment;
pub(super) mod reply;
pub mod responses;

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method};
use turntree_core::time::{Clock as _, SystemClock, Timestamp};
use turntree_server::{Response, ServerError};

pub use error::ApiError;
pub use reply::{Ending, Incomplete, Reply, ReplyPart};

use crate::service::{Exchange, Wire};

/// The wire of OpenAI's HTTP API.
#[derive(Debug, Clone)]
pub struct OpenAi {
    /// When the agents were offered; `created` of models.
    since: Timestamp,
    running: Arc<responses::running::Running>,
}

impl Default for OpenAi {
    fn default() -> Self {
        Self { since: SystemClock.now(), running: Arc::default() }
    }
}

impl Wire for OpenAi {
    fn serves(&self, _method: &Method, path: &str) -> bool {
        path == chat::PATH || responses::serves(path) || models::serves(path)
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        let (since, running) = (self.since, Arc::clone(&self.running));
        async move {
            let id = exchange.site.ids.string();
            let answer = match &*exchange.route.path {
                chat::PATH => chat::answer(exchange).await,
                path if responses::serves(path) => responses::answer(exchange, running).await,
                _ => models::answer(&exchange, since),
            };
            let mut response = answer.unwrap_or_else(|error| error.response());
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        }
        .boxed()
    }

    fn refuse(&self, error: &ServerError) -> Response {
        ApiError::from(error).response()
    }
}

/// The header by which the client packages find the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

//! AG-UI: `POST /ag-ui` runs an agent for a front end that keeps the conversation.
//!
//! | module | content |
//! |---|---|
//! | [`input`] | the body of a request, and the run that it asks for |
//! | [`events`] | the output of a run as events; without I/O |
//!
//! A run that calls tools of the front end ends with these calls. The front end sends their results in the messages of its
//! next run.
//!
//! Spec: AG-UI 1.0 (`ag-ui-protocol`)

pub mod events;
pub mod input;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _, stream};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use turntree_core::json::parse_bytes;
use turntree_server::{Body, KeepAlive, Response, SseEvent};

use self::events::Events;
use self::input::RunAgentInput;
use crate::agent::{AgentRun, RunOptions, RunRequest};
use crate::service::{Exchange, Wire};
use crate::types::ErrorCode;
use crate::wires::body_limits::BODY_LIMITS;
use crate::wires::openai::payment;

/// The wire of AG-UI.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgUi;

impl Wire for AgUi {
    fn serves(&self, method: &Method, path: &str) -> bool {
        method == Method::POST && path == "/ag-ui"
    }

    fn call(&self, exchange: Exchange) -> BoxFuture<'static, Response> {
        Box::pin(async move { respond(exchange).await.unwrap_or_else(Refusal::response) })
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::InvalidEvent, message: message.into() }
    }

    fn response(self) -> Response {
        let status = StatusCode::from_u16(self.code.http_status()).unwrap_or(StatusCode::BAD_REQUEST);
        let error = json!({ "error": { "code": self.code.as_str(), "message": self.message } });
        Body::json(&error).into_response(status)
    }
}

async fn respond(exchange: Exchange) -> Result<Response, Refusal> {
    let Exchange { site, route, request, context } = exchange;
    let payment_token = payment::token(request.headers(), request.uri().query());
    let agent = route
        .agent(&site, None)
        .map_err(|error| Refusal { code: ErrorCode::AgentNotFound, message: error.to_string() })?;
    let bytes = request.into_body().bytes().await.map_err(|error| Refusal::invalid(error.to_string()))?;
    let input: RunAgentInput = parse_bytes(&bytes, &BODY_LIMITS)
        .map_err(|error| Refusal::invalid(format!("the body is not a RunAgentInput: {error}")))?;
    let mut events = Events::new(input.thread_id.clone(), input.run_id.clone(), Arc::clone(&site.ids));
    let prepared = input::prepare(input, &*site.ids, &*site.clock)
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    let principal = context.principal;
    let run_id = site.ids.string();
    let paid = payment::check(&site, agent, principal.as_ref(), &run_id, payment_token).await;
    if let Err(error) = paid {
        return Ok(error.response());
    }
    let run = AgentRun::start(RunRequest {
        agent: Arc::clone(agent),
        input: prepared.input,
        options: RunOptions { principal, ..prepared.options },
    });
    let first = stream::iter(events.start());
    let body = Body::events(
        first.chain(rest(run, events)).map(|event| SseEvent::json(&event)),
        KeepAlive::default(),
    );
    Ok(body.into_response(StatusCode::OK))
}

/// The events of a run until its end. Dropping the stream cancels the run.
fn rest(run: AgentRun, events: Events) -> impl Stream<Item = Value> + Send {
    stream::unfold(Some((run, events)), async |state| {
        let (mut run, mut events) = state?;
        match run.next().await {
            None => Some((stream::iter(events.end()), None)),
            Some(output) => {
                let list = stream::iter(events.push(output));
                let next = (!events.has_ended()).then_some((run, events));
                Some((list, next))
            }
        }
    })
    .flatten()
}

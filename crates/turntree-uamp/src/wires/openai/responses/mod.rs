//! `/responses`: conversations that the server keeps.
//!
//! A stored response is a branch in the session of its conversation: the input and the output are the branch's messages,
//! and the response is in its metadata. So each response can be continued several times. The id of a response contains
//! that of its conversation.
//!
//! | module | content |
//! |---|---|
//! | [`request`] | the request, as a run |
//! | [`items`] | input items as messages |
//! | [`response`] | the response as an object |
//! | [`frames`] | the events of a response, without I/O |
//! | [`stored`] | responses in a store |
//! | [`running`] | the responses that can be cancelled |
//!
//! Spec: UAMP-1.0 §13; OpenAI API reference, "Responses"

pub mod frames;
pub mod items;
pub mod request;
pub mod response;
pub mod running;
pub mod stored;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, stream};
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use turntree_server::sse::{KeepAlive, SseEvent};
use turntree_server::{Body, Principal, Response};

use self::frames::{Frame, Frames};
use self::request::ResponsesRequest;
use self::response::ResponseObject;
use self::running::{Registration, Running};
use self::stored::{Conversation, ResponseId, Stored};
use super::common::{agent_of, method_not_allowed, seconds};
use super::error::ApiError;
use super::reply::{Ending, Reply, ReplyPart};
use super::{conversation, payment};
use crate::agent::{RunOptions, RunRequest, ServedAgent};
use crate::service::{Exchange, Site};

const PATH: &str = "/responses";

/// Whether a path is one of responses.
pub(super) fn serves(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request.
///
/// # Errors
/// The request is not valid, the response is unknown, the store failed, or the run failed.
pub(super) async fn answer(exchange: Exchange, running: Arc<Running>) -> Result<Response, ApiError> {
    let path = Arc::clone(&exchange.route.path);
    let method = exchange.request.method().clone();
    let rest: Vec<&str> = path.split('/').skip(2).collect();
    match (rest.as_slice(), &method) {
        ([], &Method::POST) => create(exchange, running).await,
        ([id], &Method::GET) => read(exchange, &decoded(id)).await,
        ([id], &Method::DELETE) => delete(exchange, &decoded(id)).await,
        ([_], method) => Ok(method_not_allowed(method, "GET, DELETE")),
        ([id, "cancel"], &Method::POST) => cancel(exchange, &decoded(id), &running).await,
        ([] | [_, "cancel"], method) => Ok(method_not_allowed(method, "POST")),
        _ => {
            Err(ApiError::new(StatusCode::NOT_FOUND, format!("there is no path {path}"))
                .with_code("not_found"))
        }
    }
}

fn decoded(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// The response of a request while it is produced.
struct Creation {
    site: Arc<Site>,
    agent: Arc<ServedAgent>,
    principal: Option<Principal>,
    conversation: Conversation,
    is_stored: bool,
    reply: Reply,
    frames: Frames,
    waiting: VecDeque<Frame>,
    _registration: Registration,
}

async fn create(exchange: Exchange, running: Arc<Running>) -> Result<Response, ApiError> {
    let Exchange { site, route, request, context } = exchange;
    let principal = context.principal;
    let (parts, body) = request.into_parts();
    let bytes = body.bytes().await?;
    let request: ResponsesRequest = conversation::parse_body(&bytes)?;
    request.check()?;
    let agent = Arc::clone(agent_of(&route, &site, request.model())?);
    let stored = Stored::new(&site, &agent, principal.as_ref());
    let (conversation, id) = stored.begin(&request, &*site.ids).await?;
    let messages = request.messages(&*site.ids, &*site.clock)?;
    let mut history = conversation.history.clone();
    history.extend(messages.messages.iter().cloned());
    conversation::check_calls(history.iter().map(AsRef::as_ref), "input")?;
    let instructions = messages.instructions;
    let mut options = RunOptions { instructions, principal: principal.clone(), ..RunOptions::default() };
    request.apply(&agent, &mut options)?;
    let payment_token = payment::token_of(&parts);
    payment::check(&site, &agent, principal.as_ref(), &id.to_string(), payment_token).await?;
    let object = ResponseObject::new(&request, &id, agent.name(), seconds(site.clock.now()));
    let (is_streamed, is_stored) = (request.is_streamed(), request.is_stored());
    let reply = Reply::start(RunRequest {
        agent: Arc::clone(&agent),
        input: conversation::run_input(history),
        options,
    });
    let registration = running.register(principal.as_ref(), &id.to_string(), reply.control().clone());
    let creation = Creation {
        frames: Frames::new(object, Arc::clone(&site.ids)),
        conversation: conversation.with_input(messages.messages),
        site,
        agent,
        principal,
        is_stored,
        reply,
        waiting: VecDeque::new(),
        _registration: registration,
    };
    if is_streamed {
        return Ok(Body::events(events(creation), KeepAlive::default()).into_response(StatusCode::OK));
    }
    creation.complete().await
}

impl Creation {
    /// The whole response.
    async fn complete(mut self) -> Result<Response, ApiError> {
        let mut ignored = VecDeque::new();
        while let Some(part) = self.reply.next().await {
            if let ReplyPart::End(Ending::Failed(error)) = &part {
                return Err(ApiError::from(&**error));
            }
            self.push(part, &mut ignored).await?;
            ignored.clear();
        }
        Ok(Body::json(&self.frames.object().to_json()).into_response(StatusCode::OK))
    }

    /// Adds a part. A complete response is stored before the client sees its end.
    async fn push(&mut self, part: ReplyPart, frames: &mut VecDeque<Frame>) -> Result<(), ApiError> {
        let ReplyPart::End(ending) = part else {
            self.frames.push(part, frames);
            return Ok(());
        };
        let usage = self.reply.usage();
        let saved = match self.reply.turn() {
            Some(turn) if self.is_stored => {
                let mut finished = self.frames.clone();
                finished.end(&ending, &usage, seconds(self.site.clock.now()), &mut VecDeque::new());
                let object = finished.object().to_json();
                let calls = finished.object().call_ids();
                let stored = Stored::new(&self.site, &self.agent, self.principal.as_ref());
                stored.save(&self.conversation, &object, turn, &calls).await
            }
            _ => Ok(()),
        };
        let ending = match &saved {
            Err(error) => Ending::Failed(Box::new(error.details())),
            Ok(()) => ending,
        };
        self.frames.end(&ending, &usage, seconds(self.site.clock.now()), frames);
        saved
    }
}

/// The events of a streamed response. Dropping them cancels the run.
fn events(mut creation: Creation) -> impl Stream<Item = SseEvent> + Send {
    creation.frames.start(&mut creation.waiting);
    stream::unfold(creation, |mut creation| async move {
        loop {
            if let Some(Frame { kind, data }) = creation.waiting.pop_front() {
                return Some((SseEvent::data(data).with_event(kind), creation));
            }
            let part = creation.reply.next().await?;
            let mut frames = VecDeque::new();
            // The last frame has the error.
            drop(creation.push(part, &mut frames).await);
            creation.waiting = frames;
        }
    })
}

/// The agent that opens the conversations of a request without a model.
fn reader(exchange: &Exchange) -> Result<Arc<ServedAgent>, ApiError> {
    let agent = exchange.route.agents(&exchange.site).into_iter().next();
    agent.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "the server has no agents"))
}

async fn read(exchange: Exchange, id: &str) -> Result<Response, ApiError> {
    let agent = reader(&exchange)?;
    let stored = Stored::new(&exchange.site, &agent, exchange.context.principal.as_ref());
    let object: Value = stored.read(&ResponseId::parse(id)?).await?;
    Ok(Body::json(&object).into_response(StatusCode::OK))
}

async fn delete(exchange: Exchange, id: &str) -> Result<Response, ApiError> {
    let agent = reader(&exchange)?;
    let stored = Stored::new(&exchange.site, &agent, exchange.context.principal.as_ref());
    stored.delete(&ResponseId::parse(id)?).await?;
    Ok(Body::json(&json!({ "id": id, "object": "response", "deleted": true })).into_response(StatusCode::OK))
}

async fn cancel(exchange: Exchange, id: &str, running: &Running) -> Result<Response, ApiError> {
    let principal = exchange.context.principal.as_ref();
    if running.cancel(principal, id) {
        let body = json!({ "id": id, "object": "response", "status": "cancelled", "output": [] });
        return Ok(Body::json(&body).into_response(StatusCode::OK));
    }
    let agent = reader(&exchange)?;
    let stored = Stored::new(&exchange.site, &agent, principal);
    stored.read(&ResponseId::parse(id)?).await?;
    Err(ApiError::new(
        StatusCode::BAD_REQUEST,
        "the response has ended; only a response in progress can be cancelled",
    )
    .with_code("response_not_active"))
}

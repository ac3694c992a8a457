//! `POST /chat/completions`: a conversation that the client keeps.
//!
//! | module | content |
//! |---|---|
//! | [`request`] | the request, as a run |
//! | [`chunks`] | the frames of a streamed completion, without I/O |
//! | [`completion`] | the body of a completion in one piece |
//! | [`signing`] | the signature of a completion |
//!
//! Spec: UAMP-1.0 §13; OpenAI API reference, "Chat Completions"

pub mod chunks;
pub mod completion;
pub mod request;
mod signing;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{Stream, stream};
use http::{Method, StatusCode};
use turntree_core::runtime;
use turntree_server::sse::{KeepAlive, SseEvent};
use turntree_server::{Body, Response};

use self::chunks::Chunks;
use self::completion::Completion;
use self::request::ChatRequest;
use self::signing::Signing;
use super::error::ApiError;
use super::reply::{Ending, Reply, ReplyPart};
use super::{common, conversation, payment};
use crate::service::Exchange;

/// The path.
pub(super) const PATH: &str = "/chat/completions";

/// How long the status of a streamed response waits for the first output, so that a failure before it has a status.
const FIRST_OUTPUT: Duration = Duration::from_secs(5);

/// Names a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The id.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub created: i64,
    /// The model as the client named it, or the agent.
    pub model: String,
}

/// Answers a request.
///
/// # Errors
/// The request is not valid, or the run failed before its first output.
pub(super) async fn answer(exchange: Exchange) -> Result<Response, ApiError> {
    let Exchange { site, route, request, context } = exchange;
    if request.method() != Method::POST {
        return Ok(common::method_not_allowed(request.method(), "POST"));
    }
    let (parts, body) = request.into_parts();
    let bytes = body.bytes().await?;
    let exchange = Exchange { site, route, request: (), context };
    let Exchange { site, context, .. } = &exchange;
    let request: ChatRequest = conversation::parse_body(&bytes)?;
    let agent = common::agent_of(&exchange.route, site, request.model())?;
    let heading = Heading {
        id: format!("chatcmpl-{}", site.ids.uuid().simple()),
        created: common::seconds(site.clock.now()),
        model: agent.name().to_string(),
    };
    let (is_streamed, has_usage) = (request.is_streamed(), request.includes_usage());
    let signing = Signing::of(&exchange, agent, &heading, &bytes);
    let mut run = request.into_run(agent, &*site.ids, &*site.clock)?;
    run.options.principal.clone_from(&context.principal);
    let payment_token = payment::token_of(&parts);
    payment::check(site, agent, context.principal.as_ref(), &heading.id, payment_token).await?;
    let mut reply = Reply::start(run);
    if !is_streamed {
        return complete(reply, Completion::new(heading), signing).await;
    }
    let first = first_parts(&mut reply).await?;
    let chunks = Chunks::new(&heading, has_usage);
    let streaming = Streaming::new(reply, chunks, first, signing);
    Ok(Body::events(streaming.events(), KeepAlive::default()).into_response(StatusCode::OK))
}

/// The whole completion.
async fn complete(
    mut reply: Reply,
    mut completion: Completion,
    signing: Option<Signing>,
) -> Result<Response, ApiError> {
    while let Some(part) = reply.next().await {
        if let ReplyPart::End(Ending::Failed(error)) = &part {
            return Err(ApiError::from(&**error));
        }
        completion.push(part);
    }
    let signature = signing.and_then(|signing| signing.sign(completion.text()));
    let mut body = completion.finish(&reply.usage());
    if let (Some(members), Some(signature)) = (body.as_object_mut(), signature) {
        members.insert("signature".to_owned(), signature.into());
    }
    Ok(Body::json(&body).into_response(StatusCode::OK))
}

/// Waits for the first output, but not for long.
///
/// # Errors
/// The run failed before it.
async fn first_parts(reply: &mut Reply) -> Result<VecDeque<ReplyPart>, ApiError> {
    let mut parts = VecDeque::new();
    let mut timer = Box::pin(runtime::sleep(FIRST_OUTPUT));
    loop {
        let next = Box::pin(reply.next());
        match select(next, timer).await {
            Either::Left((Some(ReplyPart::End(Ending::Failed(error))), _)) => {
                return Err(ApiError::from(&*error));
            }
            Either::Left((Some(ReplyPart::Hidden), rest)) => timer = rest,
            Either::Left((part, _)) => {
                parts.extend(part);
                return Ok(parts);
            }
            Either::Right(_) => return Ok(parts),
        }
    }
}

/// The state of a streamed completion.
struct Streaming {
    reply: Reply,
    chunks: Chunks,
    parts: VecDeque<ReplyPart>,
    frames: VecDeque<String>,
    /// What signs the completion, and its text so far.
    signing: Option<(Signing, String)>,
}

impl Streaming {
    /// Begins with the parts that are known.
    fn new(reply: Reply, chunks: Chunks, parts: VecDeque<ReplyPart>, signing: Option<Signing>) -> Self {
        let signing = signing.map(|signing| (signing, String::new()));
        let mut frames = VecDeque::new();
        chunks.start(&mut frames);
        Self { reply, chunks, parts, frames, signing }
    }

    /// The events. Dropping them cancels the run.
    fn events(self) -> impl Stream<Item = SseEvent> + Send {
        stream::unfold(self, |mut state| async move {
            let event = state.next().await?;
            Some((event, state))
        })
    }

    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(SseEvent::data(frame));
            }
            let part = match self.parts.pop_front() {
                Some(part) => Some(part),
                None => self.reply.next().await,
            };
            match part {
                None => return self.signature(),
                Some(ReplyPart::End(ending)) => {
                    if matches!(ending, Ending::Failed(_) | Ending::Cancelled) {
                        self.signing = None;
                    }
                    self.chunks.end(&ending, &self.reply.usage(), &mut self.frames);
                }
                Some(part) => {
                    if let (Some((_, signed)), ReplyPart::Text(text)) = (&mut self.signing, &part) {
                        signed.push_str(text);
                    }
                    self.chunks.push(part, &mut self.frames);
                }
            }
        }
    }

    /// The event after the last frame.
    fn signature(&mut self) -> Option<SseEvent> {
        let (signing, text) = self.signing.take()?;
        let signature = signing.sign(&text)?;
        Some(SseEvent::data(self.chunks.signature(&signature)).with_event(signing::EVENT))
    }
}

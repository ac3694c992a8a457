//! HTTP requests: events in, server-sent events out, and all of a response in one request.
//!
//! Spec: UAMP-1.0 §13.2

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::{Stream, stream};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use turntree_server::{Body, KeepAlive, RequestContext, Response, SseEvent};

use super::log::{Attachment, Frame, Taken};
use super::mailbox::{Mail, Mailbox};
use super::opening::{Identity, Opened, Opener, check_ids, not_found};
use super::refusal::Refusal;
use super::socket::{command_of, too_busy};
use super::table::{Command, SessionHandle};
use crate::event::{ClientEvent, Envelope as _};
use crate::service::Route;
use crate::session::WaitsFor;
use crate::types::ErrorCode;

/// The header with the id of the session.
const SESSION_HEADER: &str = "x-session-id";

/// Events of one request.
const MAX_EVENTS: usize = 256;

/// A member of the query, decoded.
fn query<'a>(parts: &'a Parts, name: &str) -> Option<Cow<'a, str>> {
    let pairs = parts.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()?;
    percent_decode_str(value).decode_utf8().ok()
}

fn header_text<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

/// Who makes a request: by the header `Authorization`, or by `?token=` for browsers, which cannot set it.
///
/// # Errors
/// The token is not valid.
pub(super) async fn identity_of(
    opener: &Opener,
    parts: &Parts,
    context: &RequestContext,
) -> Result<Option<Identity>, Refusal> {
    if opener.site.authenticator.is_none() {
        return Ok(Some(Identity::of(context.principal.clone())));
    }
    let bearer = header_text(parts, "authorization").and_then(|value| value.split_once(' '));
    let token = match bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
        Some((_, token)) => Some(Cow::Borrowed(token.trim())),
        None => query(parts, "token"),
    };
    match token {
        Some(token) => opener.identify(&token).await.map(Some),
        None => Ok(None),
    }
}

/// A request with events.
#[derive(Debug)]
pub(super) struct EventRequest {
    pub(super) opener: Opener,
    pub(super) route: Route,
    pub(super) parts: Parts,
    pub(super) identity: Option<Identity>,
}

impl EventRequest {
    /// The payment token of the request.
    pub(super) fn payment_token(&self) -> Option<String> {
        let of_header =
            header_text(&self.parts, "x-payment-token").or_else(|| header_text(&self.parts, "x-payment"));
        of_header.map(str::to_owned).or_else(|| query(&self.parts, "payment_token").map(Cow::into_owned))
    }

    /// The events of the body: one, or an array.
    async fn events(&self, body: Body) -> Result<Vec<ClientEvent>, Refusal> {
        let bytes = body.bytes().await.map_err(|error| Refusal {
            status: error.status().as_u16(),
            ..Refusal::new(ErrorCode::InvalidJson, error.public_message())
        })?;
        let invalid = |reason: &str| Refusal::new(ErrorCode::InvalidJson, format!("the body: {reason}"));
        let limits = &self.opener.limits.event;
        if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'[') {
            let event = ClientEvent::parse_bytes(&bytes, limits)?;
            check_ids(&event)?;
            return Ok(vec![event]);
        }
        let list: Vec<&RawValue> =
            serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if list.is_empty() || list.len() > MAX_EVENTS {
            return Err(invalid(&format!("it has {} events; send 1 to {MAX_EVENTS}", list.len())));
        }
        let read = |text: &&RawValue| {
            let event = ClientEvent::parse(text.get(), limits)?;
            check_ids(&event).map(|()| event)
        };
        list.iter().map(read).collect()
    }

    /// The session of the request, and the rest of its events. The first event may create it.
    async fn session(&self, mut events: Vec<ClientEvent>) -> Result<Target, Refusal> {
        if matches!(events.first(), Some(ClientEvent::SessionCreate(_)))
            && let ClientEvent::SessionCreate(mut create) = events.remove(0)
        {
            create.payment_token = create.payment_token.take().or_else(|| self.payment_token());
            let opened = self.opener.open(&self.route, *create, self.identity.as_ref()).await?;
            return Ok(Target { handle: opened.handle, after: opened.after_seq, events, is_new: true });
        }
        let of_event = events.first().and_then(|event| event.session_id().map(Cow::into_owned));
        let handle = self.existing(of_event)?;
        Ok(Target { handle, after: 0, events, is_new: false })
    }

    /// The session that the request names.
    fn existing(&self, of_event: Option<String>) -> Result<Arc<SessionHandle>, Refusal> {
        let named = header_text(&self.parts, SESSION_HEADER).map(str::to_owned);
        let id = named.or_else(|| query(&self.parts, "session_id").map(Cow::into_owned)).or(of_event);
        let id = id.ok_or_else(|| {
            let message =
                "the request names no session; send the header X-Session-ID, or begin with `session.create`";
            Refusal::new(ErrorCode::SessionRequired, message)
        })?;
        if self.identity.is_none() {
            let message = "the request has no token; send the header `Authorization: Bearer <token>`";
            return Err(Refusal::new(ErrorCode::Unauthorized, message));
        }
        let principal = self.identity.as_ref().and_then(Identity::id);
        self.opener.table.get(&id, principal).ok_or_else(|| not_found(&id))
    }

    /// Gives the events to the session. Events that were sent before have no effect.
    async fn forward(&self, target: &mut Target) -> Result<(), Refusal> {
        let handle = &target.handle;
        for event in std::mem::take(&mut target.events) {
            if matches!(event, ClientEvent::SessionCreate(_)) {
                let message = "only the first event of a request may be `session.create`";
                return Err(Refusal::new(ErrorCode::InvalidEvent, message));
            }
            if !handle.remember(&event) {
                continue;
            }
            let event_id = event.event_id().map(Cow::into_owned);
            let command = command_of(&self.opener, handle, event).await;
            if !handle.send(command) {
                handle.forget(event_id.as_deref());
                let is_over = handle.commands.is_closed();
                return Err(if is_over { not_found(&handle.id) } else { too_busy(handle) });
            }
        }
        Ok(())
    }

    /// `POST /events`: takes events. 201 with the id of a new session, else 202.
    pub(super) async fn post(self, body: Body) -> Result<Response, Refusal> {
        let events = self.events(body).await?;
        let mut target = self.session(events).await?;
        self.forward(&mut target).await?;
        let id = &target.handle.id;
        let status = if target.is_new { StatusCode::CREATED } else { StatusCode::ACCEPTED };
        let mut response = Body::json(&json!({ "session_id": &**id })).into_response(status);
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(SESSION_HEADER, value);
        }
        Ok(response)
    }

    /// `GET /events/stream`: the events of a session, from `Last-Event-ID` or `?after=` on.
    pub(super) fn stream(self) -> Result<Response, Refusal> {
        let handle = self.existing(None)?;
        let after = header_text(&self.parts, "last-event-id").map(str::to_owned);
        let after = after.or_else(|| query(&self.parts, "after").map(Cow::into_owned));
        let after: u64 = match after {
            None => 0,
            Some(text) => text.trim().parse().map_err(|_| {
                Refusal::new(
                    ErrorCode::InvalidEvent,
                    format!("the id of the last event is a number, not \"{text}\""),
                )
            })?,
        };
        let mailbox = Arc::new(Mailbox::default());
        let attachment = handle.log.attach(Arc::clone(&mailbox), after).map_err(|gap| Refusal {
            status: 410,
            ..Refusal::new(ErrorCode::SessionNotFound, gap.to_string())
                .with_details(&json!({ "reason": "events_dropped", "last_seq": gap.last_seq }))
        })?;
        let events = frames(Follower::new(attachment, mailbox), |frame| {
            SseEvent::data(&*frame.json).with_id(frame.seq.to_string())
        });
        Ok(Body::events(events, KeepAlive::default()).into_response(StatusCode::OK))
    }

    /// `POST /uamp` and `POST /uamp/stream`: a session for one request. A session that waits for the client's tools
    /// stays for the resume window.
    async fn attached(&self, body: Body) -> Result<Follower, Refusal> {
        let events = self.events(body).await?;
        let target = self.session(events).await?;
        self.follow(target).await
    }

    async fn follow(&self, mut target: Target) -> Result<Follower, Refusal> {
        let mailbox = Arc::new(Mailbox::default());
        let after = if target.is_new { target.after } else { target.handle.log.last_seq() };
        let attachment = target.handle.log.attach(Arc::clone(&mailbox), after).map_err(|gap| Refusal {
            status: 410,
            ..Refusal::new(ErrorCode::SessionNotFound, gap.to_string())
        })?;
        self.forward(&mut target).await?;
        let (answer, answered) = oneshot::channel();
        if !target.handle.send(Command::EndWhenIdle(answer)) && !target.handle.commands.is_closed() {
            return Err(too_busy(&target.handle));
        }
        // Without an answer the session has ended, and its last events are in the log.
        drop(answered.await);
        Ok(Follower::new(attachment, mailbox))
    }

    /// `POST /uamp`: an array of events in, an array of events out.
    pub(super) async fn batch(self, body: Body) -> Result<Response, Refusal> {
        let mut follower = self.attached(body).await?;
        let mut text = String::from("[");
        while let Some(taken) = follower.next().await {
            for frame in taken.frames {
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(&frame.json);
            }
        }
        text.push(']');
        let must_pay = follower.attachment.log().stopped() == Some(WaitsFor::Payment);
        let status = if must_pay { StatusCode::PAYMENT_REQUIRED } else { StatusCode::OK };
        let mut response = Body::full(text).into_response(status);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// `POST /uamp/stream`: an array of events in, server-sent events out, then `[DONE]`.
    pub(super) async fn batch_stream(self, body: Body) -> Result<Response, Refusal> {
        Ok(stream_of(self.attached(body).await?))
    }

    /// Gives events to a session that was opened for this request, and answers as [`Self::batch_stream`].
    pub(super) async fn respond(
        &self,
        opened: Opened,
        events: Vec<ClientEvent>,
    ) -> Result<Response, Refusal> {
        let target = Target { handle: opened.handle, after: opened.after_seq, events, is_new: true };
        Ok(stream_of(self.follow(target).await?))
    }
}

/// A session, and the events for it.
struct Target {
    handle: Arc<SessionHandle>,
    after: u64,
    events: Vec<ClientEvent>,
    is_new: bool,
}

/// Reads one log to its end.
struct Follower {
    attachment: Attachment,
    mailbox: Arc<Mailbox>,
    is_over: bool,
}

impl Follower {
    const fn new(attachment: Attachment, mailbox: Arc<Mailbox>) -> Self {
        Self { attachment, mailbox, is_over: false }
    }

    /// The next events; `None` at the end of the session, or when the request cannot go on.
    async fn next(&mut self) -> Option<Taken> {
        while !self.is_over {
            // What was stopped before the events were taken is complete with them.
            let is_stopped = self.attachment.log().stopped().is_some();
            let taken = self.attachment.take();
            self.is_over = taken.is_over || is_stopped && !taken.has_more;
            if !taken.frames.is_empty() {
                return Some(taken);
            }
            if !self.is_over {
                while !matches!(self.mailbox.next().await, Mail::Log(..)) {}
            }
        }
        None
    }
}

/// The events of a session as server-sent events, then `[DONE]`.
fn stream_of(follower: Follower) -> Response {
    let events = frames(follower, |frame| SseEvent::data(&*frame.json));
    let done = stream::once(std::future::ready(SseEvent::data("[DONE]")));
    let events = futures_util::StreamExt::chain(events, done);
    Body::events(events, KeepAlive::default()).into_response(StatusCode::OK)
}

/// The frames of a log as server-sent events.
fn frames(
    follower: Follower,
    convert: impl Fn(Frame) -> SseEvent + Clone + Send + 'static,
) -> impl Stream<Item = SseEvent> + Send + 'static {
    let chunks = stream::unfold(follower, move |mut follower| {
        let convert = convert.clone();
        async move {
            let taken = follower.next().await?;
            let events: Vec<SseEvent> = taken.frames.into_iter().map(convert).collect();
            Some((stream::iter(events), follower))
        }
    });
    futures_util::StreamExt::flatten(chunks)
}

//! A call of a task whose progress is read while it runs: server-sent events `progress`, then one `result`.
//!
//! The response is JSON instead if nothing is streamed: from servers of version 0.4, and if a request that was sent again
//! gets the stored response.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use turntree_core::http::{BodyDecoder, BodyStream, Flow, HttpError};
use turntree_core::limits::Limits;
use turntree_core::sse::{Decoder, Event, SseError};

use super::error::ClientError;
use super::reply::{self, result_of};
use super::session::{ActionRequest, ClientSession};
use crate::service::Progress;

/// What a task has done.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// It reports its progress.
    Progress(Progress),
    /// It has returned. Nothing follows.
    Result(Value),
}

/// A call of a task that runs.
///
/// # Cancel safety
/// Dropping it cancels the request: the server stops the task, and nothing of it is stored.
#[derive(Debug)]
pub struct RunningCall {
    session: Arc<ClientSession>,
    request: ActionRequest,
    /// `None` after the result.
    frames: Option<BodyStream<Frame, FrameError>>,
}

/// A part of the response.
#[derive(Debug)]
pub(super) enum Frame {
    Progress(Progress),
    /// The body of the response.
    Body(Bytes),
}

/// Why a response cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    /// The connection.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The events.
    #[error(transparent)]
    Events(#[from] SseError),
    /// The response is too large.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

impl RunningCall {
    pub(super) const fn new(
        session: Arc<ClientSession>,
        request: ActionRequest,
        frames: BodyStream<Frame, FrameError>,
    ) -> Self {
        Self { session, request, frames: Some(frames) }
    }

    /// Waits for the next event. A connection that breaks is made again: the server runs the task once.
    ///
    /// # Errors
    /// As for [`ClientSession::call`]; [`ClientError::Protocol`] after the result.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<CallEvent, ClientError> {
        let Some(frames) = &mut self.frames else {
            return Err(ClientError::Protocol { reason: "the call has returned its result".to_owned() });
        };
        let body = match frames.next().await {
            Some(Ok(Frame::Progress(progress))) => return Ok(CallEvent::Progress(progress)),
            Some(Ok(Frame::Body(body))) => self.session.answer(reply::parse(&body)?)?,
            Some(Err(FrameError::Http(_))) | None if self.session.repeats() => self.finish().await?,
            Some(Err(FrameError::Http(error))) => return Err(ClientError::Http(Arc::new(error))),
            Some(Err(error)) => return Err(ClientError::Protocol { reason: error.to_string() }),
            None => return Err(ClientError::Protocol { reason: "the response has no result".to_owned() }),
        };
        self.frames = None;
        Ok(CallEvent::Result(result_of(&body)))
    }

    /// Sends the request again without a stream.
    async fn finish(&self) -> Result<Map<String, Value>, ClientError> {
        self.session.repeat(&self.request).await
    }
}

/// Decodes a response: events, or one body of JSON.
#[derive(Debug, Default)]
pub(super) struct Frames {
    kind: Kind,
}

#[derive(Debug, Default)]
enum Kind {
    /// Nothing was read.
    #[default]
    Unknown,
    Events(Decoder),
    Json(Vec<u8>),
}

impl BodyDecoder for Frames {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<Frame>) -> Result<Flow, FrameError> {
        if let Kind::Unknown = self.kind
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.kind =
                if *first == b'{' { Kind::Json(Vec::new()) } else { Kind::Events(Decoder::default()) };
        }
        match &mut self.kind {
            Kind::Unknown => Ok(Flow::Continue),
            Kind::Json(body) => {
                let limit = Limits::PAYLOAD.bytes;
                if body.len().saturating_add(bytes.len()) > limit {
                    return Err(FrameError::TooLarge { limit });
                }
                body.extend_from_slice(bytes);
                Ok(Flow::Continue)
            }
            Kind::Events(decoder) => {
                decoder.push(bytes, |event| {
                    out.extend(frame(&event));
                    Ok::<_, FrameError>(())
                })?;
                let is_done = matches!(out.last(), Some(Frame::Body(_)));
                Ok(if is_done { Flow::Done } else { Flow::Continue })
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Frame>) -> Result<(), FrameError> {
        if let Kind::Json(body) = &mut self.kind {
            out.push(Frame::Body(std::mem::take(body).into()));
        }
        Ok(())
    }
}

/// The frame of an event; `None` for events that this client does not know.
fn frame(event: &Event<'_>) -> Option<Frame> {
    match event.event.as_deref() {
        Some("result") => Some(Frame::Body(Bytes::copy_from_slice(event.data.as_bytes()))),
        Some("progress") => serde_json::from_str(&event.data).ok().map(Frame::Progress),
        _ => None,
    }
}

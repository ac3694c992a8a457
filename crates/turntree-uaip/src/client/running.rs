//! A call of a task whose progress is read while it runs: server-sent events `progress`, then one `result`.
//!
//! The response is JSON instead if nothing is streamed: from servers of version 0.4, and if a request that was sent again
//! gets the stored response.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use turntree_core::http::{BodyStream, EventOrDocument, EventsOrDocumentError};
use turntree_core::sse::Event;

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
    frames: Option<BodyStream<Frame, EventsOrDocumentError>>,
}

/// A part of the response.
#[derive(Debug)]
pub(super) enum Frame {
    Progress(Progress),
    /// The body of the response.
    Body(Bytes),
}

impl RunningCall {
    pub(super) const fn new(
        session: Arc<ClientSession>,
        request: ActionRequest,
        frames: BodyStream<Frame, EventsOrDocumentError>,
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
            Some(Err(EventsOrDocumentError::Http(_))) | None if self.session.repeats() => {
                self.finish().await?
            }
            Some(Err(EventsOrDocumentError::Http(error))) => return Err(ClientError::Http(Arc::new(error))),
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

impl EventOrDocument for Frame {
    fn from_event(event: &Event<'_>) -> Option<Self> {
        match event.event.as_deref() {
            Some("result") => Some(Self::Body(Bytes::copy_from_slice(event.data.as_bytes()))),
            Some("progress") => serde_json::from_str(&event.data).ok().map(Self::Progress),
            _ => None,
        }
    }

    fn from_document(document: Bytes) -> Self {
        Self::Body(document)
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Body(_))
    }
}

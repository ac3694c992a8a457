//! Bodies of requests and responses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::application::Response;
use crate::error::ServerError;
use crate::sse::{EventBody, KeepAlive, SseEvent};

/// Up to this size the capacity for a body is reserved from its `Content-Length`, which the client chooses.
const MAX_RESERVED: usize = 64 * 1024;

/// The body of a request or a response: in one piece, or a stream of chunks.
///
/// # Cancel safety
/// Dropping the body of a request lets the server discard the rest; dropping that of a response ends its producer.
pub struct Body {
    content: Content,
    content_type: Option<&'static str>,
}

enum Content {
    Full(Option<Bytes>),
    Stream { chunks: BoxStream<'static, Result<Bytes, ServerError>>, length: Option<u64> },
}

impl Body {
    /// A body without content.
    pub fn empty() -> Self {
        Self { content: Content::Full(None), content_type: None }
    }

    /// A body in one piece. The response needs a `Content-Type`.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { content: Content::Full((!bytes.is_empty()).then_some(bytes)), content_type: None }
    }

    /// JSON in one piece.
    ///
    /// A value that JSON cannot express (a map whose keys are not text) becomes `null`; values of this project have none.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        let bytes = serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec());
        Self { content_type: Some("application/json"), ..Self::full(bytes) }
    }

    /// Plain text in UTF-8.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content_type: Some("text/plain; charset=utf-8"), ..Self::full(text.into()) }
    }

    /// A stream of chunks. An error closes the connection, so that the client sees that the body is incomplete.
    pub fn stream(chunks: impl Stream<Item = Result<Bytes, ServerError>> + Send + 'static) -> Self {
        Self { content: Content::Stream { chunks: chunks.boxed(), length: None }, content_type: None }
    }

    /// A stream of chunks whose total length may be known.
    pub fn stream_with_length(
        chunks: impl Stream<Item = Result<Bytes, ServerError>> + Send + 'static,
        length: Option<u64>,
    ) -> Self {
        Self { content: Content::Stream { chunks: chunks.boxed(), length }, content_type: None }
    }

    /// Server-sent events. While no event comes, comments keep the connection alive.
    pub fn events(events: impl Stream<Item = SseEvent> + Send + 'static, keep_alive: KeepAlive) -> Self {
        let content_type = Some("text/event-stream");
        Self { content_type, ..Self::stream(EventBody::new(events.boxed(), keep_alive)) }
    }

    /// A response with this body and the `Content-Type` of its constructor; events also forbid caches and the buffers
    /// of proxies.
    pub fn into_response(self, status: StatusCode) -> Response {
        let content_type = self.content_type;
        let mut response = Response::new(self);
        *response.status_mut() = status;
        if let Some(content_type) = content_type {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            if content_type == "text/event-stream" {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
                headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
            }
        }
        response
    }

    /// The same body with its chunks wrapped in another stream of the same length.
    pub(crate) fn map_chunks<S>(self, wrap: impl FnOnce(Self) -> S) -> Self
    where
        S: Stream<Item = Result<Bytes, ServerError>> + Send + 'static,
    {
        let (length, content_type) = (self.length(), self.content_type);
        Self { content_type, ..Self::stream_with_length(wrap(self), length) }
    }

    /// The length in bytes, if it is known before the body is read.
    pub fn length(&self) -> Option<u64> {
        match &self.content {
            Content::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Stream { length, .. } => *length,
        }
    }

    /// The next chunk; None at the end.
    ///
    /// # Errors
    /// The body is too large, too slow or incomplete. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<Bytes, ServerError>> {
        match &mut self.content {
            Content::Full(bytes) => bytes.take().map(Ok),
            Content::Stream { chunks, .. } => chunks.next().await,
        }
    }

    /// The whole body. Request bodies are limited by the server ([`crate::Limits`]).
    ///
    /// # Errors
    /// The body is too large, too slow or incomplete.
    pub async fn bytes(mut self) -> Result<Bytes, ServerError> {
        let Some(first) = self.next().await.transpose()? else { return Ok(Bytes::new()) };
        let Some(second) = self.next().await.transpose()? else { return Ok(first) };
        let expected = self.length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut whole = BytesMut::with_capacity(expected.min(MAX_RESERVED).max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(chunk) = self.next().await.transpose()? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The whole body, parsed as JSON.
    ///
    /// # Errors
    /// As [`Self::bytes`]; [`ServerError::Json`].
    pub async fn into_json<T: DeserializeOwned>(self) -> Result<T, ServerError> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| ServerError::Json { reason: error.to_string() })
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl Stream for Body {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().content {
            Content::Full(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Content::Stream { chunks, .. } => chunks.poll_next_unpin(context),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ServerError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ServerError>>> {
        self.poll_next(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

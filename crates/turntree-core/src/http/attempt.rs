//! One attempt at a request: send, check status and media type, read the body. Runs in the background task.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use ::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::admission::Admission;
use super::concurrency::{Permit, acquire};
use super::config::HttpConfig;
use super::error::{HttpError, StatusError, TimeoutPhase, excerpt, hide_cookies, request_id, safe_address};
use super::request::{PreparedRequest, ResponseType};
use super::transport::{ResponseBody, Transport, TransportError, TransportFuture, TransportResponse};

/// Maximum number of bytes of an error response that are read and shown to the caller.
const MAX_ERROR_BODY: usize = 1024 * 1024;

/// Maximum number of bytes that are read of a body with the wrong media type; enough for an excerpt.
const MAX_EXCERPT_BODY: usize = 4096;

/// Limits for reading the rest of a body after a stream is complete, so that its connection can be used again.
const MAX_DRAIN: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A whole response with a status of 2xx.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers; cookies are marked as sensitive.
    pub headers: HeaderMap,
    /// The decompressed body; it may be empty.
    pub body: Bytes,
}

impl HttpResponse {
    /// The server's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        request_id(&self.headers)
    }
}

/// One attempt, which the transport has accepted.
pub(super) struct Attempt {
    response: TransportFuture,
    admission: Admission,
    permit: Option<Permit>,
}

/// What all attempts of one request have in common.
pub(super) struct RequestContext {
    pub(super) config: Arc<HttpConfig>,
    /// The URL of the request; it may contain secrets.
    pub(super) url: Url,
    pub(super) response_type: ResponseType,
    /// The deadline of the whole operation.
    pub(super) deadline: Option<Instant>,
}

impl RequestContext {
    /// The server's address for errors, without secrets.
    fn address(&self) -> String {
        safe_address(&self.url)
    }

    /// Waits for the concurrency limit, and hands the request to the transport.
    pub(super) async fn start(&self, transport: &dyn Transport, mut request: PreparedRequest) -> Attempt {
        let permit = match self.config.max_concurrency {
            Some(limit) => acquire(request.url.origin().ascii_serialization(), limit).await,
            None => None,
        };
        request.deadline = self.earliest(self.config.header_timeout);
        let admission = Admission::new();
        request.admission = Some(admission.clone());
        Attempt { response: transport.send(request), admission, permit }
    }

    /// Reads the whole response.
    pub(super) async fn fetch(self: Arc<Self>, attempt: Attempt) -> Result<HttpResponse, HttpError> {
        let limit = self.config.max_body;
        let mut response = self.open(attempt, limit).await?;
        let headers = std::mem::take(&mut response.headers);
        Ok(HttpResponse { status: response.status, headers, body: response.read_all().await? })
    }

    /// Waits for the headers and checks that they are those of a success.
    pub(super) async fn open(
        self: Arc<Self>,
        attempt: Attempt,
        limit: usize,
    ) -> Result<IncomingResponse, HttpError> {
        let Attempt { response, admission, permit } = attempt;
        let response = self.head(response, &admission).await?;
        let (head, body) = response.map_err(|error| self.failed(error))?.into_parts();
        let (status, mut headers) = (head.status, head.headers);
        hide_cookies(&mut headers);
        let response =
            IncomingResponse { context: self, status, headers, body, read: 0, limit, _permit: permit };
        if !status.is_success() {
            return Err(response.into_status_error().await);
        }
        // The transport has removed the encodings that it knows.
        if let Some(encoding) =
            response.headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
        {
            let found = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            return Err(HttpError::Encoding { address: response.context.address(), found });
        }
        let content_type = response.headers.get(CONTENT_TYPE);
        if let Err(expected) = response.context.response_type.check(content_type) {
            return Err(response.into_content_type_error(expected).await);
        }
        Ok(response)
    }

    /// Waits for the response's headers. Time that the request waits for a connection does not count.
    async fn head(
        &self,
        response: TransportFuture,
        admission: &Admission,
    ) -> Result<Result<TransportResponse, TransportError>, HttpError> {
        let limit = self.config.header_timeout;
        let elapsed = pin!(admission.elapsed(limit));
        let limited = select(response, elapsed);
        // Only the deadline of the whole operation is left.
        match self.within(Duration::MAX, TimeoutPhase::Headers, limited).await? {
            Either::Left((response, _)) => Ok(response),
            Either::Right(_) => Err(self.timed_out(TimeoutPhase::Headers, limit)),
        }
    }

    /// Adds the address and the limits to an error of the transport.
    fn failed(&self, error: TransportError) -> HttpError {
        match error {
            TransportError::ConnectTimeout => {
                self.timed_out(TimeoutPhase::Connect, self.config.connect_timeout)
            }
            TransportError::HeadersTimeout => {
                self.timed_out(TimeoutPhase::Headers, self.config.header_timeout)
            }
            TransportError::Network { message, source } => {
                HttpError::Network { address: self.address(), message, source }
            }
            TransportError::Rejected { message } => HttpError::Rejected { message },
            TransportError::Unsigned { message } => HttpError::Unsigned { message },
            TransportError::Host(failure) => HttpError::Host(failure),
        }
    }

    /// The time after `limit`, or the deadline of the whole operation if it is earlier.
    fn earliest(&self, limit: Duration) -> Option<Instant> {
        let limited = Instant::now().checked_add(limit);
        limited.into_iter().chain(self.deadline).min()
    }

    pub(super) fn timed_out(&self, phase: TimeoutPhase, after: Duration) -> HttpError {
        HttpError::Timeout { phase, after, address: self.address() }
    }

    /// Limits a future to `limit` and to the deadline of the whole operation.
    async fn within<T>(
        &self,
        limit: Duration,
        phase: TimeoutPhase,
        work: impl Future<Output = T>,
    ) -> Result<T, HttpError> {
        let limited = Instant::now().checked_add(limit);
        let (until, phase, after) = match (limited, self.deadline) {
            (Some(limited), Some(deadline)) if limited <= deadline => (limited, phase, limit),
            (_, Some(deadline)) => {
                (deadline, TimeoutPhase::Total, self.config.total_deadline.unwrap_or_default())
            }
            (Some(limited), None) => (limited, phase, limit),
            (None, None) => return Ok(work.await),
        };
        timeout_at(until, work).await.map_err(|_| self.timed_out(phase, after))
    }
}

/// A successful response whose body is being read.
pub(super) struct IncomingResponse {
    context: Arc<RequestContext>,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: ResponseBody,
    /// Bytes read so far.
    read: usize,
    limit: usize,
    /// Counts against the concurrency limit until the body is read or dropped.
    _permit: Option<Permit>,
}

impl IncomingResponse {
    /// The next chunk as the transport delivers it; None at the end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let Self { context, body, .. } = self;
        let chunk = context
            .within(context.config.idle_timeout, TimeoutPhase::Idle, body.try_next())
            .await?
            .map_err(|error| context.failed(error))?;
        self.read = self.read.saturating_add(chunk.as_ref().map_or(0, Bytes::len));
        if self.read > self.limit { Err(self.too_large()) } else { Ok(chunk) }
    }

    /// Reads to the end. A body of one chunk is not copied.
    async fn read_all(&mut self) -> Result<Bytes, HttpError> {
        let length = usize::try_from(self.body.length().unwrap_or_default()).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(self.too_large());
        }
        let Some(first) = self.next_chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next_chunk().await? else { return Ok(first) };
        let mut whole = BytesMut::with_capacity(length.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(chunk) = self.next_chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// True if the end of the body can fail after the content is complete; see [`IncomingResponse::finish`].
    pub(super) const fn can_fail_to_close(&self) -> bool {
        self.body.can_fail_to_close()
    }

    /// Ends a body whose content is complete, and waits for the work that belongs to its end: a recording is written.
    ///
    /// # Errors
    /// The error of that work. A failure of the network is not an error, because the content is complete.
    pub(super) async fn finish(mut self) -> Result<(), HttpError> {
        let drained = self.drain().await;
        let Self { context, body, .. } = self;
        let closed = body.close().await.map_err(|error| context.failed(error));
        match drained {
            Err(error @ HttpError::Rejected { .. }) => Err(error),
            _ => closed,
        }
    }

    /// Reads and discards the rest of a body within limits, so that its connection can be used again.
    ///
    /// # Errors
    /// Of reading the body.
    pub(super) async fn drain(&mut self) -> Result<(), HttpError> {
        let reading = async {
            let mut drained = 0;
            while let Some(chunk) = self.next_chunk().await? {
                drained += chunk.len();
                if drained > MAX_DRAIN {
                    break;
                }
            }
            Ok(())
        };
        // If it does not reach the end, the connection is closed.
        tokio::time::timeout(DRAIN_TIME, reading).await.unwrap_or(Ok(()))
    }

    async fn into_status_error(mut self) -> HttpError {
        let body = self.read_prefix(MAX_ERROR_BODY).await;
        let address = self.context.address();
        HttpError::Status(Box::new(StatusError::new(address, self.status, self.headers, body)))
    }

    async fn into_content_type_error(mut self, expected: &'static str) -> HttpError {
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let found = content_type.unwrap_or("an unreadable content type").to_owned();
        let beginning = self.read_prefix(MAX_EXCERPT_BODY).await;
        let excerpt = excerpt(&beginning);
        HttpError::ContentType { address: self.context.address(), expected, found, excerpt, beginning }
    }

    /// The beginning of the body, up to a limit. A failure ends it early, so that it does not hide the status.
    async fn read_prefix(&mut self, limit: usize) -> Bytes {
        let mut prefix = BytesMut::new();
        while prefix.len() < limit {
            let Ok(Some(chunk)) = self.next_chunk().await else { break };
            let missing = chunk.len().min(limit - prefix.len());
            prefix.extend_from_slice(chunk.get(..missing).unwrap_or_default());
        }
        prefix.freeze()
    }

    fn too_large(&self) -> HttpError {
        HttpError::TooLarge { address: self.context.address(), limit: self.limit }
    }
}

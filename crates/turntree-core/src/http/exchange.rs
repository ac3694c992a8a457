//! One attempt at a request: send, judge status and media type, read the body. Runs in the background task.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Request, Response};
use tokio::time::{Instant, timeout_at};

use super::client::HttpResponse;
use super::config::HttpConfig;
use super::error::{HttpError, StatusError, TimeoutPhase, excerpt, hide_cookies};
use super::limit::{Permit, admit};
use super::replay::Source;
use super::request::Expect;

/// How much of a refusal's body is kept; the rest cannot be of use to anybody.
const MAX_ERROR_BODY: usize = 1024 * 1024;

/// How much is read of the body that nobody expected; enough for an excerpt.
const MAX_EXCERPT_BODY: usize = 4096;

/// What is still read after a stream said that it is done, so that its connection can be used again.
const MAX_DRAIN: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// One attempt that may go.
pub(super) struct Attempt {
    request: Request,
    source: Source,
    permit: Option<Permit>,
}

/// What all attempts of one request have in common.
pub(super) struct Exchange {
    pub(super) client: reqwest::Client,
    pub(super) config: Arc<HttpConfig>,
    /// The server for errors, without secrets.
    pub(super) address: String,
    pub(super) expect: Expect,
    pub(super) deadline: Option<Instant>,
}

impl Exchange {
    /// Waits for the host's limit, and asks the recording.
    pub(super) async fn admit(&self, request: Request) -> Result<Attempt, HttpError> {
        let permit = match self.config.max_concurrency {
            Some(limit) => admit(request.url().origin().ascii_serialization(), limit).await,
            None => None,
        };
        let source = match &self.config.replay {
            Some(replay) => replay.source(&request)?,
            None => Source::Network,
        };
        Ok(Attempt { request, source, permit })
    }

    /// Sends the request and reads the whole answer.
    pub(super) async fn fetch(self: Arc<Self>, attempt: Attempt) -> Result<HttpResponse, HttpError> {
        let limit = self.config.max_body;
        let mut body = self.open(attempt, limit).await?;
        let status = body.response.status();
        let headers = std::mem::take(body.response.headers_mut());
        Ok(HttpResponse { status, headers, body: body.whole().await? })
    }

    /// Sends the request and returns once the headers are there and are those of a success.
    pub(super) async fn open(self: Arc<Self>, attempt: Attempt, limit: usize) -> Result<Body, HttpError> {
        let Attempt { request, source, permit } = attempt;
        let mut response = match source {
            Source::Network => self.execute(request).await?,
            Source::Recording(slot) => match self.execute(request).await {
                Ok(response) => slot.response(response),
                Err(error) => return Err(slot.failure(error)),
            },
            Source::Recorded(played) => played.answer(&self.address, &self.config)?,
        };
        hide_cookies(response.headers_mut());
        let body = Body { exchange: self, response, read: 0, limit, _permit: permit };
        if !body.response.status().is_success() {
            return Err(body.refusal().await);
        }
        if let Err(expected) = body.exchange.expect.check(body.response.headers().get(CONTENT_TYPE)) {
            return Err(body.wrong_kind(expected).await);
        }
        Ok(body)
    }

    /// Sends the request over the network and waits for the headers.
    async fn execute(&self, request: Request) -> Result<Response, HttpError> {
        let sent =
            self.within(self.config.header_timeout, TimeoutPhase::Headers, self.client.execute(request));
        sent.await?.map_err(|error| HttpError::transport(&self.address, error, self.config.connect_timeout))
    }

    pub(super) fn timed_out(&self, phase: TimeoutPhase, after: Duration) -> HttpError {
        HttpError::Timeout { phase, after, address: self.address.clone() }
    }

    /// Waits no longer than `limit` and no longer than the deadline of the whole operation.
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

/// A response whose body is being read.
pub(super) struct Body {
    exchange: Arc<Exchange>,
    pub(super) response: Response,
    read: usize,
    limit: usize,
    /// A place at the host, until the body is read or given up.
    _permit: Option<Permit>,
}

impl Body {
    /// The next piece, as the transport delivers it; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        let Self { exchange, response, .. } = self;
        let config = &exchange.config;
        let chunk = exchange
            .within(config.idle_timeout, TimeoutPhase::Idle, response.chunk())
            .await?
            .map_err(|error| HttpError::transport(&exchange.address, error, config.connect_timeout))?;
        self.read = self.read.saturating_add(chunk.as_ref().map_or(0, Bytes::len));
        if self.read > self.limit { Err(self.too_large()) } else { Ok(chunk) }
    }

    /// Reads to the end, copying nothing when all of it came at once.
    async fn whole(&mut self) -> Result<Bytes, HttpError> {
        let length = self.response.content_length().unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(self.too_large());
        }
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next().await? else { return Ok(first) };
        let mut whole = BytesMut::with_capacity(length.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(chunk) = self.next().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads a little more of a body whose rest does not matter, lest its connection be closed.
    pub(super) async fn drain(mut self) {
        let reading = async {
            let mut drained = 0;
            while let Ok(Some(chunk)) = self.next().await {
                drained += chunk.len();
                if drained > MAX_DRAIN {
                    break;
                }
            }
        };
        // Nothing depends on whether it came to the end.
        let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
    }

    async fn refusal(mut self) -> HttpError {
        let body = self.beginning(MAX_ERROR_BODY).await;
        let status = self.response.status();
        let headers = std::mem::take(self.response.headers_mut());
        let address = self.exchange.address.clone();
        HttpError::Status(Box::new(StatusError::new(address, status, headers, body)))
    }

    async fn wrong_kind(mut self, expected: &'static str) -> HttpError {
        let found = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let found = found.unwrap_or("an unreadable content type").to_owned();
        let excerpt = excerpt(&self.beginning(MAX_EXCERPT_BODY).await);
        HttpError::ContentType { address: self.exchange.address.clone(), expected, found, excerpt }
    }

    /// What can be read of the body up to a limit. A failure here must not hide the status.
    async fn beginning(&mut self, limit: usize) -> Bytes {
        let mut beginning = BytesMut::new();
        while beginning.len() < limit {
            let Ok(Some(chunk)) = self.next().await else { break };
            let wanted = chunk.len().min(limit - beginning.len());
            beginning.extend_from_slice(chunk.get(..wanted).unwrap_or_default());
        }
        beginning.freeze()
    }

    fn too_large(&self) -> HttpError {
        HttpError::TooLarge { address: self.exchange.address.clone(), limit: self.limit }
    }
}

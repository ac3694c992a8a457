//! Records exchanges while they happen.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::ready as ready_future;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cassette::{Cassette, CassetteMode};
use super::file::{CassetteError, Chunk, FailureKind, Payload, Recorded, RecordedFailure, RecordedResponse};
use super::player::{PlaybackTransport, response_of};
use super::redact;
use super::request::{RequestRecord, headers};
use crate::http::error::REQUEST_ID_HEADERS;
use crate::http::request::{HttpRequest, PreparedRequest};
use crate::http::transport::{
    ClosingStream, Credentials, ResponseBody, Transport, TransportError, TransportFuture, TransportLayer,
    TransportResponse,
};
use crate::runtime::Task;

/// Response headers that are recorded, in addition to those of request ids and rate limits: those that the client reads.
const HEADERS: [&str; 5] = ["content-type", "date", "location", "retry-after", "retry-after-ms"];

/// Plays the cassette, records it, or does both, depending on its mode.
impl TransportLayer for Cassette {
    fn layer(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        match self.mode() {
            CassetteMode::Replay => Arc::new(PlaybackTransport::new(self.clone())),
            CassetteMode::Record | CassetteMode::Auto => {
                Arc::new(RecordingTransport::new(self.clone(), inner))
            }
        }
    }
}

/// Sends requests through another transport and records the exchanges. With [`CassetteMode::Auto`] it plays requests
/// that are recorded already.
#[derive(Debug, Clone)]
pub struct RecordingTransport<T> {
    cassette: Cassette,
    inner: T,
}

impl<T: Transport> RecordingTransport<T> {
    /// Records what `inner` sends.
    pub fn new(cassette: Cassette, inner: T) -> Self {
        Self { cassette, inner }
    }

    fn plays(&self) -> bool {
        self.cassette.mode() != CassetteMode::Record
    }
}

impl<T: Transport> Transport for RecordingTransport<T> {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        if let Some(error) = self.cassette.take_failure() {
            return Box::pin(ready_future(Err(unwritten(&error))));
        }
        let record = match self.cassette.redacted(RequestRecord::of(&request)) {
            Ok(record) => record,
            Err(error) => return Box::pin(ready_future(Err(error))),
        };
        if self.plays()
            && let Some(exchange) = self.cassette.play(&record.request)
        {
            return Box::pin(ready_future(response_of(exchange)));
        }
        let recorder = ExchangeRecorder {
            cassette: self.cassette.clone(),
            index: self.cassette.begin(record.request),
            secrets: record.secrets,
            deadline: request.deadline,
            is_finished: false,
        };
        let response = self.inner.send(request);
        Box::pin(async move {
            match response.await {
                Ok(response) => Ok(recorder.response(response)),
                Err(error) => Err(recorder.failure(error)),
            }
        })
    }

    fn credentials(&self, request: &HttpRequest) -> Credentials {
        let is_recorded = || {
            let record = self.cassette.redacted(RequestRecord::of_http(request));
            record.is_ok_and(|record| self.cassette.can_play(&record.request))
        };
        if self.plays() && is_recorded() { Credentials::Optional } else { self.inner.credentials(request) }
    }
}

/// Records one exchange. When it is dropped before the end, it records that the caller cancelled it.
struct ExchangeRecorder {
    cassette: Cassette,
    index: usize,
    secrets: Vec<String>,
    /// The client's deadline for the response headers.
    deadline: Option<Instant>,
    /// True if the exchange is recorded. An exchange is recorded once.
    is_finished: bool,
}

impl ExchangeRecorder {
    /// Records a request that failed without a response.
    fn failure(mut self, error: TransportError) -> TransportError {
        let kind = match &error {
            TransportError::ConnectTimeout => FailureKind::ConnectTimeout,
            TransportError::HeadersTimeout => FailureKind::HeadersTimeout,
            _ => FailureKind::Network,
        };
        let message = redact::text(&error.to_string(), &self.secrets).into_owned();
        if let Some(writing) =
            self.finish(|exchange| exchange.failure = Some(RecordedFailure { kind, message }))
        {
            // The request fails anyway; the next one reports a failed write.
            writing.detach();
        }
        error
    }

    /// Records a response while its body is read.
    fn response(self, response: TransportResponse) -> TransportResponse {
        let (head, body) = response.into_parts();
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json =
            kind.to_ascii_lowercase().contains("json") && !kind.contains("ndjson") && !kind.contains("jsonl");
        let length = body.length();
        let recorded = RecordedBody {
            body,
            recorder: self,
            status: head.status.as_u16(),
            headers: recorded_headers(&head.headers),
            is_json,
            chunks: Vec::new(),
            writing: None,
        };
        TransportResponse::from_parts(head, ResponseBody::closing(recorded).with_length(length))
    }

    fn finish(&mut self, finish: impl FnOnce(&mut Recorded)) -> Option<Task<Result<(), CassetteError>>> {
        if std::mem::replace(&mut self.is_finished, true) {
            return None;
        }
        self.cassette.finish(self.index, finish)
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let failure = if is_late {
            RecordedFailure {
                kind: FailureKind::HeadersTimeout,
                message: TransportError::HeadersTimeout.to_string(),
            }
        } else {
            RecordedFailure {
                kind: FailureKind::Closed,
                message: "the caller cancelled the request".to_owned(),
            }
        };
        if let Some(writing) = self.finish(|exchange| exchange.failure = Some(failure)) {
            writing.detach();
        }
    }
}

/// The error of a request whose exchange could not be written.
fn unwritten(error: &CassetteError) -> TransportError {
    TransportError::Rejected { message: error.to_string() }
}

/// The headers that are recorded. The others are useless for playback or identify an account.
fn recorded_headers(all: &HeaderMap) -> Map<String, Value> {
    let mut shown = headers(all);
    shown.retain(|name, _| {
        let name = name.as_str();
        HEADERS.contains(&name) || REQUEST_ID_HEADERS.contains(&name) || name.contains("ratelimit")
    });
    shown
}

/// Records a body while it is read.
struct RecordedBody {
    body: ResponseBody,
    recorder: ExchangeRecorder,
    status: u16,
    headers: Map<String, Value>,
    is_json: bool,
    chunks: Vec<Bytes>,
    /// The write of the recording. The body ends with it, so that a failure is an error of the request.
    writing: Option<Task<Result<(), CassetteError>>>,
}

impl RecordedBody {
    fn close(&mut self, failure: Option<RecordedFailure>) {
        let chunks = std::mem::take(&mut self.chunks);
        let is_whole = failure.is_none() && (self.is_json || chunks.len() < 2);
        let body = if is_whole {
            Payload::of(&chunks.concat(), self.is_json)
        } else {
            Some(Payload::Chunks(chunks.iter().map(|chunk| Chunk::of(chunk)).collect()))
        };
        let body = body.map(|body| redact::payload(body, &self.recorder.secrets));
        let headers = std::mem::take(&mut self.headers);
        let response = RecordedResponse { status: self.status, headers, body, failure, ..Default::default() };
        self.writing = self.recorder.finish(|exchange| exchange.response = Some(response));
    }

    /// Records that the reader closed the body, unless its end is recorded.
    fn close_early(&mut self) {
        if !self.recorder.is_finished {
            let message = "the reader closed the body before its end".to_owned();
            self.close(Some(RecordedFailure { kind: FailureKind::Closed, message }));
        }
    }

    /// Waits for the write, and returns its error once.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<Option<TransportError>> {
        let Some(writing) = self.writing.as_mut() else { return Poll::Ready(None) };
        let written = ready!(Pin::new(writing).poll(context));
        self.writing = None;
        Poll::Ready(match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                // Reported here instead of by the next request.
                self.recorder.cassette.take_failure();
                Some(unwritten(&error))
            }
            Err(error) => Some(TransportError::Rejected { message: error.to_string() }),
        })
    }
}

impl Stream for RecordedBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.recorder.is_finished {
            return self.poll_written(context).map(|error| error.map(Err));
        }
        let chunk = ready!(Pin::new(&mut self.body).poll_next(context));
        match &chunk {
            Some(Ok(bytes)) => self.chunks.push(bytes.clone()),
            Some(Err(error)) => {
                let message = redact::text(&error.to_string(), &self.recorder.secrets).into_owned();
                self.close(Some(RecordedFailure { kind: FailureKind::Network, message }));
            }
            None => {
                self.close(None);
                return self.poll_written(context).map(|error| error.map(Err));
            }
        }
        Poll::Ready(chunk)
    }
}

impl ClosingStream for RecordedBody {
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.close_early();
        self.poll_written(context).map(|error| error.map_or(Ok(()), Err))
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        self.close_early();
        if let Some(writing) = self.writing.take() {
            writing.detach();
        }
    }
}

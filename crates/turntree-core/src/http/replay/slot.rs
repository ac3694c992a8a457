//! One exchange while it is recorded.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::BoxStream;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value};

use super::asked::headers;
use super::file::{Chunk, FailureKind, Payload, Recorded, RecordedFailure, RecordedResponse};
use super::{Replay, redact};
use crate::http::error::{HttpError, REQUEST_ID_HEADERS, TimeoutPhase, causes};

/// Response headers that are recorded, beside those of request ids and rate limits: what this package reads.
const HEADERS: [&str; 5] = ["content-type", "date", "location", "retry-after", "retry-after-ms"];

/// A place in the recording. What has no end when it is dropped is taken out of the reader's hands as it is.
pub(in crate::http) struct Slot {
    replay: Replay,
    index: usize,
    secrets: Vec<String>,
    /// Nothing is written twice.
    is_over: bool,
}

impl Slot {
    pub(super) fn new(replay: Replay, index: usize, secrets: Vec<String>) -> Self {
        Self { replay, index, secrets, is_over: false }
    }

    /// Records that there was no response.
    pub(in crate::http) fn failure(mut self, error: HttpError) -> HttpError {
        let kind = match &error {
            HttpError::Timeout { phase: TimeoutPhase::Connect, .. } => FailureKind::ConnectTimeout,
            HttpError::Timeout { .. } => FailureKind::HeadersTimeout,
            _ => FailureKind::Network,
        };
        let message = match &error {
            HttpError::Network { message, .. } => message.clone(),
            other => other.to_string(),
        };
        let message = redact::text(&message, &self.secrets).into_owned();
        self.close(|exchange| exchange.failure = Some(RecordedFailure { kind, message }));
        error
    }

    /// Records a response while its body is read.
    pub(in crate::http) fn response(self, response: Response) -> Response {
        let (status, head) = (response.status(), response.headers().clone());
        let kind = head.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json =
            kind.to_ascii_lowercase().contains("json") && !kind.contains("ndjson") && !kind.contains("jsonl");
        let body = Tee {
            body: Box::pin(response.bytes_stream()),
            slot: self,
            status: status.as_u16(),
            headers: kept(&head),
            is_json,
            chunks: Vec::new(),
        };
        let mut copy = http::Response::new(reqwest::Body::wrap_stream(body));
        *copy.status_mut() = status;
        *copy.headers_mut() = head;
        copy.into()
    }

    fn close(&mut self, finish: impl FnOnce(&mut Recorded)) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.replay.close(self.index, finish);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let failure = RecordedFailure {
            kind: FailureKind::Closed,
            message: "the caller gave the request up".to_owned(),
        };
        self.close(|exchange| exchange.failure = Some(failure));
    }
}

/// The headers that are recorded. The others are of no use when they are played, or name an account.
fn kept(all: &HeaderMap) -> Map<String, Value> {
    let mut shown = headers(all);
    shown.retain(|name, _| {
        let name = name.as_str();
        HEADERS.contains(&name) || REQUEST_ID_HEADERS.contains(&name) || name.contains("ratelimit")
    });
    shown
}

/// A body that is recorded while it is read.
struct Tee {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    slot: Slot,
    status: u16,
    headers: Map<String, Value>,
    is_json: bool,
    chunks: Vec<Bytes>,
}

impl Tee {
    fn close(&mut self, failure: Option<RecordedFailure>) {
        let chunks = std::mem::take(&mut self.chunks);
        let is_whole = failure.is_none() && (self.is_json || chunks.len() < 2);
        let body = if is_whole {
            Payload::of(&chunks.concat(), self.is_json)
        } else {
            Some(Payload::Chunks(chunks.iter().map(|chunk| Chunk::of(chunk)).collect()))
        };
        let body = body.map(|body| redact::payload(body, &self.slot.secrets));
        let headers = std::mem::take(&mut self.headers);
        let response = RecordedResponse { status: self.status, headers, body, failure, ..Default::default() };
        self.slot.close(|exchange| exchange.response = Some(response));
    }
}

impl Stream for Tee {
    type Item = reqwest::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = ready!(self.body.as_mut().poll_next(context));
        match &chunk {
            Some(Ok(bytes)) => self.chunks.push(bytes.clone()),
            Some(Err(error)) => {
                let message = redact::text(&causes(error), &self.slot.secrets).into_owned();
                self.close(Some(RecordedFailure { kind: FailureKind::Network, message }));
            }
            None => self.close(None),
        }
        Poll::Ready(chunk)
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        if !self.slot.is_over {
            let message = "the reader went away before the end".to_owned();
            self.close(Some(RecordedFailure { kind: FailureKind::Closed, message }));
        }
    }
}

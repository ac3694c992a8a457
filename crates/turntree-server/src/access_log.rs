//! One record for each answered request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::application::Connection;
use crate::body::Body;
use crate::error::ServerError;

/// The logger of access records.
pub const LOGGER: &str = "turntree.server";

/// Path segments after which a secret follows: who knows the id of a session may use it.
const BEFORE_SECRETS: &[&str] = &["sessions", "session"];

/// Receives a record when the body of a response has ended.
pub trait AccessLog: fmt::Debug + Send + Sync + 'static {
    /// Whether records are wanted now. Called before each request.
    fn is_enabled(&self) -> bool;

    /// Writes a record. Called on network threads, so it must not block.
    fn write(&self, record: AccessRecord);
}

/// Writes records to the crate `log`, with the target [`LOGGER`].
#[derive(Debug, Clone, Copy, Default)]
pub struct FacadeLog;

impl AccessLog for FacadeLog {
    fn is_enabled(&self) -> bool {
        log::log_enabled!(target: LOGGER, log::Level::Info)
    }

    fn write(&self, record: AccessRecord) {
        log::info!(target: LOGGER, "{record}");
    }
}

/// What is known of an answered request. Contains no query, no header and no session id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRecord {
    /// The client's address.
    pub peer: Option<String>,
    /// The method.
    pub method: Method,
    /// The path with ids of sessions as `***`.
    pub path: String,
    /// The status.
    pub status: StatusCode,
    /// The number of bytes of the body that were sent.
    pub bytes: u64,
    /// From the head of the request to the end of the body.
    pub duration: Duration,
    /// False if the client disconnected, or if the body failed.
    pub complete: bool,
}

impl fmt::Display for AccessRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer.as_deref().unwrap_or("-");
        let Self { method, path, bytes, .. } = self;
        let (status, milliseconds) = (self.status.as_u16(), self.duration.as_secs_f64() * 1000.0);
        write!(formatter, "{peer} {method} {path} {status} {bytes} B {milliseconds:.1} ms")?;
        if self.complete { Ok(()) } else { formatter.write_str(" incomplete") }
    }
}

/// The record of a request in progress.
#[derive(Debug)]
pub(crate) struct PendingRecord {
    log: Arc<dyn AccessLog>,
    record: AccessRecord,
    start: Instant,
}

impl PendingRecord {
    /// None if the log wants no records.
    pub(crate) fn begin(log: &Arc<dyn AccessLog>, request: &Parts, connection: &Connection) -> Option<Self> {
        log.is_enabled().then(|| Self {
            log: Arc::clone(log),
            record: AccessRecord {
                peer: connection.peer.map(|peer| peer.to_string()),
                method: request.method.clone(),
                path: masked(request.uri.path()),
                status: StatusCode::OK,
                bytes: 0,
                duration: Duration::ZERO,
                complete: false,
            },
            start: Instant::now(),
        })
    }

    /// The body that writes the record when it ends or is dropped.
    pub(crate) fn watch(mut self, status: StatusCode, body: Body) -> Body {
        self.record.status = status;
        if body.length() == Some(0) {
            self.record.complete = true;
            return body;
        }
        let expected = body.length();
        body.map_chunks(|chunks| LoggedBody { chunks, expected, pending: self })
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let mut record = self.record.clone();
        record.duration = self.start.elapsed();
        self.log.write(record);
    }
}

struct LoggedBody<S> {
    chunks: S,
    expected: Option<u64>,
    pending: PendingRecord,
}

impl<S: Stream<Item = Result<Bytes, ServerError>> + Unpin> Stream for LoggedBody<S> {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.chunks.poll_next_unpin(context);
        let expected = self.expected;
        let record = &mut self.pending.record;
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => {
                record.bytes = record.bytes.saturating_add(chunk.len() as u64);
                // A body whose length is known is not polled after its last byte.
                record.complete = Some(record.bytes) == expected;
            }
            Poll::Ready(None) => record.complete = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }
}

/// The path with `***` for each segment that can be the id of a session: what follows `sessions`, and long segments with
/// digits. Control characters cannot occur in the path of a URI.
fn masked(path: &str) -> String {
    let mut masked = String::with_capacity(path.len());
    let mut is_secret = false;
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            masked.push('/');
        }
        let looks_random = segment.len() >= 20 && segment.bytes().any(|byte| byte.is_ascii_digit());
        masked.push_str(if !segment.is_empty() && (is_secret || looks_random) { "***" } else { segment });
        is_secret = BEFORE_SECRETS.contains(&segment);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn ids_of_sessions_are_masked() {
        let paths = [
            ("/", "/"),
            ("/execute", "/execute"),
            ("/sessions", "/sessions"),
            ("/sessions/", "/sessions/"),
            ("/sessions/s1/history", "/sessions/***/history"),
            ("/ws/3f2b8a10-9f3e-4d62-8f9a-0c6f5f0f1a2b", "/ws/***"),
            ("/api/workflows/a-workflow-with-a-long-name", "/api/workflows/a-workflow-with-a-long-name"),
        ];

        for (path, expected) in paths {
            assert_eq!(masked(path), expected);
        }
    }
}

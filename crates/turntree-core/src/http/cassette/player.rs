//! Plays recorded exchanges: responses, broken bodies and failures.

use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream;
use serde_json::{Map, Value};

use super::cassette::Cassette;
use super::file::{FailureKind, Recorded, RecordedFailure, RecordedResponse};
use super::request::RequestRecord;
use crate::http::request::{HttpRequest, PreparedRequest};
use crate::http::transport::{
    Credentials, ResponseBody, Transport, TransportError, TransportFuture, TransportResponse,
};

/// Answers requests from a cassette. A request that no exchange matches is [`TransportError::Rejected`].
#[derive(Debug, Clone)]
pub struct PlaybackTransport(Cassette);

impl PlaybackTransport {
    /// Plays a cassette, whatever its mode.
    pub fn new(cassette: Cassette) -> Self {
        Self(cassette)
    }

    fn play(&self, request: &PreparedRequest) -> Result<TransportResponse, TransportError> {
        let RequestRecord { request, .. } = self.0.redacted(RequestRecord::of(request))?;
        match self.0.play(&request) {
            Some(exchange) => response_of(exchange),
            None => Err(self.0.unmatched(&request)),
        }
    }
}

impl Transport for PlaybackTransport {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        Box::pin(ready(self.play(&request)))
    }

    fn credentials(&self, _request: &HttpRequest) -> Credentials {
        Credentials::Unused
    }
}

/// The recorded response, or the recorded failure as an error.
pub(super) fn response_of(exchange: Recorded) -> Result<TransportResponse, TransportError> {
    match (exchange.response, exchange.failure) {
        (Some(recorded), _) => response(&recorded),
        (None, Some(failure)) => Err(error_of(failure)),
        (None, None) => Err(unplayable("it has neither a response nor a failure")),
    }
}

fn error_of(failure: RecordedFailure) -> TransportError {
    match failure.kind {
        FailureKind::ConnectTimeout => TransportError::ConnectTimeout,
        FailureKind::HeadersTimeout => TransportError::HeadersTimeout,
        FailureKind::Network | FailureKind::Closed => {
            TransportError::Network { message: failure.message, source: None }
        }
    }
}

fn unplayable(why: &str) -> TransportError {
    TransportError::Rejected {
        message: format!("a recorded exchange cannot be played: {why}; record it again"),
    }
}

fn response(recorded: &RecordedResponse) -> Result<TransportResponse, TransportError> {
    let pieces = match &recorded.body {
        Some(body) => body.pieces().map_err(|why| unplayable(&why))?,
        None => Vec::new(),
    };
    let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
    let failure = recorded.failure.clone();
    let failure =
        failure.map(|RecordedFailure { message, .. }| TransportError::Network { message, source: None });
    let body = stream::iter(pieces.chain(failure.map(Err)).collect::<Vec<Result<Bytes, TransportError>>>());
    let mut response = TransportResponse::new(ResponseBody::new(body));
    *response.status_mut() = StatusCode::from_u16(recorded.status)
        .map_err(|_| unplayable(&format!("{} is not an HTTP status", recorded.status)))?;
    *response.headers_mut() = headers(&recorded.headers)?;
    Ok(response)
}

fn headers(recorded: &Map<String, Value>) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::new();
    for (name, value) in recorded {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            single => std::slice::from_ref(single),
        };
        for value in values {
            let header = HeaderName::from_bytes(name.as_bytes()).ok();
            let value = value.as_str().and_then(|text| HeaderValue::from_str(text).ok());
            let (Some(header), Some(value)) = (header, value) else {
                return Err(unplayable(&format!("its header {name:?} is invalid")));
            };
            headers.append(header, value);
        }
    }
    Ok(headers)
}

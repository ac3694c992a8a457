//! One exchange while it is played: a response as the transport would have made it.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value};

use super::file::{FailureKind, Recorded, RecordedFailure, RecordedResponse};
use crate::http::config::HttpConfig;
use crate::http::error::{HttpError, TimeoutPhase};

/// What is answered. A copy, so that the recording is free while a body is read.
pub(in crate::http) struct Played {
    response: Option<RecordedResponse>,
    failure: Option<RecordedFailure>,
}

impl Played {
    pub(super) fn new(exchange: &Recorded) -> Self {
        Self { response: exchange.response.clone(), failure: exchange.failure.clone() }
    }

    /// The response, or the failure that there was instead.
    ///
    /// # Errors
    /// The recorded failure.
    pub(in crate::http) fn answer(self, address: &str, config: &HttpConfig) -> Result<Response, HttpError> {
        let address = address.to_owned();
        match (self.response, self.failure) {
            (Some(recorded), _) => response(&recorded),
            (None, Some(failure)) => Err(match failure.kind {
                FailureKind::ConnectTimeout => HttpError::Timeout {
                    phase: TimeoutPhase::Connect,
                    after: config.connect_timeout,
                    address,
                },
                FailureKind::HeadersTimeout => {
                    HttpError::Timeout { phase: TimeoutPhase::Headers, after: config.header_timeout, address }
                }
                FailureKind::Network | FailureKind::Closed => {
                    HttpError::Network { address, message: failure.message, source: None }
                }
            }),
            (None, None) => Err(unplayable("it has neither a response nor a failure")),
        }
    }
}

fn unplayable(why: &str) -> HttpError {
    HttpError::Replay { message: format!("a recorded exchange cannot be played: {why}; record it again") }
}

fn response(recorded: &RecordedResponse) -> Result<Response, HttpError> {
    let pieces = match &recorded.body {
        Some(body) => body.pieces().map_err(|why| unplayable(&why))?,
        None => Vec::new(),
    };
    let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
    let cut = recorded.failure.as_ref().map(|failure| Err(Cut(failure.message.clone())));
    let body = stream::iter(pieces.chain(cut).collect::<Vec<Result<Bytes, Cut>>>());
    let mut response = http::Response::new(reqwest::Body::wrap_stream(body));
    *response.status_mut() = StatusCode::from_u16(recorded.status)
        .map_err(|_| unplayable(&format!("{} is no status", recorded.status)))?;
    *response.headers_mut() = headers(&recorded.headers)?;
    Ok(response.into())
}

fn headers(recorded: &Map<String, Value>) -> Result<HeaderMap, HttpError> {
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
                return Err(unplayable(&format!("its header {name:?} is none")));
            };
            headers.append(header, value);
        }
    }
    Ok(headers)
}

/// The recorded body ended in a failure.
#[derive(Debug, Clone)]
pub(in crate::http) struct Cut(String);

impl Cut {
    /// The cut behind an error of the transport.
    pub(in crate::http) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut error = Some(error);
        while let Some(cause) = error {
            if let Some(cut) = cause.downcast_ref() {
                return Some(cut);
            }
            error = cause.source();
        }
        None
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Cut {}

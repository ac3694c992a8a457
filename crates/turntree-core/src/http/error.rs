//! The errors of a request.
//!
//! ```text
//! HttpError
//!   Request       the request itself is wrong: URL, header, client configuration
//!   Status        the server refused (StatusError: status, headers, body, retry_after, request_id)
//!   Timeout       connect | headers | idle | total
//!   Network       connection refused, reset, TLS, truncated body
//!   ContentType   a success with the wrong kind of body
//!   Encoding      a success whose body has an encoding that is not supported
//!   TooLarge      the body passed the limit
//!   Cancelled     the caller stopped it
//!   Task          the background task failed
//!   Host          the caller's own code failed: a key function, a retry strategy
//!   Unsigned      there are no credentials to sign the request with
//!   Rejected      the transport did not send the request, for example because no recording matches
//! ```
//!
//! Messages name the server without user, password and query, which may contain keys. They never contain request headers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{Entry, SET_COOKIE};
use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use url::Url;

use super::retry_after::{parse_retry_after, parse_retry_info};
use crate::runtime::TaskError;

/// Response headers with the server's id of the request, for support. The first one present is used.
pub(super) const REQUEST_ID_HEADERS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "x-ms-request-id", "cf-ray"];

/// Maximum length of the excerpt of a body in an error.
const EXCERPT_CHARACTERS: usize = 200;

/// The errors of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The request or the configuration is wrong; nothing was sent.
    #[error("cannot make the request: {message}")]
    Request {
        /// The reason and the remedy.
        message: String,
    },
    /// The server responded with a status other than 2xx.
    #[error(transparent)]
    Status(Box<StatusError>),
    /// A timeout passed.
    #[error("{address} took longer than {} ms {phase}; try again or raise the limit", after.as_millis())]
    Timeout {
        /// The phase that timed out.
        phase: TimeoutPhase,
        /// The timeout.
        after: Duration,
        /// The server, without secrets.
        address: String,
    },
    /// The connection failed or ended in the middle of a message.
    #[error("network error with {address}: {message}; check the connection or try again")]
    Network {
        /// The server, without secrets.
        address: String,
        /// The causes, from the outermost to the innermost.
        message: String,
        /// The transport's own error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The body is not of the expected kind, for instance a gateway's HTML page.
    #[error(
        "{address} sent {found} where {expected} was expected; check the base URL and proxies: {excerpt}"
    )]
    ContentType {
        /// The server, without secrets.
        address: String,
        /// The media type that was expected.
        expected: &'static str,
        /// The media type of the response.
        found: String,
        /// The beginning of the body, at most 200 characters.
        excerpt: String,
        /// The beginning of the body, at most 4096 bytes.
        beginning: Bytes,
    },
    /// The body has an encoding that is not supported.
    #[error(
        "{address} sent a body with the content encoding {found}, which cannot be decoded; servers may use gzip and \
         br, and a transport of the application has to decode bodies itself"
    )]
    Encoding {
        /// The server, without secrets.
        address: String,
        /// The encoding of the response.
        found: String,
    },
    /// The body passed the limit.
    #[error("the body from {address} is larger than {limit} bytes; raise the limit if the server is trusted")]
    TooLarge {
        /// The server, without secrets.
        address: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The caller cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// The background task failed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The request cannot be signed, because there are no credentials; nothing was sent.
    #[error("{message}")]
    Unsigned {
        /// The reason and the remedy.
        message: String,
    },
    /// Code of the application failed.
    #[error(transparent)]
    Host(#[from] HostFailure),
    /// The transport did not send the request, and a retry cannot help.
    #[error("{message}")]
    Rejected {
        /// The reason and the remedy.
        message: String,
    },
}

/// An error of the application's code, preserved with its type. Cloning shares it.
#[derive(Debug, Clone)]
pub struct HostFailure(Arc<dyn Error + Send + Sync>);

impl HostFailure {
    /// Wraps an error.
    pub fn new(failure: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(failure))
    }

    /// The error, if it is of this type.
    pub fn downcast_ref<T: Error + 'static>(&self) -> Option<&T> {
        let failure: &(dyn Error + 'static) = &*self.0;
        failure.downcast_ref()
    }
}

impl fmt::Display for HostFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for HostFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// True only for clones of the same failure.
impl PartialEq for HostFailure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostFailure {}

impl HttpError {
    /// True if the same request may succeed later: statuses 408, 429 and 5xx, network errors, and timeouts other than
    /// [`TimeoutPhase::Total`].
    ///
    /// Spec: UPP-1.2 §13.3
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status(error) => {
                let status = error.status;
                status.is_server_error()
                    || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
            Self::Timeout { phase, .. } => *phase != TimeoutPhase::Total,
            Self::Network { .. } => true,
            _ => false,
        }
    }

    /// True for status 429.
    pub fn is_rate_limit(&self) -> bool {
        self.status() == Some(StatusCode::TOO_MANY_REQUESTS)
    }

    /// True if no retry strategy is consulted: the caller cancelled, the total timeout passed, or nothing was sent.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Timeout { phase, .. } => *phase == TimeoutPhase::Total,
            Self::Cancelled
            | Self::Host(_)
            | Self::Unsigned { .. }
            | Self::Rejected { .. }
            | Self::Request { .. } => true,
            _ => false,
        }
    }

    /// The response's status, if there was a response.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status(error) => Some(error.status),
            _ => None,
        }
    }

    /// The wait that the server requested, not limited by the retry policy.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(error) => error.retry_after,
            _ => None,
        }
    }
}

/// A response with a status other than 2xx.
#[derive(Debug, thiserror::Error)]
#[error("{address} answered {status}{}", request_id.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default())]
pub struct StatusError {
    /// The server, without secrets.
    pub address: String,
    /// The status; never 2xx.
    pub status: StatusCode,
    /// The response's headers; cookies are marked as sensitive.
    pub headers: HeaderMap,
    /// The response's body, at most 1 MiB of it; empty if it could not be read.
    pub body: Bytes,
    /// The wait that the server requested.
    pub retry_after: Option<Duration>,
    /// The server's id of the request.
    pub request_id: Option<String>,
}

impl StatusError {
    pub(super) fn new(address: String, status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        let retry_after = parse_retry_after(&headers).or_else(|| parse_retry_info(&body));
        let request_id = request_id(&headers).map(str::to_owned);
        Self { address, status, headers, body, retry_after, request_id }
    }
}

/// The phase of a request that a timeout limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// A connection, TLS included.
    Connect,
    /// The headers of the response.
    Headers,
    /// The next chunk of the body.
    Idle,
    /// The whole operation.
    Total,
}

impl fmt::Display for TimeoutPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "to accept a connection",
            Self::Headers => "to send its headers",
            Self::Idle => "to send the next part of its body",
            Self::Total => "for the whole operation",
        })
    }
}

/// The server's id of a request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&str> {
    REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)).and_then(|value| value.to_str().ok())
}

/// Cookies are credentials: `Debug` of the headers must not show them.
pub(super) fn hide_cookies(headers: &mut HeaderMap) {
    if let Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE) {
        cookies.iter_mut().for_each(|value: &mut HeaderValue| value.set_sensitive(true));
    }
}

/// The parts of a URL that may be shown: scheme, host, port and path.
pub(super) fn safe_address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// The beginning of a body on one line, for an error.
pub(super) fn excerpt(body: &[u8]) -> String {
    // A character has at most four bytes; the last one may be cut.
    let beginning = body.get(..EXCERPT_CHARACTERS * 4).unwrap_or(body);
    let text = String::from_utf8_lossy(beginning);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(EXCERPT_CHARACTERS).collect()
}

/// An error with its causes, from the outermost to the innermost, without repetitions.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

//! The errors of the server layer.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::application::Response;
use crate::body::Body;

/// Why a server cannot start, or why it refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The request has no bearer token.
    #[error("the request has no credentials; send the header `Authorization: Bearer <token>`")]
    MissingToken,
    /// The authenticator does not know the token.
    #[error("the token is not valid; send a valid token in the header `Authorization: Bearer <token>`")]
    InvalidToken,
    /// The authenticator failed.
    #[error("the token could not be checked: {reason}; try again later")]
    Authenticator {
        /// What happened. The client does not see it.
        reason: String,
    },
    /// A web page of another site uses a server without an authenticator.
    #[error(
        "a server without authentication does not answer {what}: web pages of other sites could use it from a browser of \
         its machine; pass `auth`, or for agents behind a proxy `public_url`"
    )]
    ForeignPage {
        /// What the request names.
        what: String,
    },
    /// The head of the request cannot be read.
    #[error("the head of the request cannot be read: {reason}")]
    InvalidHead {
        /// What is wrong.
        reason: String,
    },
    /// The URL is longer than the server allows.
    #[error("the URL is longer than {limit} bytes; send a shorter one")]
    UrlTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The application serves no WebSocket connections.
    #[error("no WebSocket connections are served here")]
    NoWebSocket,
    /// The body is larger than the server allows.
    #[error("the body is larger than {limit} bytes; send less")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s; send it faster", .limit.as_secs_f64())]
    BodyTimeout {
        /// The time limit.
        limit: Duration,
    },
    /// The client disconnected before the body or the connection was complete.
    #[error("the client disconnected")]
    Disconnected,
    /// The body could not be read or produced.
    #[error("the body ended early: {reason}")]
    Body {
        /// What happened.
        reason: String,
    },
    /// The body is not JSON.
    #[error("the body is not valid JSON: {reason}")]
    Json {
        /// The parser's message, with line and column.
        reason: String,
    },
    /// The server works on as many requests as it may.
    #[error("the server has {limit} requests in progress; try again later")]
    Overloaded {
        /// The largest number of requests.
        limit: usize,
    },
    /// The server shuts down.
    #[error("the server shuts down; try again later")]
    ShuttingDown,
    /// A WebSocket connection is closed.
    #[error("the WebSocket connection is closed; open a new one")]
    WebSocketClosed,
    /// A server without an authenticator would be reachable from other machines.
    #[error(
        "cannot listen on {address} without authentication: other machines could reach the server; pass `auth`, or \
         listen on 127.0.0.1"
    )]
    AuthenticatorRequired {
        /// The address.
        address: SocketAddr,
    },
    /// The server cannot listen on its address.
    #[error("cannot listen on {address}: {reason}; choose another port, or 0 for any free one")]
    Bind {
        /// Host and port.
        address: String,
        /// The system's message.
        reason: String,
    },
    /// A setting has a value that cannot work.
    #[error("{setting}: {reason}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The rule and the remedy.
        reason: String,
    },
}

impl ServerError {
    /// The HTTP status of a refused request.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::MissingToken | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::ForeignPage { .. } => StatusCode::FORBIDDEN,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UrlTooLong { .. } => StatusCode::URI_TOO_LONG,
            Self::NoWebSocket => StatusCode::NOT_FOUND,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::InvalidHead { .. } | Self::Disconnected | Self::Body { .. } | Self::Json { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Authenticator { .. } | Self::Overloaded { .. } | Self::ShuttingDown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::WebSocketClosed
            | Self::AuthenticatorRequired { .. }
            | Self::Bind { .. }
            | Self::Setting { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The code of the error in JSON bodies.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingToken | Self::InvalidToken => "unauthorized",
            Self::Authenticator { .. } => "authentication_unavailable",
            Self::ForeignPage { .. } => "forbidden",
            Self::InvalidHead { .. } => "invalid_head",
            Self::UrlTooLong { .. } => "url_too_long",
            Self::NoWebSocket => "not_found",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout { .. } => "body_timeout",
            Self::Disconnected | Self::Body { .. } => "incomplete_body",
            Self::Json { .. } => "invalid_json",
            Self::Overloaded { .. } => "overloaded",
            Self::ShuttingDown => "shutting_down",
            Self::WebSocketClosed => "websocket_closed",
            Self::AuthenticatorRequired { .. } | Self::Bind { .. } | Self::Setting { .. } => "server_error",
        }
    }

    /// The message for the client, which does not contain the reasons of internal failures.
    pub fn public_message(&self) -> String {
        match self {
            Self::Authenticator { .. } => "the token could not be checked; try again later".to_owned(),
            other => other.to_string(),
        }
    }

    /// A response with this error as JSON: `{"error": {"code", "message"}}`.
    pub fn response(&self) -> Response {
        let mut response =
            Body::json(&json!({"error": {"code": self.code(), "message": self.public_message()}}))
                .into_response(self.status());
        self.add_headers(&mut response);
        response
    }

    /// Adds the headers that the status requires.
    pub(crate) fn add_headers(&self, response: &mut Response) {
        let challenge = match self {
            Self::MissingToken => HeaderValue::from_static("Bearer realm=\"turntree\""),
            Self::InvalidToken => {
                HeaderValue::from_static("Bearer realm=\"turntree\", error=\"invalid_token\"")
            }
            Self::Authenticator { .. } | Self::Overloaded { .. } | Self::ShuttingDown => {
                response.headers_mut().entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
                return;
            }
            _ => return,
        };
        response.headers_mut().entry(header::WWW_AUTHENTICATE).or_insert(challenge);
    }
}

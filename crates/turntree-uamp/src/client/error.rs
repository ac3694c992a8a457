//! The errors of the client.

use crate::types::ErrorDetails;

/// Why a session or a response of the client has failed. Cloning copies the texts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The URL is not one of a server.
    #[error(
        "\"{url}\" is not the URL of a server: {reason}; it looks like https://example.com or wss://example.com/uamp"
    )]
    Url {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The server has answered with an error.
    #[error("{}", .0.message)]
    Server(Box<ErrorDetails>),
    /// The server refuses the connection.
    #[error("the server refuses the connection with status {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The connection could not be made, or was lost and could not be made again in time.
    #[error("the connection to the server failed: {reason}")]
    Connection {
        /// The last reason.
        reason: String,
    },
    /// The server no longer has the session or the response.
    #[error("the server has lost {what}, because {reason}; start again")]
    Lost {
        /// The session or the response.
        what: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// The session already has a response.
    #[error(
        "the session has a response that has not ended; read it to its end or cancel it, or open another session"
    )]
    Busy,
    /// The session or the client was closed.
    #[error("the session has ended; open another one")]
    Closed,
}

impl ClientError {
    /// The code: that of the server, or `unauthorized`, `connection_failed`, `response_in_progress`, `session_closed`,
    /// `session_lost` or `invalid_url`.
    pub fn code(&self) -> &str {
        match self {
            Self::Server(details) => details.code.as_str(),
            Self::Refused { status: 401, .. } => "unauthorized",
            Self::Refused { .. } | Self::Connection { .. } => "connection_failed",
            Self::Lost { .. } => "session_lost",
            Self::Busy => "response_in_progress",
            Self::Closed => "session_closed",
            Self::Url { .. } => "invalid_url",
        }
    }
}

//! Errors of clients and servers.

use std::time::Duration;

use serde_json::Value;

/// Why a connection cannot be made, or a request has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The program of a server cannot be started.
    #[error(
        "cannot start the MCP server \"{command}\": {reason}; check that the program is installed and on the PATH"
    )]
    Start {
        /// The program.
        command: String,
        /// The system's error message.
        reason: String,
    },
    /// The connection cannot be made.
    #[error("cannot connect to the MCP server: {reason}")]
    Connect {
        /// What failed.
        reason: String,
    },
    /// The client of a server does not begin as the protocol demands.
    #[error("cannot serve the MCP client: {reason}")]
    Serve {
        /// What failed.
        reason: String,
    },
    /// The server wants another or no token.
    #[error("the MCP server refuses the credentials: {challenge}; pass auth=")]
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// The address or a header is invalid.
    #[error("{message}")]
    Invalid {
        /// What is invalid, and the remedy.
        message: String,
    },
    /// The server answered with an error.
    #[error("{message}")]
    Refused {
        /// The code of JSON-RPC.
        code: i32,
        /// The server's message.
        message: String,
        /// The server's data.
        data: Option<Value>,
    },
    /// The server did not answer in time; the request was cancelled.
    #[error("{method}: the MCP server did not answer within {} s; raise timeout=", timeout.as_secs_f64())]
    Timeout {
        /// The method of the request.
        method: String,
        /// The time limit.
        timeout: Duration,
    },
    /// The connection ended.
    #[error("{method}: the connection to the MCP server is closed")]
    Closed {
        /// The method of the request.
        method: String,
    },
    /// The response or a message could not be sent or read.
    #[error("{method}: {reason}")]
    Protocol {
        /// The method of the request.
        method: String,
        /// What failed.
        reason: String,
    },
}

/// The error response to a request of the other side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// The code of JSON-RPC, for example -32602 for invalid parameters.
    pub code: i32,
    /// A sentence for the other side.
    pub message: String,
}

impl PortError {
    /// An internal error: the other side receives no details.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: -32603, message: message.into() }
    }
}

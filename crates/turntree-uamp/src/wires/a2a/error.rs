//! The errors of A2A, with their code in JSON-RPC and their status in HTTP.
//!
//! Every error has an `ErrorInfo` of Google's error model, so that programs need not read the text.
//!
//! Spec: A2A 1.0

use http::StatusCode;
use serde_json::{Value, json};
use turntree_server::{Body, Response};

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such task of this principal.
    TaskNotFound,
    /// The task has ended.
    TaskNotCancelable,
    /// The operation is not possible in the state of the task.
    UnsupportedOperation,
    /// The agent cannot read a part of the message.
    ContentTypeNotSupported,
    /// There is no other card for authenticated clients.
    ExtendedCardNotConfigured,
    /// The server does not speak the version.
    VersionNotSupported,
    /// The body is not JSON.
    Parse,
    /// The request is not one of JSON-RPC.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// A parameter is not valid.
    InvalidParams,
    /// The credentials are missing or not valid.
    Unauthenticated,
    /// A defect of the server, or of its store.
    Internal,
}

impl ErrorKind {
    const fn mapping(self) -> (i64, u16, &'static str, &'static str) {
        match self {
            Self::TaskNotFound => (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => (-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
            Self::UnsupportedOperation => (-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => (-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::ExtendedCardNotConfigured => {
                (-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
            }
            Self::VersionNotSupported => (-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
            Self::Parse => (-32700, 400, "INVALID_ARGUMENT", "JSON_PARSE_ERROR"),
            Self::InvalidRequest => (-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
            Self::MethodNotFound => (-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::InvalidParams => (-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
            Self::Unauthenticated => (-32600, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
            Self::Internal => (-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
        }
    }
}

/// An error that the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct A2aError {
    /// The kind.
    pub kind: ErrorKind,
    /// The place, the rule and the remedy.
    pub message: String,
}

impl A2aError {
    /// An error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    pub(super) fn not_found(task_id: &str) -> Self {
        let id: String = task_id.chars().take(100).collect();
        Self::new(ErrorKind::TaskNotFound, format!("there is no task \"{id}\" of this client"))
    }

    /// The store failed. The reason is for the operator only.
    pub(super) fn store(error: &dyn std::fmt::Display) -> Self {
        log::error!("A2A: the store of tasks failed: {error}");
        Self::new(ErrorKind::Internal, "the store of tasks failed; try again later")
    }

    fn info(&self) -> Value {
        let (_, _, _, reason) = self.kind.mapping();
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org",
            "metadata": {},
        })
    }

    /// The response of JSON-RPC.
    pub fn json_rpc(&self, id: &Value) -> Value {
        let (code, ..) = self.kind.mapping();
        let error = json!({ "code": code, "message": self.message, "data": [self.info()] });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    /// The error as REST has it.
    pub fn rest(&self) -> Value {
        let (_, code, status, _) = self.kind.mapping();
        json!({
            "error": { "code": code, "status": status, "message": self.message, "details": [self.info()] },
        })
    }

    /// The response of REST.
    pub(super) fn rest_response(&self) -> Response {
        let (_, code, ..) = self.kind.mapping();
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Body::json(&self.rest()).into_response(status)
    }
}

//! Errors as OpenAI writes them: `{"error": {"message", "type", "param", "code"}}`.

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use turntree_core::json::{ParseError, ParseErrorKind, PathSegment, RawJson};
use turntree_server::{Body, Response, ServerError};

use crate::agent::ConversationError;
use crate::error::UampError;
use crate::service::UnknownAgent;
use crate::types::{ErrorCode, ErrorDetails};

/// An error of a request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<String>,
    retry_after: Option<f64>,
    details: Option<Value>,
}

impl ApiError {
    /// An error with a status and a message.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after: None, details: None }
    }

    /// A request that is not valid at a parameter.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
            .with_code("invalid_value")
    }

    /// A request without a parameter that it needs.
    pub fn missing(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(param, message).with_code("missing_required_parameter")
    }

    /// A parameter that the server does not support.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(param, message).with_code("unsupported_parameter")
    }

    /// No agent has the name of the model.
    pub fn model_not_found(error: &UnknownAgent) -> Self {
        let message = format!("The model `{}` does not exist; the models are {}", error.name, error.known);
        Self { param: Some("model".to_owned()), ..Self::new(StatusCode::NOT_FOUND, message) }
            .with_code("model_not_found")
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Adds members to the object of the error.
    #[must_use]
    pub fn with_details(self, members: Value) -> Self {
        Self { details: Some(members), ..self }
    }

    /// Sets the parameter.
    #[must_use]
    pub fn with_param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// The same error of a value inside of the parameter, for example `[0].content` of `messages`.
    #[must_use]
    pub fn inside(self, outer: &str) -> Self {
        let param = self.param.as_deref().unwrap_or_default();
        Self { param: Some(format!("{outer}{param}")), ..self }
    }

    /// The HTTP status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The code.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The type of the error.
    pub const fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::FORBIDDEN => "permission_error",
            status if status.as_u16() >= 500 => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The same error as that of a run.
    pub fn details(&self) -> ErrorDetails {
        ErrorDetails::new(ErrorCode::InternalError, self.message.clone())
    }

    /// The body.
    pub fn body(&self) -> Value {
        json!({ "error": self.object() })
    }

    /// The error without the object around it.
    pub fn object(&self) -> Value {
        let mut object =
            json!({ "message": self.message, "type": self.kind(), "param": self.param, "code": self.code });
        if let (Some(object), Some(Value::Object(more))) = (object.as_object_mut(), &self.details) {
            object.extend(more.clone());
        }
        object
    }

    /// The response.
    pub fn response(&self) -> Response {
        let mut response = Body::json(&self.body()).into_response(self.status);
        if let Some(value) = self.retry_after.and_then(retry_after) {
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        response
    }
}

/// Whole seconds, rounded up, at most a day.
fn retry_after(seconds: f64) -> Option<HeaderValue> {
    let whole = (1_u32..=86_400).find(|whole| f64::from(*whole) >= seconds);
    HeaderValue::from_str(&whole.unwrap_or(86_400).to_string()).ok()
}

impl From<&ErrorDetails> for ApiError {
    fn from(error: &ErrorDetails) -> Self {
        let status = StatusCode::from_u16(error.code.http_status());
        let details = error.details.as_ref().and_then(|details| details.to::<Details>().ok());
        let retry_after = details.and_then(|details| details.retry_after);
        let retry_after = match error.code {
            ErrorCode::RateLimited | ErrorCode::RateLimitExceeded => Some(retry_after.unwrap_or(1.0)),
            _ => retry_after,
        };
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = Self::new(status, error.message.clone()).with_code(error.code.as_str());
        Self { retry_after, ..error }
    }
}

/// The details of an error of a run.
#[derive(Debug, serde::Deserialize)]
struct Details {
    retry_after: Option<f64>,
}

impl From<&ServerError> for ApiError {
    fn from(error: &ServerError) -> Self {
        let code = match error {
            ServerError::MissingToken | ServerError::InvalidToken => "invalid_api_key",
            error => error.code(),
        };
        Self::new(error.status(), error.public_message()).with_code(code)
    }
}

impl From<ServerError> for ApiError {
    fn from(error: ServerError) -> Self {
        Self::from(&error)
    }
}

impl From<ParseError> for ApiError {
    fn from(error: ParseError) -> Self {
        match error.kind {
            ParseErrorKind::Shape => Self::invalid(param_of(&error.path), error.message),
            _ => Self::new(
                StatusCode::BAD_REQUEST,
                format!("We could not parse the JSON body of your request: {error}"),
            )
            .with_code("invalid_json"),
        }
    }
}

/// A path as OpenAI writes it: `messages[0].content`.
fn param_of(path: &[PathSegment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            PathSegment::Key(key) if text.is_empty() => text.push_str(key),
            PathSegment::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            PathSegment::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}

impl From<UampError> for ApiError {
    fn from(error: UampError) -> Self {
        match error {
            UampError::InvalidEvent { pointer, reason } => {
                let segments = pointer.split('/').filter(|segment| !segment.is_empty());
                let path: Vec<PathSegment> = segments
                    .map(|segment| {
                        let index = segment.parse().map(PathSegment::Index);
                        index.unwrap_or_else(|_| PathSegment::Key(segment.to_owned()))
                    })
                    .collect();
                Self::invalid(param_of(&path), reason)
            }
            error => Self::new(StatusCode::BAD_REQUEST, error.to_string()).with_code(error.code().as_str()),
        }
    }
}

impl From<ConversationError> for ApiError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NoInput => Self::missing("input", error.to_string()),
            ConversationError::Store(_) | ConversationError::Session(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).with_code("internal_error")
            }
        }
    }
}

/// A value that must be an object.
///
/// # Errors
/// It is something else.
pub(super) fn require_object(value: &RawJson, param: &str) -> Result<(), ApiError> {
    if value.is_object() {
        Ok(())
    } else {
        Err(ApiError::invalid(param, format!("{param} must be an object")))
    }
}

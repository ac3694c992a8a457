//! The error of model calls, with its twelve codes.
//!
//! Spec: UPP-1.2 §12

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The API key is missing, invalid, or lacks a permission.
    AuthenticationFailed,
    /// Too many requests.
    RateLimited,
    /// The conversation exceeds the model's context window.
    ContextLengthExceeded,
    /// The model does not exist.
    ModelNotFound,
    /// The request is invalid, by our rules or the vendor's.
    InvalidRequest,
    /// The response does not follow the vendor's format.
    InvalidResponse,
    /// The vendor's content filter refused the request or the response.
    ContentFiltered,
    /// The account's quota or credit is used up.
    QuotaExceeded,
    /// The vendor reported a failure of its own.
    ProviderError,
    /// The vendor could not be reached, or the connection broke.
    NetworkError,
    /// A timeout expired.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 12] = [
        Self::AuthenticationFailed,
        Self::RateLimited,
        Self::ContextLengthExceeded,
        Self::ModelNotFound,
        Self::InvalidRequest,
        Self::InvalidResponse,
        Self::ContentFiltered,
        Self::QuotaExceeded,
        Self::ProviderError,
        Self::NetworkError,
        Self::Timeout,
        Self::Cancelled,
    ];

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "AUTHENTICATION_FAILED",
            Self::RateLimited => "RATE_LIMITED",
            Self::ContextLengthExceeded => "CONTEXT_LENGTH_EXCEEDED",
            Self::ModelNotFound => "MODEL_NOT_FOUND",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::InvalidResponse => "INVALID_RESPONSE",
            Self::ContentFiltered => "CONTENT_FILTERED",
            Self::QuotaExceeded => "QUOTA_EXCEEDED",
            Self::ProviderError => "PROVIDER_ERROR",
            Self::NetworkError => "NETWORK_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The kind of model that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Modality {
    /// Text and tools.
    #[default]
    Llm,
    /// Embeddings.
    Embedding,
    /// Images.
    Image,
    /// Audio.
    Audio,
    /// Video.
    Video,
}

impl Modality {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Embedding => "embedding",
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }
}

/// The host language's exception: a failure of the caller's own code (a tool, a hook, a key function), passed through
/// unchanged.
pub type HostPayload = Arc<dyn Any + Send + Sync>;

/// What a vendor said about a failure, besides the message. Contains no key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorReport {
    /// The body of the response.
    pub body: Option<String>,
    /// The headers of the response; the values of secret ones are `***`.
    pub headers: Vec<(String, String)>,
    /// The vendor's code or type of the error, such as `context_length_exceeded`.
    pub vendor_code: Option<String>,
    /// The parameter that the vendor refuses.
    pub param: Option<String>,
}

/// The error of a model call.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct UppError {
    /// The kind of failure.
    pub code: ErrorCode,
    /// The description: place, cause and remedy. Never contains a key.
    pub message: String,
    /// The provider's name.
    pub provider: String,
    /// The kind of model.
    pub modality: Modality,
    /// The HTTP status, if there was a response.
    pub status_code: Option<u16>,
    /// Seconds to wait before a retry, from the vendor's `Retry-After`.
    pub retry_after: Option<f64>,
    /// The vendor's id of the request, for support.
    pub request_id: Option<String>,
    /// How often the request was sent again.
    pub retries: usize,
    /// What the vendor said besides the message.
    pub report: Option<Arc<VendorReport>>,
    /// The underlying error.
    #[source]
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// The caller's own exception, if that is the cause.
    pub host: Option<HostPayload>,
}

impl UppError {
    /// An error of a language model.
    pub fn new(code: ErrorCode, provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            provider: provider.into(),
            modality: Modality::Llm,
            status_code: None,
            retry_after: None,
            request_id: None,
            retries: 0,
            report: None,
            cause: None,
            host: None,
        }
    }

    /// An error with [`ErrorCode::InvalidRequest`].
    pub fn invalid_request(provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, provider, message)
    }

    /// An error with [`ErrorCode::InvalidResponse`].
    pub fn invalid_response(provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidResponse, provider, message)
    }

    /// An error with [`ErrorCode::Cancelled`].
    pub fn cancelled(provider: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, provider, "the request was cancelled")
    }

    /// The error of a provider that has no models of this kind.
    pub fn unsupported(provider: &str, modality: Modality) -> Self {
        let message = format!("Provider '{provider}' does not support {} modality", modality.as_str());
        Self::invalid_request(provider, message).with_modality(modality)
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status_code: Some(status), ..self }
    }

    /// Sets the kind of model.
    #[must_use]
    pub fn with_modality(self, modality: Modality) -> Self {
        Self { modality, ..self }
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn with_cause(self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }
}

impl fmt::Debug for UppError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UPPError [{}]: {} (provider: {}", self.code, self.message, self.provider)?;
        write!(formatter, ", modality: {}", self.modality.as_str())?;
        if let Some(status) = self.status_code {
            write!(formatter, ", status: {status}")?;
        }
        formatter.write_str(")")
    }
}

//! What can go wrong between us and a model: one error, twelve codes. UPP-1.2 §12.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The twelve codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// No key, a wrong key, or one without the right.
    AuthenticationFailed,
    /// Too many requests.
    RateLimited,
    /// The conversation does not fit the model.
    ContextLengthExceeded,
    /// No such model.
    ModelNotFound,
    /// The request breaks a rule, ours or the vendor's.
    InvalidRequest,
    /// The answer breaks the vendor's own format.
    InvalidResponse,
    /// The vendor refuses the content.
    ContentFiltered,
    /// The account has nothing left.
    QuotaExceeded,
    /// The vendor failed.
    ProviderError,
    /// The vendor could not be reached, or the connection broke.
    NetworkError,
    /// It took too long.
    Timeout,
    /// The caller stopped it.
    Cancelled,
}

impl ErrorCode {
    /// All of them.
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

    /// Its name in JSON.
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

/// What kind of model was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Modality {
    /// Text and tools.
    #[default]
    Llm,
    /// Vectors.
    Embedding,
    /// Pictures.
    Image,
    /// Sound.
    Audio,
    /// Film.
    Video,
}

impl Modality {
    /// Its name in JSON.
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

/// A failure of the caller's own code (a tool, a hook, a key function), carried through the core as it is.
pub type HostPayload = Arc<dyn Any + Send + Sync>;

/// What went wrong with a model call.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct UppError {
    /// Which of the twelve.
    pub code: ErrorCode,
    /// What, where, and what to do. Never holds a key.
    pub message: String,
    /// Whose model.
    pub provider: String,
    /// What kind of model.
    pub modality: Modality,
    /// The HTTP status, where there was one.
    pub status_code: Option<u16>,
    /// Seconds the vendor asked us to wait.
    pub retry_after: Option<f64>,
    /// The vendor's id of the request, for its support.
    pub request_id: Option<String>,
    /// What caused it.
    #[source]
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// The caller's own exception, where that is the cause.
    pub host: Option<HostPayload>,
}

impl UppError {
    /// An error of a provider's llm.
    pub fn new(code: ErrorCode, provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            provider: provider.into(),
            modality: Modality::Llm,
            status_code: None,
            retry_after: None,
            request_id: None,
            cause: None,
            host: None,
        }
    }

    /// [`ErrorCode::InvalidRequest`].
    pub fn invalid_request(provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, provider, message)
    }

    /// [`ErrorCode::InvalidResponse`].
    pub fn invalid_response(provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidResponse, provider, message)
    }

    /// [`ErrorCode::Cancelled`].
    pub fn cancelled(provider: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, provider, "the request was cancelled")
    }

    /// With the HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status_code: Some(status), ..self }
    }

    /// With another kind of model.
    #[must_use]
    pub fn with_modality(self, modality: Modality) -> Self {
        Self { modality, ..self }
    }

    /// With its cause.
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

//! Errors as events contain them.
//!
//! Spec: UAMP-1.0 §6.3, §6.8

use turntree_core::json::RawJson;

text_enum! {
    /// What went wrong. The codes are stable.
    ErrorCode {
        /// A defect of the server.
        InternalError = "internal_error",
        /// The credentials are missing, not valid, or expired.
        Unauthorized = "unauthorized",
        /// The principal may not do this.
        Forbidden = "forbidden",
        /// A payment is necessary.
        PaymentRequired = "payment_required",
        /// The payment did not arrive in time.
        PaymentTimeout = "payment_timeout",
        /// Too many requests of the session.
        RateLimited = "rate_limited",
        /// Too many responses.
        RateLimitExceeded = "rate_limit_exceeded",
        /// The agent cannot be reached.
        AgentOffline = "agent_offline",
        /// The session was idle for too long.
        Timeout = "timeout",
        /// The server does not speak this version.
        VersionMismatch = "version_mismatch",
        /// The event is not valid.
        InvalidEvent = "invalid_event",
        /// The text is not JSON.
        InvalidJson = "invalid_json",
        /// There is no session yet.
        SessionRequired = "session_required",
        /// There are several sessions, and the event names none.
        SessionIdRequired = "session_id_required",
        /// There is no such session.
        SessionNotFound = "session_not_found",
        /// There is no such agent.
        AgentNotFound = "agent_not_found",
        /// There is no such model.
        ModelNotFound = "model_not_found",
        /// The session has an active response.
        ResponseInProgress = "response_in_progress",
        /// The session has no active response.
        ResponseNotActive = "response_not_active",
        /// No tool call with this id waits for a result.
        UnknownCallId = "unknown_call_id",
        /// The result of a tool did not arrive in time.
        ToolTimeout = "tool_timeout",
        /// The client reads too slowly.
        SlowConsumer = "slow_consumer",
        /// The agent failed.
        GenerationError = "generation_error",
    }
}

impl ErrorCode {
    /// The status of an HTTP response with this error.
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::PaymentRequired | Self::PaymentTimeout => 402,
            Self::Forbidden => 403,
            Self::SessionNotFound | Self::AgentNotFound | Self::ModelNotFound => 404,
            Self::ResponseInProgress | Self::ResponseNotActive => 409,
            Self::RateLimited | Self::RateLimitExceeded => 429,
            Self::AgentOffline => 503,
            Self::Timeout | Self::ToolTimeout => 504,
            Self::VersionMismatch
            | Self::InvalidEvent
            | Self::InvalidJson
            | Self::SessionRequired
            | Self::SessionIdRequired
            | Self::UnknownCallId => 400,
            Self::InternalError | Self::SlowConsumer | Self::GenerationError | Self::Other(_) => 500,
        }
    }
}

object! {
    /// An error.
    ErrorDetails {
        /// The code.
        pub code: ErrorCode = "code",
        /// What went wrong and what helps, for people.
        pub message: String = "message",
        /// More about the error, for programs.
        pub details: Option<RawJson> = "details",
    }
}

impl ErrorDetails {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), ..Self::default() }
    }
}

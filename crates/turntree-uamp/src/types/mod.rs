//! The types that events contain.
//!
//! Unknown members and unknown variants are preserved as they were read.
//!
//! Spec: UAMP-1.0 §7–9

#[macro_use]
mod macros;

mod capabilities;
mod content;
mod error;
mod media;
mod message;
mod number;
mod payment;
mod response;
mod session;
mod tool;
mod usage;

pub use turntree_core::json::union::Unknown;

pub use self::capabilities::{
    AudioCapabilities, Capabilities, FileCapabilities, ImageCapabilities, ToolCapabilities,
};
pub use self::content::{
    AudioContent, ContentItem, FileContent, ImageContent, ImageDetail, TextContent, ToolCall,
    ToolCallContent, ToolResult, ToolResultContent, VideoContent,
};
pub use self::error::{ErrorCode, ErrorDetails};
pub use self::media::{Media, MediaUrl};
pub use self::message::{FunctionCall, Message, MessageToolCall, Role};
pub use self::number::Number;
pub(crate) use self::number::rounded_up;
pub use self::payment::{
    AgentPaymentsProtocol, Payment, PaymentErrorCode, PaymentRequirements, PaymentScheme, PaymentSchemeKind,
};
pub use self::response::{
    AudioDelta, Delta, ProgressTarget, Response, ResponseOptions, ResponseStatus, TextDelta, ToolCallDelta,
    ToolProgress, ToolProgressDelta, ToolResultDelta, ToolResultSummary,
};
pub use self::session::{
    AudioFormat, ConcurrentResponses, JsonObjectFormat, JsonSchemaDefinition, JsonSchemaFormat, Modality,
    ResponseFormat, Resume, Session, SessionConfig, SessionStatus, TextFormat, TurnDetection,
    TurnDetectionKind, UampExtension, VoiceConfig,
};
pub use self::tool::{FunctionDefinition, FunctionTool, ToolDefinition};
pub use self::usage::{AudioUsage, Cost, UsageStats};

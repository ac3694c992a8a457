//! ThreadProtocol 1.0.0: one canonical JSON document for a conversation of several agents.
//!
//! [`document`] and [`action`] are the model, [`validate`] its rules, [`schema`] what of them a JSON Schema can say,
//! [`edit`] what makes other threads of threads, [`convert`] the way from and to other worlds. Text
//! that this room does not need to understand (timestamps, payloads, unknown members) is carried as it was written.

pub mod action;
pub mod bulk;
mod canonical;
pub mod content;
pub mod convert;
pub mod document;
pub mod edit;
pub mod error;
pub mod issue;
mod reduce;
mod roundtrip_metadata;
pub mod schema;
mod strict;
mod transcript;
pub mod validate;

pub use action::{
    Action, AssistantMessageAction, OtherAction, SystemAction, ThinkingAction, ThinkingUsage, ToolCallAction,
    ToolReturnAction, Usage, UserMessageAction,
};
pub use content::{
    Attachment, AudioContent, ContentPart, FileContent, ImageContent, MessageContent, TextContent,
    VideoContent,
};
pub use document::{Actions, AgentConfig, AgentRegistry, Thread, VERSION};
pub use edit::{MergeError, Slice};
pub use error::ThreadError;
pub use issue::{Issue, Rule, Severity};

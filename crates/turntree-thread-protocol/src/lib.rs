//! ThreadProtocol 1.0.0: one JSON document for a conversation of several agents.
//!
//! [`document`], [`action`] and [`content`] are the data model. [`validate`] checks the rules of the protocol,
//! [`schema`] publishes the JSON Schema, [`edit`] merges, redacts and slices threads, [`convert`] converts from and to
//! other formats, and [`bulk`] converts many documents at once. Timestamps, payloads and unknown members are preserved
//! exactly as written.

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
pub use issue::{Issue, IssueRecord, Rule, Severity};

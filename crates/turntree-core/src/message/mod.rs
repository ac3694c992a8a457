//! The message vocabulary: content blocks ([`content`]), messages ([`message`]), tool calls and results ([`tool`]),
//! token usage ([`usage`]), the result of a run ([`turn`]), conversations ([`thread`]) and stream events ([`event`]).
//!
//! JSON keys are the specification's camelCase names. Unknown members survive a round trip.
//!
//! Spec: UPP-1.2 §3–8, §11

pub mod content;
pub mod event;
pub mod files;
pub mod fold;
pub mod media;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod message;
pub mod thread;
pub mod tool;
pub mod turn;
pub mod usage;

pub use content::{CodeExecutionBlock, ContentBlock, DocumentSource, ImageSource};
pub use event::{Delta, StreamEvent};
pub use message::{Body, Message, MessageKind, Metadata};
pub use thread::Thread;
pub use tool::{ToolCall, ToolDefinition, ToolExecution, ToolResult};
pub use turn::{Turn, TurnError};
pub use usage::{CycleUsage, TokenUsage};

//! The shared vocabulary: what is said ([`content`], [`message`]), what tools did ([`tool`]), what it cost ([`usage`]),
//! one call's outcome ([`turn`]), a conversation ([`thread`]) and how it arrives piece by piece ([`event`]).
//!
//! UPP-1.2 §3–8 and §11. JSON keys are the specification's camelCase; unknown members survive a round trip.

pub mod content;
pub mod event;
pub mod files;
pub mod fold;
pub mod media;
#[expect(clippy::module_inception, reason = "the room is named after its main type")]
pub mod message;
pub mod thread;
pub mod tool;
pub mod turn;
pub mod usage;

pub use content::{ContentBlock, DocumentSource, ImageSource};
pub use event::{Delta, StreamEvent};
pub use message::{Body, Message, MessageKind, Metadata};
pub use thread::Thread;
pub use tool::{ToolCall, ToolDefinition, ToolExecution, ToolResult};
pub use turn::{Turn, TurnError};
pub use usage::{CycleUsage, TokenUsage};

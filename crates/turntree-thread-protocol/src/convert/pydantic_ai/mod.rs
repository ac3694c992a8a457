//! Lossless conversion from and to message histories of Pydantic AI. Decisions 1 to 15.
//!
//! ```text
//! JSON bytes ── fast_reader ──► model ── to_actions ──► Thread
//!               read
//! JSON bytes ◄─ write ──────── model ◄─ from_actions ─ Thread ◄── export: agent views, older versions
//!
//! fast_reader          compact JSON as Pydantic writes it; rejects any other text
//! read, write          any JSON, byte for byte, with error locations
//! validation           rejects what no version of Pydantic AI accepts
//! model                messages, parts and values
//! message_builder      the actions of one message while it is encoded
//! portable             the portable profile, in the order of a stream
//! field_layout         the members of each class of objects, their order and defaults
//! roundtrip_metadata   the format of metadata.pydantic_ai
//! first_message        the digest for the id of the thread
//! part_to_actions, part_fields, content_items, merge_text, usage   the mapping of parts, items, texts and token usage
//! arguments            arguments of tool calls that are JSON texts
//! prompts              system prompts and instructions of an export
//! coerce               values of actions that Pydantic AI would reject
//! large_numbers        messages with numbers that tools change
//! times                times as Pydantic and Python's datetime write them
//! ```
//!
//! In the full profile `history → thread → history` returns the bytes that `dump_json` of any version wrote. Fields
//! that no action holds are stored in `metadata.pydantic_ai`. A message that cannot be restored from that is stored
//! verbatim. JSON that Pydantic did not write (indented, with ASCII escapes) is restored token by token.

mod agents;
mod arguments;
mod coerce;
mod content_items;
mod downgrade;
mod export;
mod fast_reader;
mod field_layout;
mod first_message;
mod from_actions;
mod import;
mod large_numbers;
mod merge_text;
mod message_builder;
pub mod model;
mod options;
mod part_fields;
mod part_to_actions;
mod portable;
mod portable_to_actions;
mod prompts;
mod read;
mod roundtrip_metadata;
mod thread_metadata;
mod times;
mod to_actions;
mod usage;
mod validation;
mod versions;
mod write;

pub use super::agent_view::{Others, OthersRole, SystemPrompts, ToolVisibility, ViewOptions};
pub use super::portable::ProfileKind;
pub use agents::AgentSource;
pub(super) use content_items::link;
pub use downgrade::{Change, ChangeKind, ChangeRecord, downgrade};
pub use field_layout::class_members;
pub use import::{from_message_stream, from_messages, from_pydantic_ai_json, read_any_history};
pub use model::{History, Kind, ModelMessage, Object, Part, Value};
pub use options::{CombineText, ImportOptions};
pub(super) use prompts::later_prompt;
pub use read::read_history;
pub use times::{isoformat_of, write_time};
pub use versions::{Version, VersionError, WrittenBy, written_by};
pub use write::write_history;

//! Pydantic AI histories: in, out, and nothing lost. Decisions 1 to 15.
//!
//! ```text
//! JSON bytes ── scan ──► model ── encode ──► Thread          scan          JSON as it should be, quickly
//!               read                                         read, write   any JSON, byte for byte; what is wrong with it
//! JSON bytes ◄─ write ── model ◄─ decode ─── Thread          accepts       what no version of Pydantic AI reads
//!                                                            spelled       what only threads say, as it reads it
//!                                                            model         messages as Rust sees them
//!                                                            builder, wire   a message on its way; what streams say of it
//!                                                            profile       which keys objects have, and their defaults
//!                                                            envelope      what is kept in metadata.pydantic_ai
//!                                                            parts, items, texts, usage   one row of the mapping each
//! ```
//!
//! The full profile is lossless: `history → thread → history` gives back the bytes that `dump_json` of any version
//! wrote. What no core action can say stays in `metadata.pydantic_ai`; what even that cannot say is kept as the whole
//! message. JSON that Pydantic did not spell (indented, with ASCII escapes) comes back token by token.

mod agents;
mod coerce;
mod decode;
mod downgrade;
mod encode;
mod encode_portable;
mod export;
mod fast_reader;
mod field_layout;
mod import;
mod items;
mod merge_text;
mod message_builder;
pub mod model;
mod options;
mod part_fields;
mod parts;
mod portable;
mod read;
mod roundtrip_metadata;
mod thread_metadata;
mod usage;
mod validation;
mod versions;
mod write;

pub use super::agent_view::{Others, OthersRole, ToolVisibility, ViewOptions};
pub use super::portable::ProfileKind;
pub use agents::AgentSource;
pub use downgrade::{Change, ChangeKind, downgrade};
pub use import::{from_message_stream, from_messages, from_pydantic_ai_json, read_any_history};
pub use model::{History, Kind, ModelMessage, Object, Part, Value};
pub use options::{CombineText, ImportOptions};
pub use read::read_history;
pub use versions::{Version, VersionError, WrittenBy, written_by};
pub use write::write_history;

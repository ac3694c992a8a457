//! The Vercel AI SDK, both ways: UI message streams and `UIMessage`s, majors 5 to 7. UI message stream, §2 to §15.
//!
//! ```text
//! bytes ── reader ──► chunk ── assemble ──► message ── to_actions, to_thread ──► Thread     content   texts and files
//! bytes ◄──────────── chunk ◄─ to_chunks ────────────────────────────────────── Thread     residue   what actions do not say
//!                              assemble of these ──► message ◄── to_messages ── Thread     sidecar   what parts do not say
//! StreamEvent ── live ──► chunk
//! ```
//!
//! There is one reducer: a stream is assembled into a message, and messages become actions, whoever reads them. What
//! comes from a client is not trusted: see [`UiImportOptions::sidecar`].

mod assembler;
mod attachments;
mod chunk;
mod content;
mod event_stream;
mod import;
mod merge_metadata;
mod message;
mod options;
mod partial_input;
mod roundtrip_metadata;
mod sidecar;
mod sidecar_patch;
mod stream_reader;
mod surrogates;
mod to_actions;
mod to_chunks;
mod to_messages;
mod to_thread;
mod tool_update;

pub use assembler::Assembler;
pub use chunk::{Chunk, DONE_FRAME, HEADERS};
pub use event_stream::EventStream;
pub use import::{from_ui_chunks_json, from_ui_messages, from_ui_stream_bytes, ui_messages_from_json};
pub use message::{Optional, UiMessage, UiPart};
pub use options::{ExportOptions, LIMITS, Sdk, SidecarLevel, Turns, UiImportOptions};
pub use stream_reader::UiStreamReader;
pub use to_messages::UiStream;

//! Conversion from and to the Vercel AI SDK: UI message streams and `UIMessage`s of majors 5 to 7.
//!
//! ```text
//! bytes ── stream_reader ──► chunk ── assembler ──► message ── to_actions, to_thread ──► Thread
//! bytes ◄─────────────────── chunk ◄─ to_chunks ──────────────────────────────────────── Thread
//!                                     to_chunks, assembler ──► message ◄── to_messages ── Thread
//! StreamEvent ── event_stream ──► chunk
//!
//! major                imported messages in the form of another major
//! content              texts and files
//! roundtrip_metadata   fields of a message that no action holds: metadata.ui of actions
//! sidecar              fields of an action that no part holds: metadata.thread_protocol of messages
//! ```
//!
//! The same assembler serves imports and exports: chunks are assembled into a message, and messages become actions.
//! Input from clients is not trusted; see [`UiImportOptions::sidecar`].
//!
//! Spec: UI message stream, §2 to §15.

mod assembler;
mod attachments;
mod chunk;
mod content;
mod event_stream;
mod import;
mod major;
mod merge_metadata;
mod message;
mod options;
mod part_index;
mod partial_input;
mod roundtrip_metadata;
mod sidecar;
mod sidecar_patch;
mod stream_reader;
mod to_actions;
mod to_chunks;
mod to_messages;
mod to_thread;
mod tool_update;

pub use assembler::Assembler;
pub use chunk::{Chunk, DONE_FRAME, HEADERS};
pub use event_stream::EventStream;
pub use import::{
    from_ui_chunks_json, from_ui_messages, from_ui_messages_json, from_ui_stream_bytes, ui_messages_from_json,
};
pub use message::{Optional, UiMessage, UiPart};
pub use options::{ExportOptions, LIMITS, Sdk, SidecarLevel, Turns, UiImportOptions};
pub use stream_reader::UiStreamReader;
pub use to_messages::UiStream;

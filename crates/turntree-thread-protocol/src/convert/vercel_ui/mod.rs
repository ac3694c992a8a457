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

mod arriving;
mod assemble;
mod attached;
mod chunk;
mod content;
mod live;
mod message;
mod reader;
mod residue;
mod sidecar;
mod to_actions;
mod to_chunks;
mod to_messages;
mod to_thread;

pub use assemble::Assembler;
pub use chunk::{Chunk, DONE_FRAME, HEADERS};
pub use live::LiveStream;
pub use message::{Slot, UiMessage, UiPart};
pub use reader::UiStreamReader;
pub use to_messages::UiStream;

pub(super) use content::file_data;
pub(super) use to_actions::{data_name, object_arguments};

use super::pydantic_ai::ProfileKind;
use crate::action::Action;
use crate::document::{AgentConfig, Thread};
use crate::error::ThreadError;
use turntree_core::json::{RawJson, check_utf8, parse};
use turntree_core::limits::Limits;

/// What a time is when nothing says one: never the present.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// What a client may send: less deep than a document, so that a thread made of it can be written and read again.
pub const LIMITS: Limits = Limits { depth: 200, ..Limits::PAYLOAD };

/// A major version of the SDK that will read. Each knows what the ones before it know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sdk {
    /// 5: no approvals, no denials.
    V5,
    /// 6.
    #[default]
    V6,
    /// 7: answers to approvals, custom parts, steering messages.
    V7,
}

/// What goes into the sidecar of messages that are not the client's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SidecarLevel {
    /// Nothing: times, agents and sequence are lost.
    None,
    /// What makes the core of the thread come back ([`Thread::core`]); nothing that only a server should see.
    #[default]
    Portable,
    /// What makes the whole thread come back, metadata and system prompts included: for trusted readers only.
    Full,
}

/// Which actions a stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// All of them.
    #[default]
    All,
    /// Those after the last user message.
    Last,
}

/// How a thread is written for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportOptions {
    /// Who reads.
    pub sdk: Sdk,
    /// What goes into the sidecar.
    pub sidecar: SidecarLevel,
    /// Which actions a stream tells.
    pub turns: Turns,
    /// Write the parts of tools as `dynamic-tool`, for clients that do not know the tools.
    pub dynamic_tools: bool,
}

/// How messages and streams of a client are read.
#[derive(Debug, Clone)]
pub struct UiImportOptions {
    /// How much to keep: with [`ProfileKind::Full`], messages come back as they were.
    pub profile: ProfileKind,
    /// Who answers where nothing says it; else one agent called `assistant`.
    pub agent: Option<AgentConfig>,
    /// The thread's id.
    pub thread_id: Option<String>,
    /// The id of the chat, from which the thread's follows.
    pub chat_id: Option<String>,
    /// The thread's title; else the beginning of the first user text.
    pub title: Option<String>,
    /// The time of messages that say none; else 1970.
    pub timestamp: Option<String>,
    /// Which sidecars are read. A client can forge them as it can forge anything it sends; the digest in them only says
    /// that message and sidecar belong together. So what a model would be told as a system prompt, and what else lives in
    /// metadata, is only taken from the full ones, which are for those who wrote the messages themselves.
    pub sidecar: SidecarLevel,
    /// What a chunk, and a whole stream, may cost to read.
    pub limits: Limits,
}

impl Default for UiImportOptions {
    fn default() -> Self {
        Self {
            profile: ProfileKind::Full,
            agent: None,
            thread_id: None,
            chat_id: None,
            title: None,
            timestamp: None,
            sidecar: SidecarLevel::Portable,
            limits: LIMITS,
        }
    }
}

/// Makes a thread of the body of a UI message stream response.
///
/// # Errors
/// [`ThreadError::UiStream`] for what ends the stream in the real client; [`ThreadError::Parse`] for what passes a
/// limit.
pub fn from_ui_stream_bytes(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    reader.push_bytes(bytes)?;
    Ok(reader.thread())
}

/// Makes a thread of the chunks of a UI message stream: a list of them as JSON.
///
/// # Errors
/// As [`from_ui_stream_bytes`], and [`ThreadError::Parse`] for what is no list of JSON values.
pub fn from_ui_chunks_json(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    // Each chunk is held to the limits by itself.
    let all = Limits { bytes: options.limits.bytes, ..Limits::default() };
    let chunks: Vec<RawJson> = parse(&reader::mended(check_utf8(bytes)?), &all)?;
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    for chunk in chunks {
        reader.push_json(chunk.get())?;
    }
    Ok(reader.thread())
}

/// Makes a thread of the messages of a chat.
pub fn from_ui_messages(messages: &[UiMessage], options: &UiImportOptions) -> Thread {
    to_thread::thread_of(messages, &to_thread::Facts::default(), options)
}

/// Reads a list of messages as JSON, as a client posts it.
///
/// # Errors
/// [`ThreadError::Parse`] for bytes that are not UTF-8, not JSON, over a limit, or no list of messages; names the place.
pub fn ui_messages_from_json(bytes: &[u8], limits: &Limits) -> Result<Vec<UiMessage>, ThreadError> {
    let text = check_utf8(bytes)?;
    Ok(parse(&reader::mended(text), limits)?)
}

/// Whether an action is of no client's business: histories of Pydantic AI keep system prompts in such. Clients neither
/// see them nor make them.
fn hidden(action: &Action) -> bool {
    is_hidden(action.action_type())
}

fn is_hidden(action_type: &str) -> bool {
    action_type.starts_with("system.pydantic_ai.") || action_type.starts_with("system.ui.")
}

//! Options of imports from and exports to the Vercel AI SDK.

use crate::convert::portable::ProfileKind;
use crate::document::AgentConfig;
use turntree_core::limits::Limits;

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

//! Options of imports from and exports to the Vercel AI SDK.

use crate::convert::portable::ProfileKind;
use crate::document::AgentConfig;
use turntree_core::limits::Limits;

/// Limits for input from clients. The depth is lower than that of documents, so that the resulting thread can be
/// written and read again.
pub const LIMITS: Limits = Limits { depth: 200, ..Limits::PAYLOAD };

/// The major version of the client's SDK. Each major supports everything that its predecessors support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sdk {
    /// Major 5: no approvals, no denials.
    V5,
    /// Major 6.
    #[default]
    V6,
    /// Major 7: approval responses, custom parts, steering messages.
    V7,
}

/// The content of sidecars in messages that did not come from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SidecarLevel {
    /// No sidecar: times, agents and sequences are lost.
    None,
    /// Restores the core of the thread ([`Thread::core`](crate::Thread::core)) and exposes no data that is private to
    /// the server.
    #[default]
    Portable,
    /// Restores the whole thread, with metadata and system prompts. For trusted readers only.
    Full,
}

/// The actions of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// All actions.
    #[default]
    All,
    /// The actions after the last user message.
    Last,
}

/// Options of an export to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportOptions {
    /// The client's SDK.
    pub sdk: Sdk,
    /// Change the parts of imported messages to those that the SDK accepts. Otherwise imported messages are unchanged.
    pub adapt: bool,
    /// The content of the sidecar.
    pub sidecar: SidecarLevel,
    /// The actions of a stream.
    pub turns: Turns,
    /// Write tool parts as `dynamic-tool`, for clients that do not define the tools.
    pub dynamic_tools: bool,
}

/// Options of an import from a client.
#[derive(Debug, Clone)]
pub struct UiImportOptions {
    /// How much to preserve. With [`ProfileKind::Full`], an export returns the original messages.
    pub profile: ProfileKind,
    /// The agent of assistant messages without a sidecar; by default one agent named `assistant`.
    pub agent: Option<AgentConfig>,
    /// The id of the thread.
    pub thread_id: Option<String>,
    /// The id of the chat; the thread's id is derived from it.
    pub chat_id: Option<String>,
    /// The title; by default the beginning of the first user text.
    pub title: Option<String>,
    /// The timestamp of messages without one; by default 1970-01-01.
    pub timestamp: Option<String>,
    /// The accepted sidecars. Clients can forge sidecars; the digest in a sidecar only proves that it matches its
    /// message. For this reason system prompts and metadata are restored from full sidecars only. Accept those only
    /// from sources that write the messages themselves.
    pub sidecar: SidecarLevel,
    /// Limits of each chunk and of the whole stream.
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

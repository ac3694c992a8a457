//! The content of a rendered conversation.

/// A conversation to render.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// The title.
    pub title: String,
    /// A summary in one line.
    pub summary: String,
    /// A drawing above the entries, for example of a tree.
    pub drawing: String,
    /// The entries, in order.
    pub entries: Vec<TranscriptEntry>,
}

/// The kind of an entry, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The heading of a section, for example of a branch.
    Section,
    /// A message of a user.
    User,
    /// A message of an agent.
    Agent,
    /// Reasoning of an agent.
    Thought,
    /// A tool call.
    Call,
    /// The result of a tool.
    Return,
    /// A failure.
    Failure,
    /// Other entries.
    System,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEntry {
    /// The kind.
    pub kind: EntryKind,
    /// The heading: the speaker or the action, for example `Ann` or `Ann calls weather`.
    pub head: String,
    /// The time; empty if unknown.
    pub time: String,
    /// The content; may have several lines.
    pub text: String,
}

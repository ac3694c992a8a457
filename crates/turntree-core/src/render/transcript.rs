//! The content of a rendered conversation.

/// A conversation to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Its title.
    pub title: String,
    /// What else is said of the whole, in one line.
    pub summary: String,
    /// A drawing that stands before everything else, as of a tree.
    pub drawing: String,
    /// What was said and done, in order.
    pub entries: Vec<TranscriptEntry>,
}

/// What kind of thing an entry is: its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The beginning of a part, as a branch.
    Section,
    /// A person speaks.
    User,
    /// An agent speaks.
    Agent,
    /// An agent thinks.
    Thought,
    /// A tool is called.
    Call,
    /// A tool answers.
    Return,
    /// Something failed.
    Failure,
    /// Everything else.
    System,
}

/// One thing that was said or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEntry {
    /// Its kind.
    pub kind: EntryKind,
    /// Who, and what they do: `Ann`, `Ann calls weather`.
    pub head: String,
    /// When; empty where nobody knows.
    pub time: String,
    /// What was said. May have many lines.
    pub text: String,
}

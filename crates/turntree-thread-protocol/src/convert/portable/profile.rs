//! The two profiles of an imported thread.

/// How much of a history a thread keeps. Decision 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileKind {
    /// Core actions, system actions, and in metadata what is needed to invert them exactly.
    #[default]
    Full,
    /// Core actions and system actions, nothing else.
    Portable,
}

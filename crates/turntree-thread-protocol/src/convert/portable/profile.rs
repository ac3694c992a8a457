//! The profiles of an imported thread.

/// How much of the source a thread preserves. Decision 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileKind {
    /// Core actions, system actions, and metadata for a lossless round trip.
    #[default]
    Full,
    /// Core actions and system actions only.
    Portable,
}

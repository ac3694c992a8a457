//! The levels around each kind of value in the documents that can contain it; see
//! [`DataClass::OUTER_LEVELS`](super::DataClass::OUTER_LEVELS).
//!
//! A value that is nested less than [`Limits::of_part`](turntree_core::limits::Limits::of_part) allows fits into every such
//! document, and every value taken from a document can be read on its own.

use turntree_core::limits::OUTER_LEVELS_OF_MESSAGES;

/// A message in a thread or a turn, in a tree of threads, in checkpoints, and in the sessions of sub-agents.
pub(crate) const MESSAGE: usize = OUTER_LEVELS_OF_MESSAGES;
/// Threads and turns of messages: sessions contain their messages.
pub(crate) const MESSAGES: usize = MESSAGE - 2;
/// A content block or a tool call of a message.
pub(crate) const BLOCK: usize = MESSAGE + 2;
/// The source of a content block.
pub(crate) const SOURCE: usize = BLOCK + 1;
/// The usage of a turn, and that of each of its cycles.
pub(crate) const USAGE: usize = MESSAGES + 1;
/// The usage of a cycle in the usage of a turn.
pub(crate) const CYCLE_USAGE: usize = USAGE + 2;

/// The state of a run in the checkpoints and the unfinished run of a session.
pub(crate) const RUN_STATE: usize = 4;
/// A checkpoint of a session.
pub(crate) const CHECKPOINT: usize = 2;
/// The tree of a session.
pub(crate) const TREE: usize = 1;
/// A node of the tree of a session.
pub(crate) const NODE: usize = TREE + 2;

/// An action, or the configuration of an agent, in a ThreadProtocol document.
pub(crate) const ACTION: usize = 2;
/// The usage of an action.
pub(crate) const ACTION_USAGE: usize = ACTION + 1;
/// A content part or an attachment of an action.
pub(crate) const CONTENT: usize = ACTION + 2;

//! Checkpoints: points of a run that can be gone back to. UAP-1.0 §6.4 and §13.3.
//!
//! A [`Checkpoint`] points: at a node, at how many messages its thread had, and at the state of the run, whose messages
//! are shared. So it costs the same however long the conversation is. Its JSON, [`saved`], holds everything.

#[expect(clippy::module_inception, reason = "the room is named after its main type")]
pub mod checkpoint;
pub(crate) mod record;
pub mod saved;

pub use checkpoint::{Checkpoint, Place, SubAgentStates};

//! Stores of sessions: the native half of `turntree.store`.
//!
//! | module | content |
//! |---|---|
//! | [`store`] | a store and its operations |
//! | [`import`] | sessions that are stored together |
//! | [`maintenance`] | operations on a whole store |
//! | [`progress`] | how far a long operation is |
//! | [`queue`] | runs for workers |
//! | [`error`] | converts errors to exceptions |

mod error;
pub(crate) mod import;
mod maintenance;
pub(crate) mod progress;
mod queue;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub(crate) mod store;

//! Stores of sessions: the native half of `turntree.store`.
//!
//! | module | content |
//! |---|---|
//! | [`store`] | a store and its operations |
//! | [`import`] | sessions that are stored together |
//! | [`maintenance`] | operations on a whole store |
//! | [`queue`] | runs for workers |
//! | [`error`] | converts errors to exceptions |

mod error;
pub(crate) mod import;
mod maintenance;
mod queue;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub(crate) mod store;

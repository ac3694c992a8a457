//! Sessions: an agent with a conversation, checkpoints, and runs that can be resumed.
//!
//! ```text
//!   run ──> queue ──> history ──> machine ──> driver ──> the turn is appended to the tree
//!                     (tree)         │                   and the session state is updated
//!                                    └─ at every boundary the run's state is recorded
//! ```
//!
//! A session consists of a tree, which the application may change at any time, and a [`state`](self): checkpoints and the
//! unfinished run. A run that fails, or whose future is dropped, adds nothing to the tree; its last state is recorded, and
//! [`Session::resume`] continues from it.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | the handle: identity, forks, restore, snapshots, saving |
//! | [`options`], [`interval`](self) | options of a session |
//! | [`key`](self) | the keys of sessions in stores of texts |
//! | [`id`] | which texts are ids of sessions |
//! | [`active_run`](self) | executes runs |
//! | [`recorder`](self) | records a run's state at its boundaries |
//! | [`reload`](self), [`rebase`](self) | takes over what another writer has saved |
//! | [`approvals`](self) | calls that wait for approval |
//! | [`in_doubt`](self) | calls that may have been executed before their process ended |
//! | [`checkpoint`] | points to restore, and their JSON |
//! | [`store`] | the port through which sessions are saved and loaded |
//! | [`sub_agent`](self) | the sessions of sub-agents |
//! | [`json`] | the JSON of sessions |
//! | [`journal`] | what changed between two saves of a session |
//! | [`interner`](self) | shares equal parts of the JSON of a session that is read |
//! | [`reserved`] | the reserved member of metadata |
//!
//! Spec: UAP-1.0 §6, §13.

mod active_run;
mod approvals;
pub mod checkpoint;
pub mod error;
pub mod id;
mod in_doubt;
pub(crate) mod interner;
pub(crate) mod interval;
pub mod journal;
pub mod json;
mod key;
pub mod metadata;
pub mod options;
mod rebase;
mod recorder;
mod reload;
pub mod reserved;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod session;
mod state;
pub mod store;
pub(crate) mod sub_agent;
mod unfinished_run;

pub use checkpoint::{Checkpoint, Checkpoints};
pub use error::SessionError;
pub use json::{SessionJson, SessionSnapshot};
pub use metadata::SessionMetadata;
pub use options::{CheckpointInterval, SaveInterval, SessionOptions};
pub use session::Session;
pub use store::{KeyValueStore, LoadedSession, SavedSnapshot, SavedState, SessionStore};
pub use unfinished_run::UnfinishedRun;

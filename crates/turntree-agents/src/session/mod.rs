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
//! | [`options`] | options of a session |
//! | [`active_run`](self) | executes runs |
//! | [`recorder`](self) | records a run's state at its boundaries |
//! | [`approvals`](self) | calls that wait for approval |
//! | [`checkpoint`] | points to restore, and their JSON |
//! | [`sub_agent`](self) | the sessions of sub-agents |
//! | [`json`] | the JSON of sessions |
//! | [`reserved`] | the reserved member of metadata |
//!
//! Spec: UAP-1.0 §6, §13.

mod active_run;
mod approvals;
pub mod checkpoint;
pub mod error;
pub mod json;
pub mod metadata;
pub mod options;
mod recorder;
pub mod reserved;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod session;
mod state;
pub(crate) mod sub_agent;
mod unfinished_run;

pub use checkpoint::Checkpoint;
pub use error::SessionError;
pub use json::{SessionJson, SessionSnapshot};
pub use metadata::SessionMetadata;
pub use options::{CheckpointInterval, SaveInterval, SessionOptions};
pub use session::Session;
pub use unfinished_run::UnfinishedRun;

//! Sessions: an agent with a conversation that it remembers, checkpoints to go back to, and runs that can be taken up
//! again. UAP-1.0 §6 and §13.
//!
//! ```text
//!   run ──> in line ──> what is known ──> machine ──> drive ──> the turn goes into the tree
//!                       (tree, pending)      │                  and the book is brought up to date
//!                                            └─ every boundary: the state goes into the book
//! ```
//!
//! A session holds the tree, which its owner may change at any time, and a *book*: checkpoints, and the run that is not
//! finished. A run that fails, or is dropped, adds nothing to the tree; its last state stays in the book, and
//! [`Session::resume`] goes on from there. [`session`] is the door, [`active_run`](self) a run, [`state`](self) what is written down
//! meanwhile, [`approvals`](self) the calls that wait for a person, [`json`] the JSON.

mod active_run;
mod approvals;
pub mod checkpoint;
pub mod error;
pub mod json;
pub mod metadata;
#[expect(clippy::module_inception, reason = "the room is named after its main type")]
pub mod session;
mod state;
pub(crate) mod sub_agent;

pub use checkpoint::Checkpoint;
pub use error::SessionError;
pub use json::{SessionJson, SessionSnapshot};
pub use metadata::SessionMetadata;
pub use session::{CheckpointInterval, SaveInterval, Session, SessionOptions};
pub use state::Unfinished;

//! Stores of sessions. Each session is an append-only log; a save appends one entry with what is new.
//!
//! ```text
//!   Session ──> SessionStore (port of turntree-agents)
//!                    │  entries: what changed between two snapshots (turntree_agents::session::journal)
//!               JournalStore ──> Engine: memory, file, sqlite, postgres, redis
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`engine`] | the port of the engines: logs of sessions with compare-and-swap |
//! | [`error`] | the errors of stores |
//! | [`journal_store`] | saves sessions as logs of entries |
//! | [`digest`] | the digests that chain the entries of a log |
//! | [`engines`] | the engines |
//! | [`check`](self), [`prune`] | finds damaged sessions; removes what old sessions do not need |
//! | [`export`], [`import`](self) | writes all sessions to a file, and reads it |
//! | [`batch`], [`importer`] | sessions that are created together, all or none |
//! | [`queue`] | the port of queues: runs for workers, and leases of sessions |
//! | [`records`] | the port of records: documents of protocol servers |
//! | [`progress`] | how far a long operation is |
//! | [`preconditions`], [`page`] | what engines share: checks before a write; pages of a list of sessions |
//!
//! Spec: UAP-1.0 §14.2.

pub mod batch;
mod check;
pub mod digest;
pub mod engine;
pub mod engines;
pub mod error;
pub mod export;
mod import;
pub mod importer;
pub mod journal_store;
pub mod page;
pub mod preconditions;
pub mod progress;
pub mod prune;
pub mod queue;
mod record;
pub mod records;
mod walk;

pub use engine::Engine;
pub use error::StoreError;
pub use journal_store::JournalStore;
pub use queue::Queue;
pub use records::Records;

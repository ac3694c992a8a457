//! A layer under coding-agent harnesses: hooks that gate every tool call, policies on parsed facts, coordination of several
//! agents in one repository.
//!
//! ```text
//!   harness ── event ──> hooks ── action ──> policy ── decision ──> reply to the harness
//!                          │                   │
//!                          └──── state.db ─────┴──── coordination
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`project`], [`config`], [`explain`], [`state`] | which project, what `turntree.toml` says, the shared state file |
//! | [`shell`] | what a shell command would run |
//! | [`derive`] | what follows from it: files that are written, what git does |
//! | [`hooks`] | events of harnesses and replies to them |
//! | [`policy`] | rules, decisions, audit, exceptions |
//! | [`coordination`] | who works on what |
//! | [`git`], [`path`] | repositories and paths |
//! | [`error`] | the errors |

pub mod config;
pub mod coordination;
pub mod derive;
pub mod error;
pub mod explain;
pub mod git;
pub mod hooks;
pub mod path;
pub mod policy;
pub mod project;
pub mod shell;
pub mod state;
mod toml_file;

pub use error::HarnessError;
pub use policy::action::Action;
pub use policy::decision::{Decision, Outcome};
pub use policy::gate::Gate;
pub use project::Project;

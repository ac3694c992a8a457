//! Several agents in one repository: who works on what.
//!
//! | module | content |
//! |---|---|
//! | [`agents`] | agents, signs of life, announcements |
//! | [`claims`] | leases with fencing tokens |
//! | [`messages`] | messages with receipts, the board |
//! | [`slots`] | slots of models with adaptive limits |
//! | [`worktrees`] | worktrees and forecasts of merge conflicts |
//! | [`liveness`] | signs of life: lock, process, time |
//! | `drift` | files that have changed on the base branch |
//! | [`overlaps`] | what announcements of several agents have in common, and the risk |
//! | `open_work` | files that others have announced or claimed, for the gate |

pub mod agents;
pub mod claims;
mod drift;
pub mod liveness;
pub mod messages;
mod open_work;
pub mod overlaps;
pub mod slots;
pub mod worktrees;

pub use open_work::OpenWork;

/// The resource of a file, given by its path below the working tree.
pub(crate) fn resource_of_file(relative: &str) -> String {
    format!("file:{}", crate::path::composed(relative))
}

use crate::project::Project;
use crate::state::State;

/// Coordination of the agents of a project.
#[derive(Debug, Clone)]
pub struct Coordination {
    pub(crate) project: Project,
    pub(crate) state: State,
    /// The process of the harness that runs the hooks, if this is one.
    harness_process: Option<liveness::Process>,
}

impl Coordination {
    /// Coordination in the state of a project.
    pub fn new(project: &Project, state: State) -> Self {
        Self { project: project.clone(), state, harness_process: None }
    }

    /// As [`Self::new`], in a hook: the agent's process is the harness that has started it.
    pub fn in_hook(project: &Project, state: State) -> Self {
        Self { harness_process: liveness::Process::of_harness(), ..Self::new(project, state) }
    }
}

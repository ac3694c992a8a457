//! What can go wrong with a session.

use std::sync::Arc;

use crate::host::host::HostError;
use crate::tree::thread_tree::TreeError;
use crate::types::approval::listed;
use turntree_core::message::{ToolCall, Turn};
use turntree_core::persistence::PersistenceError;
use turntree_upp::UppError;

/// Why a session cannot do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The run failed. Nothing was added to the tree; the run can be taken up again.
    #[error(transparent)]
    Run(#[from] UppError),
    /// A tool or a hook of a run of the session asked the same session for another run, which would wait for the first.
    #[error(
        "session \"{id}\" was asked from inside a run of its own, which it would wait for for ever; use `query`, \
         another session, or `fork`"
    )]
    Reentrant {
        /// The session.
        id: Arc<str>,
    },
    /// Asked to wait on a thread whose event loop has to go on for the wait to end.
    #[error(
        "session \"{id}\" is at work on the event loop of this thread, which a synchronous call would stop; await \
         `run` instead"
    )]
    WouldBlock {
        /// The session.
        id: Arc<str>,
    },
    /// No checkpoint has this id.
    #[error("session \"{session}\" has no checkpoint \"{id}\"; `checkpoints` has the ids")]
    UnknownCheckpoint {
        /// What was asked for.
        id: String,
        /// The session.
        session: Arc<str>,
    },
    /// The messages of a checkpoint were taken away from the tree.
    #[error(
        "checkpoint \"{id}\" needs {needed} message(s) of node \"{node}\", which has {found}: they were taken away"
    )]
    Gone {
        /// The checkpoint.
        id: Arc<str>,
        /// Its node.
        node: String,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// There is no run to go on with.
    #[error(
        "session \"{id}\" has no unfinished run; `resume` goes on after a run that failed, was cancelled or was restored"
    )]
    NothingToResume {
        /// The session.
        id: Arc<str>,
    },
    /// Another run would drop calls that somebody was asked about.
    #[error(
        "session \"{id}\" has a run whose calls {}; `approve` or `deny` what waits and `resume` it, or `discard` it",
        told(.asked, .decided)
    )]
    Undecided {
        /// The session.
        id: Arc<str>,
        /// Calls that wait for a decision.
        asked: Vec<Arc<ToolCall>>,
        /// Calls that were decided about and not carried out.
        decided: Vec<Arc<ToolCall>>,
    },
    /// No call of this id waits for a decision.
    #[error("session \"{session}\" has no call \"{call_id}\" that waits for a decision; {}", offered(.pending))]
    NotPending {
        /// What was decided about.
        call_id: String,
        /// The session.
        session: Arc<str>,
        /// The calls that do wait.
        pending: Vec<Arc<ToolCall>>,
    },
    /// The call was decided about before.
    #[error(
        "call \"{call_id}\" of session \"{session}\" was decided about before, or has run; a decision stands"
    )]
    Decided {
        /// The call.
        call_id: String,
        /// The session.
        session: Arc<str>,
    },
    /// A run that is under way cannot be decided about or given up.
    #[error("a run of session \"{id}\" is under way; wait until it has ended or stopped, or cancel it")]
    UnderWay {
        /// The session.
        id: Arc<str>,
    },
    /// A node that is not there, or something that the tree keeps for itself.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The id of a new session is no UUIDv4.
    #[error("\"{id}\" is not a UUIDv4; leave the id out to get a new one")]
    InvalidId {
        /// What was given.
        id: String,
    },
    /// Metadata that cannot be kept.
    #[error("metadata of a session: {0}")]
    Metadata(HostError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] PersistenceError),
    /// The run is over and its turn is in the tree, but the session could not be saved.
    #[error("the turn is in the session, but the session was not saved: {error}; `save` tries again")]
    NotSaved {
        /// What the run gave.
        turn: Arc<Turn>,
        /// What the store said.
        error: PersistenceError,
    },
    /// The session cannot be written.
    #[error("the session cannot be written: {0}")]
    Unwritable(String),
}

/// What another run would drop.
fn told(asked: &[Arc<ToolCall>], decided: &[Arc<ToolCall>]) -> String {
    let waiting = |state: &str, calls: &[Arc<ToolCall>]| {
        if calls.is_empty() { None } else { Some(format!("{state}: {}", listed(calls))) }
    };
    let parts = [waiting("wait for approval", asked), waiting("are decided and have not run", decided)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn offered(pending: &[Arc<ToolCall>]) -> String {
    if pending.is_empty() { "none does".to_owned() } else { format!("these do: {}", listed(pending)) }
}

/// As a stream tells it. What is no failure of a run stands in [`UppError::cause`].
impl From<SessionError> for UppError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Run(error) => error,
            other => Self::invalid_request("", other.to_string()).with_cause(other),
        }
    }
}

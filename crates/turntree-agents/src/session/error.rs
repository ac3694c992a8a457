//! The errors of sessions.

use std::sync::Arc;

use crate::host::error::HostError;
use crate::tree::thread_tree::TreeError;
use crate::types::approval::listed;
use turntree_core::message::{ToolCall, Turn};
use turntree_core::persistence::PersistenceError;
use turntree_upp::UppError;

/// Why an operation of a session failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The run failed. The tree has not changed; the run can be resumed.
    #[error(transparent)]
    Run(#[from] UppError),
    /// A tool or hook of a run started another run of the same session, which would wait for the first run forever.
    #[error(
        "session \"{id}\" cannot start a run from inside its own run, which it would wait for forever; use `query`, \
         another session, or `fork`"
    )]
    Reentrant {
        /// The session.
        id: Arc<str>,
    },
    /// A blocking call was made on the thread whose event loop polls a run of the session.
    #[error(
        "session \"{id}\" has a run on the event loop of this thread, which a synchronous call would block; await \
         `run` instead"
    )]
    WouldBlock {
        /// The session.
        id: Arc<str>,
    },
    /// No checkpoint has this id.
    #[error("session \"{session}\" has no checkpoint \"{id}\"; `checkpoints` lists the ids")]
    UnknownCheckpoint {
        /// The id that was given.
        id: String,
        /// The session.
        session: Arc<str>,
    },
    /// Messages that a checkpoint needs were removed from the tree.
    #[error(
        "checkpoint \"{id}\" needs {needed} message(s) of node \"{node}\", which has {found}: the others were removed"
    )]
    MessagesRemoved {
        /// The checkpoint.
        id: Arc<str>,
        /// Its node.
        node: String,
        /// The number of messages that the checkpoint needs.
        needed: usize,
        /// The number of messages that the node has.
        found: usize,
    },
    /// The session has no run to resume.
    #[error(
        "session \"{id}\" has no unfinished run; `resume` continues a run that failed, was cancelled or was restored"
    )]
    NothingToResume {
        /// The session.
        id: Arc<str>,
    },
    /// A new run would drop calls that wait for approval, or decisions that were not carried out.
    #[error(
        "session \"{id}\" has a run whose calls {}; `approve` or `deny` the waiting calls and `resume` the run, or \
         `discard` it",
        open_calls(.pending, .decided)
    )]
    OpenApprovals {
        /// The session.
        id: Arc<str>,
        /// Calls that wait for approval.
        pending: Vec<Arc<ToolCall>>,
        /// Calls that are decided and have not run.
        decided: Vec<Arc<ToolCall>>,
    },
    /// No call with this id waits for approval.
    #[error("session \"{session}\" has no call \"{call_id}\" that waits for a decision; {}", pending_calls(.pending))]
    NotPending {
        /// The id that was given.
        call_id: String,
        /// The session.
        session: Arc<str>,
        /// The calls that wait for approval.
        pending: Vec<Arc<ToolCall>>,
    },
    /// The call was approved or denied before.
    #[error("call \"{call_id}\" of session \"{session}\" is already decided or has run; a decision is final")]
    AlreadyDecided {
        /// The call.
        call_id: String,
        /// The session.
        session: Arc<str>,
    },
    /// Calls cannot be decided, and runs cannot be discarded, while a run is active.
    #[error("a run of session \"{id}\" is active; wait until it ends, or cancel it")]
    RunActive {
        /// The session.
        id: Arc<str>,
    },
    /// The node does not exist, or its metadata has a reserved key.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The id of a new session is not a UUIDv4.
    #[error("invalid session id \"{id}\": expected a UUIDv4; leave the id out to get a new one")]
    InvalidId {
        /// The id that was given.
        id: String,
    },
    /// The metadata cannot be saved.
    #[error("metadata of a session: {0}")]
    Metadata(HostError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] PersistenceError),
    /// The run succeeded and its turn is in the tree, but saving the session failed.
    #[error("the turn is in the session, but the session was not saved: {error}; `save` tries again")]
    NotSaved {
        /// The turn of the run.
        turn: Arc<Turn>,
        /// The error of the store.
        error: PersistenceError,
    },
    /// The session cannot be written as JSON.
    #[error("the session cannot be written as JSON: {0}")]
    Serialization(String),
}

/// Describes the calls that a new run would drop.
fn open_calls(pending: &[Arc<ToolCall>], decided: &[Arc<ToolCall>]) -> String {
    let part = |state: &str, calls: &[Arc<ToolCall>]| {
        if calls.is_empty() { None } else { Some(format!("{state}: {}", listed(calls))) }
    };
    let parts = [part("wait for approval", pending), part("are decided and have not run", decided)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn pending_calls(pending: &[Arc<ToolCall>]) -> String {
    if pending.is_empty() { "none does".to_owned() } else { format!("these do: {}", listed(pending)) }
}

/// Converts the error for streams. Errors other than those of a run are in [`UppError::cause`].
impl From<SessionError> for UppError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Run(error) => error,
            other => Self::invalid_request("", other.to_string()).with_cause(other),
        }
    }
}

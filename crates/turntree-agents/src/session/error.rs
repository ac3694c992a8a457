//! The errors of sessions.

use std::sync::Arc;

use crate::host::error::HostError;
use crate::session::id::MAX_ID_LENGTH;
use crate::tree::thread_tree::TreeError;
use crate::types::approval::{is_of_approver, listed};
use crate::types::failure::partial_turn;
use turntree_core::message::{ToolCall, Turn};
use turntree_core::persistence::{PersistenceError, PersistenceErrorKind};
use turntree_upp::UppError;

/// How many characters of the arguments of a call messages show.
const SHOWN_ARGUMENTS: usize = 200;

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
    /// A new run would drop calls that wait for approval or are in doubt, or decisions that were not carried out.
    #[error("session \"{id}\" has a run whose calls {}", open_calls(.pending, .decided, .in_doubt))]
    OpenApprovals {
        /// The session.
        id: Arc<str>,
        /// Calls that wait for approval.
        pending: Vec<Arc<ToolCall>>,
        /// Calls that are decided and have not run.
        decided: Vec<Arc<ToolCall>>,
        /// Calls that may have been executed before their process ended.
        in_doubt: Vec<Arc<ToolCall>>,
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
    /// Several calls have this id: some models count the calls of a response, so that two sub-agents make calls with one
    /// id.
    #[error("several calls of session \"{session}\" have the id \"{call_id}\"; decide about the call itself, as \
             `pending` has it, and not about its id: {}", with_arguments(.pending))]
    SameIds {
        /// The id that was given.
        call_id: String,
        /// The session.
        session: Arc<str>,
        /// The calls with this id that wait for approval.
        pending: Vec<Arc<ToolCall>>,
    },
    /// No call with this id is in doubt.
    #[error("session \"{session}\" has no call \"{call_id}\" in doubt; {}", calls_in_doubt(.in_doubt))]
    NotInDoubt {
        /// The id that was given.
        call_id: String,
        /// The session.
        session: Arc<str>,
        /// The calls in doubt.
        in_doubt: Vec<Arc<ToolCall>>,
    },
    /// The call was approved, denied or resolved before.
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
    /// The id of a new session is empty, too long or not printable.
    #[error(
        "invalid session id {id:?}: expected 1 to {MAX_ID_LENGTH} printable characters; leave the id out to get a new \
         one"
    )]
    InvalidId {
        /// The id that was given.
        id: String,
    },
    /// The metadata cannot be saved.
    #[error("metadata of a session: {0}")]
    Metadata(HostError),
    /// The store failed.
    #[error("session \"{id}\" was not saved: {error}{}", remedy(.error))]
    Store {
        /// The session.
        id: Arc<str>,
        /// The error of the store.
        error: PersistenceError,
    },
    /// The session cannot be loaded from the store.
    #[error("session \"{id}\" was not loaded: {error}")]
    NotLoaded {
        /// The session.
        id: Arc<str>,
        /// The error of the store.
        error: PersistenceError,
    },
    /// The run succeeded and its turn is in the tree, but saving the session failed.
    #[error("the turn is in session \"{id}\", which was not saved: {error}{}", remedy(.error))]
    NotSaved {
        /// The session.
        id: Arc<str>,
        /// The turn of the run.
        turn: Arc<Turn>,
        /// The error of the store.
        error: PersistenceError,
    },
    /// The session cannot be written as JSON.
    #[error("the session cannot be written as JSON: {0}")]
    Serialization(String),
}

impl SessionError {
    /// True if the error of a sub-agent's run ends the runs that call it: a store has failed, or a function that decides
    /// about calls has raised, in it or in a sub-agent of it.
    pub(super) fn ends_callers(&self) -> bool {
        matches!(self, Self::Run(error) if is_of_approver(error)) || self.is_of_store()
    }

    /// True if a store has failed during the run, or during the run of a sub-agent.
    fn is_of_store(&self) -> bool {
        let Self::Run(error) = self else { return matches!(self, Self::Store { .. }) };
        let partial = partial_turn(error);
        let cause = partial.map_or(&error.cause, |partial| &partial.cause).as_deref();
        cause.and_then(|cause| cause.downcast_ref()).is_some_and(|cause| matches!(cause, Self::Store { .. }))
    }
}

/// Describes the calls that a new run would drop, and the remedy.
fn open_calls(pending: &[Arc<ToolCall>], decided: &[Arc<ToolCall>], in_doubt: &[Arc<ToolCall>]) -> String {
    let part = |state: &str, calls: &[Arc<ToolCall>]| {
        if calls.is_empty() { None } else { Some(format!("{state}: {}", listed(calls))) }
    };
    let parts = [
        part("may have been executed before their process ended", in_doubt),
        part("wait for approval", pending),
        part("are decided and have not run", decided),
    ];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let remedy = match (in_doubt.is_empty(), pending.is_empty()) {
        (true, _) => "`approve` or `deny` the waiting calls",
        (false, true) => "`resolve` the calls in doubt",
        (false, false) => "`resolve` the calls in doubt, `approve` or `deny` the waiting calls",
    };
    format!("{parts}; {remedy} and `resume` the run, or `discard` it")
}

fn calls_in_doubt(calls: &[Arc<ToolCall>]) -> String {
    if calls.is_empty() { "none is".to_owned() } else { format!("these are: {}", listed(calls)) }
}

/// What the application can do about a session that was deleted.
pub(super) const SAVE_A_COPY: &str = "; to store it again, save a copy, which \
                                      `Session.from_json(session.to_json(), agent, persistence=store)` returns";

/// What the application can do when a store has failed.
fn remedy(error: &PersistenceError) -> &'static str {
    match error.kind {
        PersistenceErrorKind::Conflict => {
            "; call `reload` to take the stored state, or `rebase` to put this session's changes on a branch of it, and \
             `resume` if it is unfinished then"
        }
        PersistenceErrorKind::Deleted => SAVE_A_COPY,
        PersistenceErrorKind::Corrupt => "",
        PersistenceErrorKind::Other => "; `save` tries again",
    }
}

fn pending_calls(pending: &[Arc<ToolCall>]) -> String {
    if pending.is_empty() { "none does".to_owned() } else { format!("these do: {}", listed(pending)) }
}

/// Formats calls with their arguments for messages, each shortened: `pay {"to":"ann"}, pay {"to":"bob"}`.
fn with_arguments(calls: &[Arc<ToolCall>]) -> String {
    let one = |call: &Arc<ToolCall>| {
        let arguments = call.arguments.get();
        let shown: String = arguments.chars().take(SHOWN_ARGUMENTS).collect();
        let rest = if shown.len() < arguments.len() { "…" } else { "" };
        format!("{} {shown}{rest}", call.tool_name)
    };
    calls.iter().map(one).collect::<Vec<_>>().join(", ")
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

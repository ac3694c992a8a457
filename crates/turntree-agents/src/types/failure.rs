//! What a failed run has collected; its error carries it. UPP-1.2 §10.3

use std::error::Error;
use std::sync::Arc;

use turntree_core::message::Turn;
use turntree_upp::UppError;

/// The cause of an error that ended a run: what the run had brought until then, and the cause proper.
///
/// The turn is for inspection and accounting. Its last answer may hold tool calls without results, so it is not a
/// history to go on from.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the run had brought {} messages", turn.messages.len())]
pub struct PartialTurn {
    /// What the run has collected.
    pub turn: Arc<Turn>,
    /// What caused the error, where something did.
    #[source]
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// What a run had collected before this error ended it. `None` if no model had responded.
pub fn partial_turn(error: &UppError) -> Option<&PartialTurn> {
    error.cause.as_deref()?.downcast_ref()
}

/// The error with the turn attached; its own cause stays reachable behind it.
pub(crate) fn attach(error: UppError, turn: Turn) -> UppError {
    if partial_turn(&error).is_some() {
        return error;
    }
    let cause = PartialTurn { turn: Arc::new(turn), cause: error.cause.clone() };
    UppError { cause: Some(Arc::new(cause)), ..error }
}

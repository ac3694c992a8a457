//! The partial turn of a failed run, attached to its error.
//!
//! Spec: UPP-1.2 §10.3

use std::error::Error;
use std::sync::Arc;

use turntree_core::message::Turn;
use turntree_upp::UppError;

/// The cause of an error that ended a run: the partial turn, and the original cause.
///
/// Every tool call has a result: calls that were not executed have an error result, so that the messages are a valid
/// history.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the run failed after {} messages", turn.messages.len())]
pub struct PartialTurn {
    /// The messages, usage and tool executions until the error.
    pub turn: Arc<Turn>,
    /// The original cause of the error, if there is one.
    #[source]
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// Returns the partial turn of the run that this error ended. `None` if no model had responded.
pub fn partial_turn(error: &UppError) -> Option<&PartialTurn> {
    error.cause.as_deref()?.downcast_ref()
}

/// Attaches the partial turn of the first error of a run to a later one.
pub(crate) fn with_partial_of(error: UppError, first: &UppError) -> UppError {
    match partial_turn(first) {
        Some(partial) => attach(error, Turn::clone(&partial.turn)),
        None => error,
    }
}

/// Attaches the partial turn to an error. The original cause stays in the chain of causes.
pub(crate) fn attach(error: UppError, turn: Turn) -> UppError {
    if partial_turn(&error).is_some() {
        return error;
    }
    let cause = PartialTurn { turn: Arc::new(turn), cause: error.cause.clone() };
    UppError { cause: Some(Arc::new(cause)), ..error }
}

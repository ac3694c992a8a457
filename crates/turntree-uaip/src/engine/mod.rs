//! Executes the actions of sessions: a state machine without I/O.
//!
//! [`Execution::begin`] takes a session and an action. It returns either the outcome or a call that the application must
//! perform (a task, a guard, a hook); [`Execution::feed`] takes the result of the call and goes on. An action changes the
//! session as a whole or not at all: the session of a refused or failed action is the one that it began with.
//!
//! | module | content |
//! |---|---|
//! | [`session`] | sessions |
//! | [`action`] | actions, and the calls of the application |
//! | [`outcome`] | outcomes and refusals |
//! | [`execution`] | the state machine |
//! | [`limits`] | limits on arguments and state |

pub mod action;
pub mod execution;
pub mod limits;
pub mod outcome;
mod rules;
pub mod session;

pub use action::{Action, Call, CallFailure, CallKind, CallResult};
pub use execution::{EngineError, Execution, Step};
pub use limits::Limits;
pub use outcome::{Failure, Outcome, Refusal, Reply};
pub use session::{Session, SessionStatus};

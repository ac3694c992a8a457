//! A run of an agent as a state machine without I/O.
//!
//! The machine is deterministic and serializable: no clock, no ids, no async code. [`Machine::next`] returns the next
//! [`Action`](crate::types::Action), [`Machine::feed`] takes its [`ActionResult`](crate::types::ActionResult).
//!
//! | item | purpose |
//! |---|---|
//! | [`Setup`] | the inputs that do not change: history, system prompt, tools, structure |
//! | [`RunState`] | everything that changes; serialized at checkpoints |
//! | [`Machine`] | the transitions |
//! | [`strategies`] | `loop`, `react`, `plan`: which transition comes next |
//!
//! Spec: UAP-1.0 §5, UPP-1.2 §10

mod approval;
mod ending;
pub(crate) mod handoff;
mod interrupted_answers;
pub(crate) mod json;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod machine;
mod model_call;
pub(crate) mod open_calls;
pub(crate) mod round;
pub(crate) mod run_totals;
pub mod setup;
pub mod state;
pub mod strategies;
pub(crate) mod tool_retries;

pub use machine::{Machine, UnexpectedResult};
pub use setup::Setup;
pub use state::{RunState, StateError};
pub use strategies::{
    ACTION_PROMPT, LoopOptions, ObservationFormat, PlanOptions, REASONING_PROMPT, ReactOptions,
};

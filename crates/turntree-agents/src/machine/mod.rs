//! The run of an agent as a state machine without I/O.

mod ending;
pub(crate) mod json;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod machine;
mod model_call;
pub mod state;
pub mod strategies;

pub use machine::{Machine, UnexpectedReply};
pub use state::{RunState, Setup, StateError};
pub use strategies::{
    ACTION_PROMPT, CustomStrategy, LoopOptions, ObservationFormat, OwnContext, PlanOptions, REASONING_PROMPT,
    ReactOptions, Strategy, StrategyEvents, StrategyOutcome,
};

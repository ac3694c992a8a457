//! Strategies: what a run does next. UAP-1.0 §5.
//!
//! A strategy is asked at five places of a step (see `Moves`) and answers with a `Move`. It sees what the run has
//! collected, keeps its own small state, and does nothing itself: no call, no clock, no hook.

mod loop_;

use serde::{Deserialize, Serialize};

pub use loop_::LoopOptions;
pub(crate) use loop_::LoopState;

use super::run::state::Collected;

/// How an agent runs: the options of its strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Call the model, run the tools it wants, again until it wants none. UAP-1.0 §5.2.
    Loop(LoopOptions),
}

impl Strategy {
    /// `loop` with the given limit of tool rounds.
    pub const fn loop_(max_iterations: u32) -> Self {
        Self::Loop(LoopOptions { max_iterations })
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loop(_) => "loop",
        }
    }

    pub(crate) const fn start(&self) -> StrategyState {
        match self {
            Self::Loop(options) => StrategyState::Loop(LoopState::new(*options)),
        }
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Loop(LoopOptions::default())
    }
}

/// What a run does next, as a strategy decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// Call the model with the conversation as it stands.
    CallModel,
    /// Run the tools that the last answer calls.
    RunTools,
    /// The step is over.
    EndStep,
    /// Begin another step.
    NextStep,
    /// The run is over; the last answer is the response.
    Finish,
    /// One more tool round would be more than the limit.
    Exceeded(u32),
}

/// What a strategy decides on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision<'a> {
    /// What the run has brought.
    pub(crate) collected: &'a Collected,
    /// Whether the model was told of any tools.
    pub(crate) tools_declared: bool,
}

/// The places of a step where a strategy decides.
pub(crate) trait Moves {
    /// A step has begun.
    fn begun(&mut self, decision: &Decision<'_>) -> Move;

    /// The model has answered; its message is the last one.
    fn answered(&mut self, decision: &Decision<'_>) -> Move;

    /// All tools of a round have answered; their results are the last message.
    fn observed(&mut self, decision: &Decision<'_>) -> Move;

    /// A step has ended and the stop condition did not stop the run.
    fn stepped(&mut self, decision: &Decision<'_>) -> Move;

    /// Whether the hooks of the phases (`on_reason`, `on_act`, `on_observe`) are called (UAP-1.0 §11.2).
    fn calls_phase_hooks(&self) -> bool;
}

/// A strategy at work: its options and how far it is. Part of a run's serialized state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StrategyState {
    /// See [`Strategy::Loop`].
    Loop(LoopState),
}

impl StrategyState {
    pub(crate) const fn moves(&mut self) -> &mut dyn Moves {
        match self {
            Self::Loop(state) => state,
        }
    }

    pub(crate) fn calls_phase_hooks(&self) -> bool {
        match self {
            Self::Loop(state) => state.calls_phase_hooks(),
        }
    }
}

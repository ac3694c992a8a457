//! `loop`: the tool loop of UPP, one step a model call with the tool round it triggers. UAP-1.0 §5.2, UPP-1.2 §10.2–3.

use serde::{Deserialize, Serialize};

use crate::machine::strategies::policy::{StrategyPolicy, StrategyView, Transition};

/// Options of `loop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopOptions {
    /// Most tool rounds; 0 leaves the model's tool calls to the caller. M rounds allow M + 1 model calls.
    pub max_iterations: u32,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self { max_iterations: 10 }
    }
}

/// `loop` at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoopState {
    max_iterations: u32,
    /// Tool rounds so far.
    rounds: u32,
    /// Whether the step that runs had a tool round: the model wants to see its results.
    goes_on: bool,
}

impl LoopState {
    pub(crate) const fn new(options: LoopOptions) -> Self {
        Self { max_iterations: options.max_iterations, rounds: 0, goes_on: false }
    }
}

impl StrategyPolicy for LoopState {
    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        self.goes_on = false;
        Transition::CallModel
    }

    fn answered(&mut self, decision: &StrategyView<'_>) -> Transition {
        if !decision.wants_tools() || self.max_iterations == 0 {
            return Transition::EndStep;
        }
        if self.rounds >= self.max_iterations {
            return Transition::Exceeded(self.max_iterations);
        }
        self.rounds += 1;
        self.goes_on = true;
        Transition::RunTools
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    fn stepped(&mut self, _: &StrategyView<'_>) -> Transition {
        if self.goes_on { Transition::NextStep } else { Transition::Finish }
    }
}

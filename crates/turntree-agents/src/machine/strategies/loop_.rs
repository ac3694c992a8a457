//! The strategy `loop`: the tool loop of UPP. A step is one model call and the tool round that it triggers.
//!
//! Spec: UAP-1.0 §5.2; UPP-1.2 §10.2–3

use serde::{Deserialize, Serialize};

use crate::machine::strategies::policy::{StrategyPolicy, StrategyView, Transition};

/// Options of the strategy `loop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopOptions {
    /// Maximum number of tool rounds. With 0, tools are not run, and the caller receives the tool calls. M rounds allow M + 1
    /// model calls.
    pub max_iterations: u32,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self { max_iterations: 10 }
    }
}

/// State of the strategy `loop` in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoopState {
    max_iterations: u32,
    /// Number of tool rounds so far.
    rounds: u32,
    /// True if the current step ran tools, so that another step follows.
    #[serde(rename = "goesOn")]
    continues: bool,
}

impl LoopState {
    pub(crate) const fn new(options: LoopOptions) -> Self {
        Self { max_iterations: options.max_iterations, rounds: 0, continues: false }
    }

    pub(crate) const fn set_limits(&mut self, options: LoopOptions) {
        self.max_iterations = options.max_iterations;
    }
}

impl StrategyPolicy for LoopState {
    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        self.continues = false;
        Transition::CallModel
    }

    fn answered(&mut self, view: &StrategyView<'_>) -> Transition {
        if !view.wants_tools() || self.max_iterations == 0 {
            return Transition::EndStep;
        }
        if self.rounds >= self.max_iterations {
            return Transition::Exceeded(self.max_iterations);
        }
        self.rounds += 1;
        self.continues = true;
        Transition::RunTools
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::EndStep
    }

    fn stepped(&mut self, _: &StrategyView<'_>) -> Transition {
        if self.continues { Transition::NextStep } else { Transition::Finish }
    }
}

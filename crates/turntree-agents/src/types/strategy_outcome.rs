//! The result of a custom strategy.

use std::sync::Arc;

use crate::types::plan_step::PlanStep;
use turntree_core::message::Turn;

/// What a custom strategy returns.
#[derive(Debug, Clone)]
pub struct StrategyOutcome {
    /// The turn. If it does not begin with a user message, the input is inserted before it (decision A10).
    pub turn: Arc<Turn>,
    /// The number of the last step; 1 if the strategy does not count steps.
    pub step: u32,
    /// The reasoning of the model, one text for each step, if the strategy records it.
    pub reasoning: Option<Vec<String>>,
    /// The plan, if the strategy has one.
    pub plan: Option<Vec<PlanStep>>,
}

impl From<Arc<Turn>> for StrategyOutcome {
    fn from(turn: Arc<Turn>) -> Self {
        Self { turn, step: 1, reasoning: None, plan: None }
    }
}

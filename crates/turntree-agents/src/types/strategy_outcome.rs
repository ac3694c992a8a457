//! The result of a custom strategy.

use std::sync::Arc;

use crate::types::plan_step::PlanStep;
use turntree_core::message::Turn;

/// What a strategy of the application gives.
#[derive(Debug, Clone)]
pub struct StrategyOutcome {
    /// The turn. Where it does not begin with a user's message, the input is put before it (decision A10).
    pub turn: Arc<Turn>,
    /// The last step; 1 where it counted none.
    pub step: u32,
    /// What the model thought, where the strategy has it think.
    pub reasoning: Option<Vec<String>>,
    /// The plan, where it makes one.
    pub plan: Option<Vec<PlanStep>>,
}

impl From<Arc<Turn>> for StrategyOutcome {
    fn from(turn: Arc<Turn>) -> Self {
        Self { turn, step: 1, reasoning: None, plan: None }
    }
}

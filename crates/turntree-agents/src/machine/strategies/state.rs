//! The state of a strategy during a run.

use serde::{Deserialize, Serialize};

use crate::machine::strategies::custom::CustomState;
use crate::machine::strategies::loop_::LoopState;
use crate::machine::strategies::plan::PlanState;
use crate::machine::strategies::policy::StrategyPolicy;
use crate::machine::strategies::react::ReactState;

/// The options and the progress of a strategy. Part of the serialized state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StrategyState {
    /// See [`Strategy::Loop`].
    Loop(LoopState),
    /// See [`Strategy::React`].
    React(ReactState),
    /// See [`Strategy::Plan`].
    Plan(Box<PlanState>),
    /// See [`Strategy::Custom`].
    #[serde(rename = "own")]
    Custom(CustomState),
}

impl StrategyState {
    pub(crate) fn policy(&self) -> &dyn StrategyPolicy {
        match self {
            Self::Loop(state) => state,
            Self::React(state) => state,
            Self::Plan(state) => &**state,
            Self::Custom(state) => state,
        }
    }

    pub(crate) fn policy_mut(&mut self) -> &mut dyn StrategyPolicy {
        match self {
            Self::Loop(state) => state,
            Self::React(state) => state,
            Self::Plan(state) => &mut **state,
            Self::Custom(state) => state,
        }
    }
}

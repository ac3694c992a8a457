//! The state of a run that a strategy of the application executes.
//!
//! Spec: UAP-1.0 §5.5

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::machine::strategies::policy::{StrategyPolicy, StrategyView, Transition};
use crate::types::plan_step::PlanStep;

/// What a custom strategy reported when it finished.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomState {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reasons: bool,
    /// True if runs of agents that the strategy has started wait for approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "plan")]
    pub(crate) plan: Option<Vector<PlanStep>>,
}

/// Serializes an optional plan as a list.
mod plan {
    use imbl::Vector;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::types::plan_step::PlanStep;

    #[expect(clippy::ref_option, reason = "serde requires this signature")]
    pub(super) fn serialize<S: Serializer>(
        plan: &Option<Vector<PlanStep>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(plan.iter().flatten())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vector<PlanStep>>, D::Error> {
        Vec::<PlanStep>::deserialize(deserializer).map(|steps| Some(steps.into()))
    }
}

/// The machine makes no decisions for a custom strategy: it executes the whole run in one action.
impl StrategyPolicy for CustomState {
    fn begun(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn answered(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn observed(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn stepped(&mut self, _: &StrategyView<'_>) -> Transition {
        Transition::Finish
    }

    fn calls_phase_hooks(&self) -> bool {
        self.reasons
    }

    fn plan(&self) -> Option<&Vector<PlanStep>> {
        self.plan.as_ref()
    }
}

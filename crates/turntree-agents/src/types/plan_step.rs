//! A step of a plan, as in the state of a run.
//!
//! Spec: UAP-1.0 §5.4, §13.4

use serde::{Deserialize, Serialize};

use turntree_core::json::json_object;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};

/// The status of a plan step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// The step has not started.
    #[default]
    Pending,
    /// The step is being executed.
    InProgress,
    /// The step has succeeded.
    Completed,
    /// The step has failed.
    Failed,
}

impl PlanStatus {
    /// All statuses, in the order of the specification.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// The name of the status in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl Field for PlanStatus {}

impl JsonSchema for PlanStatus {
    fn schema(_: &mut Definitions) -> serde_json::Value {
        serde_json::json!({ "type": "string", "enum": Self::ALL.map(Self::as_str) })
    }
}

json_object! {
    /// A step of a plan.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PlanStep {
        /// Unique in its plan.
        pub id: String = "id",
        /// The task of the step.
        pub description: String = "description",
        /// The tool for the step, if the plan names one.
        pub tool: Option<String> = "tool",
        /// Ids of the steps that must be completed before this one.
        pub depends_on: Vec<String> = "dependsOn",
        /// The status.
        pub status: PlanStatus = "status",
    }
}

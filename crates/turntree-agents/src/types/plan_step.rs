//! A step of a plan, as a run's state shows it. UAP-1.0 §5.4, §13.4.

use serde::{Deserialize, Serialize};

use turntree_core::json::json_object;
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
    /// It went wrong.
    Failed,
}

impl PlanStatus {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// Its name in JSON.
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
        /// What is to be done.
        pub description: String = "description",
        /// The tool to do it with, where the plan names one.
        pub tool: Option<String> = "tool",
        /// Ids of the steps that have to be done before.
        pub depends_on: Vec<String> = "dependsOn",
        /// How far it is.
        pub status: PlanStatus = "status",
    }
}

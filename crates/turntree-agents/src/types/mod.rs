//! The data that machines, hosts, drivers and sessions exchange. No behaviour beyond constructors and conversions.

pub mod action;
pub mod approval;
pub mod event;
pub mod execution_state;
pub mod failure;
pub(crate) mod idempotency;
pub mod identity;
pub mod limits;
pub mod middleware_state;
pub mod parent_run;
pub mod partial_output;
pub mod plan_step;
pub mod resolution;
pub mod run_view;
mod schema_cost;
pub mod strategy_outcome;
pub mod structure;
mod structure_validator;
pub mod usage_by_agent;

pub use action::{
    Abort, Action, ActionResult, Boundary, Notification, Stamp, ToolOutcome, ToolReturn, ToolRound,
};
pub use approval::{ApprovalDecision, ApprovalRequired, PendingCall, Verdict, approval_required};
pub use event::{AgentStreamEvent, SubAgentEvent, SubAgentRun, UapData, UapEvent};
pub use execution_state::ExecutionState;
pub use failure::{PartialTurn, partial_turn};
pub use identity::{AgentInfo, ParentIds, RunIdentity};
pub use limits::{LimitError, Limits, UsageMeter};
pub use middleware_state::MiddlewareState;
pub use parent_run::{DEFAULT_DEPTH, GREATEST_DEPTH, InheritedModel, ParentRun};
pub use partial_output::PartialOutput;
pub use plan_step::{PlanStatus, PlanStep};
pub use resolution::Resolution;
pub use run_view::RunView;
pub use strategy_outcome::StrategyOutcome;
pub use structure::{Structure, Violation};
pub use usage_by_agent::UsageByAgent;

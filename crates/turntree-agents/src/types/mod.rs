//! The data that agents, machines, hosts and listeners exchange.

pub mod action;
pub mod approval;
pub mod event;
pub mod execution_state;
pub mod failure;
pub mod middleware_state;
pub mod partial_output;
pub mod plan_step;
pub mod structure;

pub use action::{
    Abort, Action, ActionResult, Boundary, Notification, Stamp, ToolOutcome, ToolReturn, ToolRound,
};
pub use approval::{ApprovalDecision, ApprovalRequired, Verdict, approval_required};
pub use event::{AgentStreamEvent, SubAgentEvent, SubAgentRun, UapData, UapEvent};
pub use execution_state::ExecutionState;
pub use failure::{PartialTurn, partial_turn};
pub use middleware_state::MiddlewareState;
pub use partial_output::PartialOutput;
pub use plan_step::{PlanStatus, PlanStep};
pub use structure::{Structure, Violation};

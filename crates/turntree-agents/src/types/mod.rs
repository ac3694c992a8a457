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

pub use action::{Abort, Action, Boundary, Point, Reply, Returned, Stamp, ToolOutcome, ToolRound};
pub use approval::{ApprovalRequired, Decision, Verdict, approval_required};
pub use event::{AgentStreamEvent, SubAgentEvent, SubAgentRun, UapData, UapEvent};
pub use execution_state::ExecutionState;
pub use failure::{PartialTurn, partial_turn};
pub use middleware_state::MiddlewareState;
pub use partial_output::AnswerSoFar;
pub use plan_step::{PlanStatus, PlanStep};
pub use structure::{Structure, Violation};

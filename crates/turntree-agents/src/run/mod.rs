//! One run of an agent. [`machine`] decides, without I/O, clock, ids or async; [`mod@drive`] performs, through a [`Model`]
//! and a [`Host`]; [`stream`] is the same run with somebody listening, [`trace`] with somebody watching. UAP-1.0 §5, §11,
//! §12.
//!
//! ```text
//!   Machine::next ──> Action ──> drive ──> model, tools, hooks, clock, ids
//!   Machine::feed <── Reply  <──┘   └────> events (only where somebody listens)
//! ```
//!
//! [`Model`]: turntree_upp::Model

pub mod action;
mod answer;
pub mod approval;
pub(crate) mod around;
pub mod context;
pub mod drive;
pub mod event;
mod execution_state;
pub mod failure;
pub mod host;
pub mod local_host;
pub mod machine;
pub(crate) mod passage;
mod pipeline;
pub mod plan_step;
pub mod progress;
mod round;
pub(crate) mod saved;
pub mod state;
pub mod stream;
pub mod trace;

pub use action::{Abort, Action, Boundary, Point, Reply, Returned, Stamp, ToolOutcome, ToolRound};
pub use answer::AnswerSoFar;
pub use approval::{ApprovalRequired, Decision, Verdict, approval_required};
pub(crate) use around::Around;
pub use context::{Enclosing, Identity, Inheritance, Parent, RunContext};
pub use drive::{Drive, Protocol, drive};
pub use event::{AgentStreamEvent, SubAgentEvent, SubAgentRun, UapData, UapEvent};
pub use failure::{PartialTurn, partial_turn};
pub use host::{
    Approval, BeforeCall, HookSet, Host, HostError, HostErrorKind, HostFuture, StepResult, ToolInvocation,
};
pub use local_host::LocalHost;
pub use machine::{Machine, UnexpectedReply};
pub use plan_step::{PlanStatus, PlanStep};
pub use state::{ExecutionState, RunState, Setup, StateError};
pub use stream::AgentStream;
pub use trace::{Span, Tracer};

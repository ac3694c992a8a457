//! The application behind a run: its tools, hooks, clock and ids.

pub mod function_host;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod host;
pub mod progress;
pub mod run_context;
pub mod tool;

pub use function_host::FunctionHost;
pub use host::{
    Approval, BeforeCall, HookSet, Host, HostError, HostErrorKind, HostFuture, StepResult, ToolInvocation,
};
pub use progress::TOOL_EXECUTION_PROGRESS;
pub use run_context::{
    DEFAULT_DEPTH, GREATEST_DEPTH, InheritedModel, ParentIds, ParentRun, RunContext, RunIdentity,
};
pub use tool::{Tool, ToolFunction};

//! The application behind a run, and the ports through which a driver calls it.
//!
//! | item | purpose |
//! |---|---|
//! | [`Host`] | the application: tools, hooks, approval, clock, ids |
//! | [`FunctionHost`] | a host for tools that are Rust functions |
//! | [`Tool`], [`ToolInvocation`] | a tool of an agent, and one call of it |
//! | [`Toolset`], [`ToolsetContext`] | tools that can change between the steps of a run |
//! | [`AgentTool`] | an agent that serves as a tool |
//! | [`Strategy`], [`CustomStrategy`], [`StrategyScope`] | how an agent runs; strategies of the application |
//! | [`RunRecorder`], [`SubAgentSession`] | storage for the state of a run; sessions implement it |
//! | [`EventQueue`] | events on their way to the consumer of a stream |
//! | [`RunContext`] | where a run starts: host, caller, cancellation |

pub mod agent_tool;
pub mod error;
pub mod event_queue;
pub mod function_host;
pub mod hook_set;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
pub mod host;
pub mod progress;
pub mod recorder;
pub mod run_context;
pub mod strategy;
pub mod tool;
pub mod tool_invocation;
pub mod toolset;

pub use agent_tool::{AgentTool, CallerRun};
pub use error::{HostError, HostErrorKind};
pub use event_queue::EventQueue;
pub use function_host::FunctionHost;
pub use hook_set::HookSet;
pub use host::{Approval, BeforeCall, Host, HostFuture, StepResult};
pub use progress::TOOL_EXECUTION_PROGRESS;
pub use recorder::{RunRecorder, SubAgentSession};
pub use run_context::{RunContext, RunOverrides};
pub use strategy::{
    CustomHandle, CustomStrategy, Strategy, StrategyEvents, StrategyRunsHandle, StrategyScope,
};
pub use tool::{Tool, ToolFunction};
pub use tool_invocation::{ToolBinding, ToolInvocation};
pub use toolset::{Toolset, ToolsetContext};

//! The application behind a run: tools, hooks, clock and ids.
//!
//! Spec: UPP-1.2 §5, §10.4; UAP-1.0 §11

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

use crate::host::agent_tool::AgentTool;
use crate::host::error::HostError;
use crate::host::function_host::FunctionHost;
use crate::host::hook_set::HookSet;
use crate::host::strategy::{CustomStrategy, StrategyScope};
use crate::host::tool::Tool;
use crate::host::tool_invocation::ToolInvocation;
use crate::machine::state::RunState;
use crate::types::action::Boundary;
use crate::types::execution_state::ExecutionState;
use crate::types::run_view::RunView;
use crate::types::strategy_outcome::StrategyOutcome;
use crate::types::structure::Violation;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, ToolCall, ToolResult, Turn};
use turntree_core::runtime::sleep;
use turntree_core::telemetry::Tracer;
use turntree_core::time::Clock;
use turntree_upp::{System, UppError};

/// The result of `on_before_call`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum BeforeCall {
    /// Call the tool.
    #[default]
    Proceed,
    /// Call the tool with these arguments.
    ProceedWith(RawJson),
    /// Skip the tool.
    Skip,
}

/// The result of an approval handler.
#[derive(Debug, Clone, PartialEq)]
pub enum Approval {
    /// Call the tool.
    Granted,
    /// Call the tool with these arguments, a JSON object.
    GrantedWith(RawJson),
    /// Do not call the tool.
    Denied,
    /// Decide later: the run stops when the other calls of the round have finished.
    Ask,
}

/// The result of a step. UAP-1.0 §11.2
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The messages of the step as a turn.
    pub turn: Arc<Turn>,
    /// The state of the run after the step.
    pub state: ExecutionState,
}

/// A future of the application's code.
pub type HostFuture<'a, T> = BoxFuture<'a, Result<T, HostError>>;

/// The application behind a run.
///
/// [`Host::call_tool`], [`Host::clock`] and [`Host::ids`] are required; the other methods have defaults that do
/// nothing. [`Host::hooks`] declares which hooks the host implements; the driver does not call the others.
///
/// # Cancel safety
/// Any future may be dropped at any point, because the run was cancelled or aborted. Everything it started must stop.
pub trait Host: Send + Sync {
    /// The hooks that the host implements.
    fn hooks(&self) -> HookSet {
        HookSet::empty()
    }

    /// The host as `Any`, for middleware of the same application.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The clock.
    fn clock(&self) -> &dyn Clock;

    /// The source of ids.
    fn ids(&self) -> &dyn IdSource;

    /// The id of the run of a sub-agent in this call.
    fn sub_run_id(&self, _invocation: &ToolInvocation) -> String {
        self.ids().string()
    }

    /// The tracer of the run. Called once, when the run begins.
    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        None
    }

    /// Waits until calls of earlier runs of the session have ended: their futures were dropped, but their cleanup may
    /// take time. A run that resumes one of them waits for all calls (`is_resumed`), a new run only for those that observe
    /// their cancellation. `None`: there is nothing to wait for.
    fn earlier_calls(&self, _is_resumed: bool) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Calls a tool. All calls of one response run concurrently.
    ///
    /// # Errors
    /// The tool's error. The model receives its message as an error result.
    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson>;

    /// Creates the host of a sub-agent for one call. `tools` are the agent's tools; `metadata` are those that its run
    /// starts with. Default: a [`FunctionHost`].
    ///
    /// # Errors
    /// The host cannot be created; counts as a failure of the tool.
    fn sub_host(
        &self,
        tools: &Arc<[Tool]>,
        _invocation: &ToolInvocation,
        _metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        Ok(Arc::new(FunctionHost::new(Arc::clone(tools))))
    }

    /// Returns the agent of a handoff whose tool has none: the agent that the application names when it is needed. `tool` is
    /// the index of the tool.
    ///
    /// # Errors
    /// There is no such agent.
    fn handoff_agent(&self, _tool: usize) -> Result<Arc<dyn AgentTool>, HostError> {
        Err(HostError::raised("LookupError", "the handoff has no agent"))
    }

    /// Creates the host of an agent that takes over the conversation. `tools` are the agent's tools; `tool` is the index of
    /// the handoff. Default: a [`FunctionHost`].
    ///
    /// # Errors
    /// The host cannot be created.
    fn handoff_host(
        &self,
        tools: &Arc<[Tool]>,
        _tool: usize,
        _metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        Ok(Arc::new(FunctionHost::new(Arc::clone(tools))))
    }

    /// The messages that an agent receives which takes over the conversation, if they are not all of `messages`: the history
    /// and the run up to the handoff. `tool` is the index of the handoff.
    ///
    /// # Errors
    /// The function of the application failed.
    fn handoff_input(
        &self,
        _tool: usize,
        _messages: &[Arc<Message>],
    ) -> Result<Option<Vec<Arc<Message>>>, HostError> {
        Ok(None)
    }

    /// Converts the error of a sub-agent's run to the failure of the tool.
    fn sub_agent_failure(&self, error: UppError) -> HostError {
        HostError { payload: error.host, ..HostError::raised("UPPError", error.message) }
    }

    /// Decides whether a tool is called. Called only for tools that require approval.
    ///
    /// # Errors
    /// Ends the run after the other calls of the round have finished.
    fn approve(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        Box::pin(ready(Ok(Approval::Granted)))
    }

    /// The model calls a tool. An error counts as a failure of the tool.
    fn on_tool_call(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Called before a tool. An error counts as a failure of the tool.
    fn on_before_call(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        Box::pin(ready(Ok(BeforeCall::Proceed)))
    }

    /// A tool has returned. Returns a replacement for the result, if any. An error counts as a failure of the tool.
    fn on_after_call(
        &self,
        _invocation: Arc<ToolInvocation>,
        _result: RawJson,
    ) -> HostFuture<'_, Option<RawJson>> {
        Box::pin(ready(Ok(None)))
    }

    /// A tool has failed.
    ///
    /// # Errors
    /// Ends the run after the other calls of the round have finished.
    fn on_tool_error(&self, _invocation: Arc<ToolInvocation>, _error: HostError) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The run exceeds the limit of tool rounds.
    fn on_max_iterations(&self, _limit: u32) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// A step begins.
    fn on_step_start(&self, _step: u32, _state: ExecutionState) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The model has reasoned; only for strategies with reasoning and action phases.
    fn on_reason(&self, _step: u32, _reasoning: String) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The model has chosen tools; only for strategies with reasoning and action phases.
    fn on_act(&self, _step: u32, _calls: Vec<ToolCall>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The tools have finished; only for strategies with reasoning and action phases.
    fn on_observe(&self, _step: u32, _results: Vec<ToolResult>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// A step has ended.
    fn on_step_end(&self, _step: u32, _result: StepResult) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Returns true to stop the run. Called after every step.
    fn stop_condition(&self, _state: ExecutionState) -> HostFuture<'_, bool> {
        Box::pin(ready(Ok(false)))
    }

    /// Validates structured output that matches its schema, and returns the violated rules. The output is unwrapped.
    fn check_answer(&self, _answer: RawJson) -> HostFuture<'_, Vec<Violation>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Validates the output of the run: structured output that matches its schema, unwrapped, or the text of the response as
    /// a JSON string. Returns why the model is asked again; `None` for valid output.
    ///
    /// # Errors
    /// The run fails.
    fn validate_output(&self, _run: Arc<RunView>, _output: RawJson) -> HostFuture<'_, Option<String>> {
        Box::pin(ready(Ok(None)))
    }

    /// Returns the system prompt of the next model call.
    ///
    /// # Errors
    /// The run fails.
    fn system_prompt(&self, _run: Arc<RunView>) -> HostFuture<'_, Option<Arc<System>>> {
        Box::pin(ready(Ok(None)))
    }

    /// A timer that ends after the duration, for the maximum duration of a run.
    fn timer(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(sleep(duration))
    }

    /// The turn is complete.
    fn on_complete(&self, _turn: Arc<Turn>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The run has failed. Returns a turn to complete with instead, if any. Called at most once in a run.
    fn on_error(&self, _error: UppError, _state: ExecutionState) -> HostFuture<'_, Option<Arc<Turn>>> {
        Box::pin(ready(Ok(None)))
    }

    /// Executes a run with a custom strategy.
    ///
    /// # Errors
    /// The error of the strategy; the driver passes it to `on_error`.
    fn execute(
        &self,
        strategy: &dyn CustomStrategy,
        scope: Arc<dyn StrategyScope>,
    ) -> HostFuture<'_, StrategyOutcome> {
        strategy.execute(scope)
    }

    /// Saves the state. Returns the id of the checkpoint if one was created.
    fn checkpoint(&self, _boundary: Boundary, _state: RunState) -> HostFuture<'_, Option<String>> {
        Box::pin(ready(Ok(None)))
    }

    /// The metadata of the run, if a hook or a tool has changed them since the last call.
    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        None
    }
}

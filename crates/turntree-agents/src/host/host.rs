//! The application behind a run: its tools, its hooks, its clock. UPP-1.2 §5 and §10.4, UAP-1.0 §11.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};

use crate::host::error::HostError;
use crate::host::function_host::FunctionHost;
use crate::host::hook_set::HookSet;
use crate::host::strategy::{CustomStrategy, StrategyScope};
use crate::host::tool::Tool;
use crate::host::tool_invocation::ToolInvocation;
use crate::machine::state::RunState;
use crate::types::action::Boundary;
use crate::types::execution_state::ExecutionState;
use crate::types::strategy_outcome::StrategyOutcome;
use crate::types::structure::Violation;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{ToolCall, ToolResult, Turn};
use turntree_core::telemetry::Tracer;
use turntree_core::time::Clock;
use turntree_upp::UppError;

/// What `on_before_call` decided.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum BeforeCall {
    /// Go on.
    #[default]
    Proceed,
    /// Go on with other arguments.
    ProceedWith(RawJson),
    /// Do not call the tool.
    Skip,
}

/// What an approval handler decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// Call the tool.
    Granted,
    /// Do not.
    Denied,
    /// A person decides later: the run stops once the other calls of the round have settled.
    Ask,
}

/// What a step brought. UAP-1.0 §11.2.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The step as a turn.
    pub turn: Arc<Turn>,
    /// The run so far.
    pub state: ExecutionState,
}

/// A future of the application.
pub type HostFuture<'a, T> = BoxFuture<'a, Result<T, HostError>>;

/// The application behind a run.
///
/// Everything but [`Host::call_tool`] and the two sources has a default that does nothing. A host tells in
/// [`Host::hooks`] which of the others it has; the rest is not called.
///
/// # Cancel safety
/// Any future may be dropped at any point: the run was cancelled or aborted, and what the future started must stop.
pub trait Host: Send + Sync {
    /// The hooks that it has.
    fn hooks(&self) -> HookSet {
        HookSet::empty()
    }

    /// The host itself, for middleware that comes from the same application.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Tells the time.
    fn clock(&self) -> &dyn Clock;

    /// Mints ids.
    fn ids(&self) -> &dyn IdSource;

    /// Who watches this run. Asked once, when the run begins.
    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        None
    }

    /// Calls a tool. All calls of one answer run at once.
    ///
    /// # Errors
    /// What the tool raised: the model is told its message as an error result.
    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson>;

    /// The application behind an agent that is a tool of this one, for one call of it. `metadata` are those that its run
    /// starts with. By itself it is a host that calls the functions which the agent's tools carry.
    ///
    /// # Errors
    /// Why there is none; counts as the tool's failure.
    fn sub_host(
        &self,
        tools: &Arc<[Tool]>,
        _invocation: &ToolInvocation,
        _metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        Ok(Arc::new(FunctionHost::new(Arc::clone(tools))))
    }

    /// What an agent that is a tool of this one failed with, as the failure of that tool.
    fn sub_agent_failure(&self, error: UppError) -> HostError {
        HostError { payload: error.host, ..HostError::raised("UPPError", error.message) }
    }

    /// Asks whether a tool may be called; only for tools that want it.
    ///
    /// # Errors
    /// Ends the run, after the other calls of the round have settled.
    fn approve(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        Box::pin(ready(Ok(Approval::Granted)))
    }

    /// The model wants a tool called. What it raises counts as the tool's failure.
    fn on_tool_call(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Before a tool is called. What it raises counts as the tool's failure.
    fn on_before_call(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        Box::pin(ready(Ok(BeforeCall::Proceed)))
    }

    /// A tool has answered; gives another result to replace it. What it raises counts as the tool's failure.
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
    /// Ends the run, after the other calls of the round have settled.
    fn on_tool_error(&self, _invocation: Arc<ToolInvocation>, _error: HostError) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The limit of tool rounds is crossed.
    fn on_max_iterations(&self, _limit: u32) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// A step begins.
    fn on_step_start(&self, _step: u32, _state: ExecutionState) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The model has thought aloud; only for strategies that reason and act in turns.
    fn on_reason(&self, _step: u32, _reasoning: String) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The model has chosen its tools; only for strategies that reason and act in turns.
    fn on_act(&self, _step: u32, _calls: Vec<ToolCall>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The tools have answered; only for strategies that reason and act in turns.
    fn on_observe(&self, _step: u32, _results: Vec<ToolResult>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// A step has ended.
    fn on_step_end(&self, _step: u32, _result: StepResult) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Whether to stop here; asked after every step.
    fn stop_condition(&self, _state: ExecutionState) -> HostFuture<'_, bool> {
        Box::pin(ready(Ok(false)))
    }

    /// What the application has against a structured answer that fits its schema. The answer is not wrapped.
    fn check_answer(&self, _answer: RawJson) -> HostFuture<'_, Vec<Violation>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// The turn is whole.
    fn on_complete(&self, _turn: Arc<Turn>) -> HostFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The run has failed; gives a turn to complete with instead. Asked at most once a run.
    fn on_error(&self, _error: UppError, _state: ExecutionState) -> HostFuture<'_, Option<Arc<Turn>>> {
        Box::pin(ready(Ok(None)))
    }

    /// Performs a run by a strategy of the application; only for agents that have one.
    ///
    /// # Errors
    /// What the strategy failed with; `on_error` is asked.
    fn execute(
        &self,
        strategy: &dyn CustomStrategy,
        scope: Arc<dyn StrategyScope>,
    ) -> HostFuture<'_, StrategyOutcome> {
        strategy.execute(scope)
    }

    /// Saves the state; gives the id of the checkpoint when one was made.
    fn checkpoint(&self, _boundary: Boundary, _state: RunState) -> HostFuture<'_, Option<String>> {
        Box::pin(ready(Ok(None)))
    }

    /// The run's metadata, when a hook or a tool has changed them since the last time.
    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        None
    }
}

//! The application behind a run: its tools, its hooks, its clock. UPP-1.2 §5 and §10.4, UAP-1.0 §11.

use std::any::Any;
use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::driver::trace::{Span, Tracer};
use crate::host::function_host::FunctionHost;
use crate::host::progress::Progress;
use crate::host::run_context::{InheritedModel, ParentRun, RunIdentity};
use crate::machine::state::RunState;
use crate::machine::strategies::custom::{CustomStrategy, OwnContext, StrategyOutcome};
use crate::types::action::Boundary;
use crate::types::execution_state::ExecutionState;
use crate::types::structure::Violation;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, ToolCall, ToolResult, Turn};
use turntree_core::time::{Clock, Timestamp};
use turntree_upp::error::HostPayload;
use turntree_upp::{ErrorCode, UppError};

/// What kind of failure a [`HostError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostErrorKind {
    /// The application's code raised.
    #[default]
    Raised,
    /// The arguments do not fit the tool: it was not called.
    InvalidArguments,
    /// The process is to stop (as `KeyboardInterrupt`): the run ends at once, and nobody is asked.
    Fatal,
}

/// A failure of the application's own code, carried as it is.
#[derive(Clone)]
pub struct HostError {
    /// What kind of failure.
    pub kind: HostErrorKind,
    /// The exception's type, as `ValueError`.
    pub type_name: String,
    /// Its words; what a model is told of a failed tool.
    pub message: String,
    /// The exception itself, where there is one.
    pub payload: Option<HostPayload>,
}

impl HostError {
    /// The application's code raised.
    pub fn raised(type_name: impl Into<String>, message: impl Into<String>) -> Self {
        let (type_name, message) = (type_name.into(), message.into());
        Self { kind: HostErrorKind::Raised, type_name, message, payload: None }
    }

    /// The arguments do not fit; `message` tells the model what to change.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self { kind: HostErrorKind::InvalidArguments, ..Self::raised("ValidationError", message) }
    }

    /// With the exception itself.
    #[must_use]
    pub fn with_payload(self, payload: HostPayload) -> Self {
        Self { payload: Some(payload), ..self }
    }

    /// As the error of a run: `place` names what raised. The exception stays in [`UppError::host`].
    pub fn into_error(self, place: &str, provider: &str) -> UppError {
        let words = format!("{place} raised {}: {}", self.type_name, self.message);
        UppError { host: self.payload, ..UppError::new(ErrorCode::InvalidRequest, provider, words) }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({:?})", self.type_name, self.message, self.kind)
    }
}

impl std::error::Error for HostError {}

/// Which hooks a host has. What is not in it is never awaited, and nothing is prepared for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookSet(u32);

impl HookSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// [`Host::on_tool_call`].
    pub const TOOL_CALL: Self = Self(1);
    /// [`Host::on_before_call`].
    pub const BEFORE_CALL: Self = Self(1 << 1);
    /// [`Host::on_after_call`].
    pub const AFTER_CALL: Self = Self(1 << 2);
    /// [`Host::on_tool_error`].
    pub const TOOL_ERROR: Self = Self(1 << 3);
    /// [`Host::on_max_iterations`].
    pub const MAX_ITERATIONS: Self = Self(1 << 4);
    /// [`Host::on_step_start`].
    pub const STEP_START: Self = Self(1 << 5);
    /// [`Host::on_act`].
    pub const ACT: Self = Self(1 << 6);
    /// [`Host::on_observe`].
    pub const OBSERVE: Self = Self(1 << 7);
    /// [`Host::on_step_end`].
    pub const STEP_END: Self = Self(1 << 8);
    /// [`Host::stop_condition`].
    pub const STOP_CONDITION: Self = Self(1 << 9);
    /// [`Host::on_complete`].
    pub const COMPLETE: Self = Self(1 << 10);
    /// [`Host::on_error`].
    pub const ERROR: Self = Self(1 << 11);
    /// [`Host::checkpoint`] at [`Boundary::StepEnded`] and [`Boundary::Planned`].
    pub const CHECKPOINT_STEPS: Self = Self(1 << 12);
    /// [`Host::checkpoint`] at [`Boundary::Answered`] and [`Boundary::ToolFinished`].
    pub const CHECKPOINT_WITHIN_STEPS: Self = Self(1 << 13);
    /// [`Host::changed_metadata`].
    pub const METADATA: Self = Self(1 << 14);
    /// [`Host::on_reason`].
    pub const REASON: Self = Self(1 << 15);
    /// [`Host::check_answer`].
    pub const CHECK_ANSWER: Self = Self(1 << 16);
    /// All.
    pub const ALL: Self = Self((1 << 17) - 1);

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all hooks of `other` are in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for HookSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One call of a tool, as the application gets it.
#[derive(Debug, Clone)]
pub struct ToolInvocation {
    /// The call; its arguments are those in effect, after `on_before_call`.
    pub call: Arc<ToolCall>,
    /// The tool's place among the agent's tools.
    pub tool: usize,
    /// The call's place in the answer.
    pub position: usize,
    /// The step.
    pub step: u32,
    /// Who runs.
    pub identity: Arc<RunIdentity>,
    /// What a sub-agent without a model of its own runs with.
    pub inheritance: InheritedModel,
    /// Fires when the run is aborted or dropped. The future of the call is dropped then; this is for work it started elsewhere.
    pub cancellation: CancellationToken,
    /// The call's span, where somebody watches: what the tool starts belongs inside.
    pub span: Option<Arc<dyn Span>>,
    /// The answer that makes the call.
    pub message: Arc<Message>,
    /// The run of an agent that the call is inside of; none in a call of a bare model that no agent has started.
    pub enclosing: Option<Arc<ParentRun>>,
    /// Where the tool tells how far it is; none where nobody listens.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl ToolInvocation {
    /// Tells listeners how far the tool is: they get an event `tool_execution_progress` between the start and the end
    /// of the call. Has no effect where nobody listens and after the call. May be called on any thread.
    pub fn report(&self, progress: RawJson, at: Timestamp) {
        if let Some(listening) = &self.progress {
            listening.report(&self.call, progress, at);
        }
    }
}

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
        HookSet::NONE
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
        agent: &Agent,
        _invocation: &ToolInvocation,
        _metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        Ok(Arc::new(FunctionHost::new(Arc::clone(agent.tools()))))
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
    fn execute(&self, strategy: &dyn CustomStrategy, context: OwnContext) -> HostFuture<'_, StrategyOutcome> {
        strategy.execute(context)
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

//! Executes one tool call: hooks before the call, approval, the call, hooks after the call.
//!
//! Spec: UPP-1.2 §10.4

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::poll_fn;

use crate::driver::model_layer::{ModelMiddlewareLayer, tool_failure};
use crate::driver::run_loop::RunLoop;
use crate::driver::telemetry::ToolCallOutcome;
use crate::driver::tool_outcome::{ApprovalAndDuration, check_limits, denied, outcome_of, rejected};
use crate::host::agent_tool::CallerRun;
use crate::host::error::{HostError, HostErrorKind};
use crate::host::hook_set::HookSet;
use crate::host::host::{Approval, BeforeCall};
use crate::host::progress::Progress;
use crate::host::tool::Tool;
use crate::host::tool_invocation::ToolInvocation;
use crate::machine::{handoff, tool_retries};
use crate::types::action::{CallState, SuspendedCall, ToolOutcome, ToolReturn, ToolRound};
use crate::types::approval::{ApprovalDecision, Verdict};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::event::{ToolExecutionEnd, ToolExecutionStart};
use turntree_core::message::{Delta, StreamEvent, ToolCall};
use turntree_core::telemetry::{Aborted, Exception, Span, SpanGuard};
use turntree_upp::UppError;
use turntree_upp::telemetry::ErrorOutcome;

/// The calls of one response and the tools that the run has at this step.
#[derive(Clone, Copy)]
pub(super) struct CallsOfRound<'a> {
    pub(super) round: &'a ToolRound,
    pub(super) tools: &'a Arc<[Tool]>,
    pub(super) step: u32,
}

impl CallsOfRound<'_> {
    /// The tool of a call; `None` for an unknown tool.
    fn tool(&self, position: usize) -> Option<(usize, &Tool)> {
        let index = self.round.tools.get(position).copied().flatten()?;
        Some((index, self.tools.get(index)?))
    }
}

/// Why a call has no result, or not yet.
pub(super) enum CallStop {
    /// An error that ends the run after the other calls of the round have finished.
    Round(UppError),
    /// An error that ends the run at once.
    Run(UppError),
    /// The approval handler has approved the call. The approval is stored before the tool is called.
    Approved(Box<ApprovedCall>),
    /// The call needs approval. The run stops after the other calls have finished.
    AwaitingApproval(Arc<ToolCall>),
    /// The tool is a sub-agent, and calls of it need approval. The run stops after the other calls have finished.
    Suspended(Box<SuspendedCall>),
    /// The tool has returned. The return value is stored in the state before the hooks after the call run.
    Returned(Box<CallOutcome>),
}

/// The result of a call.
pub(super) type CallResult = Result<ToolOutcome, CallStop>;

/// A call that the approval handler has approved.
pub(super) struct ApprovedCall {
    call: Arc<ToolCall>,
    /// True if the handler has replaced the arguments.
    is_replaced: bool,
    /// The span of the call; it continues.
    span: SpanGuard,
}

impl ApprovedCall {
    /// The call, if the handler has replaced its arguments.
    pub(super) fn replaced(&self) -> Option<Arc<ToolCall>> {
        self.is_replaced.then(|| Arc::clone(&self.call))
    }
}

/// What is left to do of a call.
pub(super) enum Rest {
    /// Everything.
    All,
    /// The call of the tool, and the hooks after it.
    Tool(Box<ApprovedCall>),
    /// The hooks after the call.
    Hooks(Box<CallOutcome>),
    /// Nothing: its approval could not be stored, for this reason.
    Nothing(Box<ApprovedCall>, UppError),
}

impl Rest {
    fn take_span(&mut self) -> Option<SpanGuard> {
        match self {
            Self::All => None,
            Self::Tool(approved) | Self::Nothing(approved, _) => Some(std::mem::take(&mut approved.span)),
            Self::Hooks(returned) => Some(std::mem::take(&mut returned.span)),
        }
    }
}

/// The return value of a tool, with the error if it failed. The error can contain the application's exception, which the
/// serialized state cannot.
pub(super) struct CallOutcome {
    pub(super) returned: ToolReturn,
    error: Option<HostError>,
    /// The span of the call; it continues.
    span: SpanGuard,
}

impl CallOutcome {
    fn new(
        record: ApprovalAndDuration,
        call: &Arc<ToolCall>,
        result: RawJson,
        error: Option<HostError>,
    ) -> Self {
        let ApprovalAndDuration { approved, duration } = record;
        let failure = error.as_ref().map(|error| error.type_name.clone());
        let returned = ToolReturn { call: Arc::clone(call), result, failure, duration, approved };
        Self { returned, error, span: SpanGuard::default() }
    }
}

impl From<ToolReturn> for CallOutcome {
    fn from(returned: ToolReturn) -> Self {
        let message = || returned.result.as_string().unwrap_or_default();
        let error = returned.failure.as_deref().map(|failure| HostError::raised(failure, message()));
        Self { returned, error, span: SpanGuard::default() }
    }
}

impl RunLoop<'_> {
    /// Runs the rest of one call of a round.
    pub(super) async fn run_call(
        &self,
        calls: CallsOfRound<'_>,
        position: usize,
        mut rest: Rest,
    ) -> (usize, CallResult) {
        let Some(call) = calls.round.call(position) else {
            let message = format!("the tool round has no call at position {position}");
            return (position, Err(CallStop::Run(UppError::invalid_request(self.provider(), message))));
        };
        self.suspend_if_closing().await;
        if matches!(rest, Rest::All)
            && let Err(error) = self.emit(|| self.start_event(calls.round, position, call)).await
        {
            return (position, Err(CallStop::Run(error)));
        }
        let tool = || calls.tool(position).map(|(_, tool)| tool);
        let span = rest.take_span().unwrap_or_else(|| self.trace.tool(self.driver, call, tool()));
        let mut outcome = self.continue_call(calls, position, call, rest, span.span()).await;
        if let (Ok(outcome), Some(parent)) = (&mut outcome, &self.parent_run) {
            parent.usage.move_to(&mut outcome.execution);
        }
        if let (Ok(outcome), Some(agent)) = (&mut outcome, tool().and_then(|tool| tool.handoff.as_ref()))
            && !outcome.execution.is_error
        {
            handoff::mark(&mut outcome.execution, agent);
        }
        match outcome {
            // The call continues after its approval or its return value is stored.
            Err(CallStop::Approved(mut approved)) => {
                approved.span = span;
                return (position, Err(CallStop::Approved(approved)));
            }
            Err(CallStop::Returned(mut returned)) => {
                returned.span = span;
                return (position, Err(CallStop::Returned(returned)));
            }
            Err(CallStop::AwaitingApproval(_) | CallStop::Suspended(_)) => {
                span.end(&Aborted);
                return (position, outcome);
            }
            Ok(ref outcome) => span.end(&ToolCallOutcome(outcome)),
            Err(CallStop::Round(ref error) | CallStop::Run(ref error)) => span.end(&ErrorOutcome(error)),
        }
        match self.emit(|| self.end_event(position, call, &outcome)).await {
            Ok(()) => (position, outcome),
            Err(error) => (position, Err(CallStop::Run(error))),
        }
    }

    /// Continues a call from its state.
    async fn continue_call(
        &self,
        calls: CallsOfRound<'_>,
        position: usize,
        call: &ToolCall,
        rest: Rest,
        span: Option<&Arc<dyn Span>>,
    ) -> CallResult {
        let CallsOfRound { round, step, .. } = calls;
        let progress = match (rest, round.begun(position)) {
            (Rest::Nothing(_, error), _) => return Err(CallStop::Round(error)),
            (Rest::Hooks(returned), _) => CallProgress::Returned(*returned),
            (Rest::Tool(approved), _) => CallProgress::Approved(approved.call, Some(true)),
            (Rest::All, Some(CallState::Returned(returned))) => {
                CallProgress::Returned(returned.clone().into())
            }
            (Rest::All, Some(CallState::Resolved(resolved))) => return Ok(outcome_of(resolved)),
            (Rest::All, Some(CallState::Decided(ApprovalDecision { call, verdict }))) => match verdict {
                Verdict::Denied { reason } => return Ok(denied(call, reason.as_deref())),
                Verdict::Approved => CallProgress::Approved(Arc::clone(call), Some(true)),
            },
            (Rest::All, Some(CallState::Suspended(SuspendedCall { call, approved, .. }))) => {
                CallProgress::Approved(Arc::clone(call), *approved)
            }
            (Rest::All, _) => CallProgress::NotStarted,
        };
        let Some((index, tool)) =
            calls.tool(position).filter(|(index, _)| self.offers(*index, &call.tool_name))
        else {
            return Ok(rejected(call, &format!("Tool '{}' not found", call.tool_name)));
        };
        let invocation = |call: Arc<ToolCall>| {
            Arc::new(ToolInvocation {
                call,
                tool: index,
                binding: tool.binding.clone(),
                position,
                step,
                identity: Arc::clone(&self.driver.identity),
                inherited_model: self.inherited_model.clone(),
                cancellation: self.cancellation.clone(),
                span: span.cloned(),
                message: Arc::clone(&round.message),
                round: Arc::clone(&round.id),
                parent_run: self.parent_run.clone(),
                progress: self.progress(position),
            })
        };
        match progress {
            CallProgress::NotStarted => self.run_known(tool, invocation(Arc::new(call.clone()))).await,
            // The hooks before the call ran before the approval was requested.
            CallProgress::Approved(call, approved) => {
                self.run_approved(tool, invocation(call), approved).await
            }
            CallProgress::Returned(returned) => {
                self.run_after(tool, invocation(Arc::clone(&returned.returned.call)), returned).await
            }
        }
    }

    /// Never returns while the run is being dropped, so that no application code is called.
    async fn suspend_if_closing(&self) {
        if self.closing.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// True if the tool is offered to the model: middleware can withdraw the agent's own tools.
    fn offers(&self, tool: usize, name: &str) -> bool {
        let is_own = self.driver.is_own_tool(tool);
        let layer = self.driver.ports.model_middleware.as_ref().filter(|_| is_own);
        layer.is_none_or(|layer| layer.offers(name))
    }

    async fn run_known(&self, tool: &Tool, invocation: Arc<ToolInvocation>) -> CallResult {
        let invocation = match self.before(tool, invocation).await {
            Ok(Before::Go(invocation)) => invocation,
            Ok(Before::Skip(invocation)) => return Ok(rejected(&invocation.call, "Tool execution skipped")),
            Err((invocation, error)) => {
                return self.failed(tool, &invocation, error, ApprovalAndDuration::default()).await;
            }
        };
        let (invocation, is_replaced) = match self.approve(tool, &invocation).await? {
            Some(Approval::Denied) => return Ok(denied(&invocation.call, None)),
            Some(Approval::Ask) => return Err(CallStop::AwaitingApproval(Arc::clone(&invocation.call))),
            None => return self.run_approved(tool, invocation, None).await,
            Some(Approval::Granted) => (invocation, false),
            Some(Approval::GrantedWith(arguments)) => (with_arguments(invocation, arguments), true),
        };
        if self.driver.ports.recorder.is_some() {
            let (call, span) = (Arc::clone(&invocation.call), SpanGuard::default());
            return Err(CallStop::Approved(Box::new(ApprovedCall { call, is_replaced, span })));
        }
        self.run_approved(tool, invocation, Some(true)).await
    }

    async fn run_approved(
        &self,
        tool: &Tool,
        invocation: Arc<ToolInvocation>,
        approved: Option<bool>,
    ) -> CallResult {
        self.suspend_if_closing().await;
        let began = self.driver.host.clock().now().milliseconds();
        let result = self.call(tool, &invocation).await;
        let ended = self.driver.host.clock().now().milliseconds();
        let record = ApprovalAndDuration { approved, duration: ended.abs_diff(began) };
        if let Some(waits_for) = result.as_ref().err().and_then(HostError::waits_for) {
            let (call, waits_for) = (Arc::clone(&invocation.call), waits_for.to_vec());
            return Err(CallStop::Suspended(Box::new(SuspendedCall { call, approved, waits_for })));
        }
        match result {
            Ok(result) if self.has(HookSet::AFTER_CALL) || self.driver.ports.model_middleware.is_some() => {
                Err(CallStop::Returned(Box::new(CallOutcome::new(record, &invocation.call, result, None))))
            }
            Ok(result) => Ok(record.outcome(&invocation.call, result, false)),
            Err(error) if self.has(HookSet::TOOL_ERROR) && !error.kind.ends_run() => {
                let message = RawJson::from_str_value(&error.message);
                Err(CallStop::Returned(Box::new(CallOutcome::new(
                    record,
                    &invocation.call,
                    message,
                    Some(error),
                ))))
            }
            Err(error) => self.failed(tool, &invocation, error, record).await,
        }
    }

    /// Calls the hooks after a call and returns its result.
    async fn run_after(
        &self,
        tool: &Tool,
        invocation: Arc<ToolInvocation>,
        returned: CallOutcome,
    ) -> CallResult {
        let ToolReturn { result, duration, approved, .. } = returned.returned;
        let record = ApprovalAndDuration { approved, duration };
        let result = match returned.error {
            None => self.after(tool, &invocation, result).await,
            Some(error) => Err(error),
        };
        match result {
            Ok(result) => Ok(record.outcome(&invocation.call, result, false)),
            Err(error) => self.failed(tool, &invocation, error, record).await,
        }
    }

    /// The receiver of the call's progress.
    fn progress(&self, position: usize) -> Option<Arc<Progress>> {
        let events = self.driver.ports.events.as_ref()?;
        Some(Arc::new(Progress::new(Arc::clone(events), index(position))))
    }

    /// Calls the tool. An agent that serves as a tool runs inside this future.
    async fn call(&self, tool: &Tool, invocation: &Arc<ToolInvocation>) -> Result<RawJson, HostError> {
        let driver = self.driver;
        check_limits(&invocation.call.arguments)?;
        if let Some(schema) = &tool.arguments {
            schema.check_arguments(&invocation.call.arguments).map_err(HostError::invalid_arguments)?;
        }
        if let Some(agent) = &tool.handoff {
            return self.accept_handoff(agent, invocation);
        }
        let result = match (&tool.agent, &tool.function) {
            (Some(agent), _) => {
                let events = driver.ports.events.as_deref().filter(|_| driver.config.sub_agent_events);
                let caller = CallerRun {
                    host: &driver.host,
                    recorder: driver.ports.recorder.as_deref(),
                    events,
                    sub_agent_events: driver.config.sub_agent_events,
                };
                let mut result = agent.call(caller, invocation);
                // A call that is being dropped is polled once more. That poll must not start a run.
                poll_fn(|context| {
                    if self.closing.load(Ordering::Relaxed) {
                        return Poll::Pending;
                    }
                    result.poll_unpin(context)
                })
                .await
            }
            // The host finds only the agent's own tools by their index.
            (None, Some(function)) if !driver.is_own_tool(invocation.tool) => {
                function(Arc::clone(invocation)).await
            }
            (None, _) => driver.host.call_tool(Arc::clone(invocation)).await,
        };
        if let Some(progress) = &invocation.progress {
            progress.end();
        }
        result
    }

    async fn before(
        &self,
        tool: &Tool,
        invocation: Arc<ToolInvocation>,
    ) -> Result<Before, (Arc<ToolInvocation>, HostError)> {
        if self.has(HookSet::TOOL_CALL)
            && let Err(error) = self.driver.host.on_tool_call(Arc::clone(&invocation)).await
        {
            return Err((invocation, error));
        }
        if let Err(error) = self.notify_middleware(tool, &invocation, None).await {
            return Err((invocation, error));
        }
        if !self.has(HookSet::BEFORE_CALL) {
            return Ok(Before::Go(invocation));
        }
        self.suspend_if_closing().await;
        match self.driver.host.on_before_call(Arc::clone(&invocation)).await {
            Ok(BeforeCall::Proceed) => Ok(Before::Go(invocation)),
            Ok(BeforeCall::Skip) => Ok(Before::Skip(invocation)),
            Ok(BeforeCall::ProceedWith(arguments)) => Ok(Before::Go(with_arguments(invocation, arguments))),
            Err(error) => Err((invocation, error)),
        }
    }

    async fn approve(
        &self,
        tool: &Tool,
        invocation: &Arc<ToolInvocation>,
    ) -> Result<Option<Approval>, CallStop> {
        if !tool.requires_approval {
            return Ok(None);
        }
        self.suspend_if_closing().await;
        match self.driver.host.approve(Arc::clone(invocation)).await {
            Ok(approval) => Ok(Some(approval)),
            Err(error) => Err(self.stopped(error, "the approval handler", &invocation.call)),
        }
    }

    async fn after(
        &self,
        tool: &Tool,
        invocation: &Arc<ToolInvocation>,
        result: RawJson,
    ) -> Result<RawJson, HostError> {
        let result = if self.has(HookSet::AFTER_CALL) {
            let replaced = self.driver.host.on_after_call(Arc::clone(invocation), result.clone()).await?;
            replaced.unwrap_or(result)
        } else {
            result
        };
        self.notify_middleware(tool, invocation, Some(&result)).await?;
        Ok(result)
    }

    /// Calls the middleware's hooks for a tool call or its result.
    async fn notify_middleware(
        &self,
        tool: &Tool,
        invocation: &ToolInvocation,
        result: Option<&RawJson>,
    ) -> Result<(), HostError> {
        let Some(layer) = &self.driver.ports.model_middleware else {
            return Ok(());
        };
        self.suspend_if_closing().await;
        let ModelMiddlewareLayer { stack, context } = layer;
        let outcome = match result {
            None => stack.tool_call(&tool.definition, &invocation.call.arguments, context).await,
            Some(result) => stack.tool_result(&tool.definition, result, context).await,
        };
        outcome.map_err(tool_failure)
    }

    /// Converts a failure to an error result for the model.
    async fn failed(
        &self,
        tool: &Tool,
        invocation: &Arc<ToolInvocation>,
        error: HostError,
        record: ApprovalAndDuration,
    ) -> CallResult {
        if let Some(span) = &invocation.span {
            span.record_exception(&Exception {
                type_name: &error.type_name,
                message: &error.message,
                object: error.payload.as_deref(),
            });
        }
        if error.kind.ends_run() {
            return Err(self.stopped(error, "the tool", &invocation.call));
        }
        let mut outcome = record.outcome(&invocation.call, RawJson::from_str_value(&error.message), true);
        if error.kind == HostErrorKind::Retry {
            tool_retries::mark(&mut outcome.execution, invocation.step);
            outcome.retries = Some(tool.retries);
        }
        if self.has(HookSet::TOOL_ERROR) {
            self.suspend_if_closing().await;
        }
        if self.has(HookSet::TOOL_ERROR)
            && let Err(second) = self.driver.host.on_tool_error(Arc::clone(invocation), error).await
        {
            return Err(self.stopped(second, "on_error of the tool strategy", &invocation.call));
        }
        Ok(outcome)
    }

    fn stopped(&self, error: HostError, place: &str, call: &ToolCall) -> CallStop {
        let fatal = error.kind == HostErrorKind::Fatal;
        let place = format!("{place} for tool '{}'", call.tool_name);
        let error = error.into_error(&place, self.provider());
        if fatal { CallStop::Run(error) } else { CallStop::Round(error) }
    }

    fn start_event(&self, round: &ToolRound, position: usize, call: &ToolCall) -> StreamEvent {
        let mut extra = Extra::new();
        if let Some(call) = round.begun(position).and_then(CallState::call) {
            // The stream of a resumed run does not repeat the response with the arguments, and they can be new.
            extra.insert("arguments", call.arguments.clone());
        }
        let delta = ToolExecutionStart {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            timestamp: self.driver.host.clock().now().milliseconds(),
            extra,
        };
        StreamEvent::new(index(position), Delta::ToolExecutionStart(delta))
    }

    fn end_event(&self, position: usize, call: &ToolCall, outcome: &CallResult) -> StreamEvent {
        let (result, is_error) = match outcome {
            Ok(outcome) => (outcome.model_result().clone(), outcome.execution.is_error),
            Err(CallStop::Round(error) | CallStop::Run(error)) => {
                (RawJson::from_str_value(&error.message), true)
            }
            Err(
                CallStop::Approved(_)
                | CallStop::AwaitingApproval(_)
                | CallStop::Suspended(_)
                | CallStop::Returned(_),
            ) => (RawJson::default(), false),
        };
        let delta = ToolExecutionEnd {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            result,
            is_error,
            timestamp: self.driver.host.clock().now().milliseconds(),
            extra: Extra::new(),
        };
        StreamEvent::new(index(position), Delta::ToolExecutionEnd(delta))
    }
}

/// The progress of a call.
enum CallProgress {
    /// The call has not started.
    NotStarted,
    /// The hooks before the call have run, and the call is approved if that is required.
    Approved(Arc<ToolCall>, Option<bool>),
    /// The tool has returned.
    Returned(CallOutcome),
}

/// The outcome of the hooks before a call.
enum Before {
    Go(Arc<ToolInvocation>),
    Skip(Arc<ToolInvocation>),
}

/// The same invocation with other arguments.
fn with_arguments(invocation: Arc<ToolInvocation>, arguments: RawJson) -> Arc<ToolInvocation> {
    let call = ToolCall { arguments, ..ToolCall::clone(&invocation.call) };
    Arc::new(ToolInvocation { call: Arc::new(call), ..Arc::unwrap_or_clone(invocation) })
}

fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

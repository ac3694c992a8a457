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
use crate::host::agent_tool::CallerRun;
use crate::host::error::{HostError, HostErrorKind};
use crate::host::hook_set::HookSet;
use crate::host::host::{Approval, BeforeCall};
use crate::host::progress::Progress;
use crate::host::tool_invocation::ToolInvocation;
use crate::types::action::{CallState, ToolOutcome, ToolReturn, ToolRound};
use crate::types::approval::{ApprovalDecision, Verdict};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::event::{ToolExecutionEnd, ToolExecutionStart};
use turntree_core::message::{Delta, StreamEvent, ToolCall, ToolExecution};
use turntree_core::telemetry::{Aborted, Exception, Span, SpanGuard};
use turntree_upp::UppError;
use turntree_upp::telemetry::ErrorOutcome;

/// Why a call has no result, or not yet.
pub(super) enum CallStop {
    /// An error that ends the run after the other calls of the round have finished.
    Round(UppError),
    /// An error that ends the run at once.
    Run(UppError),
    /// The call needs approval. The run stops after the other calls have finished.
    AwaitingApproval(Arc<ToolCall>),
    /// The tool has returned. The return value is stored in the state before the hooks after the call run.
    Returned(Box<CallOutcome>),
}

/// The result of a call.
pub(super) type CallResult = Result<ToolOutcome, CallStop>;

/// The return value of a tool, with the error if it failed. The error can contain the application's exception, which the
/// serialized state cannot.
pub(super) struct CallOutcome {
    pub(super) returned: ToolReturn,
    error: Option<HostError>,
    /// The span of the call; it continues.
    span: SpanGuard,
}

impl From<ToolReturn> for CallOutcome {
    fn from(returned: ToolReturn) -> Self {
        let message = || returned.result.as_string().unwrap_or_default();
        let error = returned.failure.as_deref().map(|failure| HostError::raised(failure, message()));
        Self { returned, error, span: SpanGuard::default() }
    }
}

impl RunLoop<'_> {
    /// Runs one call of a round; `returned` is set if the tool has already returned and only the hooks after it remain.
    pub(super) async fn run_call(
        &self,
        round: &ToolRound,
        position: usize,
        step: u32,
        mut returned: Option<CallOutcome>,
    ) -> (usize, CallResult) {
        let Some(call) = round.call(position) else {
            let message = format!("the tool round has no call at position {position}");
            return (position, Err(CallStop::Run(UppError::invalid_request(self.provider(), message))));
        };
        self.suspend_if_closing().await;
        if returned.is_none()
            && let Err(error) = self.emit(|| self.start_event(position, call)).await
        {
            return (position, Err(CallStop::Run(error)));
        }
        let tool = round.tools.get(position).copied().flatten();
        let span = match &mut returned {
            Some(returned) => std::mem::take(&mut returned.span),
            None => self.trace.tool(self.driver, call, tool),
        };
        let outcome = self.continue_call(round, position, call, step, returned, span.span()).await;
        match outcome {
            // The call continues after its return value is stored.
            Err(CallStop::Returned(mut returned)) => {
                returned.span = span;
                return (position, Err(CallStop::Returned(returned)));
            }
            Err(CallStop::AwaitingApproval(_)) => {
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
        round: &ToolRound,
        position: usize,
        call: &ToolCall,
        step: u32,
        returned: Option<CallOutcome>,
        span: Option<&Arc<dyn Span>>,
    ) -> CallResult {
        let progress = match (returned, round.begun(position)) {
            (Some(returned), _) => CallProgress::Returned(returned),
            (None, Some(CallState::Returned(returned))) => CallProgress::Returned(returned.clone().into()),
            (
                None,
                Some(CallState::Decided(ApprovalDecision { call, verdict: Verdict::Denied { reason } })),
            ) => {
                return Ok(denied(call, reason.as_deref()));
            }
            (None, Some(CallState::Decided(ApprovalDecision { call, .. }))) => {
                CallProgress::Approved(Arc::clone(call))
            }
            (None, _) => CallProgress::NotStarted,
        };
        let tool = round.tools.get(position).copied().flatten();
        let Some(tool) = tool.filter(|_| self.offers(&call.tool_name)) else {
            return Ok(rejected(call, &format!("Tool '{}' not found", call.tool_name)));
        };
        let invocation = |call: Arc<ToolCall>| {
            Arc::new(ToolInvocation {
                call,
                tool,
                position,
                step,
                identity: Arc::clone(&self.driver.identity),
                inherited_model: self.inherited_model.clone(),
                cancellation: self.cancellation.clone(),
                span: span.cloned(),
                message: Arc::clone(&round.message),
                parent_run: self.parent_run.clone(),
                progress: self.progress(position),
            })
        };
        match progress {
            CallProgress::NotStarted => self.run_known(invocation(Arc::new(call.clone()))).await,
            // The hooks before the call ran before the approval was requested.
            CallProgress::Approved(call) => self.run_approved(invocation(call), Some(true)).await,
            CallProgress::Returned(returned) => {
                self.run_after(invocation(Arc::clone(&returned.returned.call)), returned).await
            }
        }
    }

    /// Never returns while the run is being dropped, so that no application code is called.
    async fn suspend_if_closing(&self) {
        if self.closing.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// True if the tool is offered to the model: middleware can withdraw tools.
    fn offers(&self, tool: &str) -> bool {
        self.driver.ports.model_middleware.as_ref().is_none_or(|layer| layer.offers(tool))
    }

    async fn run_known(&self, invocation: Arc<ToolInvocation>) -> CallResult {
        let invocation = match self.before(invocation).await {
            Ok(Before::Go(invocation)) => invocation,
            Ok(Before::Skip(invocation)) => return Ok(rejected(&invocation.call, "Tool execution skipped")),
            Err((invocation, error)) => {
                return self.failed(&invocation, error, ApprovalAndDuration::default()).await;
            }
        };
        let approved = match self.approve(&invocation).await? {
            Some(Approval::Denied) => return Ok(denied(&invocation.call, None)),
            Some(Approval::Ask) => return Err(CallStop::AwaitingApproval(Arc::clone(&invocation.call))),
            Some(Approval::Granted) => Some(true),
            None => None,
        };
        self.run_approved(invocation, approved).await
    }

    async fn run_approved(&self, invocation: Arc<ToolInvocation>, approved: Option<bool>) -> CallResult {
        self.suspend_if_closing().await;
        let began = self.driver.host.clock().now().milliseconds();
        let result = self.call(&invocation).await;
        let ended = self.driver.host.clock().now().milliseconds();
        let record = ApprovalAndDuration { approved, duration: ended.abs_diff(began) };
        match result {
            Ok(result) if self.has(HookSet::AFTER_CALL) || self.driver.ports.model_middleware.is_some() => {
                Err(CallStop::Returned(Box::new(record.returned(&invocation.call, result, None))))
            }
            Ok(result) => Ok(record.outcome(&invocation.call, result, false)),
            Err(error) if self.has(HookSet::TOOL_ERROR) && error.kind != HostErrorKind::Fatal => {
                let message = RawJson::from_str_value(&error.message);
                Err(CallStop::Returned(Box::new(record.returned(&invocation.call, message, Some(error)))))
            }
            Err(error) => self.failed(&invocation, error, record).await,
        }
    }

    /// Calls the hooks after a call and returns its result.
    async fn run_after(&self, invocation: Arc<ToolInvocation>, returned: CallOutcome) -> CallResult {
        let ToolReturn { result, duration, approved, .. } = returned.returned;
        let record = ApprovalAndDuration { approved, duration };
        let result = match returned.error {
            None => self.after(&invocation, result).await,
            Some(error) => Err(error),
        };
        match result {
            Ok(result) => Ok(record.outcome(&invocation.call, result, false)),
            Err(error) => self.failed(&invocation, error, record).await,
        }
    }

    /// The receiver of the call's progress.
    fn progress(&self, position: usize) -> Option<Arc<Progress>> {
        let events = self.driver.ports.events.as_ref()?;
        Some(Arc::new(Progress::new(Arc::clone(events), index(position))))
    }

    /// Calls the tool. An agent that serves as a tool runs inside this future.
    async fn call(&self, invocation: &Arc<ToolInvocation>) -> Result<RawJson, HostError> {
        let driver = self.driver;
        let agent = driver.tools.get(invocation.tool).and_then(|tool| tool.agent.as_ref());
        let result = match agent {
            Some(agent) => {
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
            None => driver.host.call_tool(Arc::clone(invocation)).await,
        };
        if let Some(progress) = &invocation.progress {
            progress.end();
        }
        result
    }

    async fn before(
        &self,
        invocation: Arc<ToolInvocation>,
    ) -> Result<Before, (Arc<ToolInvocation>, HostError)> {
        if self.has(HookSet::TOOL_CALL)
            && let Err(error) = self.driver.host.on_tool_call(Arc::clone(&invocation)).await
        {
            return Err((invocation, error));
        }
        if let Err(error) = self.notify_middleware(&invocation, None).await {
            return Err((invocation, error));
        }
        if !self.has(HookSet::BEFORE_CALL) {
            return Ok(Before::Go(invocation));
        }
        self.suspend_if_closing().await;
        match self.driver.host.on_before_call(Arc::clone(&invocation)).await {
            Ok(BeforeCall::Proceed) => Ok(Before::Go(invocation)),
            Ok(BeforeCall::Skip) => Ok(Before::Skip(invocation)),
            Ok(BeforeCall::ProceedWith(arguments)) => {
                let call = ToolCall { arguments, ..ToolCall::clone(&invocation.call) };
                let invocation = ToolInvocation { call: Arc::new(call), ..Arc::unwrap_or_clone(invocation) };
                Ok(Before::Go(Arc::new(invocation)))
            }
            Err(error) => Err((invocation, error)),
        }
    }

    async fn approve(&self, invocation: &Arc<ToolInvocation>) -> Result<Option<Approval>, CallStop> {
        let requires_approval =
            self.driver.tools.get(invocation.tool).is_some_and(|tool| tool.requires_approval);
        if !requires_approval {
            return Ok(None);
        }
        self.suspend_if_closing().await;
        match self.driver.host.approve(Arc::clone(invocation)).await {
            Ok(approval) => Ok(Some(approval)),
            Err(error) => Err(self.stopped(error, "the approval handler", &invocation.call)),
        }
    }

    async fn after(&self, invocation: &Arc<ToolInvocation>, result: RawJson) -> Result<RawJson, HostError> {
        let result = if self.has(HookSet::AFTER_CALL) {
            let replaced = self.driver.host.on_after_call(Arc::clone(invocation), result.clone()).await?;
            replaced.unwrap_or(result)
        } else {
            result
        };
        self.notify_middleware(invocation, Some(&result)).await?;
        Ok(result)
    }

    /// Calls the middleware's hooks for a tool call or its result.
    async fn notify_middleware(
        &self,
        invocation: &ToolInvocation,
        result: Option<&RawJson>,
    ) -> Result<(), HostError> {
        let (Some(layer), Some(tool)) =
            (&self.driver.ports.model_middleware, self.driver.tools.get(invocation.tool))
        else {
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
        if error.kind == HostErrorKind::Fatal {
            return Err(self.stopped(error, "the tool", &invocation.call));
        }
        let outcome = record.outcome(&invocation.call, RawJson::from_str_value(&error.message), true);
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

    fn start_event(&self, position: usize, call: &ToolCall) -> StreamEvent {
        let delta = ToolExecutionStart {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            timestamp: self.driver.host.clock().now().milliseconds(),
            extra: Extra::new(),
        };
        StreamEvent::new(index(position), Delta::ToolExecutionStart(delta))
    }

    fn end_event(&self, position: usize, call: &ToolCall, outcome: &CallResult) -> StreamEvent {
        let (result, is_error) = match outcome {
            Ok(outcome) => (outcome.model_result().clone(), outcome.execution.is_error),
            Err(CallStop::Round(error) | CallStop::Run(error)) => {
                (RawJson::from_str_value(&error.message), true)
            }
            Err(CallStop::AwaitingApproval(_) | CallStop::Returned(_)) => (RawJson::default(), false),
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
    /// The call is approved.
    Approved(Arc<ToolCall>),
    /// The tool has returned.
    Returned(CallOutcome),
}

/// The outcome of the hooks before a call.
enum Before {
    Go(Arc<ToolInvocation>),
    Skip(Arc<ToolInvocation>),
}

/// Approval and duration of a call.
#[derive(Default, Clone, Copy)]
struct ApprovalAndDuration {
    approved: Option<bool>,
    duration: u64,
}

impl ApprovalAndDuration {
    fn returned(self, call: &Arc<ToolCall>, result: RawJson, error: Option<HostError>) -> CallOutcome {
        let Self { approved, duration } = self;
        let failure = error.as_ref().map(|error| error.type_name.clone());
        CallOutcome {
            returned: ToolReturn { call: Arc::clone(call), result, failure, duration, approved },
            error,
            span: SpanGuard::default(),
        }
    }

    fn outcome(self, call: &ToolCall, result: RawJson, is_error: bool) -> ToolOutcome {
        let execution = ToolExecution {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
            arguments: call.arguments.clone(),
            result,
            is_error,
            duration: self.duration,
            approved: self.approved,
            extra: Extra::new(),
        };
        ToolOutcome { execution, model_result: None }
    }
}

/// An error result for a call whose tool is not called.
fn rejected(call: &ToolCall, message: &str) -> ToolOutcome {
    ApprovalAndDuration::default().outcome(call, RawJson::from_str_value(message), true)
}

/// The result of a denied call. UPP-1.2 §10.4 defines its text; a reason, if there is one, replaces it.
fn denied(call: &ToolCall, reason: Option<&str>) -> ToolOutcome {
    let record = ApprovalAndDuration { approved: Some(false), duration: 0 };
    if let Some(reason) = reason {
        return record.outcome(
            call,
            RawJson::from_str_value(&format!("Tool execution denied: {reason}")),
            true,
        );
    }
    let outcome = record.outcome(call, RawJson::from_str_value("Tool execution denied"), true);
    ToolOutcome {
        model_result: Some(RawJson::from_str_value("Tool execution denied by approval handler")),
        ..outcome
    }
}

fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

//! The only async code of a run: executes the actions of the machine and feeds their results back.
//!
//! Independent of executors: no timers, no spawned tasks, no runtime. The futures that it awaits belong to the model and
//! to the host.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::driver::agent_layer::hook_failure;
use crate::driver::driver::{Driver, Next, Protocol};
use crate::driver::run_trace::RunTrace;
use crate::driver::stop::{Stop, stop};
use crate::driver::tools_in_force::{ToolsError, ToolsInForce};
use crate::host::error::{HostError, HostErrorKind};
use crate::host::event_queue::EventQueue;
use crate::host::hook_set::HookSet;
use crate::host::host::StepResult;
use crate::machine::machine::{Machine, ToolUse};
use crate::types::action::{Abort, Action, ActionResult, Boundary, Notification, Stamp};
use crate::types::approval::ApprovalRequired;
use crate::types::event::{
    ActionTaken, AgentStreamEvent, CheckpointMade, Observation, Reasoning, StepEnd, StepStart, UapData,
    UapEvent,
};
use crate::types::failure;
use crate::types::parent_run::{InheritedModel, ParentRun};
use turntree_core::json::Extra;
use turntree_core::message::fold::Fold;
use turntree_core::message::{StreamEvent, ToolCall, Turn};
use turntree_core::telemetry::SpanGuard;
use turntree_upp::telemetry::{ErrorOutcome, ModelOutcome};
use turntree_upp::{ModelEvent, ModelRequest, ModelResponse, UppError};

impl Driver {
    /// Runs a machine to its end and returns the turn.
    ///
    /// If [`Driver::cancellation`] is cancelled, the run ends with its partial turn (UAP-1.0 §12.5): the model call
    /// and the tools are dropped, and `metadata.uap.aborted` marks the response. Under [`Protocol::Upp`] the run fails
    /// instead, with that turn attached.
    ///
    /// # Errors
    /// Errors of the model, of a hook or of an approval handler, and
    /// [`turntree_upp::ErrorCode::InvalidResponse`] for output that does not match the structure, unless `on_error`
    /// returned a turn. [`partial_turn`](crate::types::partial_turn) returns the partial turn.
    ///
    /// # Cancel safety
    /// Dropping the future drops the model call and all running tools, and cancels their token. The machine is then at
    /// its last boundary and can be run again. It contains all results that it has received.
    pub async fn run(&self, machine: &mut Machine) -> Result<Arc<Turn>, UppError> {
        let trace = RunTrace::begin(machine, self);
        let began = self.beginning();
        // Boxed: sub-agents are polled inside one another, and most runs have no middleware.
        let outcome = match (&self.ports.model_middleware, &self.ports.agent_middleware) {
            (Some(layer), _) => Box::pin(layer.run(machine, self, InnerRun(&trace))).await,
            (None, Some(layer)) if !self.config.is_nested => {
                Box::pin(layer.run(machine, self, InnerRun(&trace))).await
            }
            (None, _) => run_inner(machine, self, &trace).await,
        };
        trace.end(&outcome);
        if outcome.is_ok()
            && let Some(successor) = self.continue_with_successor(machine, began)
        {
            return successor.await;
        }
        if let Some(usage) = self.ports.usage.as_ref().filter(|_| !self.config.is_nested) {
            let collected = &machine.state().collected;
            let name = self.config.agent_name.as_ref().unwrap_or(&self.identity.agent_id);
            let (parts, records) = (collected.usage.iter(), collected.executions.iter());
            usage.add(name, parts.map(AsRef::as_ref), records.map(AsRef::as_ref));
        }
        outcome
    }

    /// As [`Self::run`], for a machine that only this run needs.
    ///
    /// # Errors
    /// As [`Self::run`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the run: the model call and the tools are dropped.
    pub async fn complete(self, mut machine: Machine) -> Result<Arc<Turn>, UppError> {
        self.run(&mut machine).await
    }
}

/// The run inside the middleware.
struct InnerRun<'a>(&'a RunTrace);

impl Next for InnerRun<'_> {
    fn run(
        self,
        machine: &mut Machine,
        driver: &Driver,
    ) -> impl Future<Output = Result<Arc<Turn>, UppError>> + Send {
        run_inner(machine, driver, self.0)
    }
}

/// Runs a machine inside the middleware.
async fn run_inner(machine: &mut Machine, driver: &Driver, trace: &RunTrace) -> Result<Arc<Turn>, UppError> {
    let tools =
        driver.cancellation.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
    // When this future is dropped, the guard cancels the work that tools have started on threads.
    let guard = tools.clone().drop_guard();
    let params = Arc::clone(&machine.setup().params);
    let inherited_model = InheritedModel { model: Arc::clone(&driver.model), params };
    let parent_run = driver.as_parent(&inherited_model, &tools);
    let hooks = driver.host.hooks().difference(driver.config.suppressed_hooks);
    let closing = AtomicBool::new(false);
    let handoffs = if driver.ports.handoffs.is_some() { machine.state().handoffs() } else { 0 };
    let run =
        RunLoop { driver, trace, hooks, inherited_model, cancellation: tools, parent_run, handoffs, closing };
    let mut fold = Fold::default();
    // Boxed, so that nested agents use little of the stack.
    let work = Box::pin(run.work(machine, &mut fold));
    let limit = driver.config.time_left.or(driver.config.timeout);
    let stopped = match (&driver.cancellation, limit) {
        (None, None) => Err(work.await),
        (cancellation, timeout) => {
            let timer = timeout.map(|timeout| driver.host.timer(timeout));
            match select(stop(cancellation.as_ref(), timer), work).await {
                Either::Left((stop, _)) => Ok(stop),
                Either::Right((outcome, _)) => Err(outcome),
            }
        }
    };
    match stopped {
        Err(outcome) => {
            guard.disarm();
            outcome
        }
        Ok(Stop::Aborted) => run.abort(machine, fold),
        Ok(Stop::TimedOut) => Err(run.timed_out(machine, fold)),
    }
}

/// One execution of a machine.
pub(super) struct RunLoop<'a> {
    pub(super) driver: &'a Driver,
    pub(super) trace: &'a RunTrace,
    pub(super) hooks: HookSet,
    pub(super) inherited_model: InheritedModel,
    /// Cancelled for the tools of this run only.
    pub(super) cancellation: CancellationToken,
    /// The description of this run for the runs inside its tools.
    pub(super) parent_run: Option<Arc<ParentRun>>,
    /// How often the run was handed over before.
    pub(super) handoffs: usize,
    /// True while the calls of a round are being dropped: no new work starts.
    pub(super) closing: AtomicBool,
}

impl RunLoop<'_> {
    /// Executes actions until the machine is done.
    async fn work(&self, machine: &mut Machine, fold: &mut Fold) -> Result<Arc<Turn>, UppError> {
        let mut tools = ToolsInForce::new(self.driver);
        loop {
            if tools.is_due(self.driver, machine)
                && let Err(error) = Box::pin(tools.update(self.driver, machine, &self.cancellation)).await
            {
                self.take(machine, tools_failure(machine, error)?)?;
                continue;
            }
            let result = match machine.next() {
                Action::Stamp => ActionResult::Stamp(self.stamp()),
                Action::CallModel(request) => {
                    tools.expire();
                    if self.driver.ports.meter.is_some() || self.has(HookSet::SYSTEM_PROMPT) {
                        self.call_checked(machine, request, fold).await?
                    } else {
                        ActionResult::Answer(self.call_model(machine.state().step(), request, fold).await)
                    }
                }
                Action::RunTools(round) => {
                    self.run_tools(machine, &round, &tools.tools).await?;
                    continue;
                }
                Action::Execute => Box::pin(self.execute(machine)).await?,
                Action::Notify(point) => {
                    self.trace.before(machine, self.driver, point);
                    let reply = self.notify(machine, point).await?;
                    self.trace.after(point);
                    reply
                }
                Action::EvaluateStopCondition => self.evaluate_stop_condition(machine).await?,
                Action::CheckAnswer(answer) => self.check_answer(machine, answer).await?,
                Action::Checkpoint(boundary) => self.checkpoint(machine, boundary).await?,
                Action::AwaitApproval(calls) => return Err(self.approval_required(machine, calls, false)),
                Action::RequestRecovery(error) => self.request_recovery(machine, error).await?,
                Action::Done(turn) => return Ok(turn),
                Action::Failed(error) => return Err(error),
            };
            self.take(machine, result)?;
        }
    }

    /// Feeds the result of an action. Stores the state before a failure, to resume from.
    fn take(&self, machine: &mut Machine, result: ActionResult) -> Result<(), UppError> {
        if let (ActionResult::Failed(_), Some(recorder)) = (&result, &self.driver.ports.recorder) {
            recorder.record_failure(machine.state());
        }
        self.feed(machine, result)?;
        if let (Some(state), Some(recorder)) = (machine.take_resumable(), &self.driver.ports.recorder) {
            recorder.record_failure(&state);
        }
        Ok(())
    }

    /// The error of a run that waits for approval. The machine does not receive it: its state waits for the decisions.
    pub(super) fn approval_required(
        &self,
        machine: &Machine,
        calls: Vec<Arc<ToolCall>>,
        is_in_doubt: bool,
    ) -> UppError {
        let session_id = self.driver.identity.session_id.clone();
        let required = ApprovalRequired { calls, is_in_doubt, session_id };
        let error = UppError::invalid_request(self.provider(), required.to_string()).with_cause(required);
        match machine.waiting_turn(self.stamp()) {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }
    }

    /// Feeds a result, and the metadata if the application has changed them.
    pub(super) fn feed(&self, machine: &mut Machine, reply: ActionResult) -> Result<(), UppError> {
        let changed = self.has(HookSet::METADATA).then(|| self.driver.host.changed_metadata()).flatten();
        let fed = changed.map_or(Ok(()), |metadata| machine.feed(ActionResult::Metadata(metadata)));
        fed.and_then(|()| machine.feed(reply))
            .map_err(|error| UppError::invalid_request(self.provider(), error.to_string()).with_cause(error))
    }

    fn abort(&self, machine: &mut Machine, fold: Fold) -> Result<Arc<Turn>, UppError> {
        let abort = Abort { partial: fold.finish(), results: self.stamp(), response: self.stamp() };
        // A machine that has ended rejects the abort and keeps its outcome.
        let aborted = machine.feed(ActionResult::Aborted(Box::new(abort))).is_ok();
        match machine.next() {
            Action::Done(turn) if aborted && self.driver.config.protocol == Protocol::Upp => {
                Err(failure::attach(UppError::cancelled(self.provider()), Turn::clone(&turn)))
            }
            Action::Done(turn) => Ok(turn),
            Action::Failed(error) | Action::RequestRecovery(error) => Err(error),
            _ => Err(UppError::cancelled(self.provider())),
        }
    }

    pub(super) async fn call_model(
        &self,
        step: u32,
        request: ModelRequest,
        fold: &mut Fold,
    ) -> Result<ModelResponse, UppError> {
        if let Some(layer) = &self.driver.ports.agent_middleware {
            let request = layer.request(step, request).await?;
            let response = self.send_request(request, fold).await?;
            let (response, held) = layer.response(response).await?;
            for event in held {
                self.send_event(AgentStreamEvent::Upp(event)).await?;
            }
            return Ok(response);
        }
        let Some(layer) = &self.driver.ports.model_middleware else {
            return self.send_request(request, fold).await;
        };
        let of_toolsets = self
            .driver
            .ports
            .toolsets
            .as_ref()
            .and_then(|toolsets| request.tools.get(toolsets.own_count()..));
        let tools = layer.offered(of_toolsets.unwrap_or_default());
        let response = self.send_request(ModelRequest { tools, ..request }, fold).await?;
        layer.set_response(&response);
        Ok(response)
    }

    async fn send_request(&self, request: ModelRequest, fold: &mut Fold) -> Result<ModelResponse, UppError> {
        let span = self.trace.chat(self.driver, &request);
        // A sub-agent has an event queue even if its model cannot stream.
        let streams = |_: &&Arc<EventQueue>| self.driver.model.capabilities().streaming;
        let outcome = match self.driver.ports.events.as_ref().filter(streams) {
            None => self.driver.model.complete(request).await,
            Some(events) => self.stream_request(request, fold, events, &span).await,
        };
        match &outcome {
            Ok(response) => {
                if let Some(events) = &self.driver.ports.events {
                    events.set_stop_reason(response.stop_reason);
                }
                span.end(&ModelOutcome { response, provider: self.provider() });
            }
            Err(error) => span.end(&ErrorOutcome(error)),
        }
        outcome
    }

    /// Streams a request and sends the events to the consumer.
    async fn stream_request(
        &self,
        request: ModelRequest,
        fold: &mut Fold,
        events: &EventQueue,
        span: &SpanGuard,
    ) -> Result<ModelResponse, UppError> {
        *fold = Fold::default();
        let mut stream = self.driver.model.stream(request);
        let mut first = true;
        while let Some(item) = stream.next().await {
            match item? {
                ModelEvent::Event(event) => {
                    if std::mem::take(&mut first) {
                        span.first_chunk();
                    }
                    fold.push(&event);
                    self.forward(event, true).await?;
                    events.wait_for_capacity().await;
                }
                ModelEvent::Done(response) => {
                    *fold = Fold::default();
                    return Ok(response);
                }
            }
        }
        let message = "the stream ended before the model's response was complete";
        Err(UppError::invalid_response(self.provider(), message))
    }

    async fn notify(&self, machine: &Machine, point: Notification) -> Result<ActionResult, UppError> {
        if let Err(error) = self.notify_consumer(machine, point).await {
            return hook_failure(error);
        }
        let (host, state, step) = (&self.driver.host, machine.state(), machine.state().step());
        let last = state.messages().last();
        let (place, outcome) = match point {
            Notification::StepStart if self.has(HookSet::STEP_START) => {
                ("on_step_start", host.on_step_start(step, state.execution_state()).await)
            }
            Notification::Reason if self.has(HookSet::REASON) => {
                ("on_reason", host.on_reason(step, state.last_thought().to_owned()).await)
            }
            Notification::Act { hook: true } if self.has(HookSet::ACT) => {
                let calls = last.map(|message| message.tool_calls().to_vec()).unwrap_or_default();
                ("on_act", host.on_act(step, calls).await)
            }
            Notification::Observe { hook: true } if self.has(HookSet::OBSERVE) => {
                let results = last.map(|message| message.results().to_vec()).unwrap_or_default();
                ("on_observe", host.on_observe(step, results).await)
            }
            Notification::StepEnd if self.has(HookSet::STEP_END) => match machine.step_turn() {
                Some(turn) => {
                    let result = StepResult { turn: Arc::new(turn), state: state.execution_state() };
                    ("on_step_end", host.on_step_end(step, result).await)
                }
                None => return Ok(ActionResult::Continue),
            },
            Notification::MaxIterations(limit) if self.has(HookSet::MAX_ITERATIONS) => {
                ("on_max_iterations", host.on_max_iterations(limit).await)
            }
            Notification::Complete if self.has(HookSet::COMPLETE) => match machine.turn() {
                Some(turn) => ("on_complete", host.on_complete(Arc::clone(turn)).await),
                None => return Ok(ActionResult::Continue),
            },
            _ => return Ok(ActionResult::Continue),
        };
        self.result(place, outcome, |()| ActionResult::Continue)
    }

    /// Sends the event of a notification.
    async fn notify_consumer(&self, machine: &Machine, point: Notification) -> Result<(), UppError> {
        if self.driver.config.protocol != Protocol::Uap || !self.has_event_consumer() {
            return Ok(());
        }
        let step_number = machine.state().step();
        let last = machine.state().messages().last();
        let data = match point {
            Notification::StepStart => {
                let (step_id, plan_step_id) = (Some(Arc::clone(machine.step_id())), machine.plan_step_id());
                let plan = machine.plan();
                UapData::StepStart(StepStart {
                    step_number,
                    step_id,
                    plan_step_id,
                    plan,
                    extra: Extra::new(),
                })
            }
            Notification::StepEnd => {
                let (step_id, plan_step_id) = (Some(Arc::clone(machine.step_id())), machine.plan_step_id());
                let (plan, usage, extra) = (machine.plan(), machine.step_usage(), Extra::new());
                UapData::StepEnd(StepEnd { step_number, step_id, plan_step_id, plan, usage, extra })
            }
            Notification::Reason => {
                let text = machine.state().last_thought().to_owned();
                UapData::Reasoning(Reasoning { text, extra: Extra::new() })
            }
            Notification::Act { .. } => {
                let tool_calls = last.map(|message| message.tool_calls().to_vec()).unwrap_or_default();
                UapData::Action(ActionTaken { tool_calls, extra: Extra::new() })
            }
            Notification::Observe { .. } => {
                let results = last.map(|message| message.results().to_vec()).unwrap_or_default();
                UapData::Observation(Observation { results, extra: Extra::new() })
            }
            Notification::MaxIterations(_) | Notification::Complete => return Ok(()),
        };
        self.send_event(self.uap(step_number, data)).await
    }

    /// True if events are needed: the run is streamed or a middleware handles events.
    fn has_event_consumer(&self) -> bool {
        self.driver.ports.events.is_some()
            || self.driver.ports.agent_middleware.as_ref().is_some_and(|layer| layer.wants_events())
    }

    /// Sends an event to the middleware.
    async fn show_event(&self, event: &AgentStreamEvent) -> Result<(), UppError> {
        match &self.driver.ports.agent_middleware {
            Some(layer) => layer.event(event).await,
            None => Ok(()),
        }
    }

    /// Sends an event to the middleware, then to the consumer.
    async fn send_event(&self, event: AgentStreamEvent) -> Result<(), UppError> {
        self.show_event(&event).await?;
        if let Some(events) = &self.driver.ports.events {
            events.push(event);
        }
        Ok(())
    }

    fn uap(&self, step: u32, data: UapData) -> AgentStreamEvent {
        AgentStreamEvent::Uap(UapEvent { step, agent_id: Arc::clone(&self.driver.identity.agent_id), data })
    }

    async fn evaluate_stop_condition(&self, machine: &Machine) -> Result<ActionResult, UppError> {
        if !self.has(HookSet::STOP_CONDITION) {
            return Ok(ActionResult::Stop(false));
        }
        let outcome = self.driver.host.stop_condition(machine.state().execution_state()).await;
        self.result("stop_condition", outcome, ActionResult::Stop)
    }

    pub(super) async fn checkpoint(
        &self,
        machine: &Machine,
        boundary: Boundary,
    ) -> Result<ActionResult, UppError> {
        let wanted = match boundary {
            Boundary::StepEnded | Boundary::Planned => HookSet::CHECKPOINT_STEPS,
            Boundary::Answered | Boundary::ToolFinished => HookSet::CHECKPOINT_WITHIN_STEPS,
        };
        let recorder = self.driver.ports.recorder.as_ref();
        let recorded = recorder.and_then(|recorder| recorder.record(boundary, machine.state()));
        let saving = recorder.and_then(|recorder| recorder.save(boundary, machine.state()));
        let unsaved = recorder.filter(|_| recorded.is_some() && saving.is_none());
        if let Some(saving) = saving
            && let Err(error) = saving.await
        {
            return Ok(ActionResult::Failed(error));
        }
        let outcome = if self.has(wanted) {
            self.driver.host.checkpoint(boundary, machine.state().clone()).await
        } else {
            Ok(None)
        };
        let saved = outcome.as_ref().ok().and_then(Clone::clone);
        if let Some(checkpoint_id) = recorded.or(saved).filter(|_| self.has_event_consumer()) {
            let data = UapData::Checkpoint(CheckpointMade { checkpoint_id, extra: Extra::new() });
            let event = self.uap(machine.state().step(), data);
            let sent = match (unsaved, &self.driver.ports.events) {
                (Some(recorder), Some(events)) => {
                    let seen = self.show_event(&event).await;
                    seen.map(|()| recorder.send_when_saved(events, event))
                }
                _ => self.send_event(event).await,
            };
            if let Err(error) = sent {
                return hook_failure(error);
            }
        }
        self.result("checkpoint", outcome, |_| ActionResult::Continue)
    }

    async fn request_recovery(&self, machine: &Machine, error: UppError) -> Result<ActionResult, UppError> {
        if !self.has(HookSet::ERROR) {
            return Ok(ActionResult::Recovery(None));
        }
        let outcome = self.driver.host.on_error(error, machine.state().execution_state()).await;
        self.result("on_error", outcome, ActionResult::Recovery)
    }

    /// Converts the outcome of a hook to an action result. A fatal error ends the run.
    pub(super) fn result<T>(
        &self,
        place: &str,
        outcome: Result<T, HostError>,
        into_result: impl FnOnce(T) -> ActionResult,
    ) -> Result<ActionResult, UppError> {
        match outcome {
            Ok(value) => Ok(into_result(value)),
            Err(error) if error.kind == HostErrorKind::Fatal => Err(error.into_error(place, self.provider())),
            Err(error) => Ok(ActionResult::Failed(error.into_error(place, self.provider()))),
        }
    }

    /// Sends a stream event. Middleware may change it, or hold it back if it comes from the model.
    async fn forward(&self, event: StreamEvent, is_of_model: bool) -> Result<(), UppError> {
        if let Some(layer) = &self.driver.ports.model_middleware {
            for event in layer.event(event)? {
                self.send_event(AgentStreamEvent::Upp(event)).await?;
            }
            return Ok(());
        }
        match &self.driver.ports.agent_middleware {
            Some(layer) if is_of_model && layer.holds_events() => layer.hold(event),
            _ => self.send_event(AgentStreamEvent::Upp(event)).await?,
        }
        Ok(())
    }

    pub(super) async fn emit(&self, event: impl FnOnce() -> StreamEvent) -> Result<(), UppError> {
        if self.has_event_consumer() { self.forward(event(), false).await } else { Ok(()) }
    }

    pub(super) const fn has(&self, hooks: HookSet) -> bool {
        self.hooks.contains(hooks)
    }

    pub(super) fn provider(&self) -> &str {
        self.driver.model.provider()
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp { id: self.driver.host.ids().string(), at: self.driver.host.clock().now() }
    }
}

/// The result of an action whose tools could not be asked for. A round that is being resumed does not fail: the run stops
/// and can be resumed again.
fn tools_failure(machine: &Machine, error: ToolsError) -> Result<ActionResult, UppError> {
    match error {
        ToolsError::Failed(error) if machine.tool_use() == Some(ToolUse::Request) => {
            Ok(ActionResult::Failed(error))
        }
        error => Err(error.into()),
    }
}

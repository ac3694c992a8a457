//! The driver: the only async code of a run. It performs what the machine asks for and feeds what came of it.
//!
//! Neutral to executors: no timers, no spawning, no runtime. What it awaits belongs to the model and to the host.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use futures_util::future::{BoxFuture, Either, poll_fn, select};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::driver::agent_layer as around;
use crate::driver::agent_layer::AgentMiddlewareLayer;
use crate::driver::model_layer::ModelMiddlewareLayer;
use crate::driver::stream::EventQueue;
use crate::driver::trace::open::{Open, Trace};
use crate::host::host::{HookSet, Host, HostError, HostErrorKind, StepResult};
use crate::host::run_context::{DEFAULT_DEPTH, InheritedModel, ParentRun, RunIdentity};
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::machine::state::RunState;
use crate::machine::strategies::custom::{CustomHandle, OwnContext, StrategyEvents};
use crate::session::sub_agent::SubAgentCall;
use crate::types::UapData;
use crate::types::action::{Abort, Action, ActionResult, Boundary, Notification, Stamp};
use crate::types::approval::ApprovalRequired;
use crate::types::event::{
    ActionTaken, AgentStreamEvent, CheckpointMade, Observation, Reasoning, StepEnd, StepStart, SubAgentRun,
    UapEvent,
};
use crate::types::failure;
use crate::types::structure::{Structure, unwrapped};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::fold::Fold;
use turntree_core::message::{Message, StreamEvent, ToolCall, Turn};
use turntree_upp::{Model, ModelEvent, ModelRequest, ModelResponse, UppError};

/// Whose rules a run keeps, where those of agents and of bare models differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Listeners hear of steps, and an aborted run gives the turn it has. UAP-1.0 §12.
    #[default]
    Uap,
    /// Listeners hear of models and tools only, and an aborted run fails. UPP-1.2 §11.
    Upp,
}

/// What a driver works with.
#[derive(Clone)]
pub struct Driver {
    /// Answers.
    pub model: Arc<dyn Model>,
    /// The application.
    pub host: Arc<dyn Host>,
    /// The agent's tools, in the order of their definitions.
    pub tools: Arc<[Tool]>,
    /// Who runs.
    pub identity: Arc<RunIdentity>,
    /// What a structured answer must look like; unchecked without one.
    pub structure: Option<Arc<Structure>>,
    /// Aborts the run when it fires.
    pub cancellation: Option<CancellationToken>,
    /// Whose rules it keeps.
    pub protocol: Protocol,
    /// The agent's name, for whoever watches.
    pub(crate) agent_name: Option<Arc<str>>,
    /// The middleware around it, of a model.
    pub(crate) middleware: Option<ModelMiddlewareLayer>,
    /// The middleware around it, of an agent.
    pub(crate) around: Option<Arc<AgentMiddlewareLayer>>,
    /// Who listens. Without one no event is built, and the model is not asked to stream.
    pub(crate) events: Option<Arc<EventQueue>>,
    /// Who keeps the run's state beside the host: the session.
    pub(crate) keeper: Option<Arc<dyn RunRecorder>>,
    /// Whether the listener hears agents too that run as tools.
    pub(crate) sub_agent_events: bool,
    /// The depth of the deepest run that is let in inside of this one.
    pub(crate) deepest: u32,
    /// The run of an agent that a call of a bare model is inside of: tools of the call are inside of it too.
    pub(crate) enclosing: Option<Arc<ParentRun>>,
    /// The application's strategy, where the agent has one.
    pub(crate) own: Option<CustomHandle>,
    /// Hooks of the host that are not called: those of the run that this one is a part of.
    pub(crate) silent: HookSet,
    /// A part of a run, which the application's strategy performs: middleware and spans are around that run already.
    pub(crate) is_part: bool,
}

/// Keeps the state of a run wherever it can be taken up again. Never waits and never fails.
pub(crate) trait RunRecorder: Send + Sync {
    /// The run stands at a boundary; gives the id of the checkpoint when one was made.
    fn keep(&self, boundary: Boundary, state: &RunState) -> Option<String>;

    /// A session for a call of an agent that is a tool: the one that an interrupted run of the same call has left, or a
    /// new one. `message` is the answer that makes the call.
    fn child(&self, agent: &Agent, run: &SubAgentRun, message: &Message) -> Option<SubAgentCall>;

    /// The run is about to fail where it stands, and could be tried again from there.
    fn fails(&self, state: &RunState);

    /// Writes down what was kept, where that is wanted at this boundary.
    fn save(&self, boundary: Boundary, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>>;
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Driver").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver to which nobody listens.
    pub fn new(
        model: Arc<dyn Model>,
        host: Arc<dyn Host>,
        tools: Arc<[Tool]>,
        identity: Arc<RunIdentity>,
    ) -> Self {
        Self {
            model,
            host,
            tools,
            identity,
            structure: None,
            cancellation: None,
            protocol: Protocol::Uap,
            agent_name: None,
            middleware: None,
            around: None,
            events: None,
            keeper: None,
            sub_agent_events: false,
            deepest: DEFAULT_DEPTH,
            enclosing: None,
            own: None,
            silent: HookSet::NONE,
            is_part: false,
        }
    }

    /// The run as what is inside of its tools sees it.
    fn as_enclosing(
        &self,
        inheritance: &InheritedModel,
        cancellation: &CancellationToken,
    ) -> Option<Arc<ParentRun>> {
        if self.protocol == Protocol::Upp || self.tools.is_empty() {
            return self.enclosing.clone();
        }
        Some(Arc::new(ParentRun {
            identity: Arc::clone(&self.identity),
            inheritance: inheritance.clone(),
            cancellation: cancellation.clone(),
            deepest: self.deepest,
        }))
    }
}

/// Runs a machine to its end.
///
/// When [`Driver::cancellation`] fires, the run ends with the turn it has (UAP-1.0 §12.5): model call and tools are
/// dropped, and `metadata.uap.aborted` marks the response. Under [`Protocol::Upp`] it fails instead, with that turn
/// attached.
///
/// # Errors
/// What the model, a hook or an approval handler failed with, and [`turntree_upp::ErrorCode::InvalidResponse`] for an
/// answer that does not fit the structure, unless `on_error` gave a turn instead;
/// [`super::partial_turn`] gives what the run had brought.
///
/// # Cancel safety
/// Dropping the future drops the model call and all tools that run, and cancels their token. The machine then stands
/// at its last boundary and can be driven again; results that were fed are kept.
pub async fn drive(machine: &mut Machine, drive: &Driver) -> Result<Arc<Turn>, UppError> {
    let trace = Trace::begin(machine, drive);
    // Boxed: agents that are tools are polled inside one another, and most runs have no middleware.
    let outcome = match (&drive.middleware, &drive.around) {
        (Some(passage), _) => Box::pin(passage.through(machine, drive, &trace)).await,
        (None, Some(around)) if !drive.is_part => Box::pin(around.through(machine, drive, &trace)).await,
        (None, _) => perform(machine, drive, &trace).await,
    };
    trace.end(&outcome);
    outcome
}

/// As [`drive`], inside the middleware.
pub(super) async fn perform(
    machine: &mut Machine,
    drive: &Driver,
    trace: &Trace,
) -> Result<Arc<Turn>, UppError> {
    let tools =
        drive.cancellation.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
    // A tool that left work on a thread hears that nobody waits for it when this future is dropped.
    let guard = tools.clone().drop_guard();
    let params = Arc::clone(&machine.setup().params);
    let inheritance = InheritedModel { model: Arc::clone(&drive.model), params };
    let enclosing = drive.as_enclosing(&inheritance, &tools);
    let (hooks, closing) = (drive.host.hooks().without(drive.silent), AtomicBool::new(false));
    let scope = RunLoop { drive, trace, hooks, inheritance, cancellation: tools, enclosing, closing };
    let mut fold = Fold::default();
    let outcome = match &drive.cancellation {
        // Boxed, so that agents inside of agents take little of the stack.
        None => Some(Box::pin(scope.work(machine, &mut fold)).await),
        Some(cancellation) => {
            let cancelled = pin!(cancellation.cancelled());
            let work = Box::pin(scope.work(machine, &mut fold));
            match select(cancelled, work).await {
                Either::Left(((), _)) => None,
                Either::Right((outcome, _)) => Some(outcome),
            }
        }
    };
    if let Some(outcome) = outcome {
        guard.disarm();
        return outcome;
    }
    scope.abort(machine, fold)
}

/// A driver at work.
pub(super) struct RunLoop<'a> {
    pub(super) drive: &'a Driver,
    pub(super) trace: &'a Trace,
    pub(super) hooks: HookSet,
    pub(super) inheritance: InheritedModel,
    /// Fires for the tools of this run only.
    pub(super) cancellation: CancellationToken,
    /// The run as what is inside of its tools sees it.
    pub(super) enclosing: Option<Arc<ParentRun>>,
    /// The calls of a round are being dropped: nothing new begins.
    pub(super) closing: AtomicBool,
}

impl RunLoop<'_> {
    async fn work(&self, machine: &mut Machine, fold: &mut Fold) -> Result<Arc<Turn>, UppError> {
        loop {
            let reply = match machine.next() {
                Action::Stamp => ActionResult::Stamp(self.stamp()),
                Action::CallModel(request) => {
                    ActionResult::Answer(self.call_model(machine.state().step(), request, fold).await)
                }
                Action::RunTools(round) => {
                    self.run_tools(machine, &round).await?;
                    continue;
                }
                Action::Execute => Box::pin(self.execute(machine)).await?,
                Action::Notify(point) => {
                    self.trace.before(machine, self.drive, point);
                    let reply = self.notify(machine, point).await?;
                    self.trace.after(point);
                    reply
                }
                Action::EvaluateStopCondition => self.ask_stop(machine).await?,
                Action::CheckAnswer(answer) => self.check_answer(answer).await?,
                Action::Checkpoint(boundary) => self.checkpoint(machine, boundary).await?,
                Action::AwaitApproval(calls) => return Err(self.approval_required(machine, calls)),
                Action::RequestRecovery(error) => self.ask_recovery(machine, error).await?,
                Action::Done(turn) => return Ok(turn),
                Action::Failed(error) => return Err(error),
            };
            if let (ActionResult::Failed(_), Some(keeper)) = (&reply, &self.drive.keeper) {
                keeper.fails(machine.state());
            }
            self.feed(machine, reply)?;
        }
    }

    /// Why the run stops here. Not told to the machine: its state waits for the decisions.
    fn approval_required(&self, machine: &Machine, calls: Vec<Arc<ToolCall>>) -> UppError {
        let required = ApprovalRequired { calls, session_id: self.drive.identity.session_id.clone() };
        let error = UppError::invalid_request(self.provider(), required.to_string()).with_cause(required);
        match machine.state().collected.turn() {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }
    }

    /// Feeds a reply, and what the application changed meanwhile.
    pub(super) fn feed(&self, machine: &mut Machine, reply: ActionResult) -> Result<(), UppError> {
        let changed = self.has(HookSet::METADATA).then(|| self.drive.host.changed_metadata()).flatten();
        let fed = changed.map_or(Ok(()), |metadata| machine.feed(ActionResult::Metadata(metadata)));
        fed.and_then(|()| machine.feed(reply))
            .map_err(|error| UppError::invalid_request(self.provider(), error.to_string()).with_cause(error))
    }

    fn abort(&self, machine: &mut Machine, fold: Fold) -> Result<Arc<Turn>, UppError> {
        let abort = Abort { partial: fold.finish(), results: self.stamp(), response: self.stamp() };
        // An ended machine takes no abort; then its own end stands.
        let aborted = machine.feed(ActionResult::Aborted(Box::new(abort))).is_ok();
        match machine.next() {
            Action::Done(turn) if aborted && self.drive.protocol == Protocol::Upp => {
                Err(failure::attach(UppError::cancelled(self.provider()), Turn::clone(&turn)))
            }
            Action::Done(turn) => Ok(turn),
            Action::Failed(error) | Action::RequestRecovery(error) => Err(error),
            _ => Err(UppError::cancelled(self.provider())),
        }
    }

    async fn call_model(
        &self,
        step: u32,
        request: ModelRequest,
        fold: &mut Fold,
    ) -> Result<ModelResponse, UppError> {
        if let Some(around) = &self.drive.around {
            let request = around.request(step, request).await?;
            let response = self.ask_model(request, fold).await?;
            let (response, held) = around.response(response).await?;
            for event in held {
                self.tell(AgentStreamEvent::Upp(event)).await?;
            }
            return Ok(response);
        }
        let Some(passage) = &self.drive.middleware else {
            return self.ask_model(request, fold).await;
        };
        let response = self.ask_model(ModelRequest { tools: passage.offered(), ..request }, fold).await?;
        passage.answered(&response);
        Ok(response)
    }

    async fn ask_model(&self, request: ModelRequest, fold: &mut Fold) -> Result<ModelResponse, UppError> {
        let span = self.trace.chat(self.drive, &request);
        // A sub-agent is listened to although its model may not be able to stream.
        let streams = |_: &&Arc<EventQueue>| self.drive.model.capabilities().streaming;
        let outcome = match self.drive.events.as_ref().filter(streams) {
            None => self.drive.model.complete(request).await,
            Some(events) => self.listen(request, fold, events, &span).await,
        };
        span.answered(&outcome, self.provider());
        outcome
    }

    /// Passes the answer on while it comes.
    async fn listen(
        &self,
        request: ModelRequest,
        fold: &mut Fold,
        events: &EventQueue,
        span: &Open,
    ) -> Result<ModelResponse, UppError> {
        *fold = Fold::default();
        let mut stream = self.drive.model.stream(request);
        let mut first = true;
        while let Some(item) = stream.next().await {
            match item? {
                ModelEvent::Event(event) => {
                    if std::mem::take(&mut first) {
                        span.first_chunk();
                    }
                    fold.push(&event);
                    self.pass_on(event, true).await?;
                    events.room().await;
                }
                ModelEvent::Done(response) => {
                    *fold = Fold::default();
                    return Ok(response);
                }
            }
        }
        let words = "the stream ended before the model's answer was whole";
        Err(UppError::invalid_response(self.provider(), words))
    }

    /// Has the application's strategy perform the run, and passes on what it tells meanwhile.
    async fn execute(&self, machine: &Machine) -> Result<ActionResult, UppError> {
        let Some(CustomHandle(own)) = &self.drive.own else {
            let words = "the run was started with a strategy of the application; give the agent that strategy to go on";
            return Ok(ActionResult::Failed(UppError::invalid_request(self.provider(), words)));
        };
        let listened = self.drive.events.as_ref().map(|events| (events, StrategyEvents::new()));
        let (events, mut told) = match listened {
            Some((events, (sender, receiver))) => (Some(sender), Some((events, receiver))),
            None => (None, None),
        };
        let context = OwnContext::new(machine.setup(), machine.state(), self.drive, events);
        let mut work = self.drive.host.execute(&**own, context);
        let performed = poll_fn(|context| {
            let polled = work.poll_unpin(context);
            if let Some((events, receiver)) = &mut told {
                // As long as it works, the listener is asked first whether there is room.
                while polled.is_ready() || events.has_room() {
                    let Poll::Ready(Some(event)) = receiver.poll_recv(context) else { break };
                    events.push(event);
                }
            }
            polled
        });
        self.reply(own.name(), performed.await, |performed| ActionResult::Executed(Box::new(performed)))
    }

    async fn notify(&self, machine: &Machine, point: Notification) -> Result<ActionResult, UppError> {
        if let Err(error) = self.announce(machine, point).await {
            return around::reply(error);
        }
        let (host, state, step) = (&self.drive.host, machine.state(), machine.state().step());
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
        self.reply(place, outcome, |()| ActionResult::Continue)
    }

    /// Tells whoever listens where the run is.
    async fn announce(&self, machine: &Machine, point: Notification) -> Result<(), UppError> {
        if self.drive.protocol != Protocol::Uap || !self.is_heard() {
            return Ok(());
        }
        let step_number = machine.state().step();
        let last = machine.state().messages().last();
        let data = match point {
            Notification::StepStart => {
                let (step_id, plan_step_id) = (Some(Arc::clone(machine.step_id())), machine.plan_step_id());
                UapData::StepStart(StepStart { step_number, step_id, plan_step_id, extra: Extra::new() })
            }
            Notification::StepEnd => {
                let (step_id, plan_step_id) = (Some(Arc::clone(machine.step_id())), machine.plan_step_id());
                let usage = machine.step_usage();
                UapData::StepEnd(StepEnd { step_number, step_id, plan_step_id, usage, extra: Extra::new() })
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
        self.tell(self.uap(step_number, data)).await
    }

    /// Whether events are built: a listener or a middleware wants them.
    fn is_heard(&self) -> bool {
        self.drive.events.is_some() || self.drive.around.as_ref().is_some_and(|around| around.hears())
    }

    /// Tells the middleware of an event, and then the listener.
    async fn tell(&self, event: AgentStreamEvent) -> Result<(), UppError> {
        if let Some(around) = &self.drive.around {
            around.event(&event).await?;
        }
        if let Some(events) = &self.drive.events {
            events.push(event);
        }
        Ok(())
    }

    fn uap(&self, step: u32, data: UapData) -> AgentStreamEvent {
        AgentStreamEvent::Uap(UapEvent { step, agent_id: Arc::clone(&self.drive.identity.agent_id), data })
    }

    async fn ask_stop(&self, machine: &Machine) -> Result<ActionResult, UppError> {
        if !self.has(HookSet::STOP_CONDITION) {
            return Ok(ActionResult::Stop(false));
        }
        let outcome = self.drive.host.stop_condition(machine.state().execution_state()).await;
        self.reply("stop_condition", outcome, ActionResult::Stop)
    }

    /// The schema first: the application sees only answers that keep to it.
    async fn check_answer(&self, answer: RawJson) -> Result<ActionResult, UppError> {
        let Some(structure) = &self.drive.structure else { return Ok(ActionResult::Checked(Vec::new())) };
        let violations = structure.violations(&answer);
        if !violations.is_empty() || !self.has(HookSet::CHECK_ANSWER) {
            return Ok(ActionResult::Checked(violations));
        }
        let answer = if structure.is_wrapped() { unwrapped(&answer).unwrap_or_default() } else { answer };
        let outcome = self.drive.host.check_answer(answer).await;
        self.reply("the type of the structured answer", outcome, ActionResult::Checked)
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
        let kept = self.drive.keeper.as_ref().and_then(|keeper| keeper.keep(boundary, machine.state()));
        let saving = self.drive.keeper.as_ref().and_then(|keeper| keeper.save(boundary, machine.state()));
        if let Some(saving) = saving
            && let Err(error) = saving.await
        {
            return Ok(ActionResult::Failed(error));
        }
        let outcome = if self.has(wanted) {
            self.drive.host.checkpoint(boundary, machine.state().clone()).await
        } else {
            Ok(None)
        };
        let saved = outcome.as_ref().ok().and_then(Clone::clone);
        if let Some(checkpoint_id) = kept.or(saved).filter(|_| self.is_heard()) {
            let data = UapData::Checkpoint(CheckpointMade { checkpoint_id, extra: Extra::new() });
            if let Err(error) = self.tell(self.uap(machine.state().step(), data)).await {
                return around::reply(error);
            }
        }
        self.reply("checkpoint", outcome, |_| ActionResult::Continue)
    }

    async fn ask_recovery(&self, machine: &Machine, error: UppError) -> Result<ActionResult, UppError> {
        if !self.has(HookSet::ERROR) {
            return Ok(ActionResult::Recovery(None));
        }
        let outcome = self.drive.host.on_error(error, machine.state().execution_state()).await;
        self.reply("on_error", outcome, ActionResult::Recovery)
    }

    /// What a hook came to, as a reply. A fatal error ends the run here and now.
    fn reply<T>(
        &self,
        place: &str,
        outcome: Result<T, HostError>,
        reply: impl FnOnce(T) -> ActionResult,
    ) -> Result<ActionResult, UppError> {
        match outcome {
            Ok(value) => Ok(reply(value)),
            Err(error) if error.kind == HostErrorKind::Fatal => Err(error.into_error(place, self.provider())),
            Err(error) => Ok(ActionResult::Failed(error.into_error(place, self.provider()))),
        }
    }

    /// Tells the listener of an event, which the middleware may change, or hold back where it is the model's.
    async fn pass_on(&self, event: StreamEvent, is_of_model: bool) -> Result<(), UppError> {
        if let Some(passage) = &self.drive.middleware {
            for event in passage.event(event)? {
                self.tell(AgentStreamEvent::Upp(event)).await?;
            }
            return Ok(());
        }
        match &self.drive.around {
            Some(around) if is_of_model && around.holds() => around.hold(event),
            _ => self.tell(AgentStreamEvent::Upp(event)).await?,
        }
        Ok(())
    }

    pub(super) async fn emit(&self, event: impl FnOnce() -> StreamEvent) -> Result<(), UppError> {
        if self.is_heard() { self.pass_on(event(), false).await } else { Ok(()) }
    }

    pub(super) const fn has(&self, hooks: HookSet) -> bool {
        self.hooks.contains(hooks)
    }

    pub(super) fn provider(&self) -> &str {
        self.drive.model.provider()
    }

    fn stamp(&self) -> Stamp {
        Stamp { id: self.drive.host.ids().string(), at: self.drive.host.clock().now() }
    }
}

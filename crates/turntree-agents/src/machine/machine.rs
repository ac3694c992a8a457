//! The agent loop as a state machine without I/O: no clock, no ids, no async, no Python. UAP-1.0 §5, UPP-1.2 §10.2–4.
//!
//! [`Machine::next`] returns the next action, [`Machine::feed`] takes its result. A state and the results that follow it
//! determine a run: checkpoints, crash recovery and property tests use this.

use std::sync::Arc;

use crate::machine::json::SavedError;
use crate::machine::round::Round;
use crate::machine::setup::Setup;
use crate::machine::state::{Phase, RunState, StateError};
use crate::machine::strategies::policy::{StrategyPolicy, StrategyView, Transition};
use crate::types::action::{
    Action, ActionResult, Boundary, CallState, Notification, Stamp, SuspendedCall, ToolOutcome, ToolRound,
};
use crate::types::approval::{ApprovalDecision, Verdict};
use crate::types::failure;
use crate::types::plan_step::PlanStep;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message, TokenUsage, ToolCall, ToolDefinition, ToolResult, Turn};
use turntree_upp::UppError;

/// The result of tool calls that an abort has ended.
pub(super) const ABORTED: &str = "Tool execution was aborted";

/// The result of tool calls that have none in the partial turn of a failed run.
pub(super) const NOT_EXECUTED: &str = "The run ended before the tool returned a result";

/// The result of tool calls in doubt in the partial turn of their run.
pub(super) const IN_DOUBT: &str =
    "The process ended while the tool ran; it is not known whether the call was executed";

/// The result of tool calls that wait for approval in the partial turn of their run.
pub(super) const WAITING: &str = "The tool call waits for approval";

/// What a machine needs the tools of the run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolUse {
    /// For the next request to the model.
    Request,
    /// For the calls of a response.
    Calls,
}

/// The result does not belong to the action that the machine waits for. The driver has an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unexpected result; feed the result of the action that `next` returns")]
pub struct UnexpectedResult;

/// One run of an agent, step by step.
///
/// ```
/// use std::sync::Arc;
/// use turntree_agents::Strategy;
/// use turntree_agents::machine::{Machine, RunState, Setup};
/// use turntree_agents::types::{Action, ActionResult, Stamp};
/// use turntree_core::{ids::RandomIds, time::{SystemClock, Clock as _}};
/// use turntree_core::message::{Message, TokenUsage};
/// use turntree_upp::{ModelResponse, StopReason};
///
/// let input = Arc::new(Message::user("Hello", &RandomIds, &SystemClock));
/// let state = RunState::new(&Strategy::default(), input, Arc::default());
/// let mut machine = Machine::new(Setup::default(), state)?;
/// let turn = loop {
///     let reply = match machine.next() {
///         Action::Stamp => ActionResult::Stamp(Stamp { id: "1".to_owned(), at: SystemClock.now() }),
///         Action::CallModel(request) => {
///             assert_eq!(request.messages.len(), 1);
///             let message = Arc::new(Message::assistant("Hi.", &RandomIds, &SystemClock));
///             let (usage, stop_reason) = (TokenUsage::of_call(5, 2), StopReason::EndTurn);
///             ActionResult::Answer(Ok(ModelResponse { message, usage, stop_reason, data: None }))
///         }
///         Action::EvaluateStopCondition => ActionResult::Stop(false),
///         Action::Done(turn) => break turn,
///         _ => ActionResult::Continue,
///     };
///     machine.feed(reply)?;
/// };
/// assert_eq!(turn.response().text(), "Hi.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) setup: Arc<Setup>,
    pub(super) state: RunState,
    /// The messages that the model receives: the history, then the messages of the run.
    pub(super) transcript: History,
    /// What the model receives instead of the first messages of the history and the run, and their number.
    replaced: Option<(usize, History)>,
    /// The state to resume from, if the run has failed for a reason that another agent may remove.
    pub(super) resumable: Option<Box<RunState>>,
}

/// Serializes the state only; the setup is provided again when the run is restored.
impl serde::Serialize for Machine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state.serialize(serializer)
    }
}

impl Machine {
    /// Creates a machine that starts or resumes from a state.
    ///
    /// # Errors
    /// [`StateError`] if the state has another version or is inconsistent.
    pub fn new(setup: impl Into<Arc<Setup>>, mut state: RunState) -> Result<Self, StateError> {
        state.check()?;
        let setup = setup.into();
        if let (Phase::Tools(round) | Phase::Results(round), Some(message)) =
            (&mut state.phase, state.collected.messages.last())
        {
            round.find_tools(message, &setup.tools);
        }
        let mut transcript = setup.history.clone();
        // Pushed one by one: joining two trees rebalances the long one (25 µs at 10 000 messages, `benches/machine.rs`).
        transcript.extend(state.collected.model_messages().map(Arc::clone));
        Ok(Self { setup, state, transcript, replaced: None, resumable: None })
    }

    /// Returns the state to resume from, once, if the run has just failed for a reason that another agent may remove: a
    /// limit, or a response that does not fit the structure.
    pub(crate) fn take_resumable(&mut self) -> Option<Box<RunState>> {
        self.resumable.take()
    }

    /// Takes the parts of the run that its strategy has started before the run was resumed.
    pub(crate) fn take_parts(&mut self) -> Vec<RunState> {
        std::mem::take(&mut self.state.parts)
    }

    /// Applies limits that have changed to a run that had exceeded a limit.
    pub(crate) fn retry_limit(&mut self) {
        if matches!(self.state.phase, Phase::Exceeded(_)) {
            self.state.phase = self.decide(|policy, view| policy.answered(view));
        }
    }

    /// The state. Cheap to clone.
    pub const fn state(&self) -> &RunState {
        &self.state
    }

    /// The setup.
    pub const fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// The messages that the model receives.
    pub(crate) const fn transcript(&self) -> &History {
        &self.transcript
    }

    /// What the next action needs the tools of the run for. A prompt belongs to the request that follows it.
    pub(crate) fn tool_use(&self) -> Option<ToolUse> {
        match &self.state.phase {
            Phase::Prompt | Phase::Model => Some(ToolUse::Request),
            Phase::Tools(round) if round.is_running() => Some(ToolUse::Calls),
            _ => None,
        }
    }

    /// Replaces the tools of the run, and the schema of plans if one is given. Calls that are open are looked up again.
    /// `idempotent` has the names of the idempotent ones, `guarded` of those that need approval.
    pub(crate) fn set_tools(
        &mut self,
        tools: Arc<[ToolDefinition]>,
        plan_schema: Option<Arc<RawJson>>,
        idempotent: Vec<Arc<str>>,
        guarded: Vec<Arc<str>>,
    ) {
        (self.state.idempotent_tools, self.state.guarded_tools) = (idempotent, guarded);
        if let (Phase::Tools(round) | Phase::Results(round), Some(message)) =
            (&mut self.state.phase, self.state.collected.messages.last())
        {
            round.find_tools(message, &tools);
        }
        let setup = Setup::clone(&self.setup);
        let plan_schema = plan_schema.or_else(|| setup.plan_schema.clone());
        self.setup = Arc::new(Setup { tools, plan_schema, ..setup });
    }

    /// Replaces the setup and the messages of the run. Allowed only before the first result is fed.
    pub(crate) fn rewrite(&mut self, setup: Setup, new: History) {
        self.state.collected.messages = new;
        self.transcript = setup.history.clone();
        self.transcript.extend(self.state.collected.model_messages().map(Arc::clone));
        self.setup = Arc::new(setup);
        if let Some((count, messages)) = self.replaced.take() {
            self.replace_first(count, messages);
        }
    }

    /// Replaces the first `count` messages of the history and the run in what the model receives. The turn has all messages
    /// of the run.
    pub(crate) fn replace_first(&mut self, count: usize, messages: History) {
        let history = &self.setup.history;
        let of_run = self.state.collected.model_messages_since(count.saturating_sub(history.len()));
        let transcript = messages.iter().chain(history.iter().skip(count)).chain(of_run);
        self.transcript = transcript.map(Arc::clone).collect();
        self.replaced = Some((count, messages));
    }

    /// Returns the next action. Returns the same action until its result is fed.
    pub fn next(&self) -> Action {
        let hook = self.state.strategy.policy().calls_phase_hooks();
        match &self.state.phase {
            Phase::Execute => Action::Execute,
            Phase::StepId
            | Phase::Prompt
            | Phase::Results(_)
            | Phase::Repair(_)
            | Phase::Refused(_)
            | Phase::Closing(_) => Action::Stamp,
            Phase::StepStart => Action::Notify(Notification::StepStart),
            Phase::Model => Action::CallModel(self.request()),
            Phase::Answered | Phase::Reasoned => Action::Checkpoint(Boundary::Answered),
            Phase::Reason => Action::Notify(Notification::Reason),
            Phase::Planned => Action::Checkpoint(Boundary::Planned),
            Phase::Act => Action::Notify(Notification::Act { hook }),
            Phase::Tools(round) if round.unsaved => Action::Checkpoint(Boundary::ToolFinished),
            Phase::Tools(round) if !round.is_running() => {
                Action::AwaitApproval(round.awaited_approvals().cloned().collect())
            }
            Phase::Tools(round) => self.run_tools(round),
            Phase::Observe => Action::Notify(Notification::Observe { hook }),
            Phase::StepEnd => Action::Notify(Notification::StepEnd),
            Phase::Save | Phase::Executed(_) => Action::Checkpoint(Boundary::StepEnded),
            Phase::Stop => Action::EvaluateStopCondition,
            Phase::Exceeded(limit) => Action::Notify(Notification::MaxIterations(*limit)),
            Phase::Checking => Action::CheckAnswer(self.output()),
            Phase::Completing(_) => Action::Notify(Notification::Complete),
            Phase::Failing(error) => Action::RequestRecovery(error.0.clone()),
            Phase::Done(turn) => Action::Done(Arc::clone(turn)),
            Phase::Failed(error) => Action::Failed(error.0.clone()),
        }
    }

    /// Feeds the result of the action.
    ///
    /// # Errors
    /// [`UnexpectedResult`] if the result does not belong to the action; the machine does not change.
    pub fn feed(&mut self, result: ActionResult) -> Result<(), UnexpectedResult> {
        let phase = std::mem::take(&mut self.state.phase);
        match self.step(phase, result) {
            Ok(phase) => {
                self.state.phase = phase;
                Ok(())
            }
            Err(phase) => {
                self.state.phase = phase;
                Err(UnexpectedResult)
            }
        }
    }

    /// Applies one result: returns the next phase, or the unchanged phase if the result does not belong to it.
    fn step(&mut self, phase: Phase, result: ActionResult) -> Result<Phase, Phase> {
        Ok(match (phase, result) {
            (phase @ (Phase::Done(_) | Phase::Failed(_)), _) => return Err(phase),
            (phase, ActionResult::Metadata(metadata)) => {
                self.state.metadata = metadata;
                phase
            }
            (phase, ActionResult::Aborted(abort)) => self.abort(phase, *abort),
            (Phase::Execute, ActionResult::Executed(outcome)) => self.take_executed(*outcome),
            (Phase::StepId, ActionResult::Stamp(stamp)) => self.begin_step(&stamp),
            (Phase::StepStart, ActionResult::Continue) => self.decide(|policy, view| policy.begun(view)),
            (Phase::Model, ActionResult::Answer(Ok(response))) => self.take_response(response),
            (Phase::Model, ActionResult::Answer(Err(error))) => self.take_failure(error),
            (Phase::Prompt, ActionResult::Stamp(stamp)) => self.prompt(stamp),
            (Phase::Reasoned, ActionResult::Continue) => Phase::Reason,
            (Phase::Reason, ActionResult::Continue) => self.decide(|policy, view| policy.reasoned(view)),
            (Phase::Planned, ActionResult::Continue) => Phase::StepId,
            (Phase::Answered, ActionResult::Continue) => Phase::Act,
            (Phase::Act, ActionResult::Continue) => self.begin_round(),
            (Phase::Tools(round), result) => self.step_tools(round, result).map_err(Phase::Tools)?,
            (Phase::Results(round), ActionResult::Stamp(stamp)) => self.take_results(round, stamp),
            (Phase::Observe, ActionResult::Continue) if self.state.handed_to().is_some() => Phase::StepEnd,
            (Phase::Observe, ActionResult::Continue) => self.decide(|policy, view| policy.observed(view)),
            (Phase::StepEnd, ActionResult::Continue) => Phase::Save,
            (Phase::Save, ActionResult::Continue) => Phase::Stop,
            (Phase::Stop, ActionResult::Stop(_)) if self.state.handed_to().is_some() => self.hand_over(),
            (Phase::Stop, ActionResult::Stop(true)) => self.finish(),
            (Phase::Stop, ActionResult::Stop(false)) => self.decide(|policy, view| policy.stepped(view)),
            (Phase::Exceeded(limit), ActionResult::Continue) => self.exceed(limit),
            (Phase::Checking, ActionResult::Checked(violations)) => self.take_check(violations),
            (Phase::Checking, ActionResult::Refused(reason)) => self.take_refusal(reason),
            (Phase::Refused(reason), ActionResult::Stamp(stamp)) => self.ask_again(reason, stamp),
            (Phase::Repair(violations), ActionResult::Stamp(stamp)) => {
                self.request_repair(&violations, stamp)
            }
            (Phase::Completing(turn), ActionResult::Continue) => Phase::Done(turn),
            (Phase::Closing(open), ActionResult::Stamp(stamp)) => self.close(*open, stamp),
            (Phase::Failing(error), ActionResult::Recovery(None)) => Phase::Failed(error),
            (Phase::Executed(turn), ActionResult::Continue)
            | (Phase::Failing(_), ActionResult::Recovery(Some(turn))) => Phase::Completing(turn),
            (Phase::Failing(first), ActionResult::Failed(error)) => {
                Phase::Failed(SavedError(failure::with_partial_of(error, &first.0)))
            }
            (phase, ActionResult::Failed(error)) if waits_for_host(&phase) => self.fail(error),
            (phase, _) => return Err(phase),
        })
    }

    /// Applies one result to a round of tool calls. Returns the unchanged round if the result does not belong to it.
    fn step_tools(&mut self, mut round: Round, result: ActionResult) -> Result<Phase, Round> {
        match result {
            ActionResult::Tool { position, outcome } => self.take_tool(round, position, outcome),
            ActionResult::Granted { position, replaced } => take_grant(round, position, replaced),
            ActionResult::Suspended { position, suspended } => take_suspension(round, position, suspended),
            ActionResult::ApprovalNeeded { position, call } => take_approval_request(round, position, call),
            ActionResult::Returned { position, returned } => {
                match round.slots.get_mut(position) {
                    Some(slot) if slot.is_open() => *slot = CallState::Returned(returned),
                    _ => return Err(round),
                }
                Ok(Phase::Tools(round))
            }
            ActionResult::Continue if round.unsaved => Ok(self.settle(Round { unsaved: false, ..round })),
            // A failed save ends the run in the same way as a failed call: the other calls settle first.
            ActionResult::Failed(error) => {
                round.failure.get_or_insert(SavedError(error));
                Ok(self.settle(Round { unsaved: false, ..round }))
            }
            _ => Err(round),
        }
    }

    /// Calls the strategy and converts its transition to a phase.
    pub(super) fn decide(
        &mut self,
        choose: impl FnOnce(&mut dyn StrategyPolicy, &StrategyView<'_>) -> Transition,
    ) -> Phase {
        let RunState { step, mark, .. } = self.state;
        let view = StrategyView { setup: &self.setup, collected: &self.state.collected, step, mark };
        let next = choose(self.state.strategy.policy_mut(), &view);
        self.apply(next)
    }

    /// Converts a transition to a phase.
    pub(super) fn apply(&mut self, next: Transition) -> Phase {
        match next {
            Transition::CallModel => Phase::Model,
            Transition::Ask => Phase::Prompt,
            Transition::RunTools => Phase::Answered,
            Transition::Planned => Phase::Planned,
            Transition::EndStep => Phase::StepEnd,
            Transition::NextStep => Phase::StepId,
            Transition::Finish => self.finish(),
            Transition::Exceeded(limit) => Phase::Exceeded(limit),
            Transition::Invalid(reason) => {
                self.fail(UppError::invalid_response(&*self.setup.provider, reason))
            }
        }
    }

    fn begin_step(&mut self, stamp: &Stamp) -> Phase {
        let state = &mut self.state;
        let mark = state.collected.mark();
        // The turn of the first step starts with the input, which is collected already.
        state.mark = if state.step > 0 { mark } else { mark.with_input() };
        state.step = state.step.saturating_add(1);
        state.step_id = Arc::from(stamp.id.as_str());
        state.strategy.policy_mut().entered();
        Phase::StepStart
    }

    fn begin_round(&self) -> Phase {
        match self.state.collected.last() {
            Some(message) => Phase::Tools(Round::new(message, &self.setup.tools)),
            None => Phase::StepEnd,
        }
    }

    fn run_tools(&self, round: &Round) -> Action {
        let Some(message) = self.state.collected.last() else {
            return Action::Notify(Notification::StepEnd);
        };
        let tools = round.tools.clone().unwrap_or_default();
        let (waiting, begun) = (round.waiting(), round.begun());
        let id = self.state.round_id(message).into();
        Action::RunTools(ToolRound { message: Arc::clone(message), tools, waiting, id, begun })
    }

    fn take_tool(
        &mut self,
        mut round: Round,
        position: usize,
        outcome: Result<ToolOutcome, UppError>,
    ) -> Result<Phase, Round> {
        let Some(slot) = round.slots.get_mut(position).filter(|slot| slot.is_open()) else {
            return Err(round);
        };
        match outcome {
            Ok(outcome) => {
                let result = ToolResult {
                    tool_call_id: outcome.execution.tool_call_id.clone(),
                    result: outcome.model_result().clone(),
                    is_error: Some(outcome.execution.is_error),
                    extra: Extra::new(),
                };
                *slot = CallState::Answered(result);
                round.unsaved = true;
                self.state.collected.executions.push_back(Arc::new(outcome.execution));
                let exceeded = outcome.retries.and_then(|allowed| self.exceeded_retries(allowed));
                round.failure = round.failure.or(exceeded.map(SavedError));
                Ok(Phase::Tools(round))
            }
            Err(error) => {
                *slot = CallState::Failed;
                round.failure.get_or_insert(SavedError(error));
                Ok(self.settle(round))
            }
        }
    }

    /// Continues when every call has finished and none waits for approval.
    fn settle(&mut self, mut round: Round) -> Phase {
        if round.is_running() || round.unsaved {
            return Phase::Tools(round);
        }
        match round.failure.take() {
            Some(error) => self.fail_in(error.0, Some(round)),
            None if round.awaited_approvals().next().is_some() => Phase::Tools(round),
            None => Phase::Results(round),
        }
    }

    fn take_results(&mut self, round: Round, stamp: Stamp) -> Phase {
        if let Some(message) = self.state.collected.last() {
            let results = round.results(message, ABORTED);
            let results = self.marked_results(stamped(stamp, Body::ToolResult { results }));
            self.push(Arc::new(self.marked_handoff(results)));
        }
        Phase::Observe
    }

    fn exceed(&mut self, limit: u32) -> Phase {
        let mut state = self.state.clone();
        state.phase = Phase::Exceeded(limit);
        self.resumable = Some(Box::new(state));
        let message = self
            .too_many_handoffs()
            .unwrap_or_else(|| format!("Tool execution exceeded maximum iterations ({limit})"));
        self.fail(UppError::invalid_request(&*self.setup.provider, message))
    }

    pub(super) fn push(&mut self, message: Arc<Message>) {
        self.transcript.push_back(Arc::clone(&message));
        self.state.collected.messages.push_back(message);
    }

    /// The id of the current step.
    pub fn step_id(&self) -> &Arc<str> {
        &self.state.step_id
    }

    /// The id of the plan step that is being executed.
    pub fn plan_step_id(&self) -> Option<Arc<str>> {
        self.state.strategy.policy().plan_step().map(Into::into)
    }

    /// The plan, if the strategy makes plans.
    pub fn plan(&self) -> Option<Vec<PlanStep>> {
        self.state.strategy.policy().plan().map(|steps| steps.iter().cloned().collect())
    }

    /// The turn of the current step so far. `None` before its model has responded.
    pub fn step_turn(&self) -> Option<Turn> {
        self.state.collected.turn_since(self.state.mark).ok()
    }

    /// The token usage of the current step.
    pub fn step_usage(&self) -> TokenUsage {
        self.state.collected.usage_since(self.state.mark)
    }

    /// The turn of a run that is completing or has completed.
    pub const fn turn(&self) -> Option<&Arc<Turn>> {
        match &self.state.phase {
            Phase::Completing(turn) | Phase::Done(turn) => Some(turn),
            _ => None,
        }
    }
}

/// Records that a call needs approval. The state is saved, as after a result, so that a restart does not lose the request.
fn take_grant(mut round: Round, position: usize, replaced: Option<Arc<ToolCall>>) -> Result<Phase, Round> {
    match (round.slots.get_mut(position), replaced) {
        (Some(CallState::Waiting), None) => round.granted.push(position),
        (Some(slot @ CallState::Waiting), Some(call)) => {
            *slot = CallState::Decided(ApprovalDecision { call, verdict: Verdict::Approved });
        }
        _ => return Err(round),
    }
    Ok(Phase::Tools(round))
}

fn take_suspension(mut round: Round, position: usize, suspended: SuspendedCall) -> Result<Phase, Round> {
    match round.slots.get_mut(position) {
        Some(slot) if slot.is_open() => *slot = CallState::Suspended(suspended),
        _ => return Err(round),
    }
    round.unsaved = true;
    Ok(Phase::Tools(round))
}

fn take_approval_request(mut round: Round, position: usize, call: Arc<ToolCall>) -> Result<Phase, Round> {
    match round.slots.get_mut(position) {
        Some(slot @ CallState::Waiting) => *slot = CallState::AwaitingApproval(call),
        _ => return Err(round),
    }
    round.unsaved = true;
    Ok(Phase::Tools(round))
}

/// True for phases in which a hook, a save or a toolset can fail.
const fn waits_for_host(phase: &Phase) -> bool {
    !matches!(
        phase,
        Phase::StepId | Phase::Results(_) | Phase::Repair(_) | Phase::Refused(_) | Phase::Closing(_)
    )
}

pub(super) fn stamped(stamp: Stamp, body: Body) -> Message {
    Message { id: stamp.id, timestamp: stamp.at, metadata: None, body, extra: Extra::new() }
}

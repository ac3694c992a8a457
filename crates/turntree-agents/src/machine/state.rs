//! The state of a run: all that changes while it runs, and nothing else.
//!
//! Serializes at every boundary. What stays the same (history, system prompt, tools, structure) is the [`Setup`] and
//! is given again when a run is restored, so that a saved state costs what the run brought, not what came before.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use super::json::list;
use crate::machine::json::SavedError;
use crate::machine::strategies::{Strategy, StrategyState};
use crate::types::action::{CallState, ToolReturn};
use crate::types::approval::ApprovalDecision;
use crate::types::execution_state::ExecutionState;
use crate::types::structure::{Structure, Violation};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{
    Body, Message, MessageKind, TokenUsage, ToolCall, ToolDefinition, ToolExecution, ToolResult, Turn,
    TurnError,
};
use turntree_upp::{StopReason, System};

/// What a run is started with and what does not change.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What was said before.
    pub history: History,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The model's own parameters.
    pub params: Arc<RawObject>,
    /// The tools the model may call.
    pub tools: Arc<[ToolDefinition]>,
    /// JSON Schema of the structured answer, when one is wanted.
    pub structure: Option<Arc<RawJson>>,
    /// JSON Schema of the plan, where the strategy makes one.
    pub plan_schema: Option<Arc<RawJson>>,
    /// What a plan is held to beside the rules for all plans.
    pub plan_rules: Option<Arc<Structure>>,
    /// Whether the answer stands in the member [`WRAPPED`](crate::types::structure::WRAPPED) of what the model gives.
    pub is_wrapped: bool,
    /// Whether the model is asked once more when its answer does not fit.
    pub structure_repair: bool,
    /// Whose model runs; in errors.
    pub provider: Arc<str>,
}

/// Why a saved state cannot be taken up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Written by another version.
    #[error("the state of a run has version {found}; this version reads {}", RunState::VERSION)]
    Version {
        /// The version it has.
        found: u32,
    },
    /// It contradicts itself.
    #[error("the state of a run contradicts itself: {0}; it was changed after it was saved")]
    Contradiction(&'static str),
}

/// What the model is told, or thinks, beside the conversation: it is sent with every request from there on, and is in no
/// turn and no thread (decision A11).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EphemeralMessage {
    /// How many messages of the run stand before it.
    pub(crate) at: usize,
    pub(crate) message: Arc<Message>,
}

/// What a run has brought.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Collected {
    /// The input, then everything new, in order.
    #[serde(with = "list")]
    pub(crate) messages: History,
    /// What is between them for the model alone, in order.
    #[serde(rename = "asides", default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) ephemeral: Vector<Arc<EphemeralMessage>>,
    /// What the model thought, one text a step.
    #[serde(default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) reasoning: Vector<String>,
    /// Records of tools, in the order they finished.
    #[serde(with = "list")]
    pub(crate) executions: Vector<Arc<ToolExecution>>,
    /// Usage of each model call.
    #[serde(with = "list")]
    pub(crate) usage: Vector<Arc<TokenUsage>>,
    /// The structured answer; the last one given counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<RawJson>,
    /// How the last answer ended.
    #[serde(default, skip_serializing_if = "AnswerStatus::is_complete")]
    pub(crate) ending: AnswerStatus,
}

/// How an answer ended, as far as it matters to a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AnswerStatus {
    /// It is all there.
    #[default]
    #[serde(rename = "whole")]
    Complete,
    /// It ran out of tokens.
    #[serde(rename = "cut")]
    Truncated,
    /// It is no answer to what was asked: the model refused, or will go on when asked again.
    Other,
}

impl AnswerStatus {
    pub(crate) const fn of(reason: StopReason) -> Self {
        match reason {
            StopReason::MaxTokens => Self::Truncated,
            StopReason::ContentFilter | StopReason::PauseTurn => Self::Other,
            _ => Self::Complete,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
    fn is_complete(&self) -> bool {
        *self == Self::Complete
    }
}

/// Where a step began in [`Collected`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    messages: usize,
    executions: usize,
    usage: usize,
    #[serde(rename = "asides", default, skip_serializing_if = "is_zero")]
    ephemeral: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    reasoning: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Mark {
    /// The same place, but for the messages, which begin with the run's first.
    pub(crate) const fn with_input(self) -> Self {
        Self { messages: 0, ..self }
    }
}

impl Collected {
    /// The last message.
    pub(crate) fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// The place after everything that is there.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            messages: self.messages.len(),
            executions: self.executions.len(),
            usage: self.usage.len(),
            ephemeral: self.ephemeral.len(),
            reasoning: self.reasoning.len(),
        }
    }

    /// All of it as a turn.
    pub(crate) fn turn(&self) -> Result<Turn, TurnError> {
        self.turn_since(Mark::default())
    }

    /// What came after a mark, as a turn.
    pub(crate) fn turn_since(&self, mark: Mark) -> Result<Turn, TurnError> {
        let messages = self.messages.iter().skip(mark.messages).map(Arc::clone).collect();
        let executions = self.executions_since(mark).cloned().collect();
        let cycles = u32::try_from(self.usage.len().saturating_sub(mark.usage)).unwrap_or(u32::MAX);
        Turn::new(messages, executions, self.usage_since(mark), cycles, self.data.clone())
    }

    /// Records of the tools that finished after a mark.
    pub(crate) fn executions_since(&self, mark: Mark) -> impl Iterator<Item = &ToolExecution> {
        self.executions.iter().skip(mark.executions).map(AsRef::as_ref)
    }

    /// What the model is sent of it: the messages, with the ephemeral between them.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Arc<Message>> {
        let mut ephemeral = self.ephemeral.iter().peekable();
        let mut messages = self.messages.iter().enumerate().peekable();
        std::iter::from_fn(move || {
            let place = messages.peek().map_or(usize::MAX, |(place, _)| *place);
            match ephemeral.next_if(|aside| aside.at <= place) {
                Some(aside) => Some(&aside.message),
                None => messages.next().map(|(_, message)| message),
            }
        })
    }

    /// Tokens spent after a mark.
    pub(crate) fn usage_since(&self, mark: Mark) -> TokenUsage {
        TokenUsage::aggregate(self.usage.iter().skip(mark.usage).map(AsRef::as_ref))
    }

    /// The calls of the last answer that no message answers.
    pub(crate) fn unanswered(&self) -> Option<&Arc<Message>> {
        self.last().filter(|message| message.has_tool_calls())
    }

    /// What was there at a mark, without what has no place in time: the answer and how it ended.
    pub(crate) fn cut(&self, mark: Mark) -> Self {
        Self {
            messages: self.messages.take(mark.messages),
            executions: self.executions.take(mark.executions),
            usage: self.usage.take(mark.usage),
            ephemeral: self.ephemeral.take(mark.ephemeral),
            reasoning: self.reasoning.take(mark.reasoning),
            ..Self::default()
        }
    }

    /// Whether it begins with another one, as far as the last entries tell.
    pub(crate) fn goes_on_from(&self, earlier: &Self) -> bool {
        fn begins<T: Clone>(whole: &Vector<Arc<T>>, part: &Vector<Arc<T>>) -> bool {
            let Some((place, last)) = part.len().checked_sub(1).zip(part.last()) else { return true };
            whole.get(place).is_some_and(|same| Arc::ptr_eq(same, last))
        }
        begins(&self.messages, &earlier.messages)
            && begins(&self.executions, &earlier.executions)
            && begins(&self.usage, &earlier.usage)
            && begins(&self.ephemeral, &earlier.ephemeral)
    }

    /// Whether the run ends without an answer to what was asked: its response wants tools that nobody ran, or runs on
    /// from; or the model refused.
    pub(crate) fn is_unanswered(&self) -> bool {
        let response = self.messages.iter().rfind(|message| message.kind() == MessageKind::Assistant);
        self.ending == AnswerStatus::Other || response.is_none_or(|response| response.has_tool_calls())
    }

    /// Whether a mark lies within.
    fn holds(&self, mark: Mark) -> bool {
        mark.messages <= self.messages.len()
            && mark.executions <= self.executions.len()
            && mark.usage <= self.usage.len()
            && mark.ephemeral <= self.ephemeral.len()
            && mark.reasoning <= self.reasoning.len()
    }

    /// Whether the ephemeral have places among the messages, and are in order.
    fn places_ephemeral(&self) -> bool {
        let places = self.ephemeral.iter().map(|aside| aside.at);
        places.is_sorted() && self.ephemeral.last().is_none_or(|last| last.at <= self.messages.len())
    }
}

/// Where a run stands: each phase waits for one kind of reply.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// A strategy of the application performs the run.
    Execute,
    /// It has given this turn.
    Executed(Arc<Turn>),
    /// A step needs an id.
    #[default]
    StepId,
    /// A step begins.
    StepStart,
    /// The model is to be told something aside.
    Prompt,
    /// The model is called.
    Model,
    /// It has thought.
    Reasoned,
    /// What it thought is announced.
    Reason,
    /// It has planned.
    Planned,
    /// An answer that wants tools is there.
    Answered,
    /// The tools it wants are announced.
    Act,
    /// Tools run.
    Tools(Round),
    /// Their results need a message.
    Results(Round),
    /// Their results are announced.
    Observe,
    /// A step ends.
    StepEnd,
    /// The ended step is saved.
    Save,
    /// The stop condition is asked.
    Stop,
    /// The limit is crossed.
    Exceeded(u32),
    /// The structured answer is checked.
    Checking,
    /// It did not fit: the model is to be told.
    Repair(Vec<Violation>),
    /// The turn is whole.
    Completing(Arc<Turn>),
    /// Something went wrong.
    Failing(SavedError),
    /// The end.
    Done(Arc<Turn>),
    /// The other end.
    Failed(SavedError),
}

/// A tool round under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Round {
    /// How each call stands, in the order of the calls.
    pub(crate) slots: Vec<CallState>,
    /// A result came in that has not been offered for saving.
    pub(crate) unsaved: bool,
    /// Why the run ends once all have settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<SavedError>,
    /// The tool of each call. Not saved: it follows from names and definitions.
    #[serde(skip)]
    pub(crate) tools: Option<Arc<[Option<usize>]>>,
}

impl Round {
    /// A round in which nothing has answered.
    pub(crate) fn new(message: &Message, definitions: &[ToolDefinition]) -> Self {
        let slots = message.tool_calls().iter().map(|_| CallState::Waiting).collect();
        let mut round = Self { slots, unsaved: false, failure: None, tools: None };
        round.find_tools(message, definitions);
        round
    }

    /// Looks up the tool of each call by its exact name.
    pub(crate) fn find_tools(&mut self, message: &Message, definitions: &[ToolDefinition]) {
        let place = |name: &str| definitions.iter().position(|definition| definition.name == name);
        self.tools = Some(message.tool_calls().iter().map(|call| place(&call.tool_name)).collect());
    }

    /// Places of the calls that are to be made, or refused, now.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.is_open()).map(|(position, _)| position).collect()
    }

    /// The calls that are to be made and have begun before.
    pub(crate) fn begun(&self) -> Vec<(usize, CallState)> {
        let slots = self.slots.iter().enumerate();
        let begun = slots.filter(|(_, slot)| matches!(slot, CallState::Decided(_) | CallState::Returned(_)));
        begun.map(|(position, slot)| (position, slot.clone())).collect()
    }

    /// Whether calls are to be made, or refused, now.
    pub(crate) fn is_running(&self) -> bool {
        self.slots.iter().any(CallState::is_open)
    }

    /// Whether every slot is of its call. What runs on approval must be what the model asked for.
    fn fits(&self, message: &Message) -> bool {
        let calls = message.tool_calls();
        let of_call = |(slot, call): (&CallState, &ToolCall)| match slot {
            CallState::Answered(result) => result.tool_call_id == call.tool_call_id,
            CallState::AwaitingApproval(asked)
            | CallState::Decided(ApprovalDecision { call: asked, .. })
            | CallState::Returned(ToolReturn { call: asked, .. }) => {
                asked.tool_call_id == call.tool_call_id && asked.tool_name == call.tool_name
            }
            CallState::Waiting | CallState::Failed => true,
        };
        !calls.is_empty() && calls.len() == self.slots.len() && self.slots.iter().zip(calls).all(of_call)
    }

    /// The results in the order of the calls; a call without one is answered by `missing`.
    pub(crate) fn results(self, message: &Message, missing: &str) -> Vec<ToolResult> {
        let slots = self.slots.into_iter().zip(message.tool_calls());
        slots
            .map(|(slot, call)| match slot {
                CallState::Answered(result) => result,
                _ => ToolResult::error(&*call.tool_call_id, missing),
            })
            .collect()
    }
}

/// All that changes while an agent runs. Cloning it shares the messages: a snapshot costs a few counters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    version: u32,
    pub(crate) strategy: StrategyState,
    /// The step that runs, from 1; 0 before the first.
    pub(crate) step: u32,
    /// Its id.
    pub(crate) step_id: Arc<str>,
    pub(crate) collected: Collected,
    /// Where the step began.
    pub(crate) mark: Mark,
    pub(crate) metadata: Arc<RawObject>,
    pub(crate) phase: Phase,
    /// `on_error` has been asked: a second failure is final.
    #[serde(rename = "askedRecovery", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) recovery_requested: bool,
    /// The model was asked to repair its answer: a second one that does not fit is final.
    #[serde(rename = "askedRepair", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repair_requested: bool,
}

impl RunState {
    /// The version of the saved form.
    pub const VERSION: u32 = 1;

    /// The state of a run that has not begun and starts with one message.
    pub fn new(strategy: &Strategy, input: Arc<Message>, metadata: Arc<RawObject>) -> Self {
        Self::of_messages(strategy, [input], metadata)
    }

    /// The state of a run that has not begun. Without input the model goes on from the history.
    pub fn of_messages(
        strategy: &Strategy,
        inputs: impl IntoIterator<Item = Arc<Message>>,
        metadata: Arc<RawObject>,
    ) -> Self {
        Self {
            version: Self::VERSION,
            strategy: strategy.start(),
            step: 0,
            step_id: Arc::from(""),
            collected: Collected { messages: inputs.into_iter().collect(), ..Collected::default() },
            // The first step's turn starts with the input.
            mark: Mark::default(),
            metadata,
            phase: match strategy {
                // The plan comes before the first step.
                Strategy::Plan(_) => Phase::Prompt,
                Strategy::Custom(_) => Phase::Execute,
                Strategy::Loop(_) | Strategy::React(_) => Phase::StepId,
            },
            recovery_requested: false,
            repair_requested: false,
        }
    }

    /// Whether the run has ended, or is failing: there is nothing to go on with.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Failing(_) | Phase::Failed(_) | Phase::Done(_))
    }

    /// The record of the tool that finished last.
    pub(crate) fn last_execution(&self) -> Option<&ToolExecution> {
        self.collected.executions.last().map(AsRef::as_ref)
    }

    /// The step that runs, from 1; 0 before the first.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// The input, then everything new, in order.
    pub const fn messages(&self) -> &History {
        &self.collected.messages
    }

    /// Whether its strategy has the model plan.
    pub(crate) const fn makes_plans(&self) -> bool {
        matches!(self.strategy, StrategyState::Plan(_))
    }

    /// What the model thought last; empty before it has.
    pub(crate) fn last_thought(&self) -> &str {
        self.collected.reasoning.last().map_or("", String::as_str)
    }

    /// What hooks and stop conditions see (UAP-1.0 §5.1).
    pub fn execution_state(&self) -> ExecutionState {
        let moves = self.strategy.moves();
        ExecutionState {
            step: self.step,
            messages: self.collected.messages.clone(),
            metadata: Arc::clone(&self.metadata),
            reasoning: moves.calls_phase_hooks().then(|| self.collected.reasoning.clone()),
            plan: moves.plan().cloned(),
            extra: Extra::new(),
        }
    }

    /// The state without what the run has brought, but for the structured answer.
    pub(crate) fn without_collected(&self) -> Self {
        let (data, ending) = (self.collected.data.clone(), self.collected.ending);
        Self { collected: Collected { data, ending, ..Collected::default() }, ..self.clone() }
    }

    /// Prepares a state to go on after a failure: calls that ended the run are to be made again, those that have
    /// answered are not.
    pub(crate) fn retry(&mut self) {
        if let Phase::Tools(round) = &mut self.phase {
            let failed = round.slots.iter_mut().filter(|slot| matches!(slot, CallState::Failed));
            failed.for_each(|slot| *slot = CallState::Waiting);
            round.failure = None;
        }
    }

    /// Checks a state that was read, so that the machine need not.
    pub(crate) fn check(&self) -> Result<(), StateError> {
        if self.version != Self::VERSION {
            return Err(StateError::Version { found: self.version });
        }
        if !self.collected.holds(self.mark) {
            return Err(StateError::Contradiction("its step begins after its end"));
        }
        if !self.collected.places_ephemeral() {
            return Err(StateError::Contradiction("what the model alone is told has no place in it"));
        }
        let calls = self.collected.last().map_or(0, |message| message.tool_calls().len());
        match &self.phase {
            Phase::Act if calls == 0 => Err(StateError::Contradiction("it runs tools that nobody calls")),
            Phase::Tools(round) | Phase::Results(round)
                if !self.collected.last().is_some_and(|message| round.fits(message)) =>
            {
                Err(StateError::Contradiction("its tool round does not match its last answer"))
            }
            Phase::Observe
                if !matches!(self.collected.last().map(|m| &m.body), Some(Body::ToolResult { .. })) =>
            {
                Err(StateError::Contradiction("it observes without results"))
            }
            _ => Ok(()),
        }
    }
}

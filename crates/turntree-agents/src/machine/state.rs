//! The state of a run: all data that changes while it runs.
//!
//! Can be serialized at every boundary. Constant data (history, system prompt, tools, structure) is in
//! [`Setup`](crate::machine::Setup) and is provided again on restore, so that the size of a saved state does not depend on
//! the history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::json::SavedError;
use crate::machine::round::Round;
use crate::machine::run_totals::{Mark, ResponseStatus, RunTotals};
use crate::machine::strategies::state::StrategyState;
use crate::types::execution_state::ExecutionState;
use crate::types::structure::Violation;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message, MessageKind, ToolExecution, Turn};

/// Why a saved state cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The state was written by another version.
    #[error("the state of a run has version {found}; this version reads {}", RunState::VERSION)]
    Version {
        /// The version of the state.
        found: u32,
    },
    /// Parts of the state contradict each other.
    #[error("the saved state of a run is inconsistent: {0}; restore it from an unmodified copy")]
    Contradiction(&'static str),
}

/// The phase of a run: the action that the machine waits for. Each phase accepts one kind of action result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// The custom strategy executes the run.
    Execute,
    /// The custom strategy has returned this turn. The state is saved.
    Executed(Arc<Turn>),
    /// The next step needs an id.
    #[default]
    StepId,
    /// Hooks are notified that a step begins.
    StepStart,
    /// An ephemeral message for the model needs an id.
    Prompt,
    /// The model is called.
    Model,
    /// The model has reasoned. The state is saved.
    Reasoned,
    /// Hooks are notified of the reasoning.
    Reason,
    /// The model has made a plan. The state is saved.
    Planned,
    /// The model has responded with tool calls. The state is saved.
    Answered,
    /// Hooks are notified of the tool calls.
    Act,
    /// The tools run.
    Tools(Round),
    /// The message with the tool results needs an id.
    Results(Round),
    /// Hooks are notified of the tool results.
    Observe,
    /// Hooks are notified that a step has ended.
    StepEnd,
    /// The state is saved after a step.
    Save,
    /// The stop condition is evaluated.
    Stop,
    /// Hooks are notified that the limit of tool rounds is exceeded. Contains the limit.
    Exceeded(u32),
    /// The structured output is validated.
    Checking,
    /// The output has violations. The message that reports them to the model needs an id.
    Repair(Vec<Violation>),
    /// The output was refused for this reason. The message that reports it to the model needs an id.
    Refused(String),
    /// Hooks are notified that the turn is complete.
    Completing(Arc<Turn>),
    /// The run is failing while tool calls have no results. The message with their results in the partial turn needs an
    /// id.
    Closing(Box<OpenRound>),
    /// The run is failing. `on_error` may return a turn.
    Failing(SavedError),
    /// The run has completed with this turn.
    Done(Arc<Turn>),
    /// The run has failed with this error.
    Failed(SavedError),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The tool round of a run that is failing, and the error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenRound {
    pub(crate) error: SavedError,
    /// `None` if no call has started.
    pub(crate) round: Option<Round>,
}

/// The part of a run that one agent executes after a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leg {
    /// The name of the agent.
    pub(crate) agent: Arc<str>,
    /// The number of messages of the run before it.
    pub(crate) start: usize,
}

/// All data that changes while an agent runs. Clones share the messages, so the cost of a clone does not depend on their
/// number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    version: u32,
    pub(crate) strategy: StrategyState,
    /// The number of the current step, from 1; 0 before the first step.
    pub(crate) step: u32,
    /// The id of the current step.
    pub(crate) step_id: Arc<str>,
    pub(crate) collected: RunTotals,
    /// The lengths of the collected lists when the current step began.
    pub(crate) mark: Mark,
    pub(crate) metadata: Arc<RawObject>,
    pub(crate) phase: Phase,
    /// True if `on_error` was called: the next failure is final.
    #[serde(rename = "askedRecovery", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) recovery_requested: bool,
    /// True if the model was asked to repair its output: the next mismatch is final.
    #[serde(rename = "askedRepair", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repair_requested: bool,
    /// How often the model was asked again for output that was refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) output_retries: u32,
    /// The part of the run that is executed, if another agent has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leg: Option<Leg>,
    /// The names of the idempotent tools, if the agent of a session does not know them after a crash: toolsets have given
    /// them, or another agent has taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) idempotent_tools: Vec<Arc<str>>,
    /// The names of the tools whose calls start only when they are approved, as for the idempotent ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) guarded_tools: Vec<Arc<str>>,
    /// The parts of the run that a strategy of the application has started, in order, if one of them waits for approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Self>,
}

impl RunState {
    /// The version of the serialized form.
    pub const VERSION: u32 = 1;

    /// The state of a run that has not begun.
    pub(crate) fn start(
        strategy: StrategyState,
        phase: Phase,
        inputs: impl IntoIterator<Item = Arc<Message>>,
        metadata: Arc<RawObject>,
    ) -> Self {
        Self {
            version: Self::VERSION,
            strategy,
            step: 0,
            step_id: Arc::from(""),
            collected: RunTotals { messages: inputs.into_iter().collect(), ..RunTotals::default() },
            // The turn of the first step starts with the input.
            mark: Mark::default(),
            metadata,
            phase,
            recovery_requested: false,
            repair_requested: false,
            output_retries: 0,
            leg: None,
            idempotent_tools: Vec::new(),
            guarded_tools: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// How often the model was asked again for output that was refused. States of older versions have a flag only.
    pub(crate) fn used_retries(&self) -> u32 {
        self.output_retries.max(u32::from(self.repair_requested))
    }

    /// True if the run has ended or is failing.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closing(_) | Phase::Failing(_) | Phase::Failed(_) | Phase::Done(_))
    }

    /// The input of the run while a strategy of the application executes it.
    pub(crate) fn input_of_strategy(&self) -> Option<&Arc<Message>> {
        self.collected.last().filter(|_| matches!(self.phase, Phase::Execute))
    }

    /// The record of the tool that finished last.
    pub(crate) fn last_execution(&self) -> Option<&ToolExecution> {
        self.collected.executions.last().map(AsRef::as_ref)
    }

    /// The number of the current step, from 1; 0 before the first step.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// The input, then all new messages, in order.
    pub const fn messages(&self) -> &History {
        &self.collected.messages
    }

    /// True if the strategy is `plan`.
    pub(crate) const fn makes_plans(&self) -> bool {
        matches!(self.strategy, StrategyState::Plan(_))
    }

    /// The last reasoning of the model; empty if there is none.
    pub(crate) fn last_thought(&self) -> &str {
        self.collected.reasoning.last().map_or("", String::as_str)
    }

    /// The state as hooks and stop conditions receive it.
    ///
    /// Spec: UAP-1.0 §5.1
    pub fn execution_state(&self) -> ExecutionState {
        let policy = self.strategy.policy();
        ExecutionState {
            step: self.step,
            messages: self.collected.messages.clone(),
            metadata: Arc::clone(&self.metadata),
            reasoning: policy.calls_phase_hooks().then(|| self.collected.reasoning.clone()),
            plan: policy.plan().cloned(),
            extra: Extra::new(),
        }
    }

    /// The state without collected data, except for the output.
    pub(crate) fn without_collected(&self) -> Self {
        let (data, status) = (self.collected.data.clone(), self.collected.status);
        Self { collected: RunTotals { data, status, ..RunTotals::default() }, ..self.clone() }
    }

    /// The state without the last response, which does not fit the structure: the model is asked again in a new step.
    ///
    /// Spec: decision A109
    pub(crate) fn without_invalid_response(&self) -> Self {
        let mut state = self.clone();
        let collected = &mut state.collected;
        if collected.last().is_some_and(|last| last.kind() == MessageKind::Assistant) {
            collected.messages.pop_back();
        }
        (collected.data, collected.status) = (None, ResponseStatus::default());
        state.phase = Phase::StepId;
        state
    }

    /// Prepares the state to resume after a failure: failed tool calls are made again, finished ones are not.
    pub(crate) fn retry(&mut self) {
        if let Phase::Tools(round) = &mut self.phase {
            round.retry();
        }
        if let StrategyState::Custom(custom) = &mut self.strategy {
            custom.waits = false;
        }
        self.parts.iter_mut().for_each(Self::retry);
    }

    /// Checks that a deserialized state is consistent. The machine relies on it.
    pub(crate) fn check(&self) -> Result<(), StateError> {
        if self.version != Self::VERSION {
            return Err(StateError::Version { found: self.version });
        }
        if !self.collected.contains_mark(self.mark) {
            return Err(StateError::Contradiction("its step begins after its end"));
        }
        if !self.collected.has_valid_ephemeral() {
            return Err(StateError::Contradiction("an ephemeral message is after its last message"));
        }
        let calls = self.collected.last().map_or(0, |message| message.tool_calls().len());
        match &self.phase {
            Phase::Act if calls == 0 => {
                Err(StateError::Contradiction("it runs tools, but its last response has no tool calls"))
            }
            Phase::Tools(round) | Phase::Results(round)
                if !self.collected.last().is_some_and(|message| round.matches(message)) =>
            {
                Err(StateError::Contradiction("its tool round does not match its last answer"))
            }
            Phase::Observe
                if !matches!(self.collected.last().map(|m| &m.body), Some(Body::ToolResult { .. })) =>
            {
                Err(StateError::Contradiction("it observes, but its last message has no tool results"))
            }
            _ => Ok(()),
        }
    }
}

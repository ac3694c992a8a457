//! The state of a run: all data that changes while it runs.
//!
//! Can be serialized at every boundary. Constant data (history, system prompt, tools, structure) is in
//! [`Setup`](crate::machine::Setup) and is provided again on restore, so that the size of a saved state does not depend on
//! the history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::json::SavedError;
use crate::machine::round::Round;
use crate::machine::run_totals::{Mark, RunTotals};
use crate::machine::strategies::state::StrategyState;
use crate::types::action::CallState;
use crate::types::execution_state::ExecutionState;
use crate::types::structure::Violation;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Body, Message, ToolExecution, Turn};

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

/// The phase of a run. Each phase accepts one kind of action result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// A strategy of the application performs the run.
    Execute,
    /// The strategy of the application returned this turn.
    Executed(Arc<Turn>),
    /// A step needs an id.
    #[default]
    StepId,
    /// A step begins.
    StepStart,
    /// The model receives an ephemeral message.
    Prompt,
    /// The model is called.
    Model,
    /// It has thought.
    Reasoned,
    /// Hooks are notified of the reasoning.
    Reason,
    /// It has planned.
    Planned,
    /// The model has responded with tool calls.
    Answered,
    /// Hooks are notified of the tool calls.
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
    /// The stop condition is evaluated.
    Stop,
    /// The limit is crossed.
    Exceeded(u32),
    /// The structured answer is checked.
    Checking,
    /// The output does not match: the model receives the violations.
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
    pub(crate) collected: RunTotals,
    /// Where the step began.
    pub(crate) mark: Mark,
    pub(crate) metadata: Arc<RawObject>,
    pub(crate) phase: Phase,
    /// True if `on_error` was called: the next failure is final.
    #[serde(rename = "askedRecovery", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) recovery_requested: bool,
    /// True if the model was asked to repair its output: the next mismatch is final.
    #[serde(rename = "askedRepair", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repair_requested: bool,
}

impl RunState {
    /// The version of the saved form.
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
        }
    }

    /// True if the run has ended or is failing.
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

    /// The last reasoning of the model; empty if there is none.
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

    /// The state without collected data, except for the output.
    pub(crate) fn without_collected(&self) -> Self {
        let (data, ending) = (self.collected.data.clone(), self.collected.ending);
        Self { collected: RunTotals { data, ending, ..RunTotals::default() }, ..self.clone() }
    }

    /// Prepares a state to resume after a failure: calls that ended the run are to be made again, those that have
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
        if !self.collected.contains_mark(self.mark) {
            return Err(StateError::Contradiction("its step begins after its end"));
        }
        if !self.collected.places_ephemeral() {
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

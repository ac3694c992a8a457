//! What a machine asks of its driver ([`Action`]), and what the driver brings back ([`ActionResult`]). Plain data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::approval::ApprovalDecision;
use crate::types::strategy_outcome::StrategyOutcome;
use crate::types::structure::Violation;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::fold::Folded;
use turntree_core::message::{Message, ToolCall, ToolExecution, Turn};
use turntree_core::time::Timestamp;
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// A fresh id and the present time: what a machine cannot make itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// A UUIDv4.
    pub id: String,
    /// Now.
    pub at: Timestamp,
}

/// What has to be done before the run can go on. The comment names the reply.
///
/// Asking does not change the machine: until the reply is fed, [`super::Machine::next`] gives the same action again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Action {
    /// Give a fresh id and the time: [`ActionResult::Stamp`].
    Stamp,
    /// Call the model: [`ActionResult::Answer`].
    CallModel(ModelRequest),
    /// Have the application's strategy perform the run: [`ActionResult::Executed`], or [`ActionResult::Failed`].
    Execute,
    /// Run tools, all at once: one [`ActionResult::Tool`] or [`ActionResult::ApprovalNeeded`] a call, in any order.
    RunTools(ToolRound),
    /// Tell hooks and listeners where the run is: [`ActionResult::Continue`], or [`ActionResult::Failed`] when a hook raised.
    Notify(Notification),
    /// Ask the stop condition: [`ActionResult::Stop`], or [`ActionResult::Failed`].
    EvaluateStopCondition,
    /// Check the structured answer: [`ActionResult::Checked`], or [`ActionResult::Failed`].
    CheckAnswer(RawJson),
    /// Save the state, where somebody wants it saved: [`ActionResult::Continue`], or [`ActionResult::Failed`].
    Checkpoint(Boundary),
    /// Nothing can be done before somebody has decided about these calls: stop here, and drive the state on after that.
    AwaitApproval(Vec<Arc<ToolCall>>),
    /// Something went wrong; ask `on_error` whether it has a turn instead: [`ActionResult::Recovery`], or [`ActionResult::Failed`].
    RequestRecovery(UppError),
    /// The run is over.
    Done(Arc<Turn>),
    /// The run has failed. What it had brought is in [`super::partial_turn`].
    Failed(UppError),
}

/// The tools of one answer, some of which may have answered already.
#[derive(Debug, Clone)]
pub struct ToolRound {
    /// The answer that calls them.
    pub message: Arc<Message>,
    /// For each call in order: the place of its tool among the definitions, `None` where there is no such tool.
    pub tools: Arc<[Option<usize>]>,
    /// The calls that have no result yet, by their place in the answer.
    pub waiting: Vec<usize>,
    /// Those of them that have begun: what was decided about a call, or what its tool gave back.
    pub(crate) begun: Vec<(usize, CallState)>,
}

impl ToolRound {
    /// A call of the round.
    pub fn call(&self, position: usize) -> Option<&ToolCall> {
        self.message.tool_calls().get(position)
    }

    /// How far a call has come, where it has begun.
    pub(crate) fn begun(&self, position: usize) -> Option<&CallState> {
        self.begun.iter().find(|(place, _)| *place == position).map(|(_, slot)| slot)
    }
}

/// A place in a run that hooks and listeners hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notification {
    /// A step begins: event `step_start`, hook `on_step_start`.
    StepStart,
    /// The model has thought: event `reasoning`, hook `on_reason`.
    Reason,
    /// The model wants tools: event `action`, and hook `on_act` where the strategy has that phase.
    Act {
        /// Whether the strategy has the phase.
        hook: bool,
    },
    /// The tools have answered: event `observation`, and hook `on_observe` where the strategy has that phase.
    Observe {
        /// Whether the strategy has the phase.
        hook: bool,
    },
    /// A step has ended: event `step_end`, hook `on_step_end`.
    StepEnd,
    /// The limit of tool rounds is crossed: hook `on_max_iterations`.
    MaxIterations(u32),
    /// The turn is whole: hook `on_complete`.
    Complete,
}

/// A place where saving the state spares work after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// There is a plan, and no step of it has begun.
    Planned,
    /// A model has answered, and more is to come in its step: the call was paid.
    Answered,
    /// A tool has answered, others may not have.
    ToolFinished,
    /// A step has ended: the checkpoint of UAP-1.0 §6.
    StepEnded,
}

/// What a tool gave back, before the hooks after the call have heard of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturn {
    /// The call, with the arguments that the tool got.
    pub call: Arc<ToolCall>,
    /// What it gave back; the words of its failure where it failed.
    pub result: RawJson,
    /// The type of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How long it took, in milliseconds.
    pub duration: u64,
    /// Whether it was approved, where somebody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// What became of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The record for the turn.
    pub execution: ToolExecution,
    /// What the model is told, where that is not the record's result.
    pub told: Option<RawJson>,
}

impl ToolOutcome {
    /// What the model is told.
    pub fn told(&self) -> &RawJson {
        self.told.as_ref().unwrap_or(&self.execution.result)
    }
}

/// What a driver brings back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ActionResult {
    /// To [`Action::Stamp`].
    Stamp(Stamp),
    /// To [`Action::CallModel`].
    Answer(Result<ModelResponse, UppError>),
    /// To [`Action::RunTools`], once a call. An error ends the run after the other calls have settled.
    Tool {
        /// The call's place in the answer.
        position: usize,
        /// What became of it.
        outcome: Result<ToolOutcome, UppError>,
    },
    /// To [`Action::RunTools`], before [`ActionResult::Tool`] where hooks come in between: the tool has given back something and
    /// is not to be called again.
    Returned {
        /// The call's place in the answer.
        position: usize,
        /// What it gave back.
        returned: ToolReturn,
    },
    /// To [`Action::RunTools`]: somebody has to decide about a call first.
    ApprovalNeeded {
        /// The call's place in the answer.
        position: usize,
        /// The call, with the arguments that the tool would get.
        call: Arc<ToolCall>,
    },
    /// To [`Action::Execute`].
    Executed(Box<StrategyOutcome>),
    /// Done; nothing to say.
    Continue,
    /// To [`Action::EvaluateStopCondition`]: whether to stop.
    Stop(bool),
    /// To [`Action::CheckAnswer`]: the rules that it breaks, none when it fits.
    Checked(Vec<Violation>),
    /// To [`Action::RequestRecovery`]: the turn to complete with.
    Recovery(Option<Arc<Turn>>),
    /// A hook or a checkpoint failed.
    Failed(UppError),
    /// Welcome at any time: the application changed the run's metadata. Answers no action.
    Metadata(Arc<RawObject>),
    /// Welcome at any time: the run is to end with what it has (UAP-1.0 §12.5).
    Aborted(Box<Abort>),
}

/// What an aborted run still needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Abort {
    /// What had arrived of the answer that was under way.
    pub partial: Folded,
    /// For the message that answers calls nobody answered.
    pub results: Stamp,
    /// For the message that holds what had arrived.
    pub response: Stamp,
}

/// How a slot of a tool round stands; part of a run's serialized state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CallState {
    /// No result yet.
    Waiting,
    /// Somebody has to decide about the call, which has the arguments that the tool would get.
    #[serde(rename = "asked")]
    AwaitingApproval(Arc<ToolCall>),
    /// Somebody has decided; that is not carried out yet.
    Decided(ApprovalDecision),
    /// The tool has given back something that the hooks after the call have to hear of.
    Returned(ToolReturn),
    /// What the model is told. The record is among the run's executions.
    Answered(turntree_core::message::ToolResult),
    /// The call ended the run.
    Failed,
}

impl CallState {
    /// Whether something is to be done before there is a result.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Waiting | Self::Decided(_) | Self::Returned(_))
    }
}

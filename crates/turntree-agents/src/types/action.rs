//! The actions that a machine requests from its driver ([`Action`]) and their results ([`ActionResult`]). Plain data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::approval::ApprovalDecision;
use crate::types::resolution::ResolvedCall;
use crate::types::strategy_outcome::StrategyOutcome;
use crate::types::structure::Violation;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::fold::Folded;
use turntree_core::message::{Message, ToolCall, ToolExecution, Turn};
use turntree_core::time::Timestamp;
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// A new id and the current time. The machine has no source of either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// A UUIDv4.
    pub id: String,
    /// The current time.
    pub at: Timestamp,
}

/// An action for the driver. The documentation of each variant names the result to feed.
///
/// Requesting an action does not change the machine: [`Machine::next`](crate::machine::Machine::next) returns the same
/// action until its result is fed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Action {
    /// Provide a new id and the time: [`ActionResult::Stamp`].
    Stamp,
    /// Call the model: [`ActionResult::Answer`].
    CallModel(ModelRequest),
    /// Let the custom strategy execute the run: [`ActionResult::Executed`] or [`ActionResult::Failed`].
    Execute,
    /// Run tools concurrently: for each call one [`ActionResult::Tool`] or [`ActionResult::ApprovalNeeded`], in any
    /// order.
    RunTools(ToolRound),
    /// Notify hooks and the stream's consumer: [`ActionResult::Continue`], or [`ActionResult::Failed`] if a hook
    /// raised.
    Notify(Notification),
    /// Evaluate the stop condition: [`ActionResult::Stop`] or [`ActionResult::Failed`].
    EvaluateStopCondition,
    /// Validate the structured output: [`ActionResult::Checked`] or [`ActionResult::Failed`].
    CheckAnswer(RawJson),
    /// Save the state if the host or the session saves at this boundary: [`ActionResult::Continue`] or
    /// [`ActionResult::Failed`].
    Checkpoint(Boundary),
    /// Calls wait for approval, and all other calls have finished. Stop the run; run the state again after the decisions.
    AwaitApproval(Vec<Arc<ToolCall>>),
    /// The run failed. Ask `on_error` for a turn to complete with: [`ActionResult::Recovery`] or
    /// [`ActionResult::Failed`].
    RequestRecovery(UppError),
    /// The run has completed.
    Done(Arc<Turn>),
    /// The run has failed. [`partial_turn`](crate::types::partial_turn) returns its partial turn.
    Failed(UppError),
}

/// The tool calls of one response. Some of them may have results already.
#[derive(Debug, Clone)]
pub struct ToolRound {
    /// The response with the calls.
    pub message: Arc<Message>,
    /// For each call in order: the index of its tool among the definitions, or `None` for an unknown tool.
    pub tools: Arc<[Option<usize>]>,
    /// The indexes of the calls without a result.
    pub waiting: Vec<usize>,
    /// Identifies the round among the rounds of all runs. The same when the round is resumed, in any process.
    pub id: Arc<str>,
    /// The calls of `waiting` that have started: their decision, their resolution or their tool's return value.
    pub(crate) begun: Vec<(usize, CallState)>,
}

impl ToolRound {
    /// The call at an index.
    pub fn call(&self, position: usize) -> Option<&ToolCall> {
        self.message.tool_calls().get(position)
    }

    /// The state of a call that has started.
    pub(crate) fn begun(&self, position: usize) -> Option<&CallState> {
        self.begun.iter().find(|(place, _)| *place == position).map(|(_, slot)| slot)
    }
}

/// An event in a run that hooks and the stream's consumer are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notification {
    /// A step begins: event `step_start`, hook `on_step_start`.
    StepStart,
    /// The model has reasoned: event `reasoning`, hook `on_reason`.
    Reason,
    /// The model calls tools: event `action`, and hook `on_act` if the strategy has that phase.
    Act {
        /// True if the strategy has the phase.
        hook: bool,
    },
    /// The tools have finished: event `observation`, and hook `on_observe` if the strategy has that phase.
    Observe {
        /// True if the strategy has the phase.
        hook: bool,
    },
    /// A step has ended: event `step_end`, hook `on_step_end`.
    StepEnd,
    /// The limit of tool rounds is exceeded: hook `on_max_iterations`.
    MaxIterations(u32),
    /// The turn is complete: hook `on_complete`.
    Complete,
}

/// A point in a run where its state can be saved, so that completed work is not repeated after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// A plan exists; none of its steps has started.
    Planned,
    /// The model has responded and the step continues. The response is not requested again.
    Answered,
    /// One tool of a round has finished.
    ToolFinished,
    /// A step has ended: the checkpoint of UAP-1.0 §6.
    StepEnded,
}

/// The return value of a tool before the hooks after the call have run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReturn {
    /// The call, with the arguments that the tool received.
    pub call: Arc<ToolCall>,
    /// The return value, or the message of the failure.
    pub result: RawJson,
    /// The type of the failure, for example `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The duration in milliseconds.
    pub duration: u64,
    /// True if the call was approved, false if it was denied, `None` if no approval was required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The record of the call for the turn.
    pub execution: ToolExecution,
    /// The result that the model receives, if it differs from the record.
    pub model_result: Option<RawJson>,
    /// If the tool has asked the model to call it again: how often in succession it may.
    pub retries: Option<u32>,
}

impl ToolOutcome {
    /// The result that the model receives.
    pub fn model_result(&self) -> &RawJson {
        self.model_result.as_ref().unwrap_or(&self.execution.result)
    }
}

/// The result of an [`Action`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ActionResult {
    /// To [`Action::Stamp`].
    Stamp(Stamp),
    /// To [`Action::CallModel`].
    Answer(Result<ModelResponse, UppError>),
    /// To [`Action::RunTools`], once for each call. An error ends the run after the other calls have finished.
    Tool {
        /// The index of the call in the response.
        position: usize,
        /// The result of the call.
        outcome: Result<ToolOutcome, UppError>,
    },
    /// To [`Action::RunTools`], before [`ActionResult::Tool`], if hooks run after the call: the tool has returned and
    /// is not called again.
    Returned {
        /// The index of the call in the response.
        position: usize,
        /// The return value.
        returned: ToolReturn,
    },
    /// To [`Action::RunTools`], before [`ActionResult::Tool`]: the approval handler has approved the call, which starts
    /// now.
    Granted {
        /// The index of the call in the response.
        position: usize,
        /// The call with the arguments that the approval handler has replaced; `None` if it has not.
        replaced: Option<Arc<ToolCall>>,
    },
    /// To [`Action::RunTools`]: the call needs approval first.
    ApprovalNeeded {
        /// The index of the call in the response.
        position: usize,
        /// The call, with the arguments that the tool would receive.
        call: Arc<ToolCall>,
    },
    /// To [`Action::RunTools`]: the tool is a sub-agent, and calls of it need approval first.
    Suspended {
        /// The index of the call in the response.
        position: usize,
        /// The call.
        suspended: SuspendedCall,
    },
    /// To [`Action::Execute`].
    Executed(Box<StrategyOutcome>),
    /// The action is done and has no value.
    Continue,
    /// To [`Action::EvaluateStopCondition`]: true to stop.
    Stop(bool),
    /// To [`Action::CheckAnswer`]: the violated rules; empty for valid output.
    Checked(Vec<Violation>),
    /// To [`Action::CheckAnswer`]: the host refuses the output, for this reason.
    Refused(String),
    /// To [`Action::RequestRecovery`]: the turn to complete with.
    Recovery(Option<Arc<Turn>>),
    /// A hook or a checkpoint failed.
    Failed(UppError),
    /// Accepted at any time: the application changed the metadata of the run. Not the result of an action.
    Metadata(Arc<RawObject>),
    /// Accepted at any time: the run ends with its partial turn (UAP-1.0 §12.5). Not the result of an action.
    Aborted(Box<Abort>),
}

/// The data that the machine needs to end an aborted run.
#[derive(Debug, Clone, PartialEq)]
pub struct Abort {
    /// The part of the response that arrived before the abort.
    pub partial: Folded,
    /// Stamps the message with results for unanswered calls.
    pub results: Stamp,
    /// Stamps the message with the partial response.
    pub response: Stamp,
}

/// The call of a sub-agent that has stopped because calls of it, or of its own sub-agents, wait for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspendedCall {
    /// The call, with the arguments that the sub-agent has received.
    pub call: Arc<ToolCall>,
    /// True if the call of the sub-agent itself was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// The calls that wait for approval. Empty when the run is resumed: the sub-agent then continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Arc<ToolCall>>,
}

/// The state of one call of a tool round. Part of the serialized state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CallState {
    /// The call has no result.
    Waiting,
    /// The call waits for approval. Holds the arguments that the tool would receive.
    #[serde(rename = "asked")]
    AwaitingApproval(Arc<ToolCall>),
    /// The call is approved or denied; the decision has not been carried out.
    Decided(ApprovalDecision),
    /// The tool has returned; the hooks after the call have not run.
    Returned(ToolReturn),
    /// The call was in doubt and is resolved; the resolution has not been carried out.
    Resolved(ResolvedCall),
    /// The call of a sub-agent whose calls wait for approval.
    Suspended(SuspendedCall),
    /// The result that the model receives. The record is among the executions of the run.
    Answered(turntree_core::message::ToolResult),
    /// The call failed and ends the run.
    Failed,
}

impl CallState {
    /// The call, with the arguments that the tool receives or has received, if it has begun.
    pub(crate) const fn call(&self) -> Option<&Arc<ToolCall>> {
        match self {
            Self::AwaitingApproval(call)
            | Self::Decided(ApprovalDecision { call, .. })
            | Self::Returned(ToolReturn { call, .. })
            | Self::Resolved(ResolvedCall { call, .. })
            | Self::Suspended(SuspendedCall { call, .. }) => Some(call),
            Self::Waiting | Self::Answered(_) | Self::Failed => None,
        }
    }

    /// True if the driver still has work to do for the call.
    pub(crate) const fn is_open(&self) -> bool {
        match self {
            Self::Waiting | Self::Decided(_) | Self::Returned(_) | Self::Resolved(_) => true,
            Self::Suspended(call) => call.waits_for.is_empty(),
            Self::AwaitingApproval(_) | Self::Answered(_) | Self::Failed => false,
        }
    }
}

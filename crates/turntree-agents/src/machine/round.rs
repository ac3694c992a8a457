//! A tool round: the state of each tool call of one model response.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::json::SavedError;
use crate::types::action::{CallState, SuspendedCall, ToolReturn};
use crate::types::approval::ApprovalDecision;
use crate::types::resolution::ResolvedCall;
use turntree_core::message::{Message, ToolCall, ToolDefinition, ToolResult};

/// The state of a tool round.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Round {
    /// The state of each call, in order.
    pub(crate) slots: Vec<CallState>,
    /// True if a call has changed since the last save.
    pub(crate) unsaved: bool,
    /// The error that ends the run when all calls have finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<SavedError>,
    /// The indexes of the calls without a result that the approval handler has approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) granted: Vec<usize>,
    /// The index of each call's tool. Not serialized: names and definitions determine it.
    #[serde(skip)]
    pub(crate) tools: Option<Arc<[Option<usize>]>>,
}

impl Round {
    /// A round in which no call has started.
    pub(crate) fn new(message: &Message, definitions: &[ToolDefinition]) -> Self {
        let slots = message.tool_calls().iter().map(|_| CallState::Waiting).collect();
        let mut round = Self { slots, unsaved: false, failure: None, granted: Vec::new(), tools: None };
        round.find_tools(message, definitions);
        round
    }

    /// Looks up the tool of each call by its exact name.
    pub(crate) fn find_tools(&mut self, message: &Message, definitions: &[ToolDefinition]) {
        let place = |name: &str| definitions.iter().position(|definition| definition.name == name);
        self.tools = Some(message.tool_calls().iter().map(|call| place(&call.tool_name)).collect());
    }

    /// The indexes of the calls that the driver has to make, or to reject.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.is_open()).map(|(position, _)| position).collect()
    }

    /// The calls that have started and are not finished, with their indexes.
    pub(crate) fn begun(&self) -> Vec<(usize, CallState)> {
        let slots = self.slots.iter().enumerate();
        let has_begun = |slot: &CallState| {
            matches!(
                slot,
                CallState::Decided(_)
                    | CallState::Returned(_)
                    | CallState::Resolved(_)
                    | CallState::Suspended(_)
            )
        };
        let begun = slots.filter(|(_, slot)| has_begun(slot));
        begun.map(|(position, slot)| (position, slot.clone())).collect()
    }

    /// True if the driver has calls to make, or to reject.
    pub(crate) fn is_running(&self) -> bool {
        self.slots.iter().any(CallState::is_open)
    }

    /// True if every state belongs to its call: an approved call must be the call that the model made.
    pub(crate) fn matches(&self, message: &Message) -> bool {
        let calls = message.tool_calls();
        let of_call = |(slot, call): (&CallState, &ToolCall)| match slot {
            CallState::Answered(result) => result.tool_call_id == call.tool_call_id,
            CallState::AwaitingApproval(stored)
            | CallState::Decided(ApprovalDecision { call: stored, .. })
            | CallState::Returned(ToolReturn { call: stored, .. })
            | CallState::Resolved(ResolvedCall { call: stored, .. })
            | CallState::Suspended(SuspendedCall { call: stored, .. }) => {
                stored.tool_call_id == call.tool_call_id && stored.tool_name == call.tool_name
            }
            CallState::Waiting | CallState::Failed => true,
        };
        !calls.is_empty() && calls.len() == self.slots.len() && self.slots.iter().zip(calls).all(of_call)
    }

    /// The results in the order of the calls. `missing` is the error result of calls without one.
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

//! A tool round: the state of each tool call of one model response.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::machine::json::SavedError;
use crate::types::action::{CallState, ToolReturn};
use crate::types::approval::ApprovalDecision;
use turntree_core::message::{Message, ToolCall, ToolDefinition, ToolResult};

/// A tool round under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Round {
    /// The state of each call, in order.
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

    /// True if every state belongs to its call: an approved call must be the call that the model made.
    pub(crate) fn matches(&self, message: &Message) -> bool {
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

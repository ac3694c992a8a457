//! Tools that ask the model to call them again: the budget of a tool, and the marks of the refused calls.

use crate::machine::ending::{REFUSED, marked_with};
use crate::machine::machine::Machine;
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolExecution};
use turntree_upp::{ErrorCode, UppError};

/// The member of a record of a call that the tool has refused: the step.
const RETRY: &str = "modelRetry";

/// Marks the record of a call that the tool has refused.
pub(crate) fn mark(record: &mut ToolExecution, step: u32) {
    record.extra.insert(RETRY, RawJson::from_value(&step).unwrap_or_default());
}

fn step_of(record: &ToolExecution) -> Option<u32> {
    record.extra.get(RETRY)?.to().ok()
}

impl Machine {
    /// The error of a run in which a tool has asked for another call more often in succession than `allowed`. Several refused
    /// calls in one step count once, because the model could not know. The record of the last call is collected.
    pub(super) fn exceeded_retries(&self, allowed: u32) -> Option<UppError> {
        let last = self.state.collected.executions.last()?;
        let records = self.state.collected.executions.iter().rev();
        let of_tool = records.filter(|record| record.tool_name == last.tool_name);
        let mut steps: Vec<u32> = of_tool.map_while(|record| step_of(record)).collect();
        steps.dedup();
        if u32::try_from(steps.len()).unwrap_or(u32::MAX) <= allowed {
            return None;
        }
        let name = &last.tool_name;
        let reason = last.result.as_string().unwrap_or_default();
        let message = format!(
            "tool '{name}' asked the model to call it again {} times in succession, and {allowed} is the most: {reason}; \
             raise retries of the tool",
            steps.len()
        );
        Some(UppError::new(ErrorCode::InvalidResponse, &*self.setup.provider, message))
    }

    /// Marks the message with the results of a step: the ids of the calls that tools have refused.
    pub(super) fn marked_results(&self, message: Message) -> Message {
        let step = self.state.step;
        let records = self.state.collected.executions.iter().rev().take(message.results().len());
        let is_refused = |id: &str| {
            records.clone().any(|record| record.tool_call_id == id && step_of(record) == Some(step))
        };
        let ids = message.results().iter().map(|result| result.tool_call_id.as_str());
        let refused: Vec<&str> = ids.filter(|id| is_refused(id)).collect();
        if refused.is_empty() {
            return message;
        }
        let refused = RawJson::from_value(&refused).unwrap_or_default();
        marked_with(message, "turntree", REFUSED, refused)
    }
}

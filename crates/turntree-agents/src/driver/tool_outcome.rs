//! The results of tool calls that have ended, and of those that are refused.

use crate::host::error::HostError;
use crate::types::action::ToolOutcome;
use crate::types::resolution::{Resolution, ResolvedCall};
use turntree_core::json::{Extra, RawJson};
use turntree_core::limits::Limits;
use turntree_core::message::fold::are_over_limits;
use turntree_core::message::{ToolCall, ToolExecution};

/// Refuses arguments whose text was kept because it exceeds a limit.
pub(super) fn check_limits(arguments: &RawJson) -> Result<(), HostError> {
    if !are_over_limits(arguments) {
        return Ok(());
    }
    let depth = Limits::PAYLOAD.depth;
    let rule = "Invalid arguments. They have more than";
    Err(HostError::invalid_arguments(format!(
        "{rule} {depth} levels of objects and arrays, or too many values"
    )))
}

/// Approval and duration of a call.
#[derive(Default, Clone, Copy)]
pub(super) struct ApprovalAndDuration {
    pub(super) approved: Option<bool>,
    pub(super) duration: u64,
}

impl ApprovalAndDuration {
    pub(super) fn outcome(self, call: &ToolCall, result: RawJson, is_error: bool) -> ToolOutcome {
        let execution = ToolExecution {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
            arguments: call.arguments.clone(),
            result,
            is_error,
            duration: self.duration,
            approved: self.approved,
            extra: Extra::new(),
        };
        ToolOutcome { execution, model_result: None, retries: None }
    }
}

/// An error result for a call whose tool is not called.
pub(super) fn rejected(call: &ToolCall, message: &str) -> ToolOutcome {
    ApprovalAndDuration::default().outcome(call, RawJson::from_str_value(message), true)
}

/// The result of a call that was in doubt. The state of a run that is resumed has no calls to retry: they are open again.
pub(super) fn outcome_of(ResolvedCall { call, approved, resolution }: &ResolvedCall) -> ToolOutcome {
    let (result, is_error) = match resolution {
        Resolution::Result(result) => (result.clone(), false),
        Resolution::Error(message) => (RawJson::from_str_value(message), true),
        Resolution::Retry => (RawJson::from_str_value("The call was not repeated"), true),
    };
    let record = ApprovalAndDuration { approved: approved.then_some(true), duration: 0 };
    record.outcome(call, result, is_error)
}

/// The result of a denied call. UPP-1.2 §10.4 defines its text; a reason, if there is one, replaces it.
pub(super) fn denied(call: &ToolCall, reason: Option<&str>) -> ToolOutcome {
    let record = ApprovalAndDuration { approved: Some(false), duration: 0 };
    if let Some(reason) = reason {
        return record.outcome(
            call,
            RawJson::from_str_value(&format!("Tool execution denied: {reason}")),
            true,
        );
    }
    let outcome = record.outcome(call, RawJson::from_str_value("Tool execution denied"), true);
    ToolOutcome {
        model_result: Some(RawJson::from_str_value("Tool execution denied by approval handler")),
        ..outcome
    }
}

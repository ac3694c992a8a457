//! Approval of tool calls: decisions, and the error of a run that waits for them.
//!
//! Spec: UPP-1.2 §10.4
//!
//! If an approval handler returns `Approval::Ask`, the call stays open in the state of the run, with the arguments
//! that the hooks before the call produced. When all other calls of the round have finished, the run stops with
//! [`ApprovalRequired`]. A decision is stored in the state, and the next drive carries it out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::types::failure::PartialTurn;
use turntree_core::message::ToolCall;
use turntree_upp::UppError;

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Call the tool.
    Approved,
    /// Do not call the tool.
    Denied {
        /// The reason that the model receives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A call with its decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecision {
    /// The call, with the approved arguments.
    pub call: Arc<ToolCall>,
    /// The decision.
    pub verdict: Verdict,
}

/// A call that waits for approval, and what tells it apart from all other calls.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingCall {
    /// Identifies the call among all calls of all runs: its idempotency key.
    pub key: Uuid,
    /// The call, with the arguments that the tool would receive.
    pub call: Arc<ToolCall>,
    /// True if another call of the session that waits, or whose decision has not been carried out, has the same id. Some
    /// models count the calls of a response, so that two sub-agents make calls with one id.
    pub shares_id: bool,
    /// The id under which a reader of the run's stream can tell the call apart: that of the call, or its key if the stream
    /// has shown another call with the same id, or shows one.
    pub shown_id: String,
}

/// A call of a run that waits for approval, or whose decision has not been carried out.
#[derive(Debug, Clone)]
pub(crate) struct GuardedCall {
    pub(crate) key: Uuid,
    pub(crate) call: Arc<ToolCall>,
    pub(crate) is_decided: bool,
}

/// A run stopped because calls wait for a decision of the application. The cause of the error that ended it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", self.words())]
pub struct ApprovalRequired {
    /// The calls in order, with the arguments that the tools would receive.
    pub calls: Vec<Arc<ToolCall>>,
    /// True if the calls are in doubt: their process ended, and they may have been executed.
    pub is_in_doubt: bool,
    /// The session that can resume the run. Without a session, the run cannot be resumed.
    pub session_id: Option<Arc<str>>,
}

impl ApprovalRequired {
    fn words(&self) -> String {
        if self.is_in_doubt {
            return format!(
                "calls were running when their process ended and may have been executed: {}; `resolve` each of them in \
                 the session, then `resume`",
                listed(&self.calls)
            );
        }
        let remedy = if self.session_id.is_some() {
            "`approve` or `deny` them in the session, then `resume`"
        } else {
            "only a session can resume such a run: run the agent in a session"
        };
        format!("calls wait for approval: {}; {remedy}", listed(&self.calls))
    }
}

/// Formats calls for messages: `pay (call_1), pay (call_2)`.
pub(crate) fn listed(calls: &[Arc<ToolCall>]) -> String {
    let names = calls.iter().map(|call| format!("{} ({})", call.tool_name, call.tool_call_id));
    names.collect::<Vec<_>>().join(", ")
}

/// The calls that the run behind this error waits for; `None` for any other error.
pub fn approval_required(error: &UppError) -> Option<&ApprovalRequired> {
    let cause = error.cause.as_deref()?;
    let partial = || cause.downcast_ref::<PartialTurn>()?.cause.as_deref()?.downcast_ref();
    cause.downcast_ref().or_else(partial)
}

/// The cause of the error of a run in which a function that decides about calls for the application has raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a function that decides about tool calls raised")]
pub(crate) struct ApproverRaised;

/// True if the run has ended because a function that decides about calls has raised, in it or in a sub-agent.
pub(crate) fn is_of_approver(error: &UppError) -> bool {
    let Some(cause) = error.cause.as_deref() else { return false };
    let partial = cause.downcast_ref::<PartialTurn>();
    let cause = partial.map_or(Some(cause as &(dyn std::error::Error + 'static)), |partial| {
        partial.cause.as_deref().map(|cause| cause as _)
    });
    cause.is_some_and(<dyn std::error::Error>::is::<ApproverRaised>)
}

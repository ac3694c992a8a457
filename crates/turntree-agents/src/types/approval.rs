//! Approval of tool calls: decisions, and the error of a run that waits for them.
//!
//! Spec: UPP-1.2 §10.4
//!
//! If an approval handler returns `Approval::Ask`, the call stays open in the state of the run, with the arguments
//! that the hooks before the call produced. When all other calls of the round have finished, the run stops with
//! [`ApprovalRequired`]. A decision is stored in the state, and the next drive carries it out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

/// Why a decision is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecidable {
    /// No call of the round has this id.
    Unknown,
    /// The call is decided already, or has a result.
    Decided,
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

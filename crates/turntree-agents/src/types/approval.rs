//! Calls that a person is asked about: how they wait, and what was decided. UPP-1.2 §10.4.
//!
//! An approval handler that answers [`Approval::Ask`](super::Approval::Ask) leaves the call open: its slot of the tool
//! round is *asked* and holds the call as the hooks before it left it. Once nothing else of the round runs, the run
//! stops with [`ApprovalRequired`]. A decision turns the slot into a *decided* one, which the next drive carries out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::failure::PartialTurn;
use turntree_core::message::ToolCall;
use turntree_upp::UppError;

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Call the tool.
    Approved,
    /// Do not, and tell the model why.
    Denied {
        /// What the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A call and what was decided about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecision {
    /// The call, with the arguments that were approved.
    pub call: Arc<ToolCall>,
    /// What was decided.
    pub verdict: Verdict,
}

/// Why a call cannot be decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecidable {
    /// No call of the round has this id.
    Unknown,
    /// Somebody decided before, or the call has been answered.
    Decided,
}

/// A run has stopped because calls wait for a decision; the cause of the error that ended it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", self.words())]
pub struct ApprovalRequired {
    /// The calls, in their order, with the arguments that the tools would get.
    pub calls: Vec<Arc<ToolCall>>,
    /// The session in which the run can go on; none where there is no session, and the run cannot go on.
    pub session_id: Option<Arc<str>>,
}

impl ApprovalRequired {
    fn words(&self) -> String {
        let remedy = if self.session_id.is_some() {
            "`approve` or `deny` them in the session, then `resume`"
        } else {
            "only a session can go on after that: run the agent in one"
        };
        format!("calls wait for approval: {}; {remedy}", listed(&self.calls))
    }
}

/// Calls as messages name them: `pay (call_1), pay (call_2)`.
pub(crate) fn listed(calls: &[Arc<ToolCall>]) -> String {
    let names = calls.iter().map(|call| format!("{} ({})", call.tool_name, call.tool_call_id));
    names.collect::<Vec<_>>().join(", ")
}

/// The calls that an error says a run waits for; `None` for any other error.
pub fn approval_required(error: &UppError) -> Option<&ApprovalRequired> {
    let cause = error.cause.as_deref()?;
    let partial = || cause.downcast_ref::<PartialTurn>()?.cause.as_deref()?.downcast_ref();
    cause.downcast_ref().or_else(partial)
}

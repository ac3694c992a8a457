//! The calls of the last response that have no result, and how the application resolves those that may have been
//! executed before their process died.
//!
//! Spec: decision A112

use std::sync::Arc;

use crate::machine::round::Round;
use crate::machine::state::{Phase, RunState};
use crate::types::action::CallState;
use crate::types::approval::{ApprovalDecision, Verdict};
use crate::types::resolution::{Resolution, ResolvedCall};
use turntree_core::message::{Message, ToolCall};

/// A call without a result that waits neither for an approval nor for its denial or resolution to be carried out.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    /// The index of the call in the response.
    pub(crate) position: usize,
    /// The call, with the approved arguments if a person has approved it.
    pub(crate) call: Arc<ToolCall>,
    /// True if the call is approved, by a person or by the approval handler.
    pub(crate) is_approved: bool,
    /// True if the call has ended with an error that ends the run.
    pub(crate) has_failed: bool,
}

impl RunState {
    /// The response whose calls have no results yet.
    pub(crate) fn open_response(&self) -> Option<&Arc<Message>> {
        match self.phase {
            Phase::Answered | Phase::Act | Phase::Tools(_) => self.collected.last(),
            _ => None,
        }
    }

    /// The open calls, in order. In the phases before the round none has started, but the state may be older than the
    /// calls: it is saved before they start.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        let Some(message) = self.open_response() else { return Vec::new() };
        let round = match &self.phase {
            Phase::Tools(round) => Some(round),
            _ => None,
        };
        let calls = message.tool_calls().iter().enumerate();
        calls.filter_map(|(position, call)| open_call(round, position, call)).collect()
    }

    /// Stores the resolution of the open call at `position`. Does nothing if that call is not open.
    pub(crate) fn resolve(&mut self, position: usize, resolution: Resolution) {
        let open = self.open_calls().into_iter().find(|open| open.position == position);
        let Some(OpenCall { call, is_approved, .. }) = open else { return };
        if let (Phase::Answered | Phase::Act, Some(message)) = (&self.phase, self.collected.last()) {
            // `Machine::new` looks the tools up.
            self.phase = Phase::Tools(Round::new(message, &[]));
        }
        if let Phase::Tools(Round { slots, .. }) = &mut self.phase
            && let Some(slot) = slots.get_mut(position)
        {
            *slot = CallState::Resolved(ResolvedCall { call, approved: is_approved, resolution });
        }
    }

    /// True if the application has decided on calls, and this has not been carried out.
    pub(crate) fn has_decisions(&self) -> bool {
        !self.decided_calls().is_empty() || !self.resolved_calls().is_empty()
    }

    /// The calls whose resolution has not been carried out, in order.
    pub(crate) fn resolved_calls(&self) -> Vec<Arc<ToolCall>> {
        let Phase::Tools(round) = &self.phase else { return Vec::new() };
        let resolved = round.slots.iter().filter_map(|slot| match slot {
            CallState::Resolved(resolved) => Some(Arc::clone(&resolved.call)),
            _ => None,
        });
        resolved.collect()
    }
}

impl Round {
    /// Prepares the round to resume: failed calls, and those that are resolved so, are made again.
    pub(crate) fn retry(&mut self) {
        for slot in &mut self.slots {
            match slot {
                CallState::Failed => *slot = CallState::Waiting,
                CallState::Suspended(suspended) => suspended.waits_for.clear(),
                CallState::Resolved(ResolvedCall { call, approved, resolution: Resolution::Retry }) => {
                    let (call, verdict) = (Arc::clone(call), Verdict::Approved);
                    *slot = if *approved {
                        CallState::Decided(ApprovalDecision { call, verdict })
                    } else {
                        CallState::Waiting
                    };
                }
                _ => {}
            }
        }
        self.failure = None;
        self.granted.clear();
    }
}

fn open_call(round: Option<&Round>, position: usize, call: &ToolCall) -> Option<OpenCall> {
    let granted = round.is_some_and(|round| round.granted.contains(&position));
    let slot = round.and_then(|round| round.slots.get(position)).unwrap_or(&CallState::Waiting);
    let (call, is_approved) = match slot {
        CallState::Waiting | CallState::Failed => (Arc::new(call.clone()), granted),
        CallState::Decided(ApprovalDecision { call, verdict: Verdict::Approved }) => (Arc::clone(call), true),
        CallState::Suspended(suspended) => (Arc::clone(&suspended.call), suspended.approved == Some(true)),
        CallState::Decided(_)
        | CallState::AwaitingApproval(_)
        | CallState::Returned(_)
        | CallState::Answered(_)
        | CallState::Resolved(_) => return None,
    };
    Some(OpenCall { position, call, is_approved, has_failed: matches!(slot, CallState::Failed) })
}

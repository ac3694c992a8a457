//! Approvals in the state of a run: waiting calls, and how a decision is applied. UPP-1.2 §10.4

use std::sync::Arc;

use crate::machine::round::Round;
use crate::machine::state::{Phase, RunState};
use crate::machine::strategies::state::StrategyState;
use crate::types::action::CallState;
use crate::types::approval::{ApprovalDecision, Undecidable, Verdict};
use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;

impl Round {
    /// The calls that wait for approval.
    pub(crate) fn pending_approvals(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.slots.iter().filter_map(|slot| match slot {
            CallState::AwaitingApproval(call) => Some(call),
            _ => None,
        })
    }

    /// The calls that the round waits for: those that wait for approval, in order, and those of sub-agents.
    pub(crate) fn awaited_approvals(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.slots.iter().flat_map(|slot| match slot {
            CallState::AwaitingApproval(call) => std::slice::from_ref(call),
            CallState::Suspended(suspended) => suspended.waits_for.as_slice(),
            _ => &[],
        })
    }

    /// The decisions that have not been executed.
    fn decisions(&self) -> impl Iterator<Item = &ApprovalDecision> {
        self.slots.iter().filter_map(|slot| match slot {
            CallState::Decided(decision) => Some(decision),
            _ => None,
        })
    }
}

impl RunState {
    fn round(&self) -> Option<&Round> {
        match &self.phase {
            Phase::Tools(round) => Some(round),
            _ => None,
        }
    }

    /// True if calls of the run, or of its sub-agents, wait for approval.
    pub(crate) fn is_waiting(&self) -> bool {
        let waits_in_strategy = matches!(&self.strategy, StrategyState::Custom(custom) if custom.waits);
        waits_in_strategy || self.round().is_some_and(|round| round.awaited_approvals().next().is_some())
    }

    /// The calls that wait for approval, in order, with those of sub-agents.
    pub(crate) fn awaited_approvals(&self) -> Vec<Arc<ToolCall>> {
        let mut runs = vec![self];
        let mut awaited = Vec::new();
        while let Some(run) = runs.pop() {
            awaited.extend(run.round().into_iter().flat_map(Round::awaited_approvals).cloned());
            runs.extend(run.parts.iter().rev());
        }
        awaited
    }

    /// The calls that wait for approval, in order, without those of sub-agents.
    pub fn pending_approvals(&self) -> Vec<Arc<ToolCall>> {
        let own = self.round().into_iter().flat_map(Round::pending_approvals).cloned();
        own.chain(self.parts.iter().flat_map(Self::pending_approvals)).collect()
    }

    /// The calls whose decision has not been executed, in order.
    pub fn decided_calls(&self) -> Vec<Arc<ToolCall>> {
        let decided = self.round().into_iter().flat_map(Round::decisions);
        let own = decided.map(|decision| Arc::clone(&decision.call));
        own.chain(self.parts.iter().flat_map(Self::decided_calls)).collect()
    }

    /// Stores the decision on the first undecided call with this id. `arguments`, if given, replace those of the call.
    pub(crate) fn decide(
        &mut self,
        id: &str,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> Result<(), Undecidable> {
        if !self.parts.is_empty() {
            let is_pending =
                |part: &&mut Self| part.pending_approvals().iter().any(|call| call.tool_call_id == id);
            let part = self.parts.iter_mut().find(is_pending);
            return part.map_or(Err(Undecidable::Unknown), |part| part.decide(id, verdict, arguments));
        }
        let Phase::Tools(round) = &mut self.phase else { return Err(Undecidable::Unknown) };
        let undecided = round.slots.iter_mut().find_map(|slot| match slot {
            CallState::AwaitingApproval(call) if call.tool_call_id == id => Some((Arc::clone(call), slot)),
            _ => None,
        });
        if let Some((call, slot)) = undecided {
            let call = match arguments {
                Some(arguments) => Arc::new(ToolCall { arguments, ..Arc::unwrap_or_clone(call) }),
                None => call,
            };
            *slot = CallState::Decided(ApprovalDecision { call, verdict });
            return Ok(());
        }
        let is_of_round = self
            .collected
            .last()
            .is_some_and(|message| message.tool_calls().iter().any(|call| call.tool_call_id == id));
        Err(if is_of_round { Undecidable::Decided } else { Undecidable::Unknown })
    }
}

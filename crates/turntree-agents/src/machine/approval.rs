//! Approvals in the state of a run: waiting calls, and how a decision is applied. UPP-1.2 §10.4

use std::sync::Arc;

use crate::machine::round::Round;
use crate::machine::state::{Phase, RunState};
use crate::machine::strategies::state::StrategyState;
use crate::types::action::CallState;
use crate::types::approval::{ApprovalDecision, GuardedCall, Verdict};
use crate::types::idempotency::idempotency_key;
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolCall};
use uuid::Uuid;

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

    /// Identifies the round of tool calls of `message` among the rounds of all runs. A step can have several rounds, and
    /// vendors repeat the ids of messages.
    pub(crate) fn round_id(&self, message: &Message) -> String {
        format!("{}/{}/{}", self.step_id, self.collected.messages.len(), message.id)
    }

    /// The calls that wait for approval or whose decision has not been executed, in order, without those of sub-agents.
    pub(crate) fn guarded_calls(&self) -> Vec<GuardedCall> {
        let mut runs = vec![self];
        let mut guarded = Vec::new();
        while let Some(run) = runs.pop() {
            guarded.extend(run.own_guarded_calls().map(|(_, call)| call));
            runs.extend(run.parts.iter().rev());
        }
        guarded
    }

    /// The guarded calls of the run itself, with their indexes.
    fn own_guarded_calls(&self) -> impl Iterator<Item = (usize, GuardedCall)> {
        let round =
            self.round().zip(self.collected.last()).map(|(round, message)| (round, self.round_id(message)));
        round.into_iter().flat_map(|(round, id)| {
            round.slots.iter().enumerate().filter_map(move |(position, slot)| {
                let (call, is_decided) = match slot {
                    CallState::AwaitingApproval(call) => (call, false),
                    CallState::Decided(decision) => (&decision.call, true),
                    _ => return None,
                };
                let key = idempotency_key(&id, position);
                Some((position, GuardedCall { key, call: Arc::clone(call), is_decided }))
            })
        })
    }

    /// True if a call of the round, in any state, has this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        let mut runs = vec![self];
        while let Some(run) = runs.pop() {
            let message = run.round().and_then(|_| run.collected.last());
            if message.is_some_and(|message| message.tool_calls().iter().any(|call| call.tool_call_id == id))
            {
                return true;
            }
            runs.extend(&run.parts);
        }
        false
    }

    /// True if a response of the run, in any round, has a call with this id.
    pub(crate) fn has_made_call(&self, id: &str) -> bool {
        let mut runs = vec![self];
        while let Some(run) = runs.pop() {
            let mut calls = run.collected.messages.iter().flat_map(|message| message.tool_calls());
            if calls.any(|call| call.tool_call_id == id) {
                return true;
            }
            runs.extend(&run.parts);
        }
        false
    }

    /// Stores the decision on the pending call with this key. `arguments`, if given, replace those of the call.
    pub(crate) fn decide(&mut self, key: Uuid, verdict: Verdict, arguments: Option<RawJson>) {
        let mut runs = vec![self];
        while let Some(run) = runs.pop() {
            let place =
                run.own_guarded_calls().find(|(_, call)| call.key == key).map(|(position, _)| position);
            if let (Some(position), Phase::Tools(round)) = (place, &mut run.phase) {
                if let Some(slot) = round.slots.get_mut(position)
                    && let CallState::AwaitingApproval(call) = slot
                {
                    let call = match arguments {
                        Some(arguments) => Arc::new(ToolCall { arguments, ..(**call).clone() }),
                        None => Arc::clone(call),
                    };
                    *slot = CallState::Decided(ApprovalDecision { call, verdict });
                }
                return;
            }
            runs.extend(&mut run.parts);
        }
    }
}

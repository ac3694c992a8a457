//! Model calls: what they are sent with, and where their responses go.
//!
//! That depends on the [`Purpose`] of the call. What the model is told and thinks aside is in the transcript, and not in
//! the messages of the run (decision A11).

use std::sync::Arc;

use crate::machine::machine::{Machine, stamped};
use crate::machine::run_totals::{AnswerStatus, EphemeralMessage};
use crate::machine::state::Phase;
use crate::machine::strategies::policy::{Purpose, StrategyView};
use crate::machine::strategies::state::StrategyState;
use crate::types::action::Stamp;
use crate::types::strategy_outcome::StrategyOutcome;
use turntree_core::message::{Body, ContentBlock, Message, MessageKind, Turn};
use turntree_upp::{ErrorCode, ModelRequest, ModelResponse, UppError};

impl Machine {
    pub(super) fn request(&self) -> ModelRequest {
        let setup = &self.setup;
        let purpose = self.state.strategy.moves().purpose();
        let structure = match purpose {
            Purpose::Answer => setup.structure.clone(),
            Purpose::Plan => setup.plan_schema.clone(),
            Purpose::Work | Purpose::Reason => None,
        };
        // A plan is made without tools; but some vendors refuse a conversation in which tools were called and that
        // declares none.
        let declares =
            purpose != Purpose::Plan || self.transcript.iter().any(|message| message.has_tool_calls());
        ModelRequest {
            messages: self.transcript.clone(),
            system: setup.system.clone(),
            params: Arc::clone(&setup.params),
            tools: if declares { Arc::clone(&setup.tools) } else { Arc::default() },
            structure,
        }
    }

    /// Adds an ephemeral message and calls the model.
    pub(super) fn prompt(&mut self, stamp: Stamp) -> Phase {
        let words = self.state.strategy.moves().prompt(&self.decision());
        let message = stamped(stamp, Body::User { content: vec![ContentBlock::text(words)] });
        self.push_ephemeral(Arc::new(message));
        Phase::Model
    }

    pub(super) fn take_answer(&mut self, response: ModelResponse) -> Phase {
        let ModelResponse { message, usage, stop_reason, data } = response;
        self.state.collected.usage.push_back(Arc::new(usage));
        // A turn does not distinguish `null` from missing output, and no object schema allows `null`.
        let data = data.filter(|data| !data.is_null());
        match self.state.strategy.moves().purpose() {
            Purpose::Reason => {
                self.state.collected.reasoning.push_back(message.text());
                self.take_thought(&message);
                Phase::Reasoned
            }
            Purpose::Plan => {
                self.take_thought(&message);
                self.decide(|moves, decision| moves.planned(decision, data.as_ref()))
            }
            purpose @ (Purpose::Answer | Purpose::Work) => {
                self.push(message);
                self.state.collected.ending = AnswerStatus::of(stop_reason);
                let is_asked = purpose == Purpose::Answer && self.setup.structure.is_some();
                if let Some(data) = data.filter(|_| is_asked) {
                    self.state.collected.data = Some(data);
                }
                self.decide(|moves, decision| moves.answered(decision))
            }
        }
    }

    /// A model call has failed. The strategy may continue, unless the call was cancelled.
    pub(super) fn take_failure(&mut self, error: UppError) -> Phase {
        let next = match error.code {
            ErrorCode::Cancelled => None,
            _ => self.state.strategy.moves_mut().failed(&error),
        };
        match next {
            Some(next) => self.carry_out(next),
            None => self.fail(error),
        }
    }

    /// A thought stays in the transcript. Calls in it are dropped: nobody answers them. Without calls it is kept as it is,
    /// with what its vendor wants to see again.
    fn take_thought(&mut self, message: &Arc<Message>) {
        if !message.has_tool_calls() {
            // Vendors refuse an answer without content.
            if !message.content().is_empty() {
                self.push_ephemeral(Arc::clone(message));
            }
            return;
        }
        let text = message.text();
        if !text.is_empty() {
            let body = Body::Assistant { content: vec![ContentBlock::text(text)], tool_calls: None };
            self.push_ephemeral(Arc::new(Message { body, metadata: None, ..Message::clone(message) }));
        }
    }

    /// Stores the turn of a custom strategy as if the machine had collected it.
    pub(super) fn take_performed(&mut self, performed: StrategyOutcome) -> Phase {
        let StrategyOutcome { turn, step, reasoning, plan } = performed;
        let begins = turn.messages.first().is_some_and(|first| first.kind() == MessageKind::User);
        let turn = if begins { turn } else { self.with_input(&turn) };
        let state = &mut self.state;
        state.step = step.max(1);
        state.collected.messages = turn.messages.iter().map(Arc::clone).collect();
        state.collected.executions = turn.tool_executions.iter().cloned().map(Arc::new).collect();
        state.collected.usage = [Arc::new(turn.usage.clone())].into_iter().collect();
        state.collected.data.clone_from(&turn.data);
        if let StrategyState::Custom(own) = &mut state.strategy {
            own.reasons = reasoning.is_some();
            own.plan = plan.map(Into::into);
        }
        state.collected.reasoning = reasoning.unwrap_or_default().into();
        Phase::Executed(turn)
    }

    fn with_input(&self, turn: &Turn) -> Arc<Turn> {
        let mut whole = turn.clone();
        let said = self.state.collected.messages.iter().map(Arc::clone);
        whole.messages = said.chain(whole.messages).collect();
        Arc::new(whole)
    }

    fn decision(&self) -> StrategyView<'_> {
        let state = &self.state;
        StrategyView { setup: &self.setup, collected: &state.collected, step: state.step, mark: state.mark }
    }

    fn push_ephemeral(&mut self, message: Arc<Message>) {
        self.transcript.push_back(Arc::clone(&message));
        let at = self.state.collected.messages.len();
        self.state.collected.ephemeral.push_back(Arc::new(EphemeralMessage { at, message }));
    }
}

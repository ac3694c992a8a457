//! Model calls: builds the request and stores the response.
//!
//! Both depend on the [`Purpose`] of the call. Ephemeral messages are in the transcript and not in the messages of the run
//! (decision A11).

use std::sync::Arc;

use crate::machine::handoff;
use crate::machine::interrupted_answers::{failures, pauses, refusals};
use crate::machine::machine::{Machine, stamped};
use crate::machine::run_totals::{EphemeralMessage, ResponseStatus};
use crate::machine::state::Phase;
use crate::machine::strategies::policy::{Purpose, StrategyView};
use crate::machine::strategies::state::StrategyState;
use crate::types::action::Stamp;
use crate::types::strategy_outcome::StrategyOutcome;
use turntree_core::message::{Body, ContentBlock, Message, MessageKind, Turn};
use turntree_upp::{ErrorCode, ModelRequest, ModelResponse, UppError};

impl Machine {
    /// The request of the next model call.
    pub(super) fn request(&self) -> ModelRequest {
        let setup = &self.setup;
        let purpose = self.state.strategy.policy().purpose();
        let structure = match purpose {
            Purpose::Answer => setup.structure.clone(),
            Purpose::Plan => setup.plan_schema.clone(),
            Purpose::Work | Purpose::Reason => None,
        };
        // A planning call needs no tools. Some vendors reject a conversation with tool calls if the request declares no
        // tools.
        let declares_tools =
            purpose != Purpose::Plan || self.transcript.iter().any(|message| message.has_tool_calls());
        ModelRequest {
            messages: self.transcript.clone(),
            system: setup.system.clone(),
            params: Arc::clone(&setup.params),
            tools: if declares_tools { Arc::clone(&setup.tools) } else { Arc::default() },
            structure,
            strict: None,
        }
    }

    /// Adds an ephemeral message and calls the model.
    pub(super) fn prompt(&mut self, stamp: Stamp) -> Phase {
        let text = self.state.strategy.policy().prompt(&self.view());
        let message = stamped(stamp, Body::User { content: vec![ContentBlock::text(text)] });
        self.push_ephemeral(Arc::new(message));
        Phase::Model
    }

    /// Stores the response of a model call and asks the strategy for the next transition.
    pub(super) fn take_response(&mut self, response: ModelResponse) -> Phase {
        let ModelResponse { mut message, usage, stop_reason, data } = response;
        if let Some(message) = Arc::get_mut(&mut message) {
            // The message is stored as long as its session.
            message.shrink_to_fit();
        }
        if let Some(agent) = &self.setup.agent {
            message = handoff::named(message, agent);
        }
        self.state.collected.usage.push_back(Arc::new(usage));
        // A turn does not distinguish `null` from missing output, and no object schema allows `null`.
        let data = data.filter(|data| !data.is_null());
        match self.state.strategy.policy().purpose() {
            Purpose::Reason => {
                self.state.collected.reasoning.push_back(message.text());
                self.push_reasoning(&message);
                Phase::Reasoned
            }
            Purpose::Plan => {
                self.push_reasoning(&message);
                self.decide(|policy, view| policy.planned(view, data.as_ref()))
            }
            purpose @ (Purpose::Answer | Purpose::Work) => {
                let refusal = refusals::error_of(&message, stop_reason, &self.setup)
                    .or_else(|| failures::error_of(&message, stop_reason, &self.setup));
                let is_paused = pauses::is_continued(&message, stop_reason, &self.state.collected.messages);
                self.push(message);
                self.state.collected.status = ResponseStatus::of(stop_reason);
                if let Some(error) = refusal {
                    return self.fail(error);
                }
                if is_paused {
                    return Phase::Model;
                }
                let expects_output = purpose == Purpose::Answer && self.setup.structure.is_some();
                if let Some(data) = data.filter(|_| expects_output) {
                    self.state.collected.data = Some(data);
                }
                self.decide(|policy, view| policy.answered(view))
            }
        }
    }

    /// Handles a failed model call. The strategy may continue, unless the call was cancelled.
    pub(super) fn take_failure(&mut self, error: UppError) -> Phase {
        let next = match error.code {
            ErrorCode::Cancelled => None,
            _ => self.state.strategy.policy_mut().failed(&error),
        };
        match next {
            Some(next) => self.apply(next),
            None => self.fail(error),
        }
    }

    /// Adds a reasoning or planning response to the transcript. A response with tool calls is reduced to its text, because
    /// the calls are not run. A response without tool calls is added unchanged, with its provider metadata.
    fn push_reasoning(&mut self, message: &Arc<Message>) {
        if !message.has_tool_calls() {
            // Vendors reject a response without content.
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
    pub(super) fn take_executed(&mut self, outcome: StrategyOutcome) -> Phase {
        let StrategyOutcome { turn, step, reasoning, plan } = outcome;
        let has_input = turn.messages.first().is_some_and(|first| first.kind() == MessageKind::User);
        let turn = if has_input { turn } else { self.with_input(&turn) };
        let state = &mut self.state;
        state.step = step.max(1);
        state.collected.messages = turn.messages.iter().map(Arc::clone).collect();
        state.collected.executions = turn.tool_executions.iter().cloned().map(Arc::new).collect();
        state.collected.usage = [Arc::new(turn.usage.clone())].into_iter().collect();
        state.collected.data.clone_from(&turn.data);
        if let StrategyState::Custom(custom) = &mut state.strategy {
            custom.reasons = reasoning.is_some();
            custom.plan = plan.map(Into::into);
        }
        state.collected.reasoning = reasoning.unwrap_or_default().into();
        Phase::Executed(turn)
    }

    /// A copy of the turn that begins with the input of the run.
    fn with_input(&self, turn: &Turn) -> Arc<Turn> {
        let mut complete = turn.clone();
        let input = self.state.collected.messages.iter().map(Arc::clone);
        complete.messages = input.chain(complete.messages).collect();
        Arc::new(complete)
    }

    fn view(&self) -> StrategyView<'_> {
        let state = &self.state;
        StrategyView { setup: &self.setup, collected: &state.collected, step: state.step, mark: state.mark }
    }

    /// Adds an ephemeral message to the transcript.
    fn push_ephemeral(&mut self, message: Arc<Message>) {
        self.transcript.push_back(Arc::clone(&message));
        let at = self.state.collected.messages.len();
        self.state.collected.ephemeral.push_back(Arc::new(EphemeralMessage { at, message }));
    }
}

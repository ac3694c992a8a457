//! How a run ends: with validated output, with an error, or aborted. UAP-1.0 §12.5, UPP-1.2 §10.5

use std::sync::Arc;

use crate::machine::json::SavedError;
use crate::machine::machine::{ABORTED, Machine, stamped};
use crate::machine::round::Round;
use crate::machine::run_totals::AnswerStatus;
use crate::machine::state::Phase;
use crate::machine::strategies::policy::Purpose;
use crate::types::action::{Abort, Stamp};
use crate::types::structure::Violation;
use crate::types::{failure, structure};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::fold::Folded;
use turntree_core::message::{Body, ContentBlock, Message, MessageKind};
use turntree_upp::{ErrorCode, UppError};

impl Machine {
    /// The run has said what it has to say. A structured answer is checked first; a turn that has none, because its
    /// calls were left to the caller or the model refused, is whole without.
    pub(super) fn finish(&mut self) -> Phase {
        if self.setup.structure.is_none() {
            return self.complete();
        }
        let collected = &mut self.state.collected;
        // A run that is stopped before the call that was to answer has no answer either.
        let is_unanswered =
            self.state.strategy.moves().purpose() != Purpose::Answer || collected.is_unanswered();
        match (is_unanswered, &collected.data, collected.ending) {
            (true, ..) => {
                collected.data = None;
                self.complete()
            }
            (false, Some(_), _) => Phase::Checking,
            (false, None, AnswerStatus::Truncated) => {
                let words = "it was cut off at the limit of tokens; raise the limit";
                self.take_check(vec![Violation::new("", "json", words)])
            }
            (false, None, _) => self.take_check(vec![Violation::no_json()]),
        }
    }

    pub(super) fn take_check(&mut self, violations: Vec<Violation>) -> Phase {
        if violations.is_empty() {
            if self.setup.is_wrapped {
                let answer = self.state.collected.data.take();
                self.state.collected.data =
                    answer.as_ref().and_then(structure::unwrapped).filter(|answer| !answer.is_null());
            }
            return self.complete();
        }
        if self.setup.structure_repair && !std::mem::replace(&mut self.state.repair_requested, true) {
            return Phase::Repair(violations);
        }
        let remedy = if self.setup.structure_repair { "relax it" } else { "relax it, or allow a repair" };
        let found = Violation::list(&violations, "; ");
        let words = format!("the answer does not fit the structure: {found}; {remedy}");
        self.fail(UppError::invalid_response(&*self.setup.provider, words))
    }

    /// Adds a step in which the model receives the violations.
    pub(super) fn request_repair(&mut self, violations: &[Violation], stamp: Stamp) -> Phase {
        self.state.collected.data = None;
        let found = Violation::list(violations, "\n- ");
        let words = format!(
            "Your answer does not fit the required structure:\n- {found}\nAnswer again, with all of the corrected JSON."
        );
        let message = stamped(stamp, Body::User { content: vec![ContentBlock::text(words)] });
        self.push(Arc::new(marked(message, "turntree", "structureRepair")));
        Phase::StepId
    }

    pub(super) fn complete(&mut self) -> Phase {
        match self.state.collected.turn() {
            Ok(turn) => Phase::Completing(Arc::new(turn)),
            Err(error) => {
                let words = format!("{error}; the model answered with another kind of message");
                let failure = UppError::new(ErrorCode::InvalidResponse, &*self.setup.provider, words);
                self.fail(failure.with_cause(error))
            }
        }
    }

    /// `on_error` is called once: an error after a recovery is final.
    pub(super) fn fail(&mut self, error: UppError) -> Phase {
        let error = SavedError(self.with_partial(error));
        if std::mem::replace(&mut self.state.recovery_requested, true) {
            Phase::Failed(error)
        } else {
            Phase::Failing(error)
        }
    }

    pub(super) fn with_partial(&self, error: UppError) -> UppError {
        match self.state.collected.turn() {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }
    }

    /// Ends an aborted run with what it has collected. UAP-1.0 §12.5; decisions A56, A57
    ///
    /// Calls without a result are answered, so that the messages are a history to go on from. What arrived of an
    /// unfinished answer becomes the response, without its tool calls; nothing arrived leaves an empty response. An
    /// answer that is whole already, and wants nothing more, is the response itself.
    pub(super) fn abort(&mut self, phase: Phase, abort: Abort) -> Phase {
        let was_aside = matches!(phase, Phase::Model) && self.state.strategy.moves().purpose().is_ephemeral();
        let round = match phase {
            Phase::Completing(turn) | Phase::Executed(turn) => return Phase::Done(turn),
            Phase::Tools(round) | Phase::Results(round) => Some(round),
            _ => None,
        };
        if let Some(message) = self.state.collected.unanswered() {
            let round = round.unwrap_or_else(|| Round::new(message, &[]));
            let results = round.results(message, ABORTED);
            self.push(Arc::new(stamped(abort.results, Body::ToolResult { results })));
        }
        // Partial reasoning and partial plans are not responses.
        let partial = if was_aside { Folded::default() } else { abort.partial };
        self.mark_aborted(partial, abort.response);
        match self.state.collected.turn() {
            Ok(turn) => Phase::Done(Arc::new(turn)),
            // Cannot happen: a response was just added.
            Err(error) => self.fail(UppError::cancelled(&*self.setup.provider).with_cause(error)),
        }
    }

    fn mark_aborted(&mut self, partial: Folded, stamp: Stamp) {
        let whole = self.state.collected.last().filter(|last| last.kind() == MessageKind::Assistant);
        let response = match whole {
            Some(whole) if partial.content.is_empty() => {
                let whole = Message::clone(whole);
                self.state.collected.messages.pop_back();
                self.transcript.pop_back();
                whole
            }
            _ => stamped(stamp, Body::Assistant { content: partial.content, tool_calls: None }),
        };
        self.push(Arc::new(marked(response, "uap", "aborted")));
    }
}

/// The message with `{key: true}` under a namespace of its metadata.
fn marked(message: Message, namespace: &str, key: &str) -> Message {
    let mut metadata = message.metadata.unwrap_or_default();
    let yes = RawJson::from_value(&true).unwrap_or_default();
    let mark: RawObject = [(key, yes)].into_iter().collect();
    metadata.insert(namespace, RawJson::from_value(&mark).unwrap_or_default());
    Message { metadata: Some(metadata), ..message }
}

//! How a run ends: with validated output, with an error, or aborted. UAP-1.0 §12.5, UPP-1.2 §10.5

use std::sync::Arc;

use crate::machine::json::SavedError;
use crate::machine::machine::{ABORTED, IN_DOUBT, Machine, NOT_EXECUTED, WAITING, stamped};
use crate::machine::round::Round;
use crate::machine::run_totals::ResponseStatus;
use crate::machine::state::{OpenRound, Phase, RunState};
use crate::machine::strategies::policy::Purpose;
use crate::machine::strategies::state::StrategyState;
use crate::types::action::{Abort, Stamp};
use crate::types::structure::Violation;
use crate::types::{failure, structure};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::fold::Folded;
use turntree_core::message::{Body, ContentBlock, Message, MessageKind, Turn, TurnError};
use turntree_upp::{ErrorCode, UppError};

/// How often the model is asked again for output that the host refuses.
const DEFAULT_OUTPUT_RETRIES: u32 = 1;

/// The mark of what was refused, in the namespace `turntree` of a message's metadata.
pub(super) const REFUSED: &str = "refused";

impl Machine {
    /// Ends the run when the strategy has finished. Structured output is validated first. A turn without a final response
    /// completes without output: its tool calls are left to the caller, or the model refused.
    pub(super) fn finish(&mut self) -> Phase {
        if self.setup.structure.is_none() && !self.setup.validates_output {
            return self.complete();
        }
        let collected = &mut self.state.collected;
        // A run that stops before the call for the final response has no output either.
        let lacks_response =
            self.state.strategy.policy().purpose() != Purpose::Answer || collected.lacks_final_response();
        match (lacks_response, &collected.data, collected.status) {
            (true, ..) => {
                collected.data = None;
                self.complete()
            }
            (false, Some(_), _) => Phase::Checking,
            (false, None, _) if self.setup.structure.is_none() => Phase::Checking,
            (false, None, ResponseStatus::Truncated) => {
                let message = "it was cut off at the token limit; raise the limit";
                self.take_check(vec![Violation::new("", "json", message)])
            }
            (false, None, _) => self.take_check(vec![Violation::no_json()]),
        }
    }

    pub(super) fn take_check(&mut self, violations: Vec<Violation>) -> Phase {
        if violations.is_empty() {
            if self.setup.is_wrapped {
                let output = self.state.collected.data.take();
                self.state.collected.data =
                    output.as_ref().and_then(structure::unwrapped).filter(|output| !output.is_null());
            }
            return self.complete();
        }
        let allowed = self.setup.output_retries.unwrap_or_else(|| u32::from(self.setup.structure_repair));
        if self.take_retry(allowed) {
            self.state.repair_requested = true;
            return Phase::Repair(violations);
        }
        let remedy = if allowed > 0 {
            "relax the schema"
        } else {
            "relax the schema, or allow a repair with structure_repair=True"
        };
        self.resumable = Some(Box::new(self.state.without_invalid_response()));
        let list = Violation::list(&violations, "; ");
        let message = format!("the answer does not fit the structure: {list}; {remedy}");
        self.fail(UppError::invalid_response(&*self.setup.provider, message))
    }

    /// The output that the host validates: structured output, or the text of the response as a JSON string.
    pub(super) fn output(&self) -> RawJson {
        let collected = &self.state.collected;
        match (&collected.data, &self.setup.structure) {
            (Some(data), _) => data.clone(),
            (None, Some(_)) => RawJson::default(),
            (None, None) => {
                RawJson::from_str_value(&collected.last().map(|message| message.text()).unwrap_or_default())
            }
        }
    }

    /// Counts one more retry. Returns false if there were as many as allowed.
    fn take_retry(&mut self, allowed: u32) -> bool {
        let used = self.state.used_retries();
        if used >= allowed {
            return false;
        }
        self.state.output_retries = used.saturating_add(1);
        true
    }

    /// The host refuses the output: asks the model again, or fails the run.
    pub(super) fn take_refusal(&mut self, reason: String) -> Phase {
        let allowed = self.setup.output_retries.unwrap_or(DEFAULT_OUTPUT_RETRIES);
        if self.take_retry(allowed) {
            return Phase::Refused(reason);
        }
        self.resumable = Some(Box::new(self.state.without_invalid_response()));
        let times = match self.state.used_retries() {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let message = format!(
            "an output validator refused the answer, and the model was asked again {times}, which is the most: {reason}; \
             raise output_retries, or change the validator"
        );
        self.fail(UppError::invalid_response(&*self.setup.provider, message))
    }

    /// Marks the refused response, and adds a step in which the model receives the reason.
    pub(super) fn ask_again(&mut self, reason: String, stamp: Stamp) -> Phase {
        self.mark_refused(&reason);
        self.state.collected.data = None;
        let message = stamped(stamp, Body::User { content: vec![ContentBlock::text(reason)] });
        self.push(Arc::new(marked(message, "turntree", "outputRetry")));
        Phase::StepId
    }

    /// Marks the last response as refused.
    fn mark_refused(&mut self, reason: &str) {
        let response = self.state.collected.last().filter(|last| last.kind() == MessageKind::Assistant);
        let Some(response) = response.map(|response| Message::clone(response)) else { return };
        self.state.collected.messages.pop_back();
        self.transcript.pop_back();
        let reason = RawJson::from_str_value(reason);
        self.push(Arc::new(marked_with(response, "turntree", REFUSED, reason)));
    }

    /// Adds a step in which the model receives the violations.
    pub(super) fn request_repair(&mut self, violations: &[Violation], stamp: Stamp) -> Phase {
        self.state.collected.data = None;
        let list = Violation::list(violations, "\n- ");
        self.mark_refused(&Violation::list(violations, "; "));
        let text = format!(
            "Your answer does not fit the required structure:\n- {list}\nAnswer again, with all of the corrected JSON."
        );
        let message = stamped(stamp, Body::User { content: vec![ContentBlock::text(text)] });
        self.push(Arc::new(marked(message, "turntree", "structureRepair")));
        Phase::StepId
    }

    pub(super) fn complete(&mut self) -> Phase {
        match self.state.collected.turn() {
            Ok(turn) => Phase::Completing(Arc::new(turn)),
            Err(error) => {
                let message = format!("{error}; the model's response has another kind");
                let failure = UppError::new(ErrorCode::InvalidResponse, &*self.setup.provider, message);
                self.fail(failure.with_cause(error))
            }
        }
    }

    /// Fails the run outside a tool round.
    pub(super) fn fail(&mut self, error: UppError) -> Phase {
        self.fail_in(error, None)
    }

    /// Fails the run in a tool round. If calls have no results, the partial turn gets a message with results.
    pub(super) fn fail_in(&mut self, error: UppError, round: Option<Round>) -> Phase {
        if self.state.collected.open_calls().is_some() && failure::partial_turn(&error).is_none() {
            return Phase::Closing(Box::new(OpenRound { error: SavedError(error), round }));
        }
        let error = self.with_partial(error);
        self.fail_with(error)
    }

    /// Attaches the partial turn, in which every call has a result. The state of the run does not change, so that a
    /// resumed run executes the calls.
    pub(super) fn close(&mut self, OpenRound { error, round }: OpenRound, stamp: Stamp) -> Phase {
        let error = match self.closed_turn(round, NOT_EXECUTED, stamp) {
            Ok(turn) => failure::attach(error.0, turn),
            Err(_) => error.0,
        };
        self.fail_with(error)
    }

    /// The turn of a run that waits for approval. The calls that wait have error results.
    pub(crate) fn waiting_turn(&self, stamp: Stamp) -> Result<Turn, TurnError> {
        let round = match &self.state.phase {
            Phase::Tools(round) => Some(round.clone()),
            _ => None,
        };
        self.closed_turn(round, WAITING, stamp)
    }

    /// Records that runs which the strategy has started wait for approval. The strategy executes again on resume.
    pub(crate) fn wait_in_strategy(&mut self, parts: Vec<RunState>) {
        if let StrategyState::Custom(custom) = &mut self.state.strategy {
            custom.waits = true;
            self.state.parts = parts;
        }
    }

    /// The turn of a run that stops because calls are in doubt. These calls have error results.
    pub(crate) fn turn_in_doubt(&self, stamp: Stamp) -> Result<Turn, TurnError> {
        let round = match &self.state.phase {
            Phase::Tools(round) => Some(round.clone()),
            _ => None,
        };
        self.closed_turn(round, IN_DOUBT, stamp)
    }

    /// Everything collected as a turn, with a message that has a result for each open call.
    fn closed_turn(&self, round: Option<Round>, missing: &str, stamp: Stamp) -> Result<Turn, TurnError> {
        let mut collected = self.state.collected.clone();
        if let Some(message) = self.state.collected.open_calls() {
            let round = round.unwrap_or_else(|| Round::new(message, &[]));
            let results = round.results(message, missing);
            collected.messages.push_back(Arc::new(stamped(stamp, Body::ToolResult { results })));
        }
        collected.turn()
    }

    /// Fails the run with an error that has its partial turn. `on_error` is called at most once: an error after a
    /// recovery is final.
    fn fail_with(&mut self, error: UppError) -> Phase {
        let error = SavedError(error);
        if std::mem::replace(&mut self.state.recovery_requested, true) {
            Phase::Failed(error)
        } else {
            Phase::Failing(error)
        }
    }

    fn with_partial(&self, error: UppError) -> UppError {
        match self.state.collected.turn() {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }
    }

    /// Ends an aborted run with what it has collected. UAP-1.0 §12.5; decisions A56, A57
    ///
    /// Adds results for tool calls without one, so that the messages are a valid history. The content of a partial
    /// response becomes the response, without its tool calls; it is empty if nothing has arrived. A complete response
    /// without tool calls is marked as aborted and remains the response.
    pub(super) fn abort(&mut self, phase: Phase, abort: Abort) -> Phase {
        let is_ephemeral =
            matches!(phase, Phase::Model) && self.state.strategy.policy().purpose().is_ephemeral();
        let round = match phase {
            Phase::Completing(turn) | Phase::Executed(turn) => return Phase::Done(turn),
            Phase::Tools(round) | Phase::Results(round) => Some(round),
            Phase::Closing(open) => open.round,
            _ => None,
        };
        if let Some(message) = self.state.collected.open_calls() {
            let round = round.unwrap_or_else(|| Round::new(message, &[]));
            let results = round.results(message, ABORTED);
            self.push(Arc::new(stamped(abort.results, Body::ToolResult { results })));
        }
        // Partial reasoning and partial plans are not responses.
        let partial = if is_ephemeral { Folded::default() } else { abort.partial };
        self.mark_aborted(partial, abort.response);
        match self.state.collected.turn() {
            Ok(turn) => Phase::Done(Arc::new(turn)),
            // Not reachable: `mark_aborted` has added a response.
            Err(error) => self.fail(UppError::cancelled(&*self.setup.provider).with_cause(error)),
        }
    }

    /// Marks the last response as aborted, or adds the partial response.
    fn mark_aborted(&mut self, partial: Folded, stamp: Stamp) {
        let complete = self.state.collected.last().filter(|last| last.kind() == MessageKind::Assistant);
        let response = match complete {
            Some(complete) if partial.content.is_empty() => {
                let complete = Message::clone(complete);
                self.state.collected.messages.pop_back();
                self.transcript.pop_back();
                complete
            }
            _ => stamped(stamp, Body::Assistant { content: partial.content, tool_calls: None }),
        };
        self.push(Arc::new(marked(response, "uap", "aborted")));
    }
}

/// Adds `{key: true}` to a namespace of a message's metadata.
fn marked(message: Message, namespace: &str, key: &str) -> Message {
    marked_with(message, namespace, key, RawJson::from_value(&true).unwrap_or_default())
}

/// Adds a member to a namespace of a message's metadata.
pub(super) fn marked_with(message: Message, namespace: &str, key: &str, value: RawJson) -> Message {
    let mut metadata = message.metadata.unwrap_or_default();
    let mut marks = metadata.get(namespace).and_then(RawObject::from_raw).unwrap_or_default();
    marks.insert(key, value);
    metadata.insert(namespace, RawJson::from_value(&marks).unwrap_or_default());
    Message { metadata: Some(metadata), ..message }
}

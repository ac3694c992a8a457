//! Handoffs: how a run ends when a tool call gives the conversation to another agent, and how the run of that agent begins.
//!
//! The mark `metadata.turntree.handoff` of the message with the results names the agent that takes over. The messages of
//! the agents have their names in `metadata.turntree.agent`.

use std::sync::Arc;

use crate::machine::ending::marked_with;
use crate::machine::machine::Machine;
use crate::machine::run_totals::ResponseStatus;
use crate::machine::state::{Leg, Phase, RunState};
use crate::types::failure;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Message, MessageKind, ToolExecution};
use turntree_upp::{ErrorCode, UppError};

/// The member of a record and of a message: the agent that takes over.
const HANDOFF: &str = "handoff";

/// The member of a response: the agent that gave it.
const AGENT: &str = "agent";

/// How often one run may be handed over.
pub(crate) const MAX_HANDOFFS: usize = 10;

/// What the model reads when the conversation was handed over too often.
pub(crate) fn too_often() -> String {
    format!(
        "the conversation was handed over {MAX_HANDOFFS} times for one input, which is the most; answer yourself"
    )
}

/// Marks the record of a call that gives the conversation to `agent`.
pub(crate) fn mark(record: &mut ToolExecution, agent: &str) {
    record.extra.insert(HANDOFF, RawJson::from_str_value(agent));
}

fn mark_of(message: &Message, member: &str) -> Option<String> {
    let marks = message.metadata.as_ref()?.get("turntree").and_then(RawObject::from_raw)?;
    marks.get(member)?.as_string()
}

/// The agent that a message gives the conversation to, or that has written it. `None` without such a mark.
pub(crate) fn agent_of(message: &Message) -> Option<String> {
    match message.kind() {
        MessageKind::Assistant => mark_of(message, AGENT),
        MessageKind::ToolResult => mark_of(message, HANDOFF),
        MessageKind::User => None,
    }
}

/// The agent that a message with results gives the conversation to.
pub(crate) fn handoff_of(message: &Message) -> Option<String> {
    (message.kind() == MessageKind::ToolResult).then(|| mark_of(message, HANDOFF))?
}

/// Adds the name of the agent to its response.
pub(super) fn named(message: Arc<Message>, agent: &str) -> Arc<Message> {
    let name = RawJson::from_str_value(agent);
    Arc::new(marked_with(Arc::unwrap_or_clone(message), "turntree", AGENT, name))
}

impl RunState {
    /// The name of the agent that executes the run after a handoff.
    pub(crate) fn agent(&self) -> Option<&Arc<str>> {
        self.leg.as_ref().map(|leg| &leg.agent)
    }

    /// How often the run was handed over.
    pub(crate) fn handoffs(&self) -> usize {
        self.collected.messages.iter().filter(|message| mark_of(message, HANDOFF).is_some()).count()
    }

    /// The agent that takes over from the one that executes the run.
    pub(crate) fn handed_to(&self) -> Option<String> {
        let start = self.leg.as_ref().map_or(0, |leg| leg.start);
        let last = self.collected.last().filter(|_| self.collected.messages.len() > start)?;
        (last.kind() == MessageKind::ToolResult).then(|| mark_of(last, HANDOFF))?
    }

    /// The state in which `agent` continues the run of `earlier`. `self` is the state of a new run without messages.
    pub(crate) fn after_handoff(mut self, earlier: &Self, agent: &str) -> Self {
        let mut collected = earlier.collected.clone();
        (collected.data, collected.status) = (None, ResponseStatus::default());
        self.leg = Some(Leg { agent: agent.into(), start: collected.messages.len() });
        self.mark = collected.mark();
        self.step = earlier.step;
        self.step_id = Arc::clone(&earlier.step_id);
        self.collected = collected;
        self
    }
}

impl Machine {
    /// Marks the message with the results of a step in which a call gives the conversation to another agent.
    pub(super) fn marked_handoff(&self, message: Message) -> Message {
        let records = self.state.collected.executions.iter().rev().take(message.results().len());
        let is_of_step = |record: &&Arc<ToolExecution>| {
            message.results().iter().any(|result| result.tool_call_id == record.tool_call_id)
        };
        let handed = records.filter(is_of_step).find_map(|record| record.extra.get(HANDOFF).cloned());
        match handed {
            Some(agent) => marked_with(message, "turntree", HANDOFF, agent),
            None => message,
        }
    }

    /// The error of a run that has exceeded the limit of its strategy, if its last call was a handoff too many.
    pub(super) fn too_many_handoffs(&self) -> Option<String> {
        let last = self.state.last_execution().filter(|last| last.is_error)?;
        let refused = last.result.as_string().is_some_and(|text| text.contains(&too_often()));
        let name = &last.tool_name;
        refused.then(|| {
            format!(
                "Handoffs exceeded their maximum ({MAX_HANDOFFS} for one input), and the model did not answer: it called \
                 '{name}' again and again; say in system= which agent answers what, or give one of the agents fewer \
                 handoffs"
            )
        })
    }

    /// Ends the part of this agent. The output is that of the agent that takes over, so it is not validated here.
    pub(super) fn hand_over(&mut self) -> Phase {
        match self.state.collected.turn() {
            Ok(turn) => Phase::Done(Arc::new(turn)),
            Err(error) => {
                let failure =
                    UppError::new(ErrorCode::InvalidResponse, &*self.setup.provider, error.to_string());
                self.fail(failure.with_cause(error))
            }
        }
    }

    /// The agent that takes over, if the run has ended with a handoff.
    pub(crate) fn handed_to(&self) -> Option<String> {
        matches!(self.state.phase, Phase::Done(_)).then(|| self.state.handed_to())?
    }

    /// Attaches the turn so far to the error of an agent that could not take over.
    pub(crate) fn with_turn_so_far(&self, error: UppError) -> UppError {
        match self.state.collected.turn() {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }
    }
}

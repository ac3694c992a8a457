//! The messages, tool records and token usage that a run has collected.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::machine::json::list;
use crate::types::usage_by_agent;
use turntree_core::json::RawJson;
use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind, TokenUsage, ToolExecution, Turn, TurnError};
use turntree_upp::StopReason;

/// A message that is sent to the model but is not part of turns and threads (decision A11): a prompt of the strategy, or
/// the model's reasoning. All later requests of the run contain it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EphemeralMessage {
    /// The number of messages of the run that precede it.
    pub(crate) at: usize,
    pub(crate) message: Arc<Message>,
}

/// The messages, tool records and token usage of a run so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunTotals {
    /// The input, then all new messages, in order.
    #[serde(with = "list")]
    pub(crate) messages: History,
    /// The ephemeral messages, in order.
    #[serde(rename = "asides", default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) ephemeral: Vector<Arc<EphemeralMessage>>,
    /// The reasoning of the model, one text for each step.
    #[serde(default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) reasoning: Vector<String>,
    /// Records of tool calls, in the order in which the tools finished.
    #[serde(with = "list")]
    pub(crate) executions: Vector<Arc<ToolExecution>>,
    /// Usage of each model call.
    #[serde(with = "list")]
    pub(crate) usage: Vector<Arc<TokenUsage>>,
    /// The structured output. A later output replaces an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<RawJson>,
    /// Status of the last response.
    #[serde(rename = "ending", default, skip_serializing_if = "ResponseStatus::is_complete")]
    pub(crate) status: ResponseStatus,
}

/// Whether a response can contain structured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ResponseStatus {
    /// The response is complete.
    #[default]
    #[serde(rename = "whole")]
    Complete,
    /// The response was cut off at the token limit.
    #[serde(rename = "cut")]
    Truncated,
    /// The model refused or paused.
    Other,
}

impl ResponseStatus {
    pub(crate) const fn of(reason: StopReason) -> Self {
        match reason {
            StopReason::MaxTokens => Self::Truncated,
            StopReason::ContentFilter | StopReason::PauseTurn => Self::Other,
            _ => Self::Complete,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_complete(&self) -> bool {
        *self == Self::Complete
    }
}

/// The lengths of the lists of [`RunTotals`] at one moment, for example when a step began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) messages: usize,
    pub(crate) executions: usize,
    pub(crate) usage: usize,
    #[serde(rename = "asides", default, skip_serializing_if = "is_zero")]
    pub(crate) ephemeral: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) reasoning: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Replaces the start of `list` by the entries of `earlier` that are written in the same way.
fn share_prefix<T: Clone + Serialize>(list: &mut Vector<Arc<T>>, earlier: &Vector<Arc<T>>) {
    let is_same = |(one, other): &(&Arc<T>, &Arc<T>)| {
        Arc::ptr_eq(one, other)
            || serde_json::to_string(one)
                .ok()
                .zip(serde_json::to_string(other).ok())
                .is_some_and(|(a, b)| a == b)
    };
    let length = list.iter().zip(earlier).take_while(is_same).count();
    let rest = list.skip(length);
    *list = earlier.take(length);
    list.extend(rest);
}

impl Mark {
    /// The greater length of each list.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            messages: self.messages.max(other.messages),
            executions: self.executions.max(other.executions),
            usage: self.usage.max(other.usage),
            ephemeral: self.ephemeral.max(other.ephemeral),
            reasoning: self.reasoning.max(other.reasoning),
        }
    }

    /// A copy that starts at the first message of the run.
    pub(crate) const fn with_input(self) -> Self {
        Self { messages: 0, ..self }
    }
}

impl RunTotals {
    /// The last message.
    pub(crate) fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// The current lengths.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            messages: self.messages.len(),
            executions: self.executions.len(),
            usage: self.usage.len(),
            ephemeral: self.ephemeral.len(),
            reasoning: self.reasoning.len(),
        }
    }

    /// Everything collected as a turn.
    pub(crate) fn turn(&self) -> Result<Turn, TurnError> {
        self.turn_since(Mark::default())
    }

    /// The data collected after a mark as a turn.
    pub(crate) fn turn_since(&self, mark: Mark) -> Result<Turn, TurnError> {
        let messages = self.messages.iter().skip(mark.messages).map(Arc::clone).collect();
        let executions = self.executions_since(mark).cloned().collect();
        let cycles = u32::try_from(self.usage.len().saturating_sub(mark.usage)).unwrap_or(u32::MAX);
        let mut usage = self.usage_since(mark);
        if let Some(by_agent) = usage_by_agent::sum(self.executions_since(mark)) {
            usage.extra.insert(usage_by_agent::OF_TURN, by_agent);
        }
        Turn::new(messages, executions, usage, cycles, self.data.clone())
    }

    /// The records of the tools that finished after a mark.
    pub(crate) fn executions_since(&self, mark: Mark) -> impl Iterator<Item = &ToolExecution> {
        self.executions.iter().skip(mark.executions).map(AsRef::as_ref)
    }

    /// The messages that the model receives: the messages of the run, with the ephemeral messages at their positions.
    pub(crate) fn model_messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.model_messages_since(0)
    }

    /// As [`Self::model_messages`], from the message at `start`.
    pub(crate) fn model_messages_since(&self, start: usize) -> impl Iterator<Item = &Arc<Message>> {
        let mut ephemeral = self.ephemeral.iter().filter(move |message| message.at >= start).peekable();
        let mut messages = self.messages.iter().enumerate().skip(start).peekable();
        std::iter::from_fn(move || {
            let position = messages.peek().map_or(usize::MAX, |(position, _)| *position);
            match ephemeral.next_if(|message| message.at <= position) {
                Some(ephemeral) => Some(&ephemeral.message),
                None => messages.next().map(|(_, message)| message),
            }
        })
    }

    /// The token usage after a mark.
    pub(crate) fn usage_since(&self, mark: Mark) -> TokenUsage {
        TokenUsage::aggregate(self.usage.iter().skip(mark.usage).map(AsRef::as_ref))
    }

    /// The last message if it has tool calls. These calls have no results yet.
    pub(crate) fn open_calls(&self) -> Option<&Arc<Message>> {
        self.last().filter(|message| message.has_tool_calls())
    }

    /// The data collected before a mark, without structured output and response status.
    pub(crate) fn until(&self, mark: Mark) -> Self {
        Self {
            messages: self.messages.take(mark.messages),
            executions: self.executions.take(mark.executions),
            usage: self.usage.take(mark.usage),
            ephemeral: self.ephemeral.take(mark.ephemeral),
            reasoning: self.reasoning.take(mark.reasoning),
            ..Self::default()
        }
    }

    /// True if the lists of `earlier` are prefixes of those of `self`. Compares only the last entry of each list of
    /// `earlier`.
    pub(crate) fn extends(&self, earlier: &Self) -> bool {
        fn has_prefix<T: Clone>(whole: &Vector<Arc<T>>, part: &Vector<Arc<T>>) -> bool {
            let Some((index, last)) = part.len().checked_sub(1).zip(part.last()) else { return true };
            whole.get(index).is_some_and(|same| Arc::ptr_eq(same, last))
        }
        has_prefix(&self.messages, &earlier.messages)
            && has_prefix(&self.executions, &earlier.executions)
            && has_prefix(&self.usage, &earlier.usage)
            && has_prefix(&self.ephemeral, &earlier.ephemeral)
    }

    /// Shares with `earlier` the entries at the start of each list that are written in the same way. If all entries of
    /// `earlier` are shared, [`Self::extends`] is true.
    pub(crate) fn share_with(&mut self, earlier: &Self) {
        share_prefix(&mut self.messages, &earlier.messages);
        share_prefix(&mut self.executions, &earlier.executions);
        share_prefix(&mut self.usage, &earlier.usage);
        share_prefix(&mut self.ephemeral, &earlier.ephemeral);
        if self.reasoning.len() >= earlier.reasoning.len()
            && self.reasoning.iter().zip(&earlier.reasoning).all(|(one, other)| one == other)
        {
            let rest = self.reasoning.skip(earlier.reasoning.len());
            self.reasoning = earlier.reasoning.clone();
            self.reasoning.extend(rest);
        }
    }

    /// True if the run has no final response: there is none, it has tool calls, or the model refused or paused.
    pub(crate) fn lacks_final_response(&self) -> bool {
        let response = self.messages.iter().rfind(|message| message.kind() == MessageKind::Assistant);
        self.status == ResponseStatus::Other || response.is_none_or(|response| response.has_tool_calls())
    }

    /// True if the mark is within the collected data.
    pub(crate) fn contains_mark(&self, mark: Mark) -> bool {
        mark.messages <= self.messages.len()
            && mark.executions <= self.executions.len()
            && mark.usage <= self.usage.len()
            && mark.ephemeral <= self.ephemeral.len()
            && mark.reasoning <= self.reasoning.len()
    }

    /// True if the ephemeral messages are in order and have valid positions.
    pub(crate) fn has_valid_ephemeral(&self) -> bool {
        let positions = self.ephemeral.iter().map(|message| message.at);
        positions.is_sorted() && self.ephemeral.last().is_none_or(|last| last.at <= self.messages.len())
    }
}

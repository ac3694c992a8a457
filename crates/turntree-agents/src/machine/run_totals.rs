//! The messages, tool records and token usage that a run has collected.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::machine::json::list;
use turntree_core::json::RawJson;
use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind, TokenUsage, ToolExecution, Turn, TurnError};
use turntree_upp::StopReason;

/// What the model is told, or thinks, beside the conversation: it is sent with every request from there on, and is in no
/// turn and no thread (decision A11).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EphemeralMessage {
    /// The number of messages of the run before it.
    pub(crate) at: usize,
    pub(crate) message: Arc<Message>,
}

/// What a run has collected.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunTotals {
    /// The input, then everything new, in order.
    #[serde(with = "list")]
    pub(crate) messages: History,
    /// The ephemeral messages, in order.
    #[serde(rename = "asides", default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) ephemeral: Vector<Arc<EphemeralMessage>>,
    /// The reasoning of the model, one text for each step.
    #[serde(default, with = "list", skip_serializing_if = "Vector::is_empty")]
    pub(crate) reasoning: Vector<String>,
    /// Records of tools, in the order they finished.
    #[serde(with = "list")]
    pub(crate) executions: Vector<Arc<ToolExecution>>,
    /// Usage of each model call.
    #[serde(with = "list")]
    pub(crate) usage: Vector<Arc<TokenUsage>>,
    /// The structured answer; the last one given counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<RawJson>,
    /// How the last response ended.
    #[serde(default, skip_serializing_if = "AnswerStatus::is_complete")]
    pub(crate) ending: AnswerStatus,
}

/// How an answer ended, as far as it matters to a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AnswerStatus {
    /// It is all there.
    #[default]
    #[serde(rename = "whole")]
    Complete,
    /// It ran out of tokens.
    #[serde(rename = "cut")]
    Truncated,
    /// Not an answer: the model refused or paused.
    Other,
}

impl AnswerStatus {
    pub(crate) const fn of(reason: StopReason) -> Self {
        match reason {
            StopReason::MaxTokens => Self::Truncated,
            StopReason::ContentFilter | StopReason::PauseTurn => Self::Other,
            _ => Self::Complete,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
    fn is_complete(&self) -> bool {
        *self == Self::Complete
    }
}

/// Where a step began in [`RunTotals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    messages: usize,
    executions: usize,
    usage: usize,
    #[serde(rename = "asides", default, skip_serializing_if = "is_zero")]
    ephemeral: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    reasoning: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Mark {
    /// The same place, but for the messages, which begin with the run's first.
    pub(crate) const fn with_input(self) -> Self {
        Self { messages: 0, ..self }
    }
}

impl RunTotals {
    /// The last message.
    pub(crate) fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// The place after everything that is there.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            messages: self.messages.len(),
            executions: self.executions.len(),
            usage: self.usage.len(),
            ephemeral: self.ephemeral.len(),
            reasoning: self.reasoning.len(),
        }
    }

    /// All of it as a turn.
    pub(crate) fn turn(&self) -> Result<Turn, TurnError> {
        self.turn_since(Mark::default())
    }

    /// What was collected after a mark, as a turn.
    pub(crate) fn turn_since(&self, mark: Mark) -> Result<Turn, TurnError> {
        let messages = self.messages.iter().skip(mark.messages).map(Arc::clone).collect();
        let executions = self.executions_since(mark).cloned().collect();
        let cycles = u32::try_from(self.usage.len().saturating_sub(mark.usage)).unwrap_or(u32::MAX);
        Turn::new(messages, executions, self.usage_since(mark), cycles, self.data.clone())
    }

    /// Records of the tools that finished after a mark.
    pub(crate) fn executions_since(&self, mark: Mark) -> impl Iterator<Item = &ToolExecution> {
        self.executions.iter().skip(mark.executions).map(AsRef::as_ref)
    }

    /// The messages that the model receives: those of the run with the ephemeral messages between them.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Arc<Message>> {
        let mut ephemeral = self.ephemeral.iter().peekable();
        let mut messages = self.messages.iter().enumerate().peekable();
        std::iter::from_fn(move || {
            let place = messages.peek().map_or(usize::MAX, |(place, _)| *place);
            match ephemeral.next_if(|aside| aside.at <= place) {
                Some(aside) => Some(&aside.message),
                None => messages.next().map(|(_, message)| message),
            }
        })
    }

    /// Tokens spent after a mark.
    pub(crate) fn usage_since(&self, mark: Mark) -> TokenUsage {
        TokenUsage::aggregate(self.usage.iter().skip(mark.usage).map(AsRef::as_ref))
    }

    /// The calls of the last answer that no message answers.
    pub(crate) fn unanswered(&self) -> Option<&Arc<Message>> {
        self.last().filter(|message| message.has_tool_calls())
    }

    /// What was collected before a mark, without output and answer status.
    pub(crate) fn cut(&self, mark: Mark) -> Self {
        Self {
            messages: self.messages.take(mark.messages),
            executions: self.executions.take(mark.executions),
            usage: self.usage.take(mark.usage),
            ephemeral: self.ephemeral.take(mark.ephemeral),
            reasoning: self.reasoning.take(mark.reasoning),
            ..Self::default()
        }
    }

    /// True if `self` extends `earlier`, judged by the last entries.
    pub(crate) fn goes_on_from(&self, earlier: &Self) -> bool {
        fn begins<T: Clone>(whole: &Vector<Arc<T>>, part: &Vector<Arc<T>>) -> bool {
            let Some((place, last)) = part.len().checked_sub(1).zip(part.last()) else { return true };
            whole.get(place).is_some_and(|same| Arc::ptr_eq(same, last))
        }
        begins(&self.messages, &earlier.messages)
            && begins(&self.executions, &earlier.executions)
            && begins(&self.usage, &earlier.usage)
            && begins(&self.ephemeral, &earlier.ephemeral)
    }

    /// Whether the run ends without an answer to what was asked: its response wants tools that nobody ran, or runs on
    /// from; or the model refused.
    pub(crate) fn is_unanswered(&self) -> bool {
        let response = self.messages.iter().rfind(|message| message.kind() == MessageKind::Assistant);
        self.ending == AnswerStatus::Other || response.is_none_or(|response| response.has_tool_calls())
    }

    /// True if the mark is within the collected data.
    pub(crate) fn contains_mark(&self, mark: Mark) -> bool {
        mark.messages <= self.messages.len()
            && mark.executions <= self.executions.len()
            && mark.usage <= self.usage.len()
            && mark.ephemeral <= self.ephemeral.len()
            && mark.reasoning <= self.reasoning.len()
    }

    /// Whether the ephemeral have places among the messages, and are in order.
    pub(crate) fn places_ephemeral(&self) -> bool {
        let places = self.ephemeral.iter().map(|aside| aside.at);
        places.is_sorted() && self.ephemeral.last().is_none_or(|last| last.at <= self.messages.len())
    }
}

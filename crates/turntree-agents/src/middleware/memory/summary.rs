//! Summaries of the messages that were cut from a request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use turntree_core::message::content::raw_as_text;
use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind};
use turntree_upp::UppError;

/// Maximum number of cached summaries, without those stored in sessions.
const MAX_CACHED: usize = 256;

/// Maximum length of one text in a transcript, in bytes.
const MAX_TEXT_LENGTH: usize = 4000;

/// Summarizes conversations.
pub trait Summarizer: Send + Sync {
    /// Summarizes a conversation. If an earlier part has a summary, `text` begins with that summary.
    ///
    /// # Errors
    /// The error of the application's own code. It ends the run.
    fn summarize(&self, text: String) -> BoxFuture<'_, Result<String, UppError>>;
}

/// A summary of the beginning of a conversation, as stored in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// Id of the last summarized message.
    pub(super) last_id: String,
    /// Number of summarized messages.
    pub(super) count: usize,
    pub(super) text: String,
}

/// The summary of the first `count` messages of a conversation.
pub(super) struct KnownSummary {
    pub(super) count: usize,
    pub(super) text: String,
}

/// The latest summaries, by the id of the last summarized message.
#[derive(Default)]
pub(super) struct Summaries {
    by_last: HashMap<String, Summary>,
    order: VecDeque<String>,
}

impl Summaries {
    pub(super) fn add(&mut self, summary: Summary) {
        if !self.by_last.contains_key(&summary.last_id) {
            self.order.push_back(summary.last_id.clone());
        }
        self.by_last.insert(summary.last_id.clone(), summary);
        while self.order.len() > MAX_CACHED {
            if let Some(oldest) = self.order.pop_front() {
                self.by_last.remove(&oldest);
            }
        }
    }

    /// Returns the summary that covers most of a conversation. `stored` is the summary in the session.
    pub(super) fn find(&self, messages: &History, stored: Option<Summary>) -> Option<KnownSummary> {
        let covers = |summary: &Summary| {
            let last = summary.count.checked_sub(1).and_then(|last| messages.get(last));
            last.is_some_and(|last| last.id == summary.last_id)
        };
        let kept =
            self.by_last.values().filter(|summary| covers(summary)).max_by_key(|summary| summary.count);
        let stored = stored.filter(covers);
        let best = kept.cloned().into_iter().chain(stored).max_by_key(|summary| summary.count)?;
        Some(KnownSummary { count: best.count, text: best.text })
    }
}

/// Writes a conversation as text of at most `most` estimated tokens. Omits messages from the beginning if needed.
pub(super) fn transcript<'a>(
    earlier: &str,
    messages: impl DoubleEndedIterator<Item = &'a Arc<Message>>,
    most: u64,
) -> String {
    let most = usize::try_from(most.saturating_mul(4)).unwrap_or(usize::MAX);
    let earlier = shortened(earlier, most / 2);
    let mut room = most.saturating_sub(earlier.len());
    let mut lines = Vec::new();
    let mut is_cut = false;
    for message in messages.rev() {
        let line = line_of(message);
        if line.len() > room {
            is_cut = true;
            break;
        }
        room -= line.len();
        lines.push(line);
    }
    let mut text = String::new();
    if !earlier.is_empty() {
        text.push_str("Summary so far: ");
        text.push_str(&earlier);
        text.push_str("\n\n");
    }
    if is_cut {
        text.push_str("(the beginning is left out)\n");
    }
    lines.iter().rev().for_each(|line| text.push_str(line));
    text
}

fn shortened(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned()
}

fn line_of(message: &Message) -> String {
    let mut line = String::new();
    let mut push = |label: &str, text: &str| {
        line.push_str(label);
        line.push_str(&shortened(text, MAX_TEXT_LENGTH));
        line.push('\n');
    };
    match message.kind() {
        MessageKind::User => push("User: ", &message.text()),
        MessageKind::Assistant => {
            let text = message.text();
            if !text.is_empty() {
                push("Assistant: ", &text);
            }
            for call in message.tool_calls() {
                push(&format!("Assistant calls {}: ", call.tool_name), call.arguments.get());
            }
        }
        MessageKind::ToolResult => {
            message.results().iter().for_each(|result| push("Tool answers: ", &raw_as_text(&result.result)));
        }
    }
    line
}

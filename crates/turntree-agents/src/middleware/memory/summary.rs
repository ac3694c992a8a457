//! What was cut, said in short.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use turntree_core::message::content::raw_as_text;
use turntree_core::message::message::History;
use turntree_core::message::{Message, MessageKind};
use turntree_upp::UppError;

/// Most summaries that a middleware remembers beside those of sessions.
const MOST: usize = 256;

/// Most characters of one text in a transcript.
const LONGEST: usize = 4000;

/// Says in short what was said.
pub trait Summarizer: Send + Sync {
    /// The summary of a conversation; the text begins with the summary of what came before it, where there is one.
    ///
    /// # Errors
    /// What the application's own code failed with; it ends the run.
    fn summarize(&self, text: String) -> BoxFuture<'_, Result<String, UppError>>;
}

/// A summary, and what it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// The last message that it tells of.
    pub(super) last_id: String,
    /// How many messages it tells of.
    pub(super) count: usize,
    pub(super) text: String,
}

/// A summary of what a conversation begins with.
pub(super) struct Known {
    pub(super) count: usize,
    pub(super) text: String,
}

/// The latest summaries, by the last message that they tell of.
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
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.by_last.remove(&oldest);
            }
        }
    }

    /// The summary of the longest beginning of a conversation; `stored` is one that the session keeps.
    pub(super) fn find(&self, messages: &History, stored: Option<Summary>) -> Option<Known> {
        let tells_of = |summary: &Summary| {
            let last = summary.count.checked_sub(1).and_then(|last| messages.get(last));
            last.is_some_and(|last| last.id == summary.last_id)
        };
        let kept =
            self.by_last.values().filter(|summary| tells_of(summary)).max_by_key(|summary| summary.count);
        let stored = stored.filter(tells_of);
        let best = kept.cloned().into_iter().chain(stored).max_by_key(|summary| summary.count)?;
        Some(Known { count: best.count, text: best.text })
    }
}

/// A conversation as a text of at most so many tokens, by estimate: what is too much is left out at its beginning.
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
    let mut say = |who: &str, text: &str| {
        line.push_str(who);
        line.push_str(&shortened(text, LONGEST));
        line.push('\n');
    };
    match message.kind() {
        MessageKind::User => say("User: ", &message.text()),
        MessageKind::Assistant => {
            let text = message.text();
            if !text.is_empty() {
                say("Assistant: ", &text);
            }
            for call in message.tool_calls() {
                say(&format!("Assistant calls {}: ", call.tool_name), call.arguments.get());
            }
        }
        MessageKind::ToolResult => {
            message.results().iter().for_each(|result| say("Tool answers: ", &raw_as_text(&result.result)));
        }
    }
    line
}

//! A tree as a readable transcript: its drawing, then the messages of each node.

use turntree_core::message::content::raw_as_text;
use turntree_core::message::message::Body;
use turntree_core::message::{ContentBlock, Message};
use turntree_core::render::{EntryKind, Transcript, TranscriptEntry};

use crate::tree::thread_tree::ThreadTree;

impl ThreadTree {
    /// Returns the tree as a transcript: every node once, in order of creation.
    pub fn transcript(&self, title: &str) -> Transcript {
        let mut entries = Vec::new();
        for node in self.nodes() {
            if self.node_count() > 1 {
                let name = node.name.clone().unwrap_or_else(|| node.id.as_str().chars().take(8).collect());
                let head = match node.branch_point {
                    Some(point) => format!("{name} (after {point})"),
                    None => name,
                };
                entries.push(TranscriptEntry {
                    kind: EntryKind::Section,
                    head,
                    time: String::new(),
                    text: String::new(),
                });
            }
            node.thread.messages.iter().for_each(|message| add(message, &mut entries));
        }
        let (nodes, messages) = (self.node_count(), self.message_count());
        Transcript {
            title: title.to_owned(),
            summary: format!("{nodes} node(s) · {messages} message(s)"),
            drawing: self.draw(usize::MAX).to_string(),
            entries,
        }
    }
}

fn add(message: &Message, entries: &mut Vec<TranscriptEntry>) {
    let mut time = message.timestamp.to_string();
    let mut put = |kind, head: &str, text: String| {
        // Only the first entry of a message has the time.
        let time = std::mem::take(&mut time);
        entries.push(TranscriptEntry { kind, head: head.to_owned(), time, text });
    };
    match &message.body {
        Body::ToolResult { results } => {
            for result in results {
                let (kind, verb) = if result.failed() {
                    (EntryKind::Failure, "fails")
                } else {
                    (EntryKind::Return, "returns")
                };
                put(kind, &format!("{} {verb}", result.tool_call_id), raw_as_text(&result.result));
            }
        }
        body => {
            let (kind, who) = match body {
                Body::User { .. } => (EntryKind::User, "user"),
                _ => (EntryKind::Agent, "assistant"),
            };
            for block in message.content() {
                match block {
                    ContentBlock::Text(text) => put(kind, who, text.text.clone()),
                    ContentBlock::Reasoning(thought) => {
                        put(EntryKind::Thought, &format!("{who} thinks"), thought.text.clone());
                    }
                    ContentBlock::CodeExecution(block) => {
                        put(EntryKind::Return, &format!("{who} runs code"), block.to_markdown());
                    }
                    other => put(kind, who, format!("[{}]", kind_of(other))),
                }
            }
            for call in message.tool_calls() {
                let head = format!("{who} calls {} ({})", call.tool_name, call.tool_call_id);
                put(EntryKind::Call, &head, raw_as_text(&call.arguments));
            }
        }
    }
}

/// Names the kind of a block without text.
fn kind_of(block: &ContentBlock) -> &'static str {
    match block {
        ContentBlock::Image(_) => "image",
        ContentBlock::Document(_) => "document",
        ContentBlock::Audio(_) => "audio",
        ContentBlock::Video(_) => "video",
        _ => "data",
    }
}

//! The output of a response while it is produced.

use crate::types::{ContentItem, ToolCall, ToolCallContent, UsageStats};

/// The output of a response and its usage. Adjacent pieces of text become one item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    items: Vec<ContentItem>,
    usage: UsageStats,
}

impl Output {
    /// Appends a piece of text.
    pub fn push_text(&mut self, piece: &str) {
        match self.items.last_mut() {
            Some(ContentItem::Text(last)) => last.text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push(ContentItem::text(piece)),
        }
    }

    /// Appends an item.
    pub fn push(&mut self, item: ContentItem) {
        self.items.push(item);
    }

    /// Appends a call.
    pub fn push_call(&mut self, tool_call: ToolCall) {
        self.items.push(ToolCallContent { tool_call, ..ToolCallContent::default() }.into());
    }

    /// Adds the usage of a model call.
    pub fn add_usage(&mut self, usage: &UsageStats) {
        self.usage.add(usage);
    }

    /// The items.
    pub fn items(&self) -> &[ContentItem] {
        &self.items
    }

    /// The sum of the usage of all model calls.
    pub fn usage(&self) -> &UsageStats {
        &self.usage
    }

    /// The text of all items.
    pub fn text(&self) -> String {
        let texts = self.items.iter().filter_map(|item| match item {
            ContentItem::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

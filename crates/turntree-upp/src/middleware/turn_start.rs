//! Finds the first new message of a call after middleware has rewritten the conversation.
//!
//! Spec: UPP-1.2 §10.2

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use super::context::CallContext;
use turntree_core::message::Message;
use turntree_core::message::message::History;

/// The name in [`CallContext::state`] under which middleware may store the position of the first new message.
pub const TURN_START: &str = "llm:turnStartIndex";

impl CallContext {
    /// Marks messages that middleware has inserted before the conversation as older than this call.
    pub fn add_history(&self, messages: impl IntoIterator<Item = Arc<Message>>) {
        self.original.stored.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }

    /// The position of the first new message in `messages`, the conversation as it is sent.
    ///
    /// In an unchanged conversation, it follows the history. Otherwise it follows the last message that is known to be
    /// older. If none is left, it is the value of [`TURN_START`]; else the first input that is left; else there are as
    /// many new messages as there were inputs.
    pub fn turn_start(&self, messages: &History) -> usize {
        let original = &self.original;
        if messages.ptr_eq(&original.messages) {
            return original.history;
        }
        let stored = original.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let old = original.messages.iter().take(original.history).chain(stored.iter());
        let old: HashSet<&str> = old.map(|message| message.id.as_str()).collect();
        if let Some(last) = messages.iter().rposition(|message| old.contains(message.id.as_str())) {
            return last.saturating_add(1);
        }
        if let Some(index) = self.state.number(TURN_START) {
            return index.min(messages.len());
        }
        let inputs = original.messages.skip(original.history);
        let new: HashSet<&str> = inputs.iter().map(|message| message.id.as_str()).collect();
        if let Some(first) = messages.iter().position(|message| new.contains(message.id.as_str())) {
            return first;
        }
        if old.is_empty() { 0 } else { messages.len().saturating_sub(inputs.len()) }
    }
}

//! The partial structured output of a streamed run. UPP-1.3, `object_delta`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::structure::unwrapped;
use turntree_core::json::{Partial, PartialJson};
use turntree_core::message::{Delta, StreamEvent};

/// The structured output that has arrived so far. The stream and its readers share it.
#[derive(Debug, Default)]
pub struct PartialOutput {
    text: Mutex<Text>,
    is_wrapped: bool,
}

#[derive(Debug, Default)]
struct Text {
    json: PartialJson,
    /// The last parsed value.
    read: Option<Arc<Partial>>,
    /// True if no text arrived since the last parse.
    is_read: bool,
}

impl PartialOutput {
    /// Empty output. `is_wrapped`: see [`crate::Structure::is_wrapped`].
    pub(crate) fn new(is_wrapped: bool) -> Self {
        Self { text: Mutex::default(), is_wrapped }
    }

    fn lock(&self) -> MutexGuard<'_, Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the text of an event. The start of a message discards the text before it.
    pub(crate) fn push(&self, event: &StreamEvent) {
        match &event.delta {
            Delta::Object(delta) => {
                let mut text = self.lock();
                text.is_read = false;
                text.json.push(&delta.text);
            }
            Delta::MessageStart(_) => *self.lock() = Text::default(),
            _ => {}
        }
    }

    /// The partial object; `None` if no value can be parsed yet. The text is parsed only if it has changed since the last
    /// read.
    pub fn read(&self) -> Option<Arc<Partial>> {
        let mut text = self.lock();
        if text.is_read {
            return text.read.clone();
        }
        let read = text.json.read().and_then(|partial| {
            if !self.is_wrapped {
                return Some(partial);
            }
            Some(Partial { value: unwrapped(&partial.value)?, ..partial })
        });
        let read = read.map(Arc::new);
        text.read.clone_from(&read);
        text.is_read = true;
        read
    }
}

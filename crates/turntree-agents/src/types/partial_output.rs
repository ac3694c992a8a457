//! The structured answer of a streamed run, as far as it has come. UPP-1.3, `object_delta`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::structure::unwrapped;
use turntree_core::json::{Partial, PartialJson};
use turntree_core::message::{Delta, StreamEvent};

/// The structured answer so far; shared between a stream and whoever looks on.
#[derive(Debug, Default)]
pub struct PartialOutput {
    text: Mutex<Text>,
    is_wrapped: bool,
}

#[derive(Debug, Default)]
struct Text {
    json: PartialJson,
    /// What was read of it.
    read: Option<Arc<Partial>>,
    /// Whether that is all there is to read: nothing was added since.
    is_read: bool,
}

impl PartialOutput {
    /// Nothing yet. `is_wrapped`: as [`crate::Structure::is_wrapped`].
    pub(crate) fn new(is_wrapped: bool) -> Self {
        Self { text: Mutex::default(), is_wrapped }
    }

    fn lock(&self) -> MutexGuard<'_, Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what an event brings. Each message of a model begins anew.
    pub(crate) fn hear(&self, event: &StreamEvent) {
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

    /// The object so far; `None` before there is anything to read. Made once for each piece that came, however often it
    /// is read.
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

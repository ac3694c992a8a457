//! The structured answer of a streamed run, as far as it has come. UPP-1.3, `object_delta`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::agents::structure::unwrapped;
use crate::core::json::{Partial, PartialJson};
use crate::message::{Delta, StreamEvent};

/// The structured answer so far; shared between a stream and whoever looks on.
#[derive(Debug, Default)]
pub struct AnswerSoFar {
    json: Mutex<PartialJson>,
    is_wrapped: bool,
}

impl AnswerSoFar {
    /// Nothing yet. `is_wrapped`: as [`crate::agents::Structure::is_wrapped`].
    pub(crate) fn new(is_wrapped: bool) -> Self {
        Self { json: Mutex::default(), is_wrapped }
    }

    fn lock(&self) -> MutexGuard<'_, PartialJson> {
        self.json.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what an event brings. Each message of a model begins anew.
    pub(crate) fn hear(&self, event: &StreamEvent) {
        match &event.delta {
            Delta::Object(delta) => self.lock().push(&delta.text),
            Delta::MessageStart(_) => self.lock().clear(),
            _ => {}
        }
    }

    /// The object so far; `None` before there is anything to read.
    pub fn read(&self) -> Option<Partial> {
        let partial = self.lock().read()?;
        if !self.is_wrapped {
            return Some(partial);
        }
        Some(Partial { value: unwrapped(&partial.value)?, ..partial })
    }
}

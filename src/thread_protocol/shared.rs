//! A document behind a lock, which Python handles share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_thread_protocol::document as core;

/// A document that several handles may hold; locked for the length of one operation.
pub(crate) struct Shared(Mutex<core::Thread>);

impl Shared {
    pub(super) fn new(thread: core::Thread) -> Self {
        Self(Mutex::new(thread))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, core::Thread> {
        // Every operation leaves the thread consistent, also if another one panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document at this moment; it shares the actions.
    pub(super) fn now(&self) -> core::Thread {
        self.lock().clone()
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || {
            let mine = self.now();
            mine == *other.lock()
        }
    }
}

impl Serialize for Shared {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.now().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        core::Thread::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for Shared {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        core::Thread::schema(definitions)
    }
}

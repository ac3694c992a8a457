//! What the middleware of an agent keeps with a session: saved and loaded with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use turntree_core::json::{RawJson, RawObject};

/// Facts by name. Written in the session's reserved metadata, member `middleware`.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<RawObject>);

impl Ledger {
    /// A ledger of a session that was saved.
    pub const fn new(facts: RawObject) -> Self {
        Self(Mutex::new(facts))
    }

    fn facts(&self) -> MutexGuard<'_, RawObject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fact of a name.
    pub fn get(&self, name: &str) -> Option<RawJson> {
        self.facts().get(name).cloned()
    }

    /// Puts a fact under a name. What has no JSON changes nothing.
    pub fn set<T: Serialize + ?Sized>(&self, name: &str, fact: &T) {
        if let Ok(raw) = RawJson::from_value(fact) {
            self.facts().insert(name, raw);
        }
    }

    /// All facts.
    pub fn all(&self) -> RawObject {
        self.facts().clone()
    }
}

//! The values that middleware stores with a session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use turntree_core::json::{RawJson, RawObject};

/// Values that an agent's middleware stores with a session, by name. They are saved and loaded with the session.
///
/// Sessions write them as the member `middleware` of their reserved metadata.
#[derive(Debug, Default)]
pub struct MiddlewareState(Mutex<RawObject>);

impl MiddlewareState {
    /// Restores the values of a saved session.
    pub const fn new(values: RawObject) -> Self {
        Self(Mutex::new(values))
    }

    fn lock(&self) -> MutexGuard<'_, RawObject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<RawJson> {
        self.lock().get(name).cloned()
    }

    /// Sets the value with this name. A value that cannot be written as JSON is ignored.
    pub fn set<T: Serialize + ?Sized>(&self, name: &str, value: &T) {
        if let Ok(raw) = RawJson::from_value(value) {
            self.lock().insert(name, raw);
        }
    }

    /// Replaces all values.
    pub fn replace_all(&self, values: RawObject) {
        *self.lock() = values;
    }

    /// Returns all values.
    pub fn all(&self) -> RawObject {
        self.lock().clone()
    }
}

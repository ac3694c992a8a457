//! State of a call: named values that all middlewares share, and private values by type.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::HostPayload;
use turntree_core::json::RawJson;

/// A named value.
#[derive(Clone)]
pub enum StateValue {
    /// JSON data.
    Json(RawJson),
    /// An object of the application.
    Host(HostPayload),
}

impl fmt::Debug for StateValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(json) => write!(formatter, "{}", json.get()),
            Self::Host(_) => formatter.write_str("<object>"),
        }
    }
}

/// The state of one call, shared by its hooks and its stream.
#[derive(Default)]
pub struct State {
    named: Mutex<BTreeMap<String, StateValue>>,
    typed: Mutex<HashMap<(TypeId, usize), Arc<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named().fmt(formatter)
    }
}

impl State {
    fn named(&self) -> MutexGuard<'_, BTreeMap<String, StateValue>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<StateValue> {
        self.named().get(name).cloned()
    }

    /// Stores a value under a name and returns the previous one.
    pub fn insert(&self, name: impl Into<String>, value: StateValue) -> Option<StateValue> {
        self.named().insert(name.into(), value)
    }

    /// Removes a name and returns its value.
    pub fn remove(&self, name: &str) -> Option<StateValue> {
        self.named().remove(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.named().keys().cloned().collect()
    }

    /// Calls `see` with each named value, until it fails. Does nothing while another thread changes the state.
    ///
    /// # Errors
    /// The error of `see`.
    pub fn look<E>(&self, mut see: impl FnMut(&StateValue) -> Result<(), E>) -> Result<(), E> {
        match self.named.try_lock() {
            Ok(named) => named.values().try_for_each(&mut see),
            Err(_) => Ok(()),
        }
    }

    /// Removes all named values.
    pub fn clear(&self) {
        let named = std::mem::take(&mut *self.named());
        drop(named);
    }

    /// The whole number under a name.
    pub fn number(&self, name: &str) -> Option<usize> {
        match self.get(name)? {
            StateValue::Json(json) => json.to().ok(),
            StateValue::Host(_) => None,
        }
    }

    /// The private value of `owner`, created at its first use. Two middlewares of one type have one value each.
    pub fn of<T: Default + Send + Sync + 'static, O>(&self, owner: &O) -> Arc<T> {
        let key = (TypeId::of::<T>(), std::ptr::from_ref(owner).addr());
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = typed.entry(key).or_insert_with(|| Arc::<T>::default());
        Arc::clone(slot).downcast().unwrap_or_default()
    }
}

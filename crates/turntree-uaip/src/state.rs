//! The state of sessions: JSON values by key.
//!
//! A key is any text; `user.email` is one key. A read looks for the exact key first, and then follows the parts between
//! the periods into objects: `cart.items` finds the member `items` of the value `cart`. A write never splits a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Maximum length of a key in bytes.
pub const MAX_KEY: usize = 512;

/// Values by key. A clone costs nothing and shares the values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    values: OrdMap<Arc<str>, Arc<Value>>,
}

/// A key whose value differs between two states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The key.
    pub key: Arc<str>,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Arc<Value>>,
}

impl State {
    /// Reads a value: the exact key, or else the path into objects.
    pub fn get(&self, key: &str) -> Option<&Value> {
        if let Some(value) = self.values.get(key) {
            return Some(value);
        }
        key.match_indices('.').find_map(|(index, _)| {
            let (head, tail) = key.split_at(index);
            let value = self.values.get(head)?;
            walk(value, tail.get(1..)?)
        })
    }

    /// Writes a value under the exact key.
    pub fn set(&mut self, key: impl Into<Arc<str>>, value: Value) {
        self.values.insert(key.into(), Arc::new(value));
    }

    /// Deletes the exact key. Returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Value>> {
        self.values.remove(key)
    }

    /// True if a read of the key finds a value.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        self.values.iter()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What changed since `before`. Values that both states share are not compared.
    pub fn changes_since(&self, before: &Self) -> Vec<StateChange> {
        let written = self.values.iter().filter(|(key, value)| {
            before.values.get(&**key).is_none_or(|old| !Arc::ptr_eq(old, value) && old != *value)
        });
        let written =
            written.map(|(key, value)| StateChange { key: Arc::clone(key), value: Some(Arc::clone(value)) });
        let deleted = before.values.keys().filter(|key| !self.values.contains_key(&***key));
        written.chain(deleted.map(|key| StateChange { key: Arc::clone(key), value: None })).collect()
    }

    /// Adds all values of another state, which take precedence.
    pub fn merge(&mut self, other: &Self) {
        for (key, value) in &other.values {
            self.values.insert(Arc::clone(key), Arc::clone(value));
        }
    }

    /// Copies the exact keys that exist.
    #[must_use]
    pub fn subset(&self, keys: &[String]) -> Self {
        let found = keys.iter().filter_map(|key| self.values.get_key_value(key.as_str()));
        Self { values: found.map(|(key, value)| (Arc::clone(key), Arc::clone(value))).collect() }
    }

    /// The size as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        let size = |(key, value): (&Arc<str>, &Arc<Value>)| key.len() + 4 + json_length(value);
        2 + self.values.iter().map(size).sum::<usize>()
    }
}

/// Follows a path into objects. At each level the whole rest of the path is tried as a key first.
fn walk<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let (mut value, mut path) = (value, path);
    loop {
        let object = value.as_object()?;
        if let Some(found) = object.get(path) {
            return Some(found);
        }
        let (head, tail) = path.split_once('.')?;
        value = object.get(head)?;
        path = tail;
    }
}

/// The length of a value as JSON, in bytes.
pub(crate) fn json_length(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX >> 16,
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Value)> for State {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(values: I) -> Self {
        Self { values: values.into_iter().map(|(key, value)| (key.into(), Arc::new(value))).collect() }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().map(|(key, value)| (&**key, &**value)))
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::<Arc<str>, Value>::deserialize(deserializer)?;
        Ok(values.into_iter().collect())
    }
}

/// The state that one task, guard or hook works on. It is a copy: if the call fails, it is dropped.
///
/// Without `state_management` there is one store, that of the session. With it each stage has a store of its own: reads
/// look there first and then in the store of the session; writes go to the store of the stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkingState {
    session: State,
    stage: Option<State>,
}

impl WorkingState {
    pub(crate) const fn new(session: State, stage: Option<State>) -> Self {
        Self { session, stage }
    }

    pub(crate) fn into_parts(self) -> (State, Option<State>) {
        (self.session, self.stage)
    }

    /// Reads a value; see [`State::get`].
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.stage.as_ref().and_then(|stage| stage.get(key)).or_else(|| self.session.get(key))
    }

    /// Writes a value.
    pub fn set(&mut self, key: impl Into<Arc<str>>, value: Value) {
        self.current_mut().set(key, value);
    }

    /// Deletes a key. Returns true if it existed.
    pub fn delete(&mut self, key: &str) -> bool {
        self.current_mut().remove(key).is_some()
    }

    /// The store that writes go to.
    pub fn current(&self) -> &State {
        self.stage.as_ref().unwrap_or(&self.session)
    }

    /// The store that writes go to.
    pub fn current_mut(&mut self) -> &mut State {
        self.stage.as_mut().unwrap_or(&mut self.session)
    }

    /// The store of the session.
    pub const fn shared(&self) -> &State {
        &self.session
    }

    /// The store of the session.
    pub const fn shared_mut(&mut self) -> &mut State {
        &mut self.session
    }
}

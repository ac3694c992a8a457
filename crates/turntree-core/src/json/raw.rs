//! JSON values that stay text until they are read: tool arguments, results, provider metadata, unknown members.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::eq::eq_value;
use super::reader::{Reader, Token};
use crate::intern::InternedStr;

/// One valid JSON value as text. Numbers, key order and spacing are preserved.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks that `text` is one JSON value, and wraps it.
    ///
    /// # Errors
    /// The syntax error, with line and column.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// As [`super::write`].
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// A JSON string. Cannot fail, unlike [`Self::from_value`].
    pub fn from_str_value(text: &str) -> Self {
        Self::from_value(text).unwrap_or_default()
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::from_value(&serde_json::Map::new()).unwrap_or_default()
    }

    /// The text.
    #[inline]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// The value does not have the shape of the type, or is nested deeper than 127 levels (for [`serde_json::Value`]).
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// The tokens, in order.
    #[inline]
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.get())
    }

    /// The text of the value if it is a JSON string; see [`super::RawString::decode`].
    pub fn as_string(&self) -> Option<String> {
        match self.reader().next() {
            Some(Token::String(text)) => Some(text.decode().into_owned()),
            _ => None,
        }
    }

    /// True for an object.
    #[inline]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// True for an array.
    #[inline]
    pub fn is_array(&self) -> bool {
        self.get().starts_with('[')
    }

    /// True for a string.
    #[inline]
    pub fn is_string(&self) -> bool {
        self.get().starts_with('"')
    }

    /// True for `null`.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

/// Copies the text of a value that is already checked.
impl From<&RawValue> for RawJson {
    fn from(value: &RawValue) -> Self {
        Self(value.to_owned())
    }
}

/// `null`.
impl Default for RawJson {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.get())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.get())
    }
}

/// Equality of JSON values: independent of spacing, escapes, the order of keys and the notation of numbers. Of duplicate
/// keys the last value counts. Exact for any number of digits and levels.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        eq_value(self.get(), other.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// Maximum number of members for linear search. Larger objects are searched by hash: linear search in an object with a
/// million members would take hours.
const SEARCHED_ONE_BY_ONE: usize = 16;

/// An object with raw values and ordered keys: parameters, metadata, unknown members.
///
/// A duplicate key has the position of the first and the value of the last.
#[derive(Clone, Default)]
pub struct RawObject(Vec<(InternedStr, RawJson)>);

impl RawObject {
    /// An empty object.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.0.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Sets the value of a key. An existing key preserves its position.
    pub fn insert(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        let key = key.into();
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.push(key, value),
        }
    }

    /// Adds a member without a check for duplicates; call [`Self::settle`] after the last one.
    pub(super) fn push(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        if self.0.is_empty() {
            // The metadata of most actions has one member, and a long thread has many actions.
            self.0.reserve_exact(1);
        }
        self.0.push((key.into(), value));
    }

    /// Merges duplicate keys: the position of the first, the value of the last.
    pub(super) fn settle(&mut self) {
        if !self.has_duplicates() {
            return;
        }
        let mut places: HashMap<InternedStr, usize> = HashMap::with_capacity(self.0.len());
        let mut members: Vec<(InternedStr, RawJson)> = Vec::with_capacity(self.0.len());
        for (key, value) in self.0.drain(..) {
            if let Some(first) = places.get(&key).and_then(|place| members.get_mut(*place)) {
                first.1 = value;
            } else {
                places.insert(key.clone(), members.len());
                members.push((key, value));
            }
        }
        self.0 = members;
    }

    fn has_duplicates(&self) -> bool {
        if self.0.len() <= SEARCHED_ONE_BY_ONE {
            let earlier = |place: usize| self.0.iter().take(place);
            return self
                .0
                .iter()
                .enumerate()
                .any(|(place, (key, _))| earlier(place).any(|(name, _)| name == key));
        }
        let mut names = HashSet::with_capacity(self.0.len());
        !self.0.iter().all(|(key, _)| names.insert(&**key))
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<RawJson> {
        let place = self.0.iter().position(|(name, _)| &**name == key)?;
        Some(self.0.remove(place).1)
    }

    /// Members in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for `{}`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads an object; None for other values.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        raw.is_object().then(|| raw.to().ok()).flatten()
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// Independent of the order of keys.
impl PartialEq for RawObject {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.len() <= SEARCHED_ONE_BY_ONE {
            return self.iter().all(|(key, value)| other.get(key) == Some(value));
        }
        let others: HashMap<&str, &RawJson> = other.iter().collect();
        self.iter().all(|(key, value)| others.get(key) == Some(&value))
    }
}

impl<K: Into<InternedStr>> FromIterator<(K, RawJson)> for RawObject {
    fn from_iter<I: IntoIterator<Item = (K, RawJson)>>(members: I) -> Self {
        let mut object = Self::new();
        for (key, value) in members {
            object.push(key, value);
        }
        object.settle();
        object
    }
}

impl Serialize for RawObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut object = RawObject::new();
                while let Some(key) = map.next_key::<InternedStr>()? {
                    object.push(key, map.next_value()?);
                }
                object.settle();
                Ok(object)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

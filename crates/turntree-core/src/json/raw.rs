//! JSON that is carried as text until somebody asks for it: tool arguments, results, provider metadata, unknown fields.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::eq::eq_value;
use super::reader::{Reader, Token};
use crate::intern::InternedStr;

/// One valid JSON value as its text: numbers, key order and spacing stay as they were written.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks that `text` is one JSON value and keeps it.
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

    /// A JSON string. Total, unlike [`Self::from_value`].
    pub fn from_str_value(text: &str) -> Self {
        Self::from_value(text).unwrap_or_default()
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::from_value(&serde_json::Map::new()).unwrap_or_default()
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// When the value does not have the type's shape; for a [`serde_json::Value`] also when it is nested deeper than
    /// 127 levels.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// Its tokens, in order.
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

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.get().starts_with('[')
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        self.get().starts_with('"')
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

/// A value that a reader has already checked; its text is copied as it is.
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

/// Equal as JSON values: spacing, escapes and the order of object keys do not count, nor how a number is written. Of a
/// key that stands twice in an object the last value counts. Exact, however many digits and levels there are.
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

/// Objects with more members are searched by hash, or a million unknown members would take hours to read.
const SEARCHED_ONE_BY_ONE: usize = 16;

/// An object whose values stay text and whose keys keep their order: parameters, metadata, unknown fields.
///
/// A key that is read twice keeps its first place and its last value, as JSON readers do.
#[derive(Clone, Default)]
pub struct RawObject(Vec<(InternedStr, RawJson)>);

impl RawObject {
    /// No members.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.0.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    /// Sets a key, in its place if it is there already.
    pub fn insert(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        let key = key.into();
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.push(key, value),
        }
    }

    /// Adds a member without looking whether the key is there; [`Self::settle`] has to follow the last one.
    pub(super) fn push(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        if self.0.is_empty() {
            // The metadata of most actions are one member, and a long thread has many of them.
            self.0.reserve_exact(1);
        }
        self.0.push((key.into(), value));
    }

    /// Of keys that were pushed twice, keeps the first place and the last value.
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

    /// Takes a key away and gives its value.
    pub fn remove(&mut self, key: &str) -> Option<RawJson> {
        let place = self.0.iter().position(|(name, _)| &**name == key)?;
        Some(self.0.remove(place).1)
    }

    /// Members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is `{}`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a [`RawJson`] that is an object; `None` for any other value.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        raw.is_object().then(|| raw.to().ok()).flatten()
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// The order of keys does not count.
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

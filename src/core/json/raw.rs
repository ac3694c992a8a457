//! JSON that is carried as text until somebody asks for it: tool arguments, results, provider metadata, unknown fields.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::reader::{Reader, Token};

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
    /// When the value does not have the type's shape.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// The value as a tree. Numbers past 64 bits become floating point; use [`Self::reader`] to see their digits.
    pub fn to_value(&self) -> serde_json::Value {
        self.to().unwrap_or_default()
    }

    /// Its tokens, in order.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.get())
    }

    /// The text of the value if it is a JSON string.
    pub fn as_string(&self) -> Option<String> {
        self.is_string().then(|| self.to().ok()).flatten()
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

/// Equal as JSON values: spacing, escapes and the order of object keys do not count; the digits of numbers do, unless
/// they mean the same number.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        if self.get() == other.get() {
            return true;
        }
        match (self.to::<serde_json::Value>(), other.to::<serde_json::Value>()) {
            (Ok(one), Ok(two)) => one == two,
            // Nested past what a tree may be: compare what is written.
            _ => same_tokens(self.get(), other.get()),
        }
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

/// An object whose values stay text and whose keys keep their order: parameters, metadata, unknown fields.
///
/// A key that is read twice keeps its first place and its last value, as JSON readers do.
#[derive(Clone, Default)]
pub struct RawObject(Vec<(Box<str>, RawJson)>);

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
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: RawJson) {
        let key = key.into();
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
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
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Into<Box<str>>> FromIterator<(K, RawJson)> for RawObject {
    fn from_iter<I: IntoIterator<Item = (K, RawJson)>>(members: I) -> Self {
        let mut object = Self::new();
        for (key, value) in members {
            object.insert(key, value);
        }
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
                while let Some(key) = map.next_key::<Box<str>>()? {
                    object.insert(key, map.next_value()?);
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Whether two texts are the same JSON token by token, spacing aside. Stricter than `==`: key order counts.
pub fn same_tokens(left: &str, right: &str) -> bool {
    let (mut left, mut right) = (Reader::new(left), Reader::new(right));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(Token::String(one)), Some(Token::String(two))) if one.decode() == two.decode() => {}
            (Some(Token::Key(one)), Some(Token::Key(two))) if one.decode() == two.decode() => {}
            (one, two) if one == two => {}
            _ => return false,
        }
    }
}

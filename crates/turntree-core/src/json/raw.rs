//! JSON values that stay text until they are read: tool arguments, results, provider metadata, unknown members.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::compact::compact;
use super::eq::eq_value;
use super::reader::{RAW_JSON, Reader, Token};
use crate::intern::InternedStr;
use crate::limits::Limits;

/// One valid JSON value as text, without spaces between tokens and without unnecessary escapes. Numbers and the order of
/// keys are preserved.
///
/// Every value is brought into this notation when it is created, so that its text does not depend on the notation of the
/// document that it was read from.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks that `text` is one JSON value, and wraps it.
    ///
    /// # Errors
    /// The syntax error, with line and column.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self::compacted)
    }

    /// Parses JSON text that a string of a document contains: arguments of tool calls, structured output, results.
    ///
    /// `None` for text that is not JSON and for text over [`Limits::PAYLOAD`]: a document with its value could be too deep
    /// to be read again. Such text remains a string.
    pub fn from_embedded(text: impl AsRef<str> + Into<String>) -> Option<Self> {
        Limits::PAYLOAD.check(text.as_ref()).ok()?;
        Self::from_text(text.into()).ok()
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// As [`super::write`].
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self::compacted)
    }

    #[inline]
    fn compacted(value: Box<RawValue>) -> Self {
        match compact(value.get()) {
            Cow::Borrowed(_) => Self(value),
            // The text of a valid value stays valid.
            Cow::Owned(text) => Self(RawValue::from_string(text).unwrap_or(value)),
        }
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
        Self::compacted(value.to_owned())
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
        serializer.serialize_newtype_struct(RAW_JSON, &self.0)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::compacted)
    }
}

/// Maximum number of members for linear search. Larger objects have an index: linear search for each member of an
/// object with a million members would take hours.
const SEARCHED_ONE_BY_ONE: usize = 16;

/// An object with raw values and ordered keys: parameters, metadata, unknown members.
///
/// A duplicate key has the position of the first and the value of the last. Access by key takes constant time.
#[derive(Clone, Default)]
pub struct RawObject {
    members: Vec<(InternedStr, RawJson)>,
    /// The position of each key, if there are more than [`SEARCHED_ONE_BY_ONE`] members.
    #[expect(clippy::box_collection, reason = "8 bytes instead of 48: a long thread has many small objects")]
    positions: Option<Box<HashMap<InternedStr, usize>>>,
}

impl RawObject {
    /// An empty object.
    pub const fn new() -> Self {
        Self { members: Vec::new(), positions: None }
    }

    #[inline]
    fn position(&self, key: &str) -> Option<usize> {
        match &self.positions {
            None => self.members.iter().position(|(name, _)| &**name == key),
            Some(positions) => positions.get(key).copied(),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.members.get(self.position(key)?).map(|(_, value)| value)
    }

    /// Sets the value of a key. An existing key preserves its position.
    pub fn insert(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        let key = key.into();
        if let Some((_, old)) = self.position(&key).and_then(|position| self.members.get_mut(position)) {
            *old = value;
            return;
        }
        if let Some(positions) = &mut self.positions {
            positions.insert(key.clone(), self.members.len());
        }
        self.push(key, value);
        if self.positions.is_none() {
            self.index();
        }
    }

    /// Adds a member without a check for duplicates; call [`Self::settle`] after the last one.
    pub(super) fn push(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        if self.members.is_empty() {
            // The metadata of most actions has one member, and a long thread has many actions.
            self.members.reserve_exact(1);
        }
        self.members.push((key.into(), value));
    }

    /// Merges duplicate keys: the position of the first, the value of the last.
    pub(super) fn settle(&mut self) {
        self.index();
        let is_settled = match &self.positions {
            Some(positions) => positions.len() == self.members.len(),
            None => !self.has_duplicates(),
        };
        if is_settled {
            return;
        }
        let mut positions: HashMap<InternedStr, usize> = HashMap::with_capacity(self.members.len());
        let mut members: Vec<(InternedStr, RawJson)> = Vec::with_capacity(self.members.len());
        for (key, value) in self.members.drain(..) {
            if let Some(first) = positions.get(&key).and_then(|position| members.get_mut(*position)) {
                first.1 = value;
            } else {
                positions.insert(key.clone(), members.len());
                members.push((key, value));
            }
        }
        self.members = members;
        self.positions = (self.members.len() > SEARCHED_ONE_BY_ONE).then(|| Box::new(positions));
    }

    fn has_duplicates(&self) -> bool {
        let earlier = |position: usize| self.members.iter().take(position);
        self.members
            .iter()
            .enumerate()
            .any(|(position, (key, _))| earlier(position).any(|(name, _)| name == key))
    }

    /// Builds the index of a large object.
    fn index(&mut self) {
        self.positions = (self.members.len() > SEARCHED_ONE_BY_ONE).then(|| {
            let keys = self.members.iter().enumerate();
            Box::new(keys.map(|(position, (key, _))| (key.clone(), position)).collect())
        });
    }

    /// Removes a key and returns its value. Takes linear time; [`Self::retain`] removes many keys.
    pub fn remove(&mut self, key: &str) -> Option<RawJson> {
        let position = self.position(key)?;
        let (_, value) = self.members.remove(position);
        self.index();
        Some(value)
    }

    /// Removes the members for which the predicate is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.members.retain(|(key, _)| keep(key));
        self.index();
    }

    /// Members in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.members.iter().map(|(key, value)| (&**key, value))
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True for `{}`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
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
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
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

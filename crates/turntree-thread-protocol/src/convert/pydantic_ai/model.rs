//! Pydantic AI messages in memory: the output of the readers and the input of the writers.
//!
//! The types mirror `ModelRequest` and `ModelResponse` of all versions: members in the order of the text, including
//! unknown ones, with payloads as JSON text. Readers borrow from their input.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::write::{is_string, to_json};

/// A value: JSON text, or a container that the converter inspects.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// JSON text from a reader.
    Raw(&'a RawValue),
    /// JSON text from another source; must be one valid value.
    Json(Cow<'a, str>),
    /// A decoded string.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Object<'a>),
    /// A placeholder for the typed field with the same name: `parts` or `usage` of a [`ModelMessage`].
    Field,
}

impl<'a> Value<'a> {
    /// `null`.
    pub const NULL: Self = Self::Json(Cow::Borrowed("null"));

    /// Creates a string.
    pub const fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// Creates a value from valid JSON.
    pub const fn json(text: &'a str) -> Self {
        Self::Json(Cow::Borrowed(text))
    }

    /// The JSON text; `None` for strings and containers.
    pub fn as_json(&self) -> Option<&str> {
        match self {
            Self::Raw(raw) => Some(raw.get()),
            Self::Json(text) => Some(text),
            _ => None,
        }
    }

    /// The string; `None` for other values.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            _ => decode(self.as_json()?),
        }
    }

    /// True for a string.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text(_)) || self.as_json().is_some_and(|json| json.starts_with('"'))
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        self.as_json() == Some("null")
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_)) || self.as_json().is_some_and(|text| text.starts_with('{'))
    }

    /// The JSON text; it is written if the value has none.
    pub fn to_json(&self) -> Cow<'_, str> {
        self.as_json().map_or_else(|| Cow::Owned(to_json(self)), Cow::Borrowed)
    }

    /// True if both values are written as the same bytes.
    pub(super) fn is_written_as(&self, other: &Self) -> bool {
        if let (Some(one), Some(two)) = (self.as_json(), other.as_json()) {
            return one == two;
        }
        match (self, other) {
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::Text(text), leaf) | (leaf, Self::Text(text)) => {
                leaf.as_json().is_some_and(|json| is_string(json, text))
            }
            _ => self == other,
        }
    }
}

/// Two values are equal when their JSON has the same tokens.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field, other) | (other, Self::Field) => matches!(other, Self::Field),
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::Text(text), leaf) | (leaf, Self::Text(text)) => {
                leaf.as_text().is_some_and(|other| other == *text)
            }
            (one, two) => one.to_json() == two.to_json(),
        }
    }
}

/// Decodes a JSON string; borrows if it has no escapes.
fn decode(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

/// The members of an object, in order.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// An object without members.
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// An object without members, with capacity for some.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { members: Vec::with_capacity(capacity) }
    }

    /// Appends a member.
    pub fn push(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) {
        self.members.push((key.into(), value));
    }

    /// The value of a key; the last one if the key is repeated, as JSON readers do.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Replaces the value that [`Self::get`] returns.
    pub(super) fn replace(&mut self, key: &str, value: Value<'a>) {
        if let Some((_, held)) = self.members.iter_mut().rev().find(|(name, _)| name == key) {
            *held = value;
        }
    }

    /// The string value of a key.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.as_text()
    }

    /// Keys and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> + DoubleEndedIterator {
        self.members.iter().map(|(key, value)| (&**key, value))
    }

    /// The value at an index; `null` past the end.
    pub fn at(&self, index: usize) -> &Value<'a> {
        self.members.get(index).map_or(&Value::NULL, |(_, value)| value)
    }

    /// Keys and values, in order, as stored.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &(Cow<'a, str>, Value<'a>)> {
        self.members.iter()
    }

    /// The length of the compact JSON; `field` returns the length of typed fields. `None` if a member was not read from
    /// text.
    fn compact_length(&self, field: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        let mut length = 1 + usize::from(self.members.is_empty());
        for (key, value) in &self.members {
            // A borrowed key has no escapes.
            let Cow::Borrowed(key) = key else { return None };
            let value = match value {
                Value::Field => field(key)?,
                leaf => leaf.as_json()?.len(),
            };
            length += key.len() + value + "\"\":,".len();
        }
        Some(length)
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True for `{}`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Two objects are equal when they are written alike: the same members in the same order.
impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .zip(other.iter())
                .all(|(one, other)| one.0 == other.0 && one.1.is_written_as(other.1))
    }
}

/// One part of a message, including `part_kind`.
pub type Part<'a> = Object<'a>;

/// The `part_kind` of a part.
pub fn part_kind<'p>(part: &'p Part<'_>) -> Cow<'p, str> {
    part.text("part_kind").unwrap_or_default()
}

/// The kind of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A request to the model.
    Request,
    /// A response of the model.
    Response,
    /// A kind of a later version.
    Other(String),
}

impl Kind {
    /// The value of `kind`.
    pub fn name(&self) -> &str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for Kind {
    fn from(name: &str) -> Self {
        match name {
            "request" => Self::Request,
            "response" => Self::Response,
            _ => Self::Other(name.to_owned()),
        }
    }
}

/// A `ModelRequest` or a `ModelResponse`.
#[derive(Debug, Clone)]
pub struct ModelMessage<'a> {
    /// The kind.
    pub kind: Kind,
    /// All members in order. `parts`, and `usage` if it is an object, are [`Value::Field`].
    pub members: Object<'a>,
    /// The parts.
    pub parts: Vec<Part<'a>>,
    /// The token usage of the response.
    pub usage: Option<Object<'a>>,
}

impl ModelMessage<'_> {
    /// The string value of a member.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.members.text(key)
    }

    /// The length of the message if `text`, from which it was read, starts with its compact JSON.
    ///
    /// Spaces and escapes only move values to the right, so the position of the last value decides. `None` if that is
    /// not certain.
    pub(super) fn compact_length_in(&self, text: &str) -> Option<usize> {
        let parts =
            self.parts.iter().try_fold(2, |length, part| Some(length + part.compact_length(|_| None)? + 1));
        let parts = parts? - usize::from(!self.parts.is_empty());
        let usage = self.usage.as_ref().map(|usage| usage.compact_length(|_| None));
        let length = self.members.compact_length(|key| if key == "parts" { Some(parts) } else { usage? })?;
        let last = self.members.iter().next_back()?.1.as_json()?;
        let end = (last.as_ptr() as usize + last.len()).checked_sub(text.as_ptr() as usize)?;
        (end + 1 == length && text.as_bytes().get(end) == Some(&b'}')).then_some(length)
    }
}

/// Two messages are equal when they are written alike.
impl PartialEq for ModelMessage<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(one, other)| one == other)
            && match (&self.usage, &other.usage) {
                (Some(one), Some(other)) => one == other,
                (None, None) => true,
                _ => false,
            }
    }
}

/// A history.
pub type History<'a> = Vec<ModelMessage<'a>>;

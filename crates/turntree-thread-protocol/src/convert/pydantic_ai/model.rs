//! Pydantic AI's messages as Rust sees them: what every reader produces and every writer takes.
//!
//! A mirror of `ModelRequest` and `ModelResponse` that fits every version: members in the order they were written,
//! known or not, with payloads left as text. Readers borrow from their source; nothing here decides what a part means.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::write::{is_string, to_json};

/// A value: a leaf that stays text, or one of the few containers that the converter looks into.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// JSON as it was read.
    Raw(&'a RawValue),
    /// JSON that somebody wrote; must be one valid value.
    Json(Cow<'a, str>),
    /// A string, decoded.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Object<'a>),
    /// The member is the typed field of the same name: `parts` or `usage` of a [`ModelMessage`].
    Field,
}

impl<'a> Value<'a> {
    /// `null`.
    pub const NULL: Self = Self::Json(Cow::Borrowed("null"));

    /// A string.
    pub const fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// JSON that is known to be valid.
    pub const fn json(text: &'a str) -> Self {
        Self::Json(Cow::Borrowed(text))
    }

    /// Its JSON text, if it is a leaf that has one.
    pub fn as_json(&self) -> Option<&str> {
        match self {
            Self::Raw(raw) => Some(raw.get()),
            Self::Json(text) => Some(text),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            _ => decode(self.as_json()?),
        }
    }

    /// Whether it is a string.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text(_)) || self.as_json().is_some_and(|json| json.starts_with('"'))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.as_json() == Some("null")
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_)) || self.as_json().is_some_and(|text| text.starts_with('{'))
    }

    /// Its JSON text; written where it is not text already.
    pub fn to_json(&self) -> Cow<'_, str> {
        self.as_json().map_or_else(|| Cow::Owned(to_json(self)), Cow::Borrowed)
    }

    /// Whether two values are written alike, to the byte.
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

/// Decodes the text of a JSON string; borrowed when it has no escapes.
fn decode(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

/// Members in the order they were written.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// No members.
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// No members, with room for some.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { members: Vec::with_capacity(capacity) }
    }

    /// Adds a member at the end.
    pub fn push(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) {
        self.members.push((key.into(), value));
    }

    /// The value of a key; of one that stands twice, the last, as JSON readers do.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Puts a value in the place of the one that [`Self::get`] gives.
    pub(super) fn replace(&mut self, key: &str, value: Value<'a>) {
        if let Some((_, held)) = self.members.iter_mut().rev().find(|(name, _)| name == key) {
            *held = value;
        }
    }

    /// The string of a key.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.as_text()
    }

    /// Members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> + DoubleEndedIterator {
        self.members.iter().map(|(key, value)| (&**key, value))
    }

    /// The value at a place; `null` past the end.
    pub fn at(&self, index: usize) -> &Value<'a> {
        self.members.get(index).map_or(&Value::NULL, |(_, value)| value)
    }

    /// Members in order, keys as they are held.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &(Cow<'a, str>, Value<'a>)> {
        self.members.iter()
    }

    /// The length of its text without spaces; `field` tells that of typed fields. `None` for what is not as it was read.
    fn compact_length(&self, field: impl Fn(&str) -> Option<usize>) -> Option<usize> {
        let mut length = 1 + usize::from(self.members.is_empty());
        for (key, value) in &self.members {
            // A key that is borrowed had no escapes.
            let Cow::Borrowed(key) = key else { return None };
            let value = match value {
                Value::Field => field(key)?,
                leaf => leaf.as_json()?.len(),
            };
            length += key.len() + value + "\"\":,".len();
        }
        Some(length)
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it is `{}`.
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

/// One part of a message; `part_kind` is among its members.
pub type Part<'a> = Object<'a>;

/// The `part_kind` of a part.
pub fn part_kind<'p>(part: &'p Part<'_>) -> Cow<'p, str> {
    part.text("part_kind").unwrap_or_default()
}

/// Who speaks in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// To the model.
    Request,
    /// From the model.
    Response,
    /// A kind of a later version.
    Other(String),
}

impl Kind {
    /// As `kind` spells it.
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
    /// Who speaks.
    pub kind: Kind,
    /// Every member in order. `parts`, and `usage` where it is an object, are [`Value::Field`] here.
    pub members: Object<'a>,
    /// Its parts.
    pub parts: Vec<Part<'a>>,
    /// What the model's answer cost.
    pub usage: Option<Object<'a>>,
}

impl ModelMessage<'_> {
    /// The string of a member.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.members.text(key)
    }

    /// How long the message is as it is written, if `text`, which it was read from, begins with exactly that.
    ///
    /// Spaces and escapes can only move a value away from its compact place, so the place of the last one decides.
    /// `None` also where that cannot be told.
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

//! Histories from JSON: one pass, borrowed, members in the order of the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::accepts;
use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use crate::core::json::tagged::CowStr;
use crate::core::json::{ParseError, ParseErrorKind, PathSegment};
use crate::core::limits::Limits;

/// Reads a history from text that is UTF-8 already.
///
/// # Errors
/// [`ParseError`] for text that is over a limit, not JSON, or not a list of messages as some version of Pydantic AI
/// reads them; names the place.
pub fn read_history<'a>(text: &'a str, limits: &Limits) -> Result<History<'a>, ParseError> {
    let checked = check(text, limits)?;
    let messages = serde_json::from_str::<Messages<'a>>(text);
    let is_shallow = |messages: &Messages<'_>| !messages.0.iter().any(|message| is_deep(message, limits));
    if !checked && !messages.as_ref().is_ok_and(is_shallow) {
        check_all(text, limits)?;
    }
    let messages = messages.map_err(|error| locate(text, &error))?.0;
    for (index, message) in messages.iter().enumerate() {
        accepts::check(message).map_err(|refusal| refusal.in_message(index))?;
    }
    Ok(messages)
}

const EXPECTED: &str = "a list of messages, as ModelMessagesTypeAdapter.dump_json writes it";

/// Checks what can be told before anything is read; `false` where the depth is left, which is that of the values in
/// messages: see [`is_deep`].
pub(super) fn check(text: &str, limits: &Limits) -> Result<bool, ParseError> {
    if let Some(byte) = half_pair(text) {
        return Err(ParseError {
            kind: ParseErrorKind::Encoding,
            path: Vec::new(),
            message: format!(
                "half a surrogate pair is no character, at byte {byte}; write U+FFFD in its place"
            ),
        });
    }
    if text.len() <= limits.bytes.min(limits.values) && limits.depth > OUTER_LEVELS {
        return Ok(false);
    }
    check_all(text, limits).map(|()| true)
}

fn check_all(text: &str, limits: &Limits) -> Result<(), ParseError> {
    limits.check(text).map_err(|error| ParseError {
        kind: ParseErrorKind::Limit,
        path: Vec::new(),
        message: error.to_string(),
    })
}

/// Where an escape stands for half a surrogate pair, which no UTF-8 can hold.
fn half_pair(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    // The unit that an escape at a place stands for, if one stands there.
    let unit = |place: usize| {
        let digits = text.get(place..place + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut second = None;
    memchr::memmem::find_iter(bytes, b"\\u").find(|place| {
        let before = bytes.get(..*place).unwrap_or_default();
        let is_escaped = before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        let is_second = second.take() == Some(*place);
        match unit(*place) {
            _ if is_escaped || is_second => false,
            Some(0xD800..=0xDBFF) if matches!(unit(place + 6), Some(0xDC00..=0xDFFF)) => {
                second = Some(place + 6);
                false
            }
            Some(0xD800..=0xDFFF) => true,
            _ => false,
        }
    })
}

/// Levels around the members of a part: the history, a message, its parts, a part.
const OUTER_LEVELS: usize = 4;

/// Whether a value may be nested deeper than the limit. The few values that are no scalars are all that can be.
pub(super) fn is_deep(message: &ModelMessage<'_>, limits: &Limits) -> bool {
    let inner = Limits { depth: limits.depth.saturating_sub(OUTER_LEVELS), ..*limits };
    let members =
        message.parts.iter().chain(&message.usage).chain([&message.members]).flat_map(Object::entries);
    let mut nested =
        members.filter_map(|(_, value)| value.as_json().filter(|json| json.starts_with(['{', '['])));
    nested.any(|json| inner.check(json).is_err())
}

/// The quick parse knows no paths; a text that failed is read again to find where.
fn locate(text: &str, error: &serde_json::Error) -> ParseError {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => ParseErrorKind::Truncated,
        serde_json::error::Category::Data => ParseErrorKind::Shape,
        _ => ParseErrorKind::Syntax,
    };
    let mut path = Vec::new();
    if kind == ParseErrorKind::Shape {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        if let Err(located) = serde_path_to_error::deserialize::<_, Messages<'_>>(&mut deserializer) {
            path = located.path().iter().filter_map(segment).collect();
        }
    }
    ParseError { kind, path, message: error.to_string() }
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<PathSegment> {
    match segment {
        serde_path_to_error::Segment::Seq { index } => Some(PathSegment::Index(*index)),
        serde_path_to_error::Segment::Map { key } => Some(PathSegment::Key(key.clone())),
        _ => None,
    }
}

/// The text with `null` for the numbers that Pydantic reads beyond those of JSON; `None` where there are none.
pub(super) fn without_nan(text: &str) -> Option<String> {
    let mut standard = String::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(place) = rest.find(['"', 'N', 'I', '-']) {
        let (before, tail) = rest.split_at(place);
        standard.push_str(before);
        let number = ["NaN", "-Infinity", "Infinity"].into_iter().find(|number| tail.starts_with(number));
        let length = if let Some(number) = number {
            found = true;
            standard.push_str("null");
            number.len()
        } else {
            let length = if tail.starts_with('"') { string_length(tail) } else { 1 };
            standard.push_str(tail.get(..length).unwrap_or_default());
            length
        };
        rest = tail.get(length..).unwrap_or_default();
    }
    standard.push_str(rest);
    found.then_some(standard)
}

/// The bytes of the string that a text begins with, quotes and all.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// The text of each message, spacing and all.
///
/// # Errors
/// When `text` is not a list.
pub(super) fn message_texts(text: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    serde_json::from_str(text)
}

struct Messages<'a>(History<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Messages<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Messages<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(EXPECTED)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Messages<'de>, A::Error> {
                let mut messages = Vec::new();
                while let Some(message) = sequence.next_element()? {
                    messages.push(message);
                }
                Ok(Messages(messages))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ModelMessage<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Message;
        impl<'de> Visitor<'de> for Message {
            type Value = ModelMessage<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a message: an object with \"kind\" and \"parts\"")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ModelMessage<'de>, A::Error> {
                let mut members = Object::with_capacity(20);
                let (mut parts, mut usage) = (None, None);
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    let value = match key.as_str() {
                        "parts" if parts.is_none() => {
                            parts = Some(map.next_value::<Parts<'de>>()?.0);
                            Value::Field
                        }
                        "usage" if usage.is_none() => {
                            let raw = map.next_value::<&'de RawValue>()?;
                            usage = read_object(raw.get());
                            if usage.is_some() { Value::Field } else { Value::Raw(raw) }
                        }
                        _ => Value::Raw(map.next_value()?),
                    };
                    members.push(key.into_cow(), value);
                }
                let kind = members.text("kind").map(|kind| Kind::from(&*kind)).ok_or_else(|| {
                    A::Error::custom(
                        "a message without \"kind\"; Pydantic AI writes \"request\" or \"response\" since 0.0.13",
                    )
                })?;
                let parts = parts.ok_or_else(|| A::Error::missing_field("parts"))?;
                Ok(ModelMessage { kind, members, parts, usage })
            }
        }
        deserializer.deserialize_map(Message)
    }
}

/// The parts of a message.
struct Parts<'a>(Vec<Part<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Parts<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of parts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(PartMembers(part)) = sequence.next_element()? {
                    parts.push(part);
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

struct PartMembers<'a>(Part<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for PartMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = deserializer.deserialize_map(Members)?;
        if part.text("part_kind").is_none() {
            return Err(D::Error::custom(
                "a part without \"part_kind\"; it must say what it is, as \"text\"",
            ));
        }
        Ok(Self(part))
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with a \"part_kind\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::with_capacity(10);
        while let Some(key) = map.next_key::<CowStr<'de>>()? {
            object.push(key.into_cow(), Value::Raw(map.next_value()?));
        }
        Ok(object)
    }
}

/// Looks into the text of an object; `None` for any other value.
pub(super) fn read_object(text: &str) -> Option<Object<'_>> {
    if !text.starts_with('{') {
        return None;
    }
    super::scan::object(text)
        .or_else(|| serde_json::Deserializer::from_str(text).deserialize_map(Members).ok())
}

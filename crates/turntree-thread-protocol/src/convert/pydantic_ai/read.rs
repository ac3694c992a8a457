//! Reads histories from JSON in one pass, borrowed, with members in the order of the text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use super::validation;
use turntree_core::json::tagged::CowStr;
use turntree_core::json::{
    ParseError, ParseErrorKind, PathSegment, describe_error, describe_error_of, without_position,
};
use turntree_core::limits::Limits;

/// Reads a history from UTF-8 text.
///
/// # Errors
/// [`ParseError`] for text that is over a limit, not JSON, or not a list of messages that some version of Pydantic AI
/// accepts. The error has the path.
pub fn read_history<'a>(text: &'a str, limits: &Limits) -> Result<History<'a>, ParseError> {
    let checked = check(text, limits)?;
    let messages = serde_json::from_str::<Messages<'a>>(text);
    if !checked && messages.is_err() {
        check_all(text, limits)?;
    }
    let messages = messages.map_err(|error| locate(text, &error))?.0;
    for (index, message) in messages.iter().enumerate() {
        if let Some(path) = too_deep_path(message, limits) {
            return Err(too_deep(index, path, limits));
        }
        validation::check(message).map_err(|refusal| refusal.in_message(index))?;
    }
    Ok(messages)
}

const EXPECTED: &str = "a list of messages, as ModelMessagesTypeAdapter.dump_json writes it";

/// Checks limits and escapes before parsing. Returns `false` if the depth remains to be checked per message; see
/// [`too_deep_path`].
pub(super) fn check(text: &str, limits: &Limits) -> Result<bool, ParseError> {
    if let Some(byte) = half_pairs(text).next() {
        return Err(ParseError {
            kind: ParseErrorKind::Encoding,
            path: Vec::new(),
            message: format!("lone surrogate at byte {byte}; replace it with U+FFFD"),
        });
    }
    if text.len() <= limits.bytes.min(limits.values) && limits.depth > OUTER_LEVELS {
        return Ok(false);
    }
    check_all(text, limits).map(|()| true)
}

fn check_all(text: &str, limits: &Limits) -> Result<(), ParseError> {
    let limits = Limits { depth: levels(limits), ..*limits };
    limits.check(text).map_err(|error| ParseError {
        kind: ParseErrorKind::Limit,
        path: Vec::new(),
        message: error.to_string(),
    })
}

/// Replaces lone surrogates, which Pydantic rejects, with U+FFFD.
pub(super) fn without_half_pairs(json: &str) -> Cow<'_, str> {
    let mut whole = Cow::Borrowed(json);
    for position in half_pairs(json) {
        whole.to_mut().replace_range(position..position + "\\ufffd".len(), "\\ufffd");
    }
    whole
}

/// The positions of escapes of lone surrogates, which UTF-8 cannot represent.
fn half_pairs(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    // The UTF-16 code unit of an escape.
    let unit = move |position: usize| {
        let digits = text.get(position..position + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut second = None;
    memchr::memmem::find_iter(bytes, b"\\u").filter(move |position| {
        let before = bytes.get(..*position).unwrap_or_default();
        let is_escaped = before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        let is_second = second.take() == Some(*position);
        match unit(*position) {
            _ if is_escaped || is_second => false,
            Some(0xD800..=0xDBFF) if matches!(unit(position + 6), Some(0xDC00..=0xDFFF)) => {
                second = Some(position + 6);
                false
            }
            Some(0xD800..=0xDFFF) => true,
            _ => false,
        }
    })
}

/// The maximum nesting depth of Pydantic's parser.
const LEVELS: usize = 200;
/// The nesting levels around the fields of a part: history, message, parts, part.
const OUTER_LEVELS: usize = 4;

fn levels(limits: &Limits) -> usize {
    limits.depth.min(LEVELS)
}

/// True if Pydantic's parser accepts the nesting of a field of a part.
pub(super) fn is_shallow(json: &str) -> bool {
    keeps_to(json, LEVELS - OUTER_LEVELS)
}

/// True if the nesting is at most `depth`. Empty containers do not count.
fn keeps_to(json: &str, depth: usize) -> bool {
    // Each level has two brackets.
    let is_short = json.len() / 2 <= depth;
    let limits = Limits { bytes: usize::MAX, depth, values: usize::MAX };
    is_short
        || limits.check(json).is_ok()
        || limits.check(&json.replace("[]", "0").replace("{}", "0")).is_ok()
}

/// The path of a value that exceeds the depth limit or Pydantic's limit. Only containers are checked.
pub(super) fn too_deep_path(message: &ModelMessage<'_>, limits: &Limits) -> Option<Vec<PathSegment>> {
    let key = |name: &str| PathSegment::Key(name.to_owned());
    let deep = |object: &Object<'_>, outer: usize| {
        let is_deep = |value: &Value<'_>| {
            let depth = levels(limits).saturating_sub(outer);
            value.as_json().is_some_and(|json| json.starts_with(['{', '[']) && !keeps_to(json, depth))
        };
        object.iter().find(|(_, value)| is_deep(value)).map(|(name, _)| key(name))
    };
    let of_parts = message.parts.iter().enumerate().find_map(|(position, part)| {
        Some(vec![key("parts"), PathSegment::Index(position), deep(part, OUTER_LEVELS)?])
    });
    let of_usage = || Some(vec![key("usage"), deep(message.usage.as_ref()?, OUTER_LEVELS - 1)?]);
    of_parts.or_else(of_usage).or_else(|| Some(vec![deep(&message.members, OUTER_LEVELS - 2)?]))
}

fn too_deep(index: usize, mut path: Vec<PathSegment>, limits: &Limits) -> ParseError {
    path.insert(0, PathSegment::Index(index));
    let levels = levels(limits);
    let remedy = if limits.depth > LEVELS { "Pydantic AI reads no more" } else { "raise the limit" };
    let message = format!("the history is nested deeper than {levels} levels here; flatten it: {remedy}");
    ParseError { kind: ParseErrorKind::Limit, path, message }
}

/// Finds the location of an error by parsing again, because the fast parse does not track paths.
fn locate(text: &str, error: &serde_json::Error) -> ParseError {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => ParseErrorKind::Truncated,
        serde_json::error::Category::Data => ParseErrorKind::Shape,
        _ => ParseErrorKind::Syntax,
    };
    if kind != ParseErrorKind::Shape {
        return ParseError { kind, path: Vec::new(), message: describe_error_of(text, error) };
    }
    let (mut path, mut message) = place_of_error::<Messages<'_>>(text).unwrap_or_default();
    // The counting `parts` member is parsed separately.
    if let [PathSegment::Index(index)] = *path
        && let Some(parts) = parts_text(text, index)
        && let Some((steps, error)) = place_of_error::<Parts<'_>>(&parts)
    {
        path.push(PathSegment::Key("parts".to_owned()));
        path.extend(steps);
        // Line and column would refer to the parts only.
        message = without_position(&error);
    }
    ParseError { kind, path, message }
}

/// The text of the last `parts` member of a message.
fn parts_text(text: &str, index: usize) -> Option<String> {
    let message = message_texts(text).ok()?.get(index).copied()?;
    Some(read_object(message.get())?.get("parts")?.to_json().into_owned())
}

/// The path and message of the first error.
fn place_of_error<'a, T: Deserialize<'a>>(text: &'a str) -> Option<(Vec<PathSegment>, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let located = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    let path = located.path().iter().filter_map(segment).collect();
    Some((path, describe_error(&located.into_inner())))
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<PathSegment> {
    match segment {
        serde_path_to_error::Segment::Seq { index } => Some(PathSegment::Index(*index)),
        serde_path_to_error::Segment::Map { key } => Some(PathSegment::Key(key.clone())),
        _ => None,
    }
}

/// Replaces `NaN` and `Infinity` with `null`; `None` if there are none.
pub(super) fn without_nan(text: &str) -> Option<String> {
    let mut standard = String::with_capacity(text.len());
    let (mut rest, mut replaced) = (text, false);
    while let Some(position) = rest.find(['"', 'N', 'I', '-']) {
        let (before, tail) = rest.split_at(position);
        standard.push_str(before);
        let number = ["NaN", "-Infinity", "Infinity"].into_iter().find(|number| tail.starts_with(number));
        let length = if let Some(number) = number {
            replaced = true;
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
    replaced.then_some(standard)
}

/// The length in bytes of the string at the start of a text, with quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return position + 1,
            _ => {}
        }
    }
    text.len()
}

/// The text of each message, including spaces.
///
/// # Errors
/// An error if `text` is not a list.
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
                // The last of repeated members counts.
                let (mut parts, mut usage) = (None, None);
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    let raw: &'de RawValue = map.next_value()?;
                    match key.as_str() {
                        "parts" => parts = Some(raw),
                        "usage" => usage = Some(raw),
                        _ => {}
                    }
                    members.push(key.into_cow(), Value::Raw(raw));
                }
                let usage = usage.and_then(|usage| read_object(usage.get()));
                if usage.is_some() {
                    members.replace("usage", Value::Field);
                }
                members.replace("parts", Value::Field);
                let kind = members.text("kind").map(|kind| Kind::from(&*kind)).ok_or_else(|| {
                    A::Error::custom(
                        "a message without \"kind\"; Pydantic AI writes \"request\" or \"response\" since 0.0.13",
                    )
                })?;
                let parts = parts.ok_or_else(|| A::Error::missing_field("parts"))?;
                let Parts(parts) = serde_json::from_str(parts.get()).map_err(A::Error::custom)?;
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
            return Err(D::Error::custom("a part without \"part_kind\"; add it, for example \"text\""));
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

/// Reads the members of an object; `None` for other values.
pub(super) fn read_object(text: &str) -> Option<Object<'_>> {
    if !text.starts_with('{') {
        return None;
    }
    super::fast_reader::object(text)
        .or_else(|| serde_json::Deserializer::from_str(text).deserialize_map(Members).ok())
}

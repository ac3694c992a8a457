//! Writes histories as JSON, byte for byte as Pydantic does: compact, with minimal escapes.
//!
//! The same code writes bytes and compares them with existing bytes, so that verification needs no buffer.

use super::model::{ModelMessage, Object, Value};
use turntree_core::json::canonical::write_string;

/// A target of JSON output.
pub trait Sink {
    /// Writes JSON text.
    fn raw(&mut self, text: &str);

    /// Writes a string with quotes and escapes.
    fn string(&mut self, text: &str);
}

impl Sink for Vec<u8> {
    fn raw(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    fn string(&mut self, text: &str) {
        write_string(self, text);
    }
}

/// Compares the output with a text, up to the first difference.
#[derive(Debug)]
pub(super) struct Comparer<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Comparer<'a> {
    /// Compares with the start of `expected`.
    pub(super) const fn new(expected: &'a [u8]) -> Self {
        Self { rest: Some(expected) }
    }

    /// The text after the output; `None` after a difference.
    pub(super) const fn rest(&self) -> Option<&'a [u8]> {
        self.rest
    }
}

impl Sink for Comparer<'_> {
    fn raw(&mut self, text: &str) {
        self.rest = self.rest.and_then(|rest| rest.strip_prefix(text.as_bytes()));
    }

    fn string(&mut self, text: &str) {
        self.rest = self.rest.and_then(|rest| strip_string(rest, text.as_bytes()));
    }
}

/// True if `json` is the output for `text`.
pub(super) fn is_string(json: &str, text: &str) -> bool {
    strip_string(json.as_bytes(), text.as_bytes()).is_some_and(<[u8]>::is_empty)
}

/// The text after the JSON string of `text`, if `json` starts with the output for it. `json` must be valid.
fn strip_string<'a>(json: &'a [u8], mut text: &[u8]) -> Option<&'a [u8]> {
    let mut rest = json.strip_prefix(b"\"")?;
    loop {
        // Valid JSON has no quote and no control character before the next escape or the end of the string.
        let plain = memchr::memchr2(b'"', b'\\', rest)?;
        let (segment, tail) = rest.split_at_checked(plain)?;
        text = text.strip_prefix(segment)?;
        let (mark, tail) = tail.split_first()?;
        if *mark == b'"' {
            return text.is_empty().then_some(tail);
        }
        let (escape, tail) = tail.split_first()?;
        let (byte, after) = text.split_first()?;
        let (expected, tail) = match escape {
            b'"' | b'\\' => (*escape, tail),
            b'b' => (0x08, tail),
            b'f' => (0x0C, tail),
            b'n' => (b'\n', tail),
            b'r' => (b'\r', tail),
            b't' => (b'\t', tail),
            b'u' => {
                let (digits, tail) = tail.split_at_checked(4)?;
                (control_character(digits)?, tail)
            }
            _ => return None,
        };
        if *byte != expected {
            return None;
        }
        (rest, text) = (tail, after);
    }
}

/// The control character of four hexadecimal digits, if the writer would use this escape for it.
fn control_character(digits: &[u8]) -> Option<u8> {
    let low = digits.strip_prefix(b"00")?;
    let text = std::str::from_utf8(low).ok().filter(|text| !text.contains(char::is_uppercase))?;
    let byte = u8::from_str_radix(text, 16).ok()?;
    (byte < 0x20 && !matches!(byte, 0x08 | 0x09 | 0x0A | 0x0C | 0x0D)).then_some(byte)
}

/// Writes a history.
pub fn write_history<S: Sink>(sink: &mut S, messages: &[ModelMessage<'_>]) {
    sink.raw("[");
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            sink.raw(",");
        }
        write_message(sink, message);
    }
    sink.raw("]");
}

/// Writes a message.
pub(super) fn write_message<S: Sink>(sink: &mut S, message: &ModelMessage<'_>) {
    sink.raw("{");
    for (index, (key, value)) in message.members.iter().enumerate() {
        write_key(sink, index, key);
        match value {
            Value::Field if key == "parts" => {
                sink.raw("[");
                for (index, part) in message.parts.iter().enumerate() {
                    if index > 0 {
                        sink.raw(",");
                    }
                    write_object(sink, part);
                }
                sink.raw("]");
            }
            Value::Field => match &message.usage {
                Some(usage) => write_object(sink, usage),
                None => sink.raw("null"),
            },
            _ => write_value(sink, value),
        }
    }
    sink.raw("}");
}

fn write_key<S: Sink>(sink: &mut S, index: usize, key: &str) {
    if index > 0 {
        sink.raw(",");
    }
    sink.string(key);
    sink.raw(":");
}

/// Writes an object.
pub(super) fn write_object<S: Sink>(sink: &mut S, object: &Object<'_>) {
    sink.raw("{");
    for (index, (key, value)) in object.iter().enumerate() {
        write_key(sink, index, key);
        write_value(sink, value);
    }
    sink.raw("}");
}

/// Writes a value.
pub(super) fn write_value<S: Sink>(sink: &mut S, value: &Value<'_>) {
    match value {
        Value::Raw(raw) => sink.raw(raw.get()),
        Value::Json(text) => sink.raw(text),
        Value::Text(text) => sink.string(text),
        Value::List(values) => {
            sink.raw("[");
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    sink.raw(",");
                }
                write_value(sink, value);
            }
            sink.raw("]");
        }
        Value::Object(object) => write_object(sink, object),
        Value::Field => sink.raw("null"),
    }
}

/// The JSON of a value.
pub(super) fn to_json(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_value(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

/// The JSON of an object.
pub(super) fn object_to_json(object: &Object<'_>) -> String {
    let mut out = Vec::new();
    write_object(&mut out, object);
    String::from_utf8(out).unwrap_or_default()
}

/// The JSON of a message.
pub(super) fn message_to_json(message: &ModelMessage<'_>) -> String {
    let mut out = Vec::new();
    write_message(&mut out, message);
    String::from_utf8(out).unwrap_or_default()
}

//! Fast reader for histories in compact JSON, as Pydantic writes them.
//!
//! It reports no errors: it stops at anything unusual, and [`super::read`] then reads the whole text and reports
//! errors. It never accepts invalid JSON. Objects and lists in payloads are parsed by serde.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::model::{Kind, ModelMessage, Object, Part, Value};
use super::read::too_deep_path;
use super::validation;
use turntree_core::json::canonical::plain_length;
use turntree_core::limits::Limits;

/// The outcome of a fast read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// All messages were read.
    Complete,
    /// The callback stopped the read.
    Stopped,
    /// The text needs the general reader. Earlier messages were passed to the callback.
    Unsupported,
}

/// Passes the messages one by one to `take`, which returns `false` to stop.
pub(super) fn for_each_message<'a>(
    text: &'a str,
    limits: &Limits,
    mut take: impl FnMut(ModelMessage<'a>) -> bool,
) -> ReadOutcome {
    let mut reader = FastReader { text, offset: 0 };
    let mut stopped = false;
    let whole = reader.list(|reader| {
        let message = reader.message().filter(|message| too_deep_path(message, limits).is_none())?;
        validation::check(&message).ok()?;
        stopped = !take(message);
        (!stopped).then_some(())
    });
    match whole {
        _ if stopped => ReadOutcome::Stopped,
        Some(()) if reader.peek().is_none() => ReadOutcome::Complete,
        _ => ReadOutcome::Unsupported,
    }
}

/// The members of a text that is one object; `None` for other texts.
pub(super) fn object(text: &str) -> Option<Object<'_>> {
    let mut reader = FastReader { text, offset: 0 };
    let object = reader.object(MEMBERS_OF_A_PART)?;
    reader.peek().is_none().then_some(object)
}

/// Capacities for the members of a message and of a part.
const MEMBERS_OF_A_MESSAGE: usize = 20;
const MEMBERS_OF_A_PART: usize = 12;

struct FastReader<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> FastReader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.offset..).unwrap_or_default()
    }

    /// Skips spaces and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let spaces =
            self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.offset += spaces;
        self.rest().first().copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.offset += 1)
    }

    /// Reads the elements between a pair of brackets.
    fn elements(
        &mut self,
        brackets: [u8; 2],
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let [open, close] = brackets;
        self.take(open)?;
        if self.peek()? == close {
            return self.take(close);
        }
        loop {
            element(self)?;
            match self.peek()? {
                b',' => self.offset += 1,
                byte if byte == close => return self.take(close),
                _ => return None,
            }
        }
    }

    fn list(&mut self, element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.elements([b'[', b']'], element)
    }

    fn members(&mut self, mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        self.elements([b'{', b'}'], |reader| {
            let key = reader.key()?;
            reader.take(b':')?;
            member(reader, key)
        })
    }

    fn message(&mut self) -> Option<ModelMessage<'a>> {
        let mut members = Object::with_capacity(MEMBERS_OF_A_MESSAGE);
        let (mut parts, mut usage) = (None, None);
        self.members(|reader, key| {
            let value = match &*key {
                // The last of repeated members counts: the general reader handles that.
                "parts" if parts.is_some() => return None,
                "usage" if usage.is_some() => return None,
                "parts" => {
                    parts = Some(reader.parts()?);
                    Value::Field
                }
                "usage" if reader.peek()? == b'{' => {
                    usage = Some(reader.object(MEMBERS_OF_A_PART)?);
                    Value::Field
                }
                _ => reader.value()?,
            };
            members.push(key, value);
            Some(())
        })?;
        let kind = Kind::from(&*members.text("kind")?);
        Some(ModelMessage { kind, members, parts: parts?, usage })
    }

    fn parts(&mut self) -> Option<Vec<Part<'a>>> {
        let mut parts = Vec::new();
        self.list(|reader| {
            let part = reader.object(MEMBERS_OF_A_PART)?;
            part.get("part_kind").filter(|kind| kind.is_text())?;
            parts.push(part);
            Some(())
        })?;
        Some(parts)
    }

    fn object(&mut self, capacity: usize) -> Option<Object<'a>> {
        let mut object = Object::with_capacity(capacity);
        self.members(|reader, key| {
            object.push(key, reader.value()?);
            Some(())
        })?;
        Some(object)
    }

    fn key(&mut self) -> Option<Cow<'a, str>> {
        // Keys are short and have no escapes.
        self.take(b'"')?;
        let start = self.offset;
        let length = plain_length(self.rest());
        if self.rest().get(length) == Some(&b'"') {
            self.offset += length + 1;
            return self.text.get(start..start + length).map(Cow::Borrowed);
        }
        self.offset = start - 1;
        serde_json::from_str(self.string()?).ok().map(Cow::Owned)
    }

    fn value(&mut self) -> Option<Value<'a>> {
        let json = match self.peek()? {
            b'"' => self.string()?,
            b'{' | b'[' => {
                let mut values =
                    serde_json::Deserializer::from_str(self.text.get(self.offset..)?).into_iter();
                let raw: &RawValue = values.next()?.ok()?;
                self.offset += values.byte_offset();
                return Some(Value::Raw(raw));
            }
            b'n' => self.word("null")?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            _ => self.number()?,
        };
        Some(Value::json(json))
    }

    fn word(&mut self, word: &str) -> Option<&'a str> {
        let literal = self.text.get(self.offset..)?.get(..word.len()).filter(|literal| *literal == word)?;
        self.offset += word.len();
        Some(literal)
    }

    /// Reads a string with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.offset;
        self.take(b'"')?;
        loop {
            self.offset += plain_length(self.rest());
            match self.rest() {
                [b'"', ..] => {
                    self.offset += 1;
                    return self.text.get(start..self.offset);
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.offset += 2,
                [b'\\', b'u', digits @ ..] if is_hexadecimal(digits.get(..4)?) => self.offset += 6,
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<&'a str> {
        let start = self.offset;
        self.offset += usize::from(self.rest().first() == Some(&b'-'));
        if self.rest().first() == Some(&b'0') {
            self.offset += 1;
        } else {
            self.digits()?;
        }
        if self.rest().first() == Some(&b'.') {
            self.offset += 1;
            self.digits()?;
        }
        if let [b'e' | b'E', after @ ..] = self.rest() {
            self.offset += 1 + usize::from(matches!(after, [b'+' | b'-', ..]));
            self.digits()?;
        }
        self.text.get(start..self.offset)
    }

    fn digits(&mut self) -> Option<()> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.offset += digits;
        (digits > 0).then_some(())
    }
}

fn is_hexadecimal(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

//! A pull reader for valid JSON: one pass, without a tree; numbers are digits.
//!
//! Only for text that serde has accepted ([`super::RawJson`]). On other text it ends early; it does not fail.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::scan::quote_or_backslash;

/// The name of [`super::RawJson`] for serializers: that of canonical JSON writes the value in the text.
pub(super) const RAW_JSON: &str = "RawJson";

/// A token of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// The name of a member; its value follows.
    Key(RawString<'a>),
    /// A string.
    String(RawString<'a>),
    /// A number as written.
    Number(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// A JSON string with its escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawString<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The string as written, with its quotes.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.raw)
    }

    /// The text between the quotes, with its escapes.
    #[inline]
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// True if every escape is in its shortest form: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`.
    pub(super) fn has_only_short_escapes(&self) -> bool {
        let mut rest = if self.escaped { self.raw.as_bytes() } else { &[] };
        while let Some(place) = memchr::memchr(b'\\', rest) {
            match rest.get(place + 1..).and_then(<[u8]>::split_first) {
                Some((b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', after)) => rest = after,
                _ => return false,
            }
        }
        true
    }

    /// The text; borrowed if it has no escapes. An unpaired surrogate, which text cannot contain, becomes U+FFFD.
    #[inline]
    pub fn decode(&self) -> Cow<'a, str> {
        match self.code_points() {
            Cow::Borrowed(_) => Cow::Borrowed(self.raw),
            Cow::Owned(points) => Cow::Owned(String::from_utf8(points).unwrap_or_else(|error| {
                let mut text = String::new();
                for chunk in error.as_bytes().utf8_chunks() {
                    text.push_str(chunk.valid());
                    // The three bytes of an unpaired surrogate are three chunks; count the first.
                    if chunk.invalid().first() == Some(&FIRST_OF_SURROGATE) {
                        text.push(char::REPLACEMENT_CHARACTER);
                    }
                }
                text
            })),
        }
    }

    /// The text as UTF-8 that also encodes unpaired surrogates: two strings are equal if and only if these bytes are.
    pub(super) fn code_points(&self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw.as_bytes());
        }
        // serde_json decodes the escapes; it needs the quotes.
        let quoted = self.quoted();
        Cow::Owned(
            serde_json::from_str::<CodePoints>(&quoted)
                .map_or_else(|_| quoted.into_bytes(), |points| points.0),
        )
    }
}

/// The first byte of an encoded unpaired surrogate.
const FIRST_OF_SURROGATE: u8 = 0xed;

struct CodePoints(Vec<u8>);

impl<'de> Deserialize<'de> for CodePoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = CodePoints;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<CodePoints, E> {
                Ok(CodePoints(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// An iterator over the [`Token`]s of one value.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    text: &'a str,
    offset: usize,
    /// One entry per open container: true for an object.
    inside_object: Vec<bool>,
    /// True if the next string is the name of a member.
    expects_key: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `text`.
    #[inline]
    pub const fn new(text: &'a str) -> Self {
        Self { text, offset: 0, inside_object: Vec::new(), expects_key: false }
    }

    #[inline]
    fn open(&mut self, object: bool) {
        self.inside_object.push(object);
        self.expects_key = object;
    }

    #[inline]
    fn close(&mut self) {
        self.inside_object.pop();
        self.expects_key = false;
    }

    #[inline]
    fn string(&mut self) -> Option<RawString<'a>> {
        let bytes = self.text.as_bytes();
        let start = self.offset + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            end += quote_or_backslash(bytes.get(end..)?)?;
            if bytes.get(end) == Some(&b'"') {
                break;
            }
            escaped = true;
            end += 2;
        }
        self.offset = end + 1;
        self.text.get(start..end).map(|raw| RawString { raw, escaped })
    }

    /// Skips the next value.
    pub(super) fn skip_value(&mut self) {
        let depth = self.inside_object.len();
        while let Some(token) = self.next() {
            let opens = matches!(token, Token::ObjectStart | Token::ArrayStart | Token::Key(_));
            if !opens && self.inside_object.len() <= depth {
                return;
            }
        }
    }

    fn number(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.offset..)?;
        let length = rest
            .bytes()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))
            .unwrap_or(rest.len());
        self.offset += length;
        rest.get(..length)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let byte = *self.text.as_bytes().get(self.offset)?;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' | b':' => self.offset += 1,
                b',' => {
                    self.offset += 1;
                    self.expects_key = self.inside_object.last().copied().unwrap_or(false);
                }
                b'{' | b'[' => {
                    self.offset += 1;
                    self.open(byte == b'{');
                    return Some(if byte == b'{' { Token::ObjectStart } else { Token::ArrayStart });
                }
                b'}' | b']' => {
                    self.offset += 1;
                    self.close();
                    return Some(if byte == b'}' { Token::ObjectEnd } else { Token::ArrayEnd });
                }
                b'"' => {
                    let string = self.string()?;
                    let key = std::mem::replace(&mut self.expects_key, false);
                    return Some(if key { Token::Key(string) } else { Token::String(string) });
                }
                b't' => {
                    self.offset += 4;
                    return Some(Token::Bool(true));
                }
                b'f' => {
                    self.offset += 5;
                    return Some(Token::Bool(false));
                }
                b'n' => {
                    self.offset += 4;
                    return Some(Token::Null);
                }
                _ => return self.number().filter(|digits| !digits.is_empty()).map(Token::Number),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, Token};

    #[test]
    fn reads_every_kind_of_token() {
        let text =
            r#" {"a": [1.50, -2e9, "x\n\"y"], "b\u0041": {"c": null}, "d": true, "e": false, "f": []} "#;

        let tokens: Vec<String> = Reader::new(text)
            .map(|token| match token {
                Token::Key(key) => format!("{}:", key.decode()),
                Token::String(string) => string.decode().into_owned(),
                Token::Number(digits) => digits.to_owned(),
                Token::Bool(value) => value.to_string(),
                Token::Null => "null".to_owned(),
                Token::ObjectStart => "{".to_owned(),
                Token::ObjectEnd => "}".to_owned(),
                Token::ArrayStart => "[".to_owned(),
                Token::ArrayEnd => "]".to_owned(),
            })
            .collect();

        let expected = [
            "{", "a:", "[", "1.50", "-2e9", "x\n\"y", "]", "bA:", "{", "c:", "null", "}", "d:", "true", "e:",
            "false", "f:", "[", "]", "}",
        ];
        assert_eq!(tokens, expected);
    }
}

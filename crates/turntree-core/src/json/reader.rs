//! A pull reader over JSON that is known to be valid: one pass, no tree, numbers as their digits.
//!
//! Only for text that serde has accepted ([`super::RawJson`]); on anything else it ends early rather than fail.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// One step through a value.
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
    /// A number, as it is written.
    Number(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// A JSON string between its quotes, escapes not yet decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawString<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The string as it is written, with its quotes.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.raw)
    }

    /// What stands between the quotes, escapes and all.
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// Whether every escape is one of two characters that has no shorter spelling: `\"`, `\\`, `\b`, `\f`, `\n`,
    /// `\r`, `\t`.
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

    /// The text; borrowed when it has no escapes. Half a surrogate pair, which JSON can write and text cannot hold,
    /// becomes U+FFFD.
    pub fn decode(&self) -> Cow<'a, str> {
        match self.code_points() {
            Cow::Borrowed(_) => Cow::Borrowed(self.raw),
            Cow::Owned(points) => Cow::Owned(String::from_utf8(points).unwrap_or_else(|error| {
                let mut text = String::new();
                for chunk in error.as_bytes().utf8_chunks() {
                    text.push_str(chunk.valid());
                    // Three bytes of half a pair are three chunks; the first tells.
                    if chunk.invalid().first() == Some(&FIRST_OF_SURROGATE) {
                        text.push(char::REPLACEMENT_CHARACTER);
                    }
                }
                text
            })),
        }
    }

    /// The text as UTF-8 in which halves of surrogate pairs stay apart: two strings are the same if and only if these
    /// bytes are.
    pub(super) fn code_points(&self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw.as_bytes());
        }
        // serde_json knows every escape; the quotes are ours to give back.
        let quoted = self.quoted();
        Cow::Owned(
            serde_json::from_str::<CodePoints>(&quoted)
                .map_or_else(|_| quoted.into_bytes(), |points| points.0),
        )
    }
}

/// With what the UTF-8 of half a surrogate pair begins.
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

/// Yields the [`Token`]s of one value.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    text: &'a str,
    offset: usize,
    /// One entry a container we are in: whether it is an object.
    inside_object: Vec<bool>,
    /// In an object: whether the next string is a member's name.
    expects_key: bool,
}

impl<'a> Reader<'a> {
    /// At the start of `text`.
    pub const fn new(text: &'a str) -> Self {
        Self { text, offset: 0, inside_object: Vec::new(), expects_key: false }
    }

    fn open(&mut self, object: bool) {
        self.inside_object.push(object);
        self.expects_key = object;
    }

    fn close(&mut self) {
        self.inside_object.pop();
        self.expects_key = false;
    }

    fn string(&mut self) -> Option<RawString<'a>> {
        let bytes = self.text.as_bytes();
        let start = self.offset + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes.get(end) == Some(&b'"') {
                break;
            }
            escaped = true;
            end += 2;
        }
        self.offset = end + 1;
        self.text.get(start..end).map(|raw| RawString { raw, escaped })
    }

    /// Passes over the value that begins here.
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
    fn walks_every_kind_of_token() {
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

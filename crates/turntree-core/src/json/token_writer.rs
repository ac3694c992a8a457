//! Writes tokens as JSON text.

use super::reader::{RawString, Token};

/// The texts between tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Separators {
    /// Between members and between items.
    pub(super) comma: &'static [u8],
    /// Between key and value.
    pub(super) colon: &'static [u8],
}

/// No spaces.
pub(super) const COMPACT: Separators = Separators { comma: b",", colon: b":" };

/// As Python's `json.dumps` writes.
pub(super) const SPACED: Separators = Separators { comma: b", ", colon: b": " };

/// Writes the tokens of a valid value. `write` writes keys and strings with their quotes; `capacity` is the expected
/// number of bytes.
#[inline]
pub(super) fn write_tokens<'t>(
    tokens: impl Iterator<Item = Token<'t>>,
    separators: Separators,
    capacity: usize,
    mut write: impl FnMut(&mut Vec<u8>, RawString<'t>),
) -> String {
    let mut out = Vec::with_capacity(capacity);
    let mut after_value = false;
    for token in tokens {
        let closes = matches!(token, Token::ObjectEnd | Token::ArrayEnd);
        if after_value && !closes {
            out.extend_from_slice(separators.comma);
        }
        after_value = !matches!(token, Token::ObjectStart | Token::ArrayStart | Token::Key(_));
        match token {
            Token::ObjectStart => out.push(b'{'),
            Token::ObjectEnd => out.push(b'}'),
            Token::ArrayStart => out.push(b'['),
            Token::ArrayEnd => out.push(b']'),
            Token::Key(key) => {
                write(&mut out, key);
                out.extend_from_slice(separators.colon);
            }
            Token::String(string) => write(&mut out, string),
            Token::Number(digits) => out.extend_from_slice(digits.as_bytes()),
            Token::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Token::Null => out.extend_from_slice(b"null"),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

//! The notation of raw values: no spaces between tokens, and as few escapes as possible.
//!
//! Tools that read and write JSON change both. A value that is stored without them is the same text after any tool;
//! numbers, the order of keys and duplicate keys do not change.

use std::borrow::Cow;

use super::canonical::normalize;

/// A valid JSON text without spaces between tokens and without unnecessary escapes; borrowed if it has none.
#[inline]
pub fn compact(text: &str) -> Cow<'_, str> {
    if is_compact(text) { Cow::Borrowed(text) } else { Cow::Owned(normalize(text)) }
}

/// True if [`compact`] does not change a valid JSON text. False also for every text with an unpaired surrogate.
#[inline]
pub fn is_compact(text: &str) -> bool {
    is_solid(text.as_bytes()) || has_solid_tokens(text.as_bytes())
}

/// True if a text has neither spaces nor escapes, in strings either. The loop over a block has no branch per byte, so that
/// the compiler vectorizes it: most metadata is such a text.
#[inline]
fn is_solid(bytes: &[u8]) -> bool {
    const BLOCK: usize = 64;
    let is_other = |byte: &u8| *byte <= 0x20 || *byte == b'\\';
    let block_is_solid = |block: &[u8]| !block.iter().fold(false, |found, byte| found | is_other(byte));
    bytes.chunks(BLOCK).all(block_is_solid)
}

/// Token by token: true if there is no space between tokens and no unnecessary escape in a string.
fn has_solid_tokens(mut rest: &[u8]) -> bool {
    loop {
        let Some(token) = rest.iter().position(|byte| *byte <= 0x20 || *byte == b'"') else { return true };
        if rest.get(token) != Some(&b'"') {
            return false;
        }
        rest = rest.get(token + 1..).unwrap_or_default();
        match after_string(rest) {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// The bytes after a string; `None` if the string has an escape that may be unnecessary. `rest` starts after the opening
/// quote.
#[inline]
fn after_string(mut rest: &[u8]) -> Option<&[u8]> {
    // Most keys and many values are shorter than what `memchr` needs to pay off.
    const SHORT: usize = 16;
    let short = rest.get(..SHORT).unwrap_or(rest);
    if let Some(end) = short.iter().position(|byte| matches!(byte, b'"' | b'\\'))
        && rest.get(end) == Some(&b'"')
    {
        return rest.get(end + 1..);
    }
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        match rest.get(end..)? {
            [b'"', after @ ..] => return Some(after),
            [_, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => rest = after,
            [_, b'u', b'0', b'0', high @ (b'0' | b'1'), low, after @ ..] if is_control(*high, *low) => {
                rest = after;
            }
            _ => return None,
        }
    }
}

/// True if `\u00` and these two digits are the shortest escape of a control character.
const fn is_control(high: u8, low: u8) -> bool {
    let is_digit = matches!(low, b'0'..=b'9' | b'a'..=b'f');
    is_digit && !(high == b'0' && matches!(low, b'8' | b'9' | b'a' | b'c' | b'd'))
}

#[cfg(test)]
mod tests {
    use super::{compact, is_compact};
    use crate::json::canonical::normalize;

    #[test]
    fn a_text_is_compact_if_normalizing_does_not_change_it() {
        for text in [
            r#"{"a":[1.50,-0,1e5,true,null,{}],"b":"a long text: with spaces,\n \" \\ \u0000 \u001f é"}"#,
            r#""""#,
            "[]",
            r#"["abcdefghijklmnopqrstuvwxyz \t","x"]"#,
        ] {
            assert!(is_compact(text), "{text}");
            assert_eq!(normalize(text), text);
        }
    }

    #[test]
    fn spaces_and_unnecessary_escapes_are_removed() {
        for (text, expected) in [
            ("{ }", "{}"),
            ("[1, 2]", "[1,2]"),
            ("{\"a\":\n1}", "{\"a\":1}"),
            (r#"["\/"]"#, r#"["/"]"#),
            (r#"["\u00e9","\u000A","\u001F","\u0008"]"#, r#"["é","\n","\u001f","\b"]"#),
            (r#"["a text over sixteen bytes \u0041"]"#, r#"["a text over sixteen bytes A"]"#),
            (r#"["\ud83d\ude00\ud83d"]"#, "[\"😀\\ud83d\"]"),
        ] {
            assert!(!is_compact(text), "{text}");
            assert_eq!(compact(text), expected);
        }
    }
}

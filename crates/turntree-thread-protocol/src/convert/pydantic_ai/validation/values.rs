//! Iterators over the members and elements of JSON text. They build nothing and skip strings.
//!
//! The JSON must be valid; on other text the iterators end early.

use std::borrow::Cow;

/// The members of an object, in order.
pub(super) fn members(json: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let mut rest = inside(json);
    std::iter::from_fn(move || {
        let key = take(&mut rest)?;
        let value = take(&mut rest)?;
        Some((text_of(key)?, value))
    })
}

/// The elements of a list, in order.
pub(super) fn elements(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = inside(json);
    std::iter::from_fn(move || take(&mut rest))
}

/// The decoded string; borrows if it has no escapes.
pub(super) fn text_of(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(json).ok().map(Cow::Owned)
}

fn inside(json: &str) -> &str {
    json.get(1..json.len().saturating_sub(1)).unwrap_or_default()
}

/// Takes the next value, skipping spaces, commas and colons.
fn take<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches([' ', '\n', '\r', '\t', ',', ':']);
    let length = length(text.as_bytes()).filter(|length| *length > 0)?;
    let (value, after) = text.split_at_checked(length)?;
    *rest = after;
    Some(value)
}

/// The length in bytes of the value at the start of a text.
fn length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => string(bytes, 0),
        b'{' | b'[' => {
            let (mut depth, mut offset) = (0_usize, 0);
            loop {
                match bytes.get(offset)? {
                    b'"' => {
                        offset = string(bytes, offset)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                offset += 1;
                if depth == 0 {
                    return Some(offset);
                }
            }
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            Some(bytes.iter().position(ends).unwrap_or(bytes.len()))
        }
    }
}

/// The end of the string at `start`.
fn string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut end = start + 1;
    loop {
        end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
        if bytes.get(end) == Some(&b'"') {
            return Some(end + 1);
        }
        end += 2;
    }
}

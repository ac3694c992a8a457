//! Times as Pydantic writes them, and as Python's `datetime` does.

use std::borrow::Cow;
use std::ops::Range;

/// Appends the result of `datetime.isoformat()` as Pydantic writes it: `Z` for UTC. `None` if Pydantic writes it in
/// another form: its offset has seconds.
pub fn write_time(out: &mut Vec<u8>, isoformat: &str) -> Option<()> {
    // Date and time to the second, then perhaps six digits of fraction.
    let (seconds, rest) = isoformat.split_at_checked(19)?;
    let (fraction, offset) = if rest.starts_with('.') { rest.split_at_checked(7)? } else { ("", rest) };
    if !matches!(offset.len(), 0 | 6) {
        return None;
    }
    for text in [seconds, fraction, if offset == "+00:00" { "Z" } else { offset }] {
        out.extend_from_slice(text.as_bytes());
    }
    Some(())
}

/// A time as every version of `datetime.fromisoformat()` reads it: UTC is `+00:00`. `None` for a time that Pydantic
/// does not write.
pub fn isoformat_of(time: &str) -> Option<Cow<'_, str>> {
    let bytes = time.as_bytes();
    let digits =
        |range: Range<usize>| bytes.get(range).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit));
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if ![0..4, 5..7, 8..10, 11..13, 14..16, 17..19].into_iter().all(digits)
        || !marks.iter().all(|(index, mark)| bytes.get(*index) == Some(mark))
    {
        return None;
    }
    let end = if bytes.get(19) == Some(&b'.') && digits(20..26) { 26 } else { 19 };
    match bytes.get(end..)? {
        [] => Some(Cow::Borrowed(time)),
        b"Z" => Some(Cow::Owned(format!("{}+00:00", time.get(..end)?))),
        [b'+' | b'-', _, _, b':', _, _] if digits(end + 1..end + 3) && digits(end + 4..end + 6) => {
            Some(Cow::Borrowed(time))
        }
        _ => None,
    }
}

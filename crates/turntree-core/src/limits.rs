//! Limits on the size of untrusted JSON documents, checked before a document is parsed.

use memchr::memchr2;

/// Limits on one JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes. Default: 1 GiB.
    pub bytes: usize,
    /// Maximum nesting of objects and arrays. Default: 256. (Pydantic AI reads about 200.)
    pub depth: usize,
    /// Maximum number of values (object members, array elements), counted by their commas. Default: 50 million.
    pub values: usize,
}

/// The levels around a message in the documents that can contain it: threads, turns, trees, checkpoints, and the sessions of
/// sub-agents.
pub const OUTER_LEVELS_OF_MESSAGES: usize = 32;

impl Limits {
    /// Limits for values inside documents, for JSON text in strings and for vendors' responses. The depth is smaller, so that
    /// the values can be stored in a message, a thread or a session and read again.
    pub const PAYLOAD: Self = Self { bytes: 1 << 30, depth: 160, values: 4_000_000 };

    /// The default limits for a part of a document: a value that is stored `outer` levels below the root of a document
    /// must leave room for these levels, so that the document can be read again.
    pub fn of_part(outer: usize) -> Self {
        let whole = Self::default();
        Self { depth: whole.depth.saturating_sub(outer), ..whole }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 30, depth: 256, values: 50_000_000 }
    }
}

/// A document that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many bytes.
    #[error("the document has {found} bytes, more than the limit of {limit}; split it or raise the limit")]
    Bytes {
        /// The size of the document in bytes.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Nested too deeply.
    #[error(
        "the document is nested deeper than {limit} levels at byte {offset}; flatten it or raise the limit"
    )]
    Depth {
        /// The byte offset of the bracket that exceeds the limit.
        offset: usize,
        /// The maximum depth.
        limit: usize,
    },
    /// Too many values.
    #[error("the document has more than {limit} values at byte {offset}; split it or raise the limit")]
    Values {
        /// The byte offset of the comma that exceeds the limit.
        offset: usize,
        /// The maximum number of values.
        limit: usize,
    },
}

impl Limits {
    /// Checks a text in one pass. The text need not be valid JSON.
    ///
    /// # Errors
    /// [`LimitError`] with the limit and the place.
    pub fn check(&self, text: &str) -> Result<(), LimitError> {
        let bytes = text.as_bytes();
        if bytes.len() > self.bytes {
            return Err(LimitError::Bytes { found: bytes.len(), limit: self.bytes });
        }
        if is_within(bytes, self.depth, self.values) {
            return Ok(());
        }
        // A second pass finds the place.
        let (mut depth, mut values, mut offset) = (0_usize, 0_usize, 0_usize);
        while let Some(byte) = bytes.get(offset) {
            match byte {
                b'{' | b'[' => {
                    depth += 1;
                    if depth > self.depth {
                        return Err(LimitError::Depth { offset, limit: self.depth });
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => {
                    values += 1;
                    if values > self.values {
                        return Err(LimitError::Values { offset, limit: self.values });
                    }
                }
                b'"' => offset = end_of_string(bytes, offset),
                _ => {}
            }
            offset += 1;
        }
        Ok(())
    }
}

/// True if a text is within both limits. Branches only at quotes.
fn is_within(bytes: &[u8], most_depth: usize, most_values: usize) -> bool {
    // A text with fewer bytes than both limits is within them. Most messages end here.
    if bytes.len() <= most_depth && bytes.len() <= most_values {
        return true;
    }
    // A text with fewer opening brackets than the maximum depth is within it.
    if bytes.len() <= most_values && opens_at_most(bytes, most_depth) {
        return true;
    }
    let (mut depth, mut deepest, mut values, mut offset) = (0_usize, 0_usize, 0_usize, 0_usize);
    while let Some(byte) = bytes.get(offset) {
        if *byte == b'"' {
            offset = end_of_string(bytes, offset);
        }
        depth = (depth + usize::from(matches!(byte, b'{' | b'[')))
            .saturating_sub(usize::from(matches!(byte, b'}' | b']')));
        deepest = deepest.max(depth);
        values += usize::from(*byte == b',');
        offset += 1;
    }
    deepest <= most_depth && values <= most_values
}

/// True if a text contains at most `most` opening brackets, including those in strings. Without a branch per byte, the
/// compiler uses SIMD.
fn opens_at_most(bytes: &[u8], most: usize) -> bool {
    // Chunks of the size that a `u8` can count. The two brackets differ in one bit.
    let counts = bytes.chunks(usize::from(u8::MAX)).map(|piece| {
        let opening = piece.iter().map(|byte| u8::from(byte | 0x20 == b'{'));
        usize::from(opening.fold(0_u8, u8::wrapping_add))
    });
    counts
        .scan(0_usize, |total, count| {
            *total += count;
            Some(*total)
        })
        .all(|total| total <= most)
}

/// The first bytes of a string are searched without memchr, because most strings are short and a call costs more.
const SHORT: usize = 12;

/// The offset of the quote that closes the string opened at `start`, or the end of the text.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut offset = start + 1;
    for byte in bytes.get(offset..).unwrap_or_default().iter().take(SHORT) {
        match byte {
            b'"' => return offset,
            b'\\' => break,
            _ => offset += 1,
        }
    }
    while let Some(position) = bytes.get(offset..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        offset += position;
        if bytes.get(offset) == Some(&b'"') {
            return offset;
        }
        offset += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{LimitError, Limits};

    #[test]
    fn ignores_brackets_and_commas_in_strings() {
        let limits = Limits { depth: 2, values: 2, ..Limits::default() };

        assert_eq!(limits.check(r#"{"a":["[[[[\"[[[", ",,,,"]}"#), Ok(()));
        assert_eq!(limits.check("[[[1]]]"), Err(LimitError::Depth { offset: 2, limit: 2 }));
        assert_eq!(limits.check("[1,2,3,4]"), Err(LimitError::Values { offset: 6, limit: 2 }));
        assert!(limits.check("[\"never closed, and, more, commas").is_ok());
    }
}

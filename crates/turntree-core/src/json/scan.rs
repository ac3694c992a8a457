//! Searches in JSON strings. Most strings are keys, ids and names, for which a call of `memchr` costs more than the search;
//! eight bytes at a time are compared as one number.

/// The bytes of a number, all equal to one.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes that are equal to `byte` with their highest bit. Marks above the first one may be wrong.
#[inline]
const fn equal_to(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference & HIGH
}

/// Marks the bytes that need an escape with their highest bit. Marks above the first one may be wrong.
#[inline]
const fn needs_escape(word: u64) -> u64 {
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
    controls | equal_to(word, b'"') | equal_to(word, b'\\')
}

/// The index of the first marked byte.
#[inline]
const fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// The number of bytes before the first byte that needs an escape.
#[inline]
pub fn plain_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let is_escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // The loop over a block has no branch per byte, so that the compiler vectorizes it.
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |escaped, byte| escaped | is_escaped(byte));
    let mut plain = 0;
    if let Some((start, rest)) = bytes.split_at_checked(BLOCK) {
        match first_word(start) {
            Some(place) => return place,
            None => plain = BLOCK + rest.chunks_exact(BLOCK).take_while(is_plain).count() * BLOCK,
        }
    }
    let rest = bytes.get(plain..).unwrap_or_default();
    let (words, _) = rest.as_chunks::<8>();
    for word in words {
        let marks = needs_escape(u64::from_le_bytes(*word));
        if marks != 0 {
            return plain + first(marks);
        }
        plain += 8;
    }
    // The last eight bytes again: those before `plain` need no escape.
    if let Some(word) = bytes.last_chunk::<8>() {
        let marks = needs_escape(u64::from_le_bytes(*word));
        return if marks == 0 { bytes.len() } else { bytes.len() - 8 + first(marks) };
    }
    bytes.iter().position(is_escaped).unwrap_or(bytes.len())
}

/// The index of the first byte that needs an escape, in whole words.
#[inline]
fn first_word(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let marks = words.iter().map(|word| needs_escape(u64::from_le_bytes(*word)));
    marks.enumerate().find(|(_, marks)| *marks != 0).map(|(index, marks)| index * 8 + first(marks))
}

/// The index of the first quote or backslash.
#[inline]
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    /// Words that are searched before `memchr`.
    const WORDS: usize = 3;
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().take(WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks = equal_to(word, b'"') | equal_to(word, b'\\');
        if marks != 0 {
            return Some(index * 8 + first(marks));
        }
    }
    let start = words.len().min(WORDS) * 8;
    memchr::memchr2(b'"', b'\\', bytes.get(start..)?).map(|place| start + place)
}

/// True if a text is ASCII and has no backslash. `prefix` is that of the text.
#[inline]
pub(super) fn is_ascii_without_escapes(bytes: &[u8], prefix: u64) -> bool {
    let others = |word: u64| (word & HIGH) | equal_to(word, b'\\');
    let (words, _) = bytes.as_chunks::<8>();
    let last = bytes.last_chunk::<8>().map_or(prefix, |word| u64::from_le_bytes(*word));
    words.iter().fold(others(last), |found, word| found | others(u64::from_le_bytes(*word))) == 0
}

/// The first eight bytes as a number that has their order; zeros follow a shorter text.
#[inline]
pub(super) fn prefix(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Of the second number, the bytes that are also in the first one are shifted out.
        (Some(one), Some(two)) => {
            let two = u64::from(u32::from_be_bytes(*two)) << (8 * (8 - bytes.len()));
            u64::from(u32::from_be_bytes(*one)) << 32 | two & u64::from(u32::MAX)
        }
        _ => bytes.iter().zip([56, 48, 40]).fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_ascii_without_escapes, plain_length, prefix, quote_or_backslash};

    /// Texts of all lengths up to 80, each with one other byte at each place.
    fn texts() -> impl Iterator<Item = Vec<u8>> {
        let others = [0, 1, 0x1f, 0x20, b'!', b'"', b'#', b'[', b'\\', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff];
        (0..80).flat_map(move |length| {
            (0..=length).flat_map(move |place| {
                others.into_iter().map(move |other| {
                    let mut text = vec![b'a'; length];
                    // A quote after the place: the first of both counts.
                    for (index, byte) in text.iter_mut().enumerate().skip(place) {
                        *byte = if index == place { other } else { b'"' };
                    }
                    text
                })
            })
        })
    }

    #[test]
    fn searches_find_the_first_byte_at_any_place_of_texts_of_any_length() {
        for text in texts() {
            let escaped = text.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'));
            assert_eq!(plain_length(&text), escaped.unwrap_or(text.len()), "{text:?}");
            let quote = text.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            assert_eq!(quote_or_backslash(&text), quote, "{text:?}");
            assert_eq!(
                is_ascii_without_escapes(&text, prefix(&text)),
                text.is_ascii() && !text.contains(&b'\\'),
                "{text:?}"
            );
        }
    }

    #[test]
    fn prefixes_have_the_order_of_the_texts() {
        for text in (0..=9).map(|length| (b'a'..).take(length).collect::<Vec<_>>()) {
            let mut expected = [0; 8];
            expected.iter_mut().zip(&text).for_each(|(to, from)| *to = *from);
            assert_eq!(prefix(&text), u64::from_be_bytes(expected), "{text:?}");
        }
    }
}

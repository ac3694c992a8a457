//! Lone surrogates in JSON text.

use std::borrow::Cow;

/// Replaces lone surrogates with U+FFFD: JavaScript writes them, Rust strings cannot hold them. Decision S24.
pub(in crate::convert) fn mended(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let unit = |offset: usize| {
        let escape = text.get(offset..offset + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let (mut offset, mut copied) = (0, 0);
    while let Some(position) = text.get(offset..).and_then(|rest| rest.find('\\')) {
        let at = offset + position;
        offset = at + 2;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => offset = at + 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push(char::REPLACEMENT_CHARACTER);
                offset = at + 6;
                copied = offset;
            }
            _ => {}
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

//! The notation of a JSON text: what is needed beside its value to write the same text again.
//!
//! Tools that store JSON preserve values, but not texts: they remove or add spaces and escapes, sort members (by name,
//! or by length and name), move members with integer names to the front, and write other digits for a number.

use std::borrow::Cow;

use super::canonical::write_string;
use super::compact::is_compact;
use super::eq::{Node, nodes};
use super::reader::{RawString, Reader, Token};
use super::token_writer::{COMPACT, SPACED, write_tokens};

/// Separators and escapes of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// True for `", "` and `": "` between tokens, as Python's `json.dumps` writes; false for no spaces.
    pub is_spaced: bool,
    /// True if characters beyond ASCII are escapes.
    pub is_ascii: bool,
}

/// The notation of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notation {
    /// Separators and escapes.
    pub style: Style,
    /// The order of the members of each object with two members or more, in the order of the text: for each member its
    /// place among the sorted names. Empty if tools preserve the order.
    pub order: Vec<usize>,
}

impl Notation {
    /// The notation of a valid JSON text. `None` if the text cannot be written again from its value: it has other spaces
    /// or escapes, duplicate keys, or numbers that a tool may write with other digits.
    pub fn of(text: &str) -> Option<Self> {
        let style = if is_compact(text) { Style::default() } else { style_of(text)? };
        let order = if scan(text)? { Vec::new() } else { order_of(text)? };
        Some(Self { style, order })
    }

    /// Writes a value in this notation; borrowed if that is its text already. An order that does not fit the members of
    /// the value is ignored. `value` must be compact; see [`super::compact()`].
    pub fn write<'v>(&self, value: &'v str) -> Cow<'v, str> {
        let Some(tokens) = self.ordered(value) else {
            if self.style == Style::default() {
                return Cow::Borrowed(value);
            }
            return Cow::Owned(write_styled(Reader::new(value), self.style, value.len()));
        };
        Cow::Owned(write_styled(tokens.into_iter(), self.style, value.len()))
    }

    /// The tokens of a value in the stored order; `None` if no order is stored or if it does not fit.
    fn ordered<'v>(&self, value: &'v str) -> Option<Vec<Token<'v>>> {
        if self.order.is_empty() {
            return None;
        }
        let nodes = nodes(value);
        let mut order = self.order.as_slice();
        let mut tokens = Vec::with_capacity(nodes.len());
        // The ranges of nodes that are still to be written, the next one last.
        let mut ranges = Vec::new();
        ranges.push(0..nodes.len());
        while let Some(range) = ranges.pop() {
            let Some(node) = nodes.get(range.start).filter(|_| range.start < range.end) else { continue };
            tokens.push(node.token);
            if node.token != Token::ObjectStart {
                ranges.push(range.start + 1..range.end);
                continue;
            }
            ranges.push(node.end..range.end);
            ranges.push(node.end - 1..node.end);
            let members = members(&nodes, range.start);
            if members.len() < 2 {
                ranges.extend(members.into_iter().map(|member| member.start..member.end));
                continue;
            }
            let (places, rest) = order.split_at_checked(members.len())?;
            order = rest;
            let sorted = sorted(&members);
            let mut taken = vec![false; members.len()];
            for place in places.iter().rev() {
                if std::mem::replace(taken.get_mut(*place)?, true) {
                    return None;
                }
                let member = members.get(*sorted.get(*place)?)?;
                ranges.push(member.start..member.end);
            }
        }
        order.is_empty().then_some(tokens)
    }
}

/// True if every tool can read a valid JSON text: it has no unpaired surrogate, no U+0000 and no number beyond the
/// doubles.
pub fn is_portable(text: &str) -> bool {
    Reader::new(text).all(|token| match token {
        Token::Key(string) | Token::String(string) => is_portable_string(string),
        Token::Number(digits) => digits.parse::<f64>().is_ok_and(f64::is_finite),
        _ => true,
    })
}

/// True if a valid JSON text has a number of 2^53 or more, positive or negative. Tools write such a number with other
/// digits and as another type: integers become doubles, and doubles become integers.
pub fn has_large_numbers(text: &str) -> bool {
    may_have_large_numbers(text.as_bytes())
        && Reader::new(text).any(|token| matches!(token, Token::Number(digits) if is_large(digits)))
}

fn is_large(digits: &str) -> bool {
    !digits.parse::<f64>().is_ok_and(|value| value.abs() < FIRST_LARGE)
}

/// False if a text has neither sixteen digits in a row nor an exponent. Both loops have no branch per byte.
fn may_have_large_numbers(bytes: &[u8]) -> bool {
    const DIGITS: usize = 16;
    const BLOCK: usize = 64;
    // Sixteen digits in a row cover an index that is a multiple of sixteen.
    let mut places = bytes.iter().enumerate().step_by(DIGITS).filter(|(_, byte)| byte.is_ascii_digit());
    let has_run = places.any(|(place, _)| {
        let before = bytes.get(..place).unwrap_or_default().iter().rev();
        let after = bytes.get(place..).unwrap_or_default().iter();
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        before.take(DIGITS).take_while(is_digit).count() + after.take(DIGITS).take_while(is_digit).count()
            >= DIGITS
    });
    if has_run {
        return true;
    }
    let next = bytes.get(1..).unwrap_or_default();
    bytes.chunks(BLOCK).zip(next.chunks(BLOCK)).any(|(one, two)| {
        one.iter().zip(two).fold(false, |found, (digit, exponent)| {
            found | (digit.is_ascii_digit() & matches!(exponent, b'e' | b'E'))
        })
    })
}

fn is_portable_string(string: RawString<'_>) -> bool {
    string.has_only_short_escapes()
        || std::str::from_utf8(&string.code_points()).is_ok_and(|text| !text.contains('\0'))
}

/// The style of a text with spaces or escapes; `None` if it has another one.
fn style_of(text: &str) -> Option<Style> {
    let is_ascii = text.is_ascii() && memchr::memmem::find(text.as_bytes(), b"\\u").is_some();
    let styles = [true, false].map(|is_spaced| Style { is_spaced, is_ascii });
    styles.into_iter().find(|style| write_styled(Reader::new(text), *style, text.len()) == text)
}

fn write_styled<'t>(tokens: impl Iterator<Item = Token<'t>>, style: Style, length: usize) -> String {
    let separators = if style.is_spaced { SPACED } else { COMPACT };
    // Separators with spaces are about an eighth of an object of short values.
    write_tokens(tokens, separators, length + length / 8, |out, string| write_text(out, string, style))
}

/// Writes a string with as few escapes as the style allows.
fn write_text(out: &mut Vec<u8>, string: RawString<'_>, style: Style) {
    if string.has_only_short_escapes() && (!style.is_ascii || string.raw().is_ascii()) {
        out.push(b'"');
        out.extend_from_slice(string.raw().as_bytes());
        out.push(b'"');
        return;
    }
    let start = out.len();
    write_string(out, &string.decode());
    if !style.is_ascii {
        return;
    }
    let written = String::from_utf8(out.split_off(start)).unwrap_or_default();
    for character in written.chars() {
        // `json.dumps` also escapes DEL.
        if character.is_ascii() && character != '\u{7f}' {
            out.push(u8::try_from(character).unwrap_or_default());
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
    }
}

/// Checks the tokens of a text. Returns whether tools preserve the order of the members; `None` if a tool rejects a
/// string or may write a number with other digits.
fn scan(text: &str) -> Option<bool> {
    // The last key of each open container.
    let mut last: Vec<Option<Cow<'_, [u8]>>> = Vec::new();
    let mut is_ordered = true;
    for token in Reader::new(text) {
        match token {
            Token::ObjectStart | Token::ArrayStart => last.push(None),
            Token::ObjectEnd | Token::ArrayEnd => drop(last.pop()),
            Token::Key(string) | Token::String(string) if !is_portable_string(string) => return None,
            Token::Key(key) if is_ordered => {
                let key = key.code_points();
                let Some(last) = last.last_mut() else { continue };
                let follows = |last: &Cow<'_, [u8]>| {
                    !is_integer(last) && !is_integer(&key) && last.len() <= key.len() && **last < *key
                };
                is_ordered = last.as_ref().is_none_or(follows);
                *last = Some(key);
            }
            Token::Number(digits) if !is_stable(digits) => return None,
            _ => {}
        }
    }
    Some(is_ordered)
}

/// True for a name that JavaScript may move before other names.
fn is_integer(key: &[u8]) -> bool {
    !key.is_empty() && key.iter().all(u8::is_ascii_digit)
}

/// 2^53: from here on not every integer is a double.
const FIRST_LARGE: f64 = 9_007_199_254_740_992.0;

/// True if every tool writes a number with these digits.
fn is_stable(digits: &str) -> bool {
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return !is_large(digits) && digits != "-0";
    }
    // Python prints an exponent below 1e-4. From 2^53 on, no double has a fraction.
    digits
        .parse::<f64>()
        .is_ok_and(|value| value.abs() >= 1e-4 && digits.contains('.') && format!("{value}") == digits)
}

/// The nodes of a member: its key and its value.
struct Member<'t> {
    key: Cow<'t, [u8]>,
    start: usize,
    end: usize,
}

/// The members of the object at `start`, in the order of the text.
fn members<'t>(nodes: &[Node<'t>], start: usize) -> Vec<Member<'t>> {
    let mut members = Vec::new();
    let mut place = start + 1;
    while let Some(Node { token: Token::Key(key), .. }) = nodes.get(place) {
        let end = nodes.get(place + 1).map_or(nodes.len(), |value| value.end);
        members.push(Member { key: key.code_points(), start: place, end });
        place = end;
    }
    members
}

/// The indices of members in the order of their keys.
fn sorted(members: &[Member<'_>]) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..members.len()).collect();
    let key = |index: &usize| members.get(*index).map(|member| &*member.key);
    indices.sort_by(|one, two| key(one).cmp(&key(two)));
    indices
}

/// The order of the members of all objects; `None` for duplicate keys.
fn order_of(text: &str) -> Option<Vec<usize>> {
    let nodes = nodes(text);
    let mut order = Vec::new();
    for (start, _) in nodes.iter().enumerate().filter(|(_, node)| node.token == Token::ObjectStart) {
        let members = members(&nodes, start);
        if members.len() < 2 {
            continue;
        }
        let first = order.len();
        order.resize(first + members.len(), 0);
        let mut last: Option<&[u8]> = None;
        for (place, index) in sorted(&members).into_iter().enumerate() {
            let key = members.get(index).map(|member| &*member.key);
            if last == key {
                return None;
            }
            last = key;
            *order.get_mut(first + index)? = place;
        }
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::{Notation, Style, has_large_numbers, is_portable};
    use crate::json::compact;

    const SPACED: Style = Style { is_spaced: true, is_ascii: false };
    const ASCII: Style = Style { is_spaced: false, is_ascii: true };

    #[test]
    fn a_text_comes_back_from_its_value_in_another_order() {
        for (text, value) in [
            (r#"{"city": "Paris"}"#, r#"{"city":"Paris"}"#),
            (r#"{"query":"x","limit":10}"#, r#"{"limit":10,"query":"x"}"#),
            (
                r#"{"b": {"z": [1, {"y": 1, "x": {}}], "a": 2}, "a": []}"#,
                r#"{"a":[],"b":{"a":2,"z":[1,{"x":{},"y":1}]}}"#,
            ),
            (r#"{"b":1,"1":2,"é":"\n\"","😀":0.5}"#, r#"{"1":2,"b":1,"é":"\n\"","😀":0.5}"#),
            (r#"{"a": "\u00e9\ud83d\ude00\u007f"}"#, "{\"a\":\"é😀\u{7f}\"}"),
            (r#"{"a":"\u00e9"}"#, r#"{"a":"é"}"#),
            ("{}", "{}"),
        ] {
            let notation = Notation::of(text).unwrap();
            assert_eq!(notation.write(value), text);
            assert_eq!(notation.write(&compact(text)), text);
        }
    }

    #[test]
    fn an_order_is_stored_only_if_a_tool_may_change_it() {
        for (text, order) in [
            (r#"{"a":1,"b":2,"cc":3}"#, vec![]),
            (r#"{"aa":1,"b":2}"#, vec![0, 1]),
            (r#"{"-":1,"1":2}"#, vec![0, 1]),
            (r#"{"b":[{"d":1,"c":2}]}"#, vec![1, 0]),
        ] {
            assert_eq!(Notation::of(text), Some(Notation { style: Style::default(), order }));
        }
        assert_eq!(Notation::of(r#"{"a": 1}"#).map(|notation| notation.style), Some(SPACED));
        assert_eq!(Notation::of(r#"{"a":"\u00e9"}"#).map(|notation| notation.style), Some(ASCII));
    }

    #[test]
    fn some_texts_do_not_follow_from_their_value() {
        for text in [
            r#"{"a" : 1}"#,
            r#"{"a": 1,"b":2}"#,
            r#"{ "a":1}"#,
            r#"{"a":1} "#,
            "{\n}",
            r#"{"a":"\/"}"#,
            r#"{"a":"\u00E9"}"#,
            r#"{"a":"\u00e9é"}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"b":1,"a":{"x":1,"x":2}}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e5}"#,
            r#"{"a":-0}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":0.00001}"#,
            r#"{"a":0.1000000000000000055511}"#,
            r#"{"a":-0.0}"#,
            r#"{"a":1.5e3}"#,
            r#"{"a":"\ud800"}"#,
        ] {
            assert_eq!(Notation::of(text), None, "{text}");
        }
    }

    #[test]
    fn an_order_that_does_not_fit_is_ignored() {
        let value = r#"{"a":1,"b":2}"#;
        for order in [vec![0], vec![1, 1], vec![2, 0], vec![1, 0, 0]] {
            assert_eq!(Notation { style: SPACED, order }.write(value), r#"{"a": 1, "b": 2}"#);
        }
        assert_eq!(Notation { style: SPACED, order: vec![1, 0] }.write(value), r#"{"b": 2, "a": 1}"#);
    }

    #[test]
    fn numbers_from_two_to_the_53rd_on_are_large() {
        for number in ["9007199254740992", "-9007199254740993", "1e16", "1E+400", "123456789012345678.5"] {
            for offset in 0..70 {
                let text = format!("[\"{}\",{number}]", "x".repeat(offset));
                assert!(has_large_numbers(&text), "{text}");
            }
        }
        for text in
            ["9007199254740991", "[1e15,1.5e-400]", r#"["12345678901234567890"]"#, "[0.12345678901234567890]"]
        {
            assert!(!has_large_numbers(text), "{text}");
        }
    }

    #[test]
    fn texts_that_a_tool_rejects_are_not_portable() {
        for text in [r#"["\ud800"]"#, r#"{"\u0000":1}"#, "[1e400]", r#"["\\u0000 \u0000"]"#] {
            assert!(!is_portable(text), "{text}");
        }
        assert!(is_portable(r#"{"a":["\ud83d\ude00","\\u0000",1e308,-0,12345678901234567890]}"#));
    }
}

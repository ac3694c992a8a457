//! Canonical JSON: [`canonical`] (RFC 8785) for hashes and comparison, and [`normalize`], which only removes spaces and
//! unnecessary escapes.
//!
//! Both require valid JSON and cannot fail.

use std::borrow::Cow;
use std::cmp::Ordering;

pub use super::canonical_writer::{CanonicalWriter, MemberOverride};
use super::reader::{RawString, Reader, Token};
pub use super::scan::plain_length;
use super::token_writer::{COMPACT, write_tokens};

/// Which values have the same canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CanonicalForm {
    /// Different values have different forms. Integers are exact. Numbers with a fraction or an exponent are doubles;
    /// those beyond the range of doubles are exact. An unpaired surrogate stays an escape.
    ///
    /// Deviates from RFC 8785 only where that maps different values to one form: integers beyond 2^53, numbers beyond
    /// the doubles, and unpaired surrogates.
    #[default]
    Exact,
    /// The value after `JSON.parse` and `JSON.stringify`: all numbers are doubles, numbers beyond the doubles are
    /// `null`, an unpaired surrogate is U+FFFD, and members named `__proto__` are absent.
    /// [`lossy_conversions`](super::lossy::lossy_conversions) lists the changed numbers and the lost members.
    JavaScript,
}

/// The canonical form of a JSON text (RFC 8785): no spaces, keys sorted by UTF-16 code units, numbers as ECMAScript
/// prints them, as few escapes as possible. The last value of a duplicate key counts.
pub fn canonical(text: &str, form: CanonicalForm) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    CanonicalWriter::new(form).write_text(&mut out, text, None);
    out
}

/// Removes spaces and unnecessary escapes. Numbers, the order of keys and duplicate keys do not change.
pub fn normalize(text: &str) -> String {
    write_tokens(Reader::new(text), COMPACT, text.len(), normalize_string)
}

/// Normalizes, and writes numbers in their canonical form: tools that store JSON write other digits for the same number.
pub fn normalize_with_numbers(text: &str) -> String {
    let in_text = |token| if let Token::Number(digits) = token { Some(digits) } else { None };
    let numbers: Vec<Cow<'_, str>> =
        Reader::new(text).filter_map(in_text).map(|digits| number(digits, CanonicalForm::Exact)).collect();
    let mut rest = numbers.iter();
    let tokens = Reader::new(text).map(|token| match token {
        Token::Number(digits) => Token::Number(rest.next().map_or(digits, |number| number)),
        other => other,
    });
    write_tokens(tokens, COMPACT, text.len(), normalize_string)
}

/// Writes `null` for numbers beyond the doubles, as `JSON.stringify` does; some tools refuse a document with such a number.
/// Returns `None` if the text has none.
pub fn without_numbers_beyond_doubles(text: &str) -> Option<String> {
    let is_beyond = |token: &Token<'_>| matches!(token, Token::Number(digits) if !digits.parse::<f64>().is_ok_and(f64::is_finite));
    if !Reader::new(text).any(|token| is_beyond(&token)) {
        return None;
    }
    let tokens = Reader::new(text).map(|token| if is_beyond(&token) { Token::Null } else { token });
    Some(write_tokens(tokens, COMPACT, text.len(), normalize_string))
}

/// Writes a JSON string. Escapes only `"`, `\` and C0 controls, as `serde_json` does.
#[inline]
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, after) = rest.split_at_checked(plain_length(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((byte, after)) = after.split_first() else { break };
        let short = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            0x09 => b't',
            0x0A => b'n',
            0x0C => b'f',
            0x0D => b'r',
            control => {
                let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 15)]);
                rest = after;
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
        rest = after;
    }
    out.push(b'"');
}

/// Writes a string with as few escapes as possible.
fn normalize_string(out: &mut Vec<u8>, string: RawString<'_>) {
    let points = string.code_points();
    match std::str::from_utf8(&points) {
        Ok(text) => write_string(out, text),
        Err(_) => write_unpaired(out, &points),
    }
}

/// The key that sets the prototype of an object in JavaScript.
pub(super) const PROTOTYPE: &str = "__proto__";

/// Writes a string with as few escapes as possible.
#[inline]
pub(super) fn write_raw_string(out: &mut Vec<u8>, string: RawString<'_>, form: CanonicalForm) {
    if string.has_only_short_escapes() {
        out.push(b'"');
        out.extend_from_slice(string.raw().as_bytes());
        out.push(b'"');
        return;
    }
    let points = string.code_points();
    match std::str::from_utf8(&points) {
        Ok(text) => write_string(out, text),
        Err(_) if form == CanonicalForm::JavaScript => write_string(out, &string.decode()),
        Err(_) => write_unpaired(out, &points),
    }
}

/// Writes a string with unpaired surrogates as escapes.
fn write_unpaired(out: &mut Vec<u8>, points: &[u8]) {
    out.push(b'"');
    for character in char::decode_utf16(utf16_units(points)) {
        match character {
            Ok(character) => {
                // The text between the quotes that `write_string` would put around it.
                let quoted = out.len();
                write_string(out, character.encode_utf8(&mut [0; 4]));
                out.pop();
                out.remove(quoted);
            }
            Err(unpaired) => {
                out.extend_from_slice(format!("\\u{:04x}", unpaired.unpaired_surrogate()).as_bytes())
            }
        }
    }
    out.push(b'"');
}

/// Compares by UTF-16 code units. UTF-8 has another order if one key has a character beyond U+FFFF.
pub(super) fn by_utf16(one: &[u8], two: &[u8]) -> Ordering {
    if one.is_ascii() && two.is_ascii() { one.cmp(two) } else { utf16_units(one).cmp(utf16_units(two)) }
}

/// The UTF-16 code units of UTF-8 in which unpaired surrogates may be encoded as three bytes.
fn utf16_units(points: &[u8]) -> impl Iterator<Item = u16> {
    let mut bytes = points.iter().map(|byte| u32::from(*byte));
    let mut low = None;
    std::iter::from_fn(move || {
        if let Some(unit) = low.take() {
            return Some(unit);
        }
        let first = bytes.next()?;
        let mut next = || bytes.next().unwrap_or_default() & 0x3F;
        let point = match first {
            0x00..0x80 => first,
            0x80..0xE0 => (first & 0x1F) << 6 | next(),
            0xE0..0xF0 => (first & 0x0F) << 12 | next() << 6 | next(),
            _ => (first & 0x07) << 18 | next() << 12 | next() << 6 | next(),
        };
        let Ok(unit) = u16::try_from(point) else {
            let mut pair = [0; 2];
            char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf16(&mut pair);
            let [first, second] = pair;
            low = Some(second);
            return Some(first);
        };
        Some(unit)
    })
}

/// The canonical form of a number.
#[inline]
pub(super) fn number(digits: &str, form: CanonicalForm) -> Cow<'_, str> {
    // Different decimals of at most fifteen digits are different doubles, so their digits are the shortest ones.
    if digits.len() <= 15 && is_plain_decimal(digits.as_bytes()) {
        return Cow::Borrowed(digits);
    }
    match form {
        CanonicalForm::Exact => exact_number(digits),
        CanonicalForm::JavaScript => match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Cow::Owned(ecmascript(value)),
            _ => Cow::Borrowed("null"),
        },
    }
}

/// True for an integer without a sign, and for a number without an exponent that ECMAScript prints without one: it does not
/// end in zero and has at most five zeros after the point.
fn is_plain_decimal(digits: &[u8]) -> bool {
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match digits.get(whole..) {
        Some([]) => true,
        Some([b'.', fraction @ .., b'1'..=b'9']) => {
            let has_digits_only = fraction.iter().all(u8::is_ascii_digit);
            has_digits_only && (digits.first() != Some(&b'0') || !fraction.starts_with(b"00000"))
        }
        _ => false,
    }
}

/// 2^53. From here on ECMAScript prints zeros for the last digits of an integer.
const FIRST_ROUNDED: f64 = 9_007_199_254_740_992.0;

/// From here on ECMAScript prints an exponent.
const FIRST_WITH_EXPONENT: f64 = 1e21;

/// Writes a number so that different numbers have different texts.
///
/// Doubles are written as in ECMAScript, but from 2^53 to 10^21 with all digits, because the rounded digits may be
/// those of another integer. Integers that are not doubles are written with all digits. From 10^21 on all doubles have
/// an exponent, so they differ from these integers.
fn exact_number(digits: &str) -> Cow<'_, str> {
    let is_integer = !digits.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite());
    match value {
        Some(value) if value.abs() < FIRST_ROUNDED => Cow::Owned(ecmascript(value)),
        Some(value) if value.abs() < FIRST_WITH_EXPONENT => {
            if is_integer {
                Cow::Borrowed(digits)
            } else {
                Cow::Owned(format!("{value:.0}"))
            }
        }
        Some(value) if !is_integer || format!("{value:.0}") == digits => Cow::Owned(ecmascript(value)),
        _ if is_integer => Cow::Borrowed(digits),
        _ => Cow::Owned(with_exponent(digits)),
    }
}

/// A number beyond the doubles in scientific notation: one digit, a point, the other digits and the exponent.
fn with_exponent(digits: &str) -> String {
    let (sign, unsigned) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    // An exponent beyond 128 bits stays as written: no mantissa that fits into memory shifts it into the range.
    let Ok(written) = exponent.parse::<i128>() else { return digits.to_owned() };
    let shift = i128::try_from(whole.len()).unwrap_or_default()
        - i128::try_from(all.len() - significant.len()).unwrap_or_default();
    let exponent = written.saturating_add(shift).saturating_sub(1);
    let significant = significant.trim_end_matches('0');
    let (first, rest) = significant.split_at_checked(1).unwrap_or((significant, ""));
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e+{exponent}")
}

/// The shortest digits that parse to the same positive double, and how many of them stand before the point.
///
/// They come from `serde_json`: of two texts that are equally short and equally close it takes the one with an even
/// digit, as ECMAScript requires. The standard library takes the larger one.
fn shortest_digits(value: f64) -> (String, i32) {
    let text = serde_json::to_string(&value).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    let before_point = i32::try_from(whole.len()).unwrap_or(i32::MAX);
    let zeros = i32::try_from(all.len() - significant.len()).unwrap_or(i32::MAX);
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let point = before_point.saturating_sub(zeros).saturating_add(exponent);
    (significant.trim_end_matches('0').to_owned(), point)
}

/// `Number::toString` of ECMA-262 for a finite double.
pub fn ecmascript(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (digits, point) = shortest_digits(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let exponent = point.saturating_sub(1);
    let zeros = |many: i32| "0".repeat(usize::try_from(many).unwrap_or_default());
    let split = |place: i32| digits.split_at_checked(usize::try_from(place).unwrap_or_default());
    match point {
        1..=21 if count <= point => format!("{sign}{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, fraction) = split(point).unwrap_or((&digits, ""));
            format!("{sign}{whole}.{fraction}")
        }
        -5..=0 => format!("{sign}0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = split(1).unwrap_or((&digits, ""));
            let dot = if rest.is_empty() { "" } else { "." };
            let plus = if exponent < 0 { "-" } else { "+" };
            format!("{sign}{first}{dot}{rest}e{plus}{}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CanonicalForm, canonical, ecmascript, normalize};

    fn text(json: &str) -> String {
        String::from_utf8(canonical(json, CanonicalForm::JavaScript)).unwrap()
    }

    fn exact(json: &str) -> String {
        String::from_utf8(canonical(json, CanonicalForm::Exact)).unwrap()
    }

    #[test]
    fn the_exact_form_distinguishes_values_that_javascript_does_not() {
        for (json, expected) in [
            ("[9007199254740993,-9007199254740993]", "[9007199254740993,-9007199254740993]"),
            ("[12345678901234567000,12345678901234567000.0]", "[12345678901234567000,12345678901234567168]"),
            (
                "[12345678901234567168,1.2345678901234567168e19]",
                "[12345678901234567168,12345678901234567168]",
            ),
            (
                "[1e22,10000000000000000000000,10000000000000000000001]",
                "[1e+22,1e+22,10000000000000000000001]",
            ),
            ("[1e400,-12.50e400,1e399]", "[1e+400,-1.25e+401,1e+399]"),
            (r#"{"b":1,"__proto__":{"x":1},"a":2}"#, r#"{"__proto__":{"x":1},"a":2,"b":1}"#),
            (r#"["\uD800","\ufffd","a\udc00\n\"b"]"#, "[\"\\ud800\",\"\u{FFFD}\",\"a\\udc00\\n\\\"b\"]"),
            (r#"{"\uFFFD":1,"\uD800":2,"\uD800":3}"#, "{\"\\ud800\":3,\"\u{FFFD}\":1}"),
        ] {
            assert_eq!(exact(json), expected);
            assert_eq!(exact(expected), expected);
        }
    }

    #[test]
    fn both_forms_match_rfc_8785_for_interoperable_values() {
        let json = r#"{"😀":1.0,"b":[-0,1e2,0.1,1E-7,9007199254740991,"\u20ac\/"],"a":{"\ufb33":null}}"#;

        assert_eq!(exact(json), text(json));
        assert_eq!(
            exact(json),
            "{\"a\":{\"\u{FB33}\":null},\"b\":[0,100,0.1,1e-7,9007199254740991,\"€/\"],\"😀\":1}"
        );
    }

    #[test]
    fn writes_the_example_of_rfc_8785() {
        let source = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;

        assert_eq!(
            text(source),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
    }

    #[test]
    fn sorts_keys_by_utf16_units_and_preserves_the_last_of_duplicates() {
        assert_eq!(
            text("{\"\u{FB33}\":1,\"\u{1F600}\":2,\"\\r\":3,\"b\":1,\"a\":0,\"b\":{\"z\":[],\"y\":{}}}"),
            "{\"\\r\":3,\"a\":0,\"b\":{\"y\":{},\"z\":[]},\"\u{1F600}\":2,\"\u{FB33}\":1}"
        );
    }

    #[test]
    fn prints_numbers_as_ecmascript_does() {
        for (value, printed) in [
            (-0.0, "0"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-123.456, "-123.456"),
            (123e-8, "0.00000123"),
            // Halfway between two texts of sixteen digits: the even one.
            (70_368_744_177_664.0 + 0.625, "70368744177664.62"),
            (-70_368_744_177_664.0 - 0.375, "-70368744177664.38"),
            (2.5e-7, "2.5e-7"),
            (1e-5, "0.00001"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(ecmascript(value), printed);
        }
        assert_eq!(text("[1.0,-0,1e2,12345678901234567890,1e400]"), "[1,0,100,12345678901234567000,null]");
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(
            text(r#"["\ud83d\ude00","a\ud83d\n","\udc00"]"#),
            "[\"😀\",\"a\u{FFFD}\\n\",\"\u{FFFD}\"]"
        );
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let depth = 200_000;
        let source = format!("{}1{}", "{\"a\":[".repeat(depth), "]}".repeat(depth));

        assert_eq!(text(&source).len(), source.len());
    }

    #[test]
    fn normalizing_preserves_every_token() {
        assert_eq!(
            normalize(" { \"a\" : [ 1.50 , \"\\u0041\\/\" , { } ] , \"a\" : null } "),
            r#"{"a":[1.50,"A/",{}],"a":null}"#
        );
        assert_eq!(normalize(r#"["\ud83d","\uD83D\uDE00\uDE00"]"#), r#"["\ud83d","😀\ude00"]"#);
    }
}

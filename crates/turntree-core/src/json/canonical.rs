//! One spelling for each JSON value: [`canonical`] (RFC 8785) for hashes and comparison, [`normalize`] for text that only
//! needs the spelling of a JSON writer.
//!
//! Both read text that is known to be valid JSON, and neither can fail: what a JavaScript number or string cannot hold
//! becomes what `JSON.stringify` of a browser would make of it (`null` for a number past the doubles, U+FFFD for half
//! a surrogate pair).

use std::borrow::Cow;
use std::cmp::Ordering;

use super::reader::{RawString, Reader, Token};

/// The canonical form of a JSON text, RFC 8785: no spaces, keys in the order of their UTF-16 units, numbers as
/// ECMAScript prints the double, as few escapes as can be. Of a key that stands twice the last value counts. Members
/// called `__proto__` are left out: no browser takes them for members. [`losses`](super::losses::losses) names what of
/// this cannot be undone.
pub fn canonical(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    write_canonical(&mut out, text, None);
    out
}

/// A member of an object, and what writes another value in its place.
pub type MemberOverride<'i> = (&'i str, &'i mut dyn FnMut(&mut Vec<u8>));

/// Writes the canonical form of a JSON text at the end of `out`, with another value for one member of the object that
/// the text is.
pub fn write_canonical(out: &mut Vec<u8>, text: &str, instead: Option<MemberOverride<'_>>) {
    let members = Vec::with_capacity(32);
    Canonical { out, open: Vec::new(), members, moved: Vec::new() }.write(text, instead);
}

/// The same tokens without spaces and with as few escapes as can be; numbers, key order and double keys stay.
pub fn normalize(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut after_value = false;
    for token in Reader::new(text) {
        let closes = matches!(token, Token::ObjectEnd | Token::ArrayEnd);
        if after_value && !closes {
            out.push(b',');
        }
        after_value = !matches!(token, Token::ObjectStart | Token::ArrayStart | Token::Key(_));
        match token {
            Token::ObjectStart => out.push(b'{'),
            Token::ObjectEnd => out.push(b'}'),
            Token::ArrayStart => out.push(b'['),
            Token::ArrayEnd => out.push(b']'),
            Token::Key(key) => {
                normalize_string(&mut out, key);
                out.push(b':');
            }
            Token::String(string) => normalize_string(&mut out, string),
            Token::Number(digits) => out.extend_from_slice(digits.as_bytes()),
            Token::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Token::Null => out.extend_from_slice(b"null"),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a JSON string with the escapes that every JSON writer of the house uses: `"`, `\` and C0 controls.
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

/// How many bytes stand before the first one that needs an escape. Blocks without one are passed over whole, with no
/// branch a byte, so that the compiler looks at sixteen bytes at once.
pub fn plain_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let needs_escape = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // Most strings are keys, ids and words.
    let short = bytes.get(..BLOCK).unwrap_or(bytes);
    if let Some(place) = short.iter().position(needs_escape) {
        return place;
    }
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | needs_escape(byte));
    let plain = short.len() + bytes.chunks_exact(BLOCK).skip(1).take_while(is_plain).count() * BLOCK;
    let rest = bytes.get(plain..).unwrap_or_default();
    plain + rest.iter().position(needs_escape).unwrap_or(rest.len())
}

/// Half a surrogate pair has no other spelling than its escape, so such a string stays as it is.
fn normalize_string(out: &mut Vec<u8>, string: RawString<'_>) {
    match std::str::from_utf8(&string.code_points()) {
        Ok(text) => write_string(out, text),
        Err(_) => out.extend_from_slice(string.quoted().as_bytes()),
    }
}

/// The key that JavaScript takes for the prototype of an object.
pub(super) const PROTOTYPE: &str = "__proto__";

/// A value on its way to its canonical form. Members are written as they are read; where an object ends and they are
/// not in order, they are moved.
struct Canonical<'o, 't> {
    out: &'o mut Vec<u8>,
    /// The containers that are open.
    open: Vec<Open>,
    /// The members of the objects that are open, inner ones last.
    members: Vec<Member<'t>>,
    /// Members on their way to another place.
    moved: Vec<u8>,
}

/// A container that is being written.
struct Open {
    /// Where its first member is, if it is an object.
    members: Option<usize>,
    /// Where it begins in the output, behind its bracket.
    start: usize,
    /// Whether its members so far are in order and may stay.
    sorted: bool,
}

/// A member that was written, without commas.
struct Member<'t> {
    key: Cow<'t, str>,
    start: usize,
    end: usize,
}

impl<'t> Canonical<'_, 't> {
    fn write(&mut self, text: &'t str, mut instead: Option<MemberOverride<'_>>) {
        let mut reader = Reader::new(text);
        while let Some(token) = reader.next() {
            match token {
                Token::Key(key) => {
                    self.key(key);
                    if self.open.len() == 1
                        && let Some((name, write_value)) = &mut instead
                        && self.members.last().is_some_and(|member| member.key == *name)
                    {
                        reader.skip_value();
                        write_value(self.out);
                        self.end_value();
                    }
                    continue;
                }
                Token::ObjectEnd | Token::ArrayEnd => self.close(),
                Token::ObjectStart | Token::ArrayStart => {
                    self.begin_value();
                    self.open(matches!(token, Token::ObjectStart));
                    continue;
                }
                Token::String(string) => {
                    self.begin_value();
                    write_raw_string(self.out, string);
                }
                Token::Number(digits) => {
                    self.begin_value();
                    self.out.extend_from_slice(number(digits).as_bytes());
                }
                Token::Bool(value) => {
                    self.begin_value();
                    self.out.extend_from_slice(if value { b"true" } else { b"false" });
                }
                Token::Null => {
                    self.begin_value();
                    self.out.extend_from_slice(b"null");
                }
            }
            self.end_value();
        }
    }

    fn open(&mut self, is_object: bool) {
        self.out.push(if is_object { b'{' } else { b'[' });
        let members = is_object.then_some(self.members.len());
        self.open.push(Open { members, start: self.out.len(), sorted: true });
    }

    /// Elements of an array are parted here; members by their keys.
    fn begin_value(&mut self) {
        if let Some(Open { members: None, start, .. }) = self.open.last()
            && self.out.len() > *start
        {
            self.out.push(b',');
        }
    }

    fn end_value(&mut self) {
        if let Some(Open { members: Some(_), .. }) = self.open.last()
            && let Some(member) = self.members.last_mut()
        {
            member.end = self.out.len();
        }
    }

    fn key(&mut self, key: RawString<'t>) {
        let Some(open) = self.open.last_mut() else { return };
        let decoded = decode(key);
        let before = open.members.filter(|first| *first < self.members.len());
        if let Some(before) = before.and_then(|_| self.members.last()) {
            open.sorted = open.sorted && by_utf16(&before.key, &decoded).is_lt();
            self.out.push(b',');
        }
        let start = self.out.len();
        write_raw_string(self.out, key);
        self.out.push(b':');
        open.sorted = open.sorted && decoded != PROTOTYPE;
        self.members.push(Member { key: decoded, start, end: start });
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        let Some(first) = open.members else {
            self.out.push(b']');
            return;
        };
        if !open.sorted {
            self.sort(first, open.start);
        }
        self.members.truncate(first);
        self.out.push(b'}');
    }

    /// Puts the members of the object that ends here in order.
    fn sort(&mut self, first: usize, start: usize) {
        let Some(members) = self.members.get_mut(first..) else { return };
        // The sort is stable, so the last of equal keys is the one that was read last.
        members.sort_by(|one, two| by_utf16(&one.key, &two.key));
        self.moved.clear();
        self.moved.extend_from_slice(self.out.get(start..).unwrap_or_default());
        self.out.truncate(start);
        for (place, member) in members.iter().enumerate() {
            let comes_again = members.get(place + 1).is_some_and(|next| next.key == member.key);
            if comes_again || member.key == PROTOTYPE {
                continue;
            }
            if self.out.len() > start {
                self.out.push(b',');
            }
            let span = member.start - start..member.end - start;
            self.out.extend_from_slice(self.moved.get(span).unwrap_or_default());
        }
    }
}

/// Writes a string with as few escapes as can be.
fn write_raw_string(out: &mut Vec<u8>, string: RawString<'_>) {
    if string.has_only_short_escapes() {
        out.push(b'"');
        out.extend_from_slice(string.raw().as_bytes());
        out.push(b'"');
    } else {
        write_string(out, &decode(string));
    }
}

/// UTF-8 sorts by code point; UTF-16 differs where one key has a character past U+FFFF.
fn by_utf16(one: &str, two: &str) -> Ordering {
    if one.is_ascii() && two.is_ascii() { one.cmp(two) } else { one.encode_utf16().cmp(two.encode_utf16()) }
}

fn decode(string: RawString<'_>) -> Cow<'_, str> {
    let decoded = string.decode();
    // serde_json refuses half a surrogate pair, and only that, in text it has accepted.
    if decoded.is_empty() && !string.raw().is_empty() {
        return Cow::Owned(decode_lossy(string.raw()));
    }
    decoded
}

/// Decodes escapes; half a surrogate pair becomes U+FFFD.
fn decode_lossy(raw: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(raw.len());
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        let unit = match (character, (character == '\\').then(|| characters.next()).flatten()) {
            ('\\', Some('b')) => 0x08,
            ('\\', Some('f')) => 0x0C,
            ('\\', Some('n')) => 0x0A,
            ('\\', Some('r')) => 0x0D,
            ('\\', Some('t')) => 0x09,
            ('\\', Some('u')) => {
                let digits = characters.as_str().get(..4).unwrap_or_default();
                characters = characters.as_str().get(4..).unwrap_or_default().chars();
                u16::from_str_radix(digits, 16).unwrap_or(0xFFFD)
            }
            (plain, escaped) => {
                units.extend_from_slice(escaped.unwrap_or(plain).encode_utf16(&mut [0; 2]));
                continue;
            }
        };
        units.push(unit);
    }
    String::from_utf16_lossy(&units)
}

/// A number as ECMAScript prints the double that is nearest to it; `null` when there is none.
fn number(digits: &str) -> Cow<'_, str> {
    // Fifteen digits fit a double exactly, and an integer without a sign prints as itself.
    if digits.len() <= 15 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(digits);
    }
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Cow::Owned(ecmascript(value)),
        _ => Cow::Borrowed("null"),
    }
}

/// `Number::toString` of ECMA-262 for a finite double.
pub fn ecmascript(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rust prints the shortest digits that read back as the same double, as ECMAScript asks.
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if value < 0.0 { "-" } else { "" };
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent.saturating_add(1);
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
    use super::{canonical, ecmascript, normalize};

    fn text(json: &str) -> String {
        String::from_utf8(canonical(json)).unwrap()
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
    fn sorts_keys_by_utf16_units_and_keeps_the_last_of_equal_ones() {
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
        ] {
            assert_eq!(ecmascript(value), printed);
        }
        assert_eq!(text("[1.0,-0,1e2,12345678901234567890,1e400]"), "[1,0,100,12345678901234567000,null]");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        assert_eq!(
            text(r#"["\ud83d\ude00","a\ud83d\n","\udc00"]"#),
            "[\"😀\",\"a\u{FFFD}\\n\",\"\u{FFFD}\"]"
        );
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let depth = 200_000;
        let source = format!("{}1{}", "{\"a\":[".repeat(depth), "]}".repeat(depth));

        assert_eq!(text(&source).len(), source.len());
    }

    #[test]
    fn respelling_keeps_every_token() {
        assert_eq!(
            normalize(" { \"a\" : [ 1.50 , \"\\u0041\\/\" , { } ] , \"a\" : null } "),
            r#"{"a":[1.50,"A/",{}],"a":null}"#
        );
        assert_eq!(normalize(r#"["\ud83d"]"#), r#"["\ud83d"]"#);
    }
}

//! One spelling for each JSON value: [`canonical`] (RFC 8785) for hashes and comparison, [`respell`] for text that only
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
    let nodes = Nodes::read(text);
    let mut out = Vec::with_capacity(text.len());
    nodes.write(&mut out);
    out
}

/// The same tokens without spaces and with as few escapes as can be; numbers, key order and double keys stay.
pub fn respell(text: &str) -> String {
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
                respell_string(&mut out, key);
                out.push(b':');
            }
            Token::String(string) => respell_string(&mut out, string),
            Token::Number(digits) => out.extend_from_slice(digits.as_bytes()),
            Token::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Token::Null => out.extend_from_slice(b"null"),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a JSON string with the escapes that every JSON writer of the house uses: `"`, `\` and C0 controls.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Half a surrogate pair has no other spelling than its escape, so such a string stays as it is.
fn respell_string(out: &mut Vec<u8>, string: RawString<'_>) {
    match std::str::from_utf8(&string.code_points()) {
        Ok(text) => write_string(out, text),
        Err(_) => out.extend_from_slice(string.quoted().as_bytes()),
    }
}

/// The key that JavaScript takes for the prototype of an object.
pub(super) const PROTOTYPE: &str = "__proto__";

/// One value. Containers name their children by place, so that deep nesting costs no stack.
enum Node<'a> {
    Text(Cow<'a, str>),
    Number(&'a str),
    Literal(&'static str),
    Array(Vec<usize>),
    Object(Vec<(Cow<'a, str>, usize)>),
}

struct Nodes<'a>(Vec<Node<'a>>);

/// A container that is being written, and how far.
struct Open {
    node: usize,
    next: usize,
}

impl<'a> Nodes<'a> {
    fn read(text: &'a str) -> Self {
        let mut nodes = Self(Vec::new());
        let mut open: Vec<usize> = Vec::new();
        let mut key: Option<Cow<'a, str>> = None;
        for token in Reader::new(text) {
            let node = match token {
                Token::Key(name) => {
                    key = Some(decode(name));
                    continue;
                }
                Token::ObjectEnd | Token::ArrayEnd => {
                    if let Some(closed) = open.pop() {
                        nodes.sort(closed);
                    }
                    continue;
                }
                Token::ObjectStart => Node::Object(Vec::new()),
                Token::ArrayStart => Node::Array(Vec::new()),
                Token::String(string) => Node::Text(decode(string)),
                Token::Number(digits) => Node::Number(digits),
                Token::Bool(true) => Node::Literal("true"),
                Token::Bool(false) => Node::Literal("false"),
                Token::Null => Node::Literal("null"),
            };
            let place = nodes.0.len();
            nodes.attach(open.last().copied(), key.take(), place);
            if matches!(node, Node::Array(_) | Node::Object(_)) {
                open.push(place);
            }
            nodes.0.push(node);
        }
        nodes
    }

    fn attach(&mut self, parent: Option<usize>, key: Option<Cow<'a, str>>, child: usize) {
        match parent.and_then(|place| self.0.get_mut(place)) {
            Some(Node::Array(children)) => children.push(child),
            Some(Node::Object(members)) => members.push((key.unwrap_or_default(), child)),
            _ => {}
        }
    }

    fn sort(&mut self, place: usize) {
        let Some(Node::Object(members)) = self.0.get_mut(place) else { return };
        members.retain(|(key, _)| key != PROTOTYPE);
        members.sort_by(|(one, _), (two, _)| by_utf16(one, two));
        // The sort is stable, so the last of equal keys is the one that was read last.
        members.reverse();
        members.dedup_by(|(later, _), (earlier, _)| later == earlier);
        members.reverse();
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut open: Vec<Open> = Vec::new();
        self.begin(0, out, &mut open);
        while let Some(top) = open.last_mut() {
            let position = top.next;
            top.next += 1;
            let (child, close) = match self.0.get(top.node) {
                Some(Node::Array(children)) => (children.get(position).map(|child| (None, *child)), b']'),
                Some(Node::Object(members)) => {
                    (members.get(position).map(|(key, child)| (Some(key), *child)), b'}')
                }
                _ => (None, b' '),
            };
            let Some((key, child)) = child else {
                out.push(close);
                open.pop();
                continue;
            };
            if position > 0 {
                out.push(b',');
            }
            if let Some(key) = key {
                write_string(out, key);
                out.push(b':');
            }
            self.begin(child, out, &mut open);
        }
    }

    /// Writes a scalar, or opens a container.
    fn begin(&self, place: usize, out: &mut Vec<u8>, open: &mut Vec<Open>) {
        match self.0.get(place) {
            Some(Node::Text(text)) => write_string(out, text),
            Some(Node::Number(digits)) => out.extend_from_slice(number(digits).as_bytes()),
            Some(Node::Literal(literal)) => out.extend_from_slice(literal.as_bytes()),
            Some(Node::Array(_)) => {
                out.push(b'[');
                open.push(Open { node: place, next: 0 });
            }
            Some(Node::Object(_)) => {
                out.push(b'{');
                open.push(Open { node: place, next: 0 });
            }
            None => {}
        }
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
    use super::{canonical, ecmascript, respell};

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
            respell(" { \"a\" : [ 1.50 , \"\\u0041\\/\" , { } ] , \"a\" : null } "),
            r#"{"a":[1.50,"A/",{}],"a":null}"#
        );
        assert_eq!(respell(r#"["\ud83d"]"#), r#"["\ud83d"]"#);
    }
}

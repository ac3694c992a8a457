//! Equality of JSON texts. Without trees and recursion: numbers are compared digit by digit, and deep nesting does not
//! overflow the stack.

use std::cmp::Ordering;

use super::reader::{RawString, Reader, Token};

/// True if two texts have equal tokens, independent of spacing and notation. Stricter than `==` of [`super::RawJson`]: the
/// order of keys counts.
pub fn eq_tokens(left: &str, right: &str) -> bool {
    left == right || same_tokens::<false>(left, right)
}

/// True if two texts are equal JSON values when all numbers are read as doubles, as JavaScript does.
pub fn eq_doubles(left: &str, right: &str) -> bool {
    same_tokens::<true>(left, right) || same_trees::<true>(left, right)
}

/// True if two texts are equal JSON values; the order of keys does not count.
pub(super) fn eq_value(left: &str, right: &str) -> bool {
    // The keys nearly always have the same order.
    eq_tokens(left, right) || (has_members(left) && has_members(right) && same_trees::<false>(left, right))
}

fn same_tokens<const DOUBLES: bool>(left: &str, right: &str) -> bool {
    Reader::new(left).map(Same::<DOUBLES>).eq(Reader::new(right).map(Same::<DOUBLES>))
}

/// True if there may be an object.
fn has_members(text: &str) -> bool {
    memchr::memchr(b'{', text.as_bytes()).is_some()
}

/// A token that is compared by meaning. `DOUBLES` compares numbers as doubles.
struct Same<'a, const DOUBLES: bool>(Token<'a>);

impl<const DOUBLES: bool> PartialEq for Same<'_, DOUBLES> {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Token::String(one), Token::String(two)) | (Token::Key(one), Token::Key(two)) => {
                same_text(one, two)
            }
            (Token::Number(one), Token::Number(two)) => {
                one == two || (DOUBLES && same_double(one, two)) || same_number(one, two)
            }
            (one, two) => one == two,
        }
    }
}

fn same_text(one: RawString<'_>, two: RawString<'_>) -> bool {
    one == two || one.code_points() == two.code_points()
}

fn same_double(one: &str, two: &str) -> bool {
    let (Ok(one), Ok(two)) = (one.parse::<f64>(), two.parse::<f64>()) else { return false };
    one.partial_cmp(&two) == Some(Ordering::Equal)
}

/// True if two JSON numbers are equal: `1`, `1.0` and `10e-1` are, and `0` and `-0`.
fn same_number(one: &str, two: &str) -> bool {
    matches!((Decimal::read(one), Decimal::read(two)), (Some(one), Some(two)) if one == two)
}

/// 0.d₁d₂d₃… × 10ⁿ with d₁ and the last digit not zero.
#[derive(PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// `None` for an exponent past 64 bits.
    fn read(text: &str) -> Option<Self> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let zeros = whole.bytes().chain(fraction.bytes()).take_while(|digit| *digit == b'0').count();
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).skip(zeros).collect();
        let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        digits.truncate(significant);
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, exponent: 0 });
        }
        let shift = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(zeros).ok()?)?;
        Some(Self { is_negative, digits, exponent: exponent.parse::<i64>().ok()?.checked_add(shift)? })
    }
}

/// A value in a flat list of tokens.
pub(super) struct Node<'a> {
    /// The token; the first one of an object or array.
    pub token: Token<'a>,
    /// The index after the value.
    pub end: usize,
}

/// The tokens of a text, with the end of each value.
pub(super) fn nodes(text: &str) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut open = Vec::new();
    for (place, token) in Reader::new(text).enumerate() {
        match token {
            Token::ObjectStart | Token::ArrayStart => open.push(place),
            Token::ObjectEnd | Token::ArrayEnd => {
                if let Some(start) = open.pop().and_then(|start| nodes.get_mut(start)) {
                    start.end = place + 1;
                }
            }
            _ => {}
        }
        nodes.push(Node { token, end: place + 1 });
    }
    nodes
}

/// The members of the object at `start`, sorted by key: the keys and the indices of the values.
fn members(nodes: &[Node<'_>], start: usize) -> Vec<(Vec<u8>, usize)> {
    let mut members: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut place = start + 1;
    while let Some(Node { token: Token::Key(key), .. }) = nodes.get(place) {
        members.push((key.code_points().into_owned(), place + 1));
        place = nodes.get(place + 1).map_or(nodes.len(), |value| value.end);
    }
    // Among equal keys the last one sorts first, and `dedup` retains it.
    members.sort_by(|one, two| one.0.cmp(&two.0).then(two.1.cmp(&one.1)));
    members.dedup_by(|next, previous| next.0 == previous.0);
    members
}

fn same_trees<const DOUBLES: bool>(left: &str, right: &str) -> bool {
    let (left, right) = (nodes(left), nodes(right));
    let mut pairs = vec![(0, 0)];
    while let Some((one, two)) = pairs.pop() {
        let (Some(first), Some(second)) = (left.get(one), right.get(two)) else { return false };
        if Same::<DOUBLES>(first.token) != Same::<DOUBLES>(second.token) {
            return false;
        }
        match first.token {
            Token::ObjectStart => {
                let (ours, theirs) = (members(&left, one), members(&right, two));
                if !ours.iter().map(|(key, _)| key).eq(theirs.iter().map(|(key, _)| key)) {
                    return false;
                }
                pairs
                    .extend(ours.iter().map(|(_, value)| *value).zip(theirs.iter().map(|(_, value)| *value)));
            }
            Token::ArrayStart => {
                let (mut ours, mut theirs) = (one + 1, two + 1);
                // Up to the end of the shorter array. The end tokens are compared like values.
                while let (Some(element), Some(other)) = (left.get(ours), right.get(theirs)) {
                    pairs.push((ours, theirs));
                    if element.token == Token::ArrayEnd || other.token == Token::ArrayEnd {
                        break;
                    }
                    (ours, theirs) = (element.end, other.end);
                }
            }
            _ => {}
        }
    }
    true
}

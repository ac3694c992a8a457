//! What the canonical form changes for good.

use super::canonical::PROTOTYPE;
use super::parse::PathSegment;
use super::reader::{Reader, Token};

/// A place that [`canonical`](super::canonical::canonical) changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossyConversion {
    /// Where.
    pub path: Vec<PathSegment>,
    /// What.
    pub kind: LossyKind,
}

/// What is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossyKind {
    /// Digits of a number that no double holds.
    Digits(String),
    /// A member that is called `__proto__`.
    Prototype,
}

/// Every place of a valid JSON text where its canonical form says something else, in order.
pub fn lossy_conversions(text: &str) -> Vec<LossyConversion> {
    let mut found = Vec::new();
    let mut path: Vec<PathSegment> = Vec::new();
    for token in Reader::new(text) {
        match token {
            Token::ObjectStart => path.push(PathSegment::Key(String::new())),
            Token::ArrayStart => path.push(PathSegment::Index(0)),
            Token::Key(key) => {
                let key = key.decode();
                let kind = (key == PROTOTYPE).then_some(LossyKind::Prototype);
                if let Some(last) = path.last_mut() {
                    *last = PathSegment::Key(key.into_owned());
                }
                found.extend(kind.map(|kind| LossyConversion { path: path.clone(), kind }));
            }
            Token::Number(digits) if !survives(digits) => {
                found
                    .push(LossyConversion { path: path.clone(), kind: LossyKind::Digits(digits.to_owned()) });
                count_on(&mut path);
            }
            Token::ObjectEnd | Token::ArrayEnd => {
                path.pop();
                count_on(&mut path);
            }
            Token::Number(_) | Token::String(_) | Token::Bool(_) | Token::Null => count_on(&mut path),
        }
    }
    found
}

/// The next place of a list; in an object the next key says where the next value is.
fn count_on(path: &mut [PathSegment]) {
    if let Some(PathSegment::Index(index)) = path.last_mut() {
        *index += 1;
    }
}

/// The largest integer up to which every integer is a double.
const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;

fn survives(digits: &str) -> bool {
    let Ok(value) = digits.parse::<f64>() else { return false };
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    value.is_finite() && (!is_integer || value.abs() <= LARGEST_SAFE)
}

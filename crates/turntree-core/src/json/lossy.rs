//! Finds the values of a JSON text that a JavaScript reader changes or loses.

use super::canonical::PROTOTYPE;
use super::parse::PathSegment;
use super::reader::{Reader, Token};

/// A value that [`CanonicalForm::JavaScript`](super::canonical::CanonicalForm::JavaScript) changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossyConversion {
    /// The path of the value.
    pub path: Vec<PathSegment>,
    /// The kind of change.
    pub kind: LossyKind,
}

/// The kind of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossyKind {
    /// A number that a double cannot represent; its digits.
    Digits(String),
    /// A member named `__proto__`, which is lost.
    Prototype,
}

/// Lists the numbers and members of a valid JSON text that a JavaScript reader changes, in order.
pub fn lossy_conversions(text: &str) -> Vec<LossyConversion> {
    let mut conversions = Vec::new();
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
                conversions.extend(kind.map(|kind| LossyConversion { path: path.clone(), kind }));
            }
            Token::Number(digits) if !survives(digits) => {
                conversions
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
    conversions
}

/// Moves to the next element of an array. In an object the next key sets the path.
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

//! JSON as the rest of the house uses it: typed objects that keep what they do not know ([`object`]), raw values that
//! are not looked at until somebody asks ([`RawJson`]), tags in any place ([`tagged`]), one door in ([`parse`]) and one
//! out ([`write()`]), and what can be read of a document that is still arriving ([`partial`]).

pub mod canonical;
mod eq;
pub mod lossy;
pub mod object;
mod parse;
mod partial;
mod raw;
mod reader;
pub mod schema;
pub mod tagged;
pub mod union;

pub use eq::eq_tokens;
pub use object::Extra;
pub use parse::{ParseError, ParseErrorKind, PathSegment, check_utf8, parse, parse_bytes, pointer};
pub use partial::{Partial, PartialJson, partial};
pub use raw::{RawJson, RawObject};
pub use reader::{RawString, Reader, Token};

/// Writes a value as compact JSON: no spaces, non-ASCII unescaped.
///
/// # Errors
/// Only when a `Serialize` of the value fails, as a map with keys that are not strings would.
pub fn write<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

#[doc(hidden)]
pub use crate::json_object;

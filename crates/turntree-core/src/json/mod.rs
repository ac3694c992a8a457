//! JSON: typed objects that preserve unknown members ([`object`]), raw values that are parsed on demand ([`RawJson`]),
//! tagged unions ([`tagged`]), parsing with limits and located errors ([`parse`]), writing ([`write()`]), canonical
//! forms ([`canonical`]), and incomplete documents ([`partial`]).

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
/// Only if a `Serialize` of the value fails, for example a map with keys that are not strings.
pub fn write<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

#[doc(hidden)]
pub use crate::json_object;

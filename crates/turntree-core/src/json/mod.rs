//! JSON: typed objects that preserve unknown members ([`object`]), raw values that are parsed on demand ([`RawJson`]),
//! tagged unions ([`tagged`]), parsing with limits and located errors ([`parse`]), writing ([`write()`]), canonical
//! forms ([`canonical`]), indented text ([`indented`]), and incomplete documents ([`partial`]).

pub mod canonical;
mod canonical_serializer;
mod canonical_writer;
mod compact;
mod eq;
mod error_text;
mod indent;
pub mod lossy;
pub mod notation;
pub mod object;
mod parse;
mod partial;
mod raw;
mod reader;
mod scan;
pub mod schema;
pub mod tagged;
mod token_writer;
pub mod union;

pub use compact::{compact, is_compact};
pub use eq::{eq_doubles, eq_tokens};
pub use error_text::{describe_error, describe_error_of, describe_part, without_position};
pub use indent::indented;
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

/// A camelCase name in `snake_case`: `toolCallId` as `tool_call_id`.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

#[doc(hidden)]
pub use crate::json_object;

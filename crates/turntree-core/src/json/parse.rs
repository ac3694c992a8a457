//! Parses JSON: checks UTF-8 and limits, reads a type, and reports errors with their place.

use std::fmt;

use serde::de::DeserializeOwned;

use super::error_text::describe_error_of;
use crate::limits::{LimitError, Limits};

/// The kind of a parse error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// Not UTF-8.
    Encoding,
    /// Not JSON.
    Syntax,
    /// Truncated JSON.
    Truncated,
    /// JSON that does not have the shape of the type.
    Shape,
    /// A limit is exceeded.
    Limit,
}

impl ParseErrorKind {
    /// The name in validation errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encoding => "invalid_utf8",
            Self::Syntax => "json_invalid",
            Self::Truncated => "json_truncated",
            Self::Shape => "invalid",
            Self::Limit => "limit_exceeded",
        }
    }
}

/// The error of a document that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The kind.
    pub kind: ParseErrorKind,
    /// The path from the root.
    pub path: Vec<PathSegment>,
    /// The rule and the remedy.
    pub message: String,
}

/// One step of a path into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSegment {
    /// A member of an object.
    Key(String),
    /// An element of an array.
    Index(usize),
}

impl ParseError {
    /// A shape error at a path.
    pub fn shape(path: Vec<PathSegment>, message: impl Into<String>) -> Self {
        Self { kind: ParseErrorKind::Shape, path, message: message.into() }
    }

    /// An error of a document that is not UTF-8.
    pub fn encoding(message: impl Into<String>) -> Self {
        Self { kind: ParseErrorKind::Encoding, path: Vec::new(), message: message.into() }
    }

    /// The path as a JSON pointer (RFC 6901); empty for the whole document.
    pub fn pointer(&self) -> String {
        pointer(&self.path)
    }
}

/// A path as a JSON pointer (RFC 6901).
pub fn pointer(path: &[PathSegment]) -> String {
    let mut text = String::new();
    for segment in path {
        text.push('/');
        match segment {
            PathSegment::Key(key) => text.push_str(&key.replace('~', "~0").replace('/', "~1")),
            PathSegment::Index(index) => text.push_str(&index.to_string()),
        }
    }
    text
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            formatter.write_str(&self.message)
        } else {
            write!(formatter, "{}: {}", self.pointer(), self.message)
        }
    }
}

impl std::error::Error for ParseError {}

/// Parses a document from bytes.
///
/// # Errors
/// [`ParseError`] with the kind, the place and the rule.
pub fn parse_bytes<T: DeserializeOwned>(bytes: &[u8], limits: &Limits) -> Result<T, ParseError> {
    parse(check_utf8(bytes)?, limits)
}

/// Checks that bytes are UTF-8.
///
/// # Errors
/// [`ParseErrorKind::Encoding`] with the offset of the first byte that is not UTF-8.
pub fn check_utf8(bytes: &[u8]) -> Result<&str, ParseError> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| {
        ParseError::encoding(format!("invalid UTF-8 at byte {}; JSON is UTF-8", error.valid_up_to()))
    })
}

/// Parses a document from text.
///
/// If the parser fails, a second and slower pass finds the path of the error.
///
/// # Errors
/// [`ParseError`] with the kind, the place and the rule.
pub fn parse<T: DeserializeOwned>(text: &str, limits: &Limits) -> Result<T, ParseError> {
    limits.check(text).map_err(|error: LimitError| ParseError {
        kind: ParseErrorKind::Limit,
        path: Vec::new(),
        message: error.to_string(),
    })?;
    serde_json::from_str(text).map_err(|error| locate::<T>(text, &error))
}

fn locate<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> ParseError {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => ParseErrorKind::Truncated,
        serde_json::error::Category::Data => ParseErrorKind::Shape,
        _ => ParseErrorKind::Syntax,
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(located) if kind == ParseErrorKind::Shape => segments(located.path()),
        _ => Vec::new(),
    };
    ParseError { kind, path, message: describe_error_of(text, error) }
}

fn segments(path: &serde_path_to_error::Path) -> Vec<PathSegment> {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(PathSegment::Index(*index)),
            Segment::Map { key } => Some(PathSegment::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

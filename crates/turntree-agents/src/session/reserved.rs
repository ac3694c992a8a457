//! The reserved member of the metadata of sessions and checkpoints, and helpers that read and write it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use turntree_core::json::{ParseError, PathSegment, RawJson, RawObject};
use turntree_core::message::message::History;

/// The member of the metadata of sessions and checkpoints that turntree writes.
pub const RESERVED: &str = "turntree";

/// Returns the path segment of an object member.
pub(super) fn key(name: &str) -> PathSegment {
    PathSegment::Key(name.to_owned())
}

/// Returns an error at a path of object members.
pub(super) fn error_at(path: &[&str], message: impl Into<String>) -> ParseError {
    ParseError::shape(path.iter().map(|name| key(name)).collect(), message)
}

/// Prepends the path of a part to an error of that part.
pub(super) fn within(mut error: ParseError, path: &[PathSegment]) -> ParseError {
    error.path.splice(0..0, path.iter().cloned());
    error
}

/// Returns the members of a reserved object that this version does not know.
pub(super) fn unknown_members(raw: Option<&RawJson>, known: &[&str]) -> RawObject {
    let mut members = raw.and_then(RawObject::from_raw).unwrap_or_default();
    for name in known {
        members.remove(name);
    }
    members
}

/// Writes a history as a list without copying it.
pub(super) struct MessageList<'a>(pub(super) &'a History);

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

/// Writes metadata, followed by the reserved member if there is one.
pub(super) struct MetadataWithReserved<'a, R>(pub(super) &'a RawObject, pub(super) Option<R>);

impl<R: Serialize> Serialize for MetadataWithReserved<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter() {
            map.serialize_entry(key, value)?;
        }
        if let Some(reserved) = &self.1 {
            map.serialize_entry(RESERVED, reserved)?;
        }
        map.end()
    }
}

//! The envelope of events of unknown types.

use std::borrow::Cow;

use serde::Serialize;
use turntree_core::json::RawJson;

use crate::types::Unknown;

pub(super) fn text<'a>(unknown: &'a Unknown, member: &str) -> Option<Cow<'a, str>> {
    unknown.members.get(member).and_then(RawJson::as_string).map(Cow::Owned)
}

pub(super) fn set_text(unknown: &mut Unknown, member: &str, text: &str) {
    unknown.members.insert(member, RawJson::from_str_value(text));
}

pub(super) fn set<T: Serialize>(unknown: &mut Unknown, member: &str, number: &T) {
    if let Ok(value) = RawJson::from_value(number) {
        unknown.members.insert(member, value);
    }
}

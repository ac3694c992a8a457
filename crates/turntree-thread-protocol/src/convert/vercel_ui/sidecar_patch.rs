//! Differences between two objects, as a sidecar stores them: changed members under short names, and removed members.

use std::collections::HashSet;

use serde::Serialize;

use turntree_core::json::{RawJson, RawObject};

/// Short names of members.
const SHORT: &[(&str, &str)] = &[
    ("timestamp", "ts"),
    ("finish_reason", "fr"),
    ("usage", "us"),
    ("action_id", "id"),
    ("agent_id", "ag"),
    ("sequence", "seq"),
];

/// The members of a value that serializes to an object.
pub(super) fn members<T: Serialize>(value: &T) -> RawObject {
    RawJson::from_value(value).ok().and_then(|value| RawObject::from_raw(&value)).unwrap_or_default()
}

/// The patch that changes `read` to `target`.
pub(super) fn changes(target: &RawObject, read: &RawObject) -> RawObject {
    let (mut entry, mut other) = (RawObject::new(), RawObject::new());
    for (key, value) in target.iter() {
        // Browsers treat different spellings of a number as equal; documents do not.
        if read.get(key).is_some_and(|read| read.get() == value.get()) {
            continue;
        }
        match SHORT.iter().find(|(name, _)| *name == key) {
            Some((_, short)) => entry.insert(*short, value.clone()),
            None => other.insert(key, value.clone()),
        }
    }
    if !other.is_empty() {
        entry.insert("x", RawJson::from_value(&other).unwrap_or_default());
    }
    let gone: Vec<&str> = read.iter().map(|(key, _)| key).filter(|key| target.get(key).is_none()).collect();
    if !gone.is_empty() {
        entry.insert("gone", RawJson::from_value(&gone).unwrap_or_default());
    }
    entry
}

/// Applies a patch from [`changes`].
pub(super) fn amended(mut members: RawObject, patch: &RawObject) -> Option<RawObject> {
    if let Some(gone) = patch.get("gone") {
        let gone: HashSet<String> = gone.to().ok()?;
        members.retain(|key| !gone.contains(key));
    }
    for (name, short) in SHORT {
        if let Some(value) = patch.get(short) {
            members.insert(*name, value.clone());
        }
    }
    if let Some(other) = patch.get("x").and_then(RawObject::from_raw) {
        for (key, value) in other.iter() {
            members.insert(key, value.clone());
        }
    }
    Some(members)
}

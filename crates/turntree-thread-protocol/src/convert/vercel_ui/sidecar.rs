//! The sidecar: `metadata.thread_protocol` of a message holds the fields of actions that parts do not hold. With it, a
//! thread that was sent to a client and posted back is restored exactly.
//!
//! A sidecar is built by importing the message that will be sent and storing the differences from its actions, so it
//! cannot be incomplete. A digest of the actions detects whether the message was changed since.
//!
//! Spec: UI message stream, §15.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::attachments;
use super::sidecar_patch::{amended, changes, members};
use crate::action::Action;
use crate::document::Thread;
use crate::roundtrip_metadata::is_private_action;
use turntree_core::json::canonical::{self, CanonicalForm};
use turntree_core::json::{RawJson, RawObject, json_object};

/// The name of the metadata member.
pub(super) const MEMBER: &str = "thread_protocol";
const VERSION: &str = "1.0.0";

json_object! {
    /// The value of `metadata.thread_protocol`.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub(super) struct Sidecar {
        /// The protocol version.
        pub v: String = "v", default,
        /// The id of the thread.
        pub thread_id: Option<String> = "thread_id",
        /// The agent of this message.
        pub agent_id: Option<String> = "agent_id",
        /// The sequence of the first action.
        pub base: Option<u64> = "base",
        /// Differences between actions and parts, by index in the message.
        pub a: Option<RawObject> = "a",
        /// The actions verbatim, if the parts do not match them.
        pub raw: Option<RawJson> = "raw",
        /// Actions before the message that no message shows.
        pub lead: Option<RawJson> = "lead",
        /// Actions after the message that no message shows.
        pub tail: Option<RawJson> = "tail",
        /// True if the message has actions that precede it in the thread.
        pub moved: Option<bool> = "moved",
        /// The thread without its actions; in the first message.
        pub thread: Option<RawObject> = "thread",
        /// The digest of the canonical actions.
        pub sha256: Option<String> = "sha256",
    }
}

/// Builds the sidecar of a message. `target` are its actions, `read` are the actions that an import finds in it.
pub(super) fn of(target: &[Arc<Action>], read: Vec<Action>, agent_id: &str, thread_id: &str) -> Sidecar {
    Sidecar {
        v: VERSION.to_owned(),
        thread_id: Some(thread_id.to_owned()),
        agent_id: Some(agent_id.to_owned()),
        base: Some(base_of(target)),
        ..rest(target, read)
    }
}

/// The part of a sidecar that is known before the message is complete. [`rest`] builds the other part.
pub(super) fn beginning(base: u64, source: &Thread) -> Sidecar {
    Sidecar {
        v: VERSION.to_owned(),
        thread_id: Some(source.thread_id.clone()),
        base: Some(base),
        thread: Some(header(source)),
        ..Sidecar::default()
    }
}

fn base_of(target: &[Arc<Action>]) -> u64 {
    target.first().map_or(1, |action| action.sequence())
}

/// The differences between the parts of a message and its actions, with the digest of the actions.
pub(super) fn rest(target: &[Arc<Action>], read: Vec<Action>) -> Sidecar {
    let base = base_of(target);
    let mut sidecar = Sidecar {
        v: VERSION.to_owned(),
        sha256: Some(digest(target.iter().map(AsRef::as_ref))),
        ..Sidecar::default()
    };
    let shown = target.iter().filter(|action| !is_private_action(action)).count();
    let fits = shown == read.len()
        && target
            .iter()
            .filter(|action| !is_private_action(action))
            .zip(&read)
            .all(|(target, read)| target.action_type() == read.action_type());
    if !fits {
        sidecar.raw = RawJson::from_value(&target.iter().map(AsRef::as_ref).collect::<Vec<&Action>>()).ok();
        return sidecar;
    }
    let mut read = read.into_iter();
    let mut entries = RawObject::new();
    for (index, target) in target.iter().enumerate() {
        let sequence = base.saturating_add(u64::try_from(index).unwrap_or(u64::MAX));
        let entry = if is_private_action(target) {
            [("raw", RawJson::from_value(&**target).unwrap_or_default())].into_iter().collect()
        } else {
            read.next().map(|read| difference(target, read, sequence)).unwrap_or_default()
        };
        if !entry.is_empty() {
            entries.insert(index.to_string(), RawJson::from_value(&entry).unwrap_or_default());
        }
    }
    sidecar.a = (!entries.is_empty()).then_some(entries);
    sidecar
}

/// The entry that restores `target` from `read`.
fn difference(target: &Action, mut read: Action, sequence: u64) -> RawObject {
    read.set_sequence(sequence);
    let attachments = attachments::sidecar_entries(target, &mut read);
    let mut entry = changes(&members(target), &members(&read));
    if let Some(attachments) = attachments {
        entry.insert("at", attachments);
    }
    entry
}

/// Reads the sidecar of a message; `None` if it is invalid or of another version.
pub(super) fn read(value: &RawJson) -> Option<Sidecar> {
    value.to::<Sidecar>().ok().filter(|sidecar| sidecar.v == VERSION)
}

impl Sidecar {
    /// Restores the actions of the message; `None` if the message was changed. `read` are the actions that an import
    /// finds in it.
    pub(super) fn restore(&self, read: Vec<Action>) -> Option<Vec<Action>> {
        let actions = match &self.raw {
            Some(raw) => raw.to::<Vec<Action>>().ok()?,
            None => self.patched(read)?,
        };
        (self.sha256.as_ref()? == &digest(actions.iter())).then_some(actions)
    }

    fn patched(&self, read: Vec<Action>) -> Option<Vec<Action>> {
        let none = RawObject::new();
        let entries = self.a.as_ref().unwrap_or(&none);
        let mut patches: BTreeMap<usize, RawObject> = BTreeMap::new();
        for (index, entry) in entries.iter() {
            patches.insert(index.parse().ok()?, RawObject::from_raw(entry)?);
        }
        let base = self.base?;
        let hidden = patches.values().filter(|patch| patch.get("raw").is_some()).count();
        let count = read.len().checked_add(hidden)?;
        let mut read = read.into_iter();
        let mut actions = Vec::with_capacity(count);
        for index in 0..count {
            let patch = patches.get(&index).unwrap_or(&none);
            if let Some(raw) = patch.get("raw") {
                actions.push(raw.to().ok()?);
                continue;
            }
            let mut action = read.next()?;
            action.set_sequence(base.checked_add(u64::try_from(index).ok()?)?);
            actions.push(patched(&action, patch)?);
        }
        Some(actions)
    }

    /// The actions before and after the message that no message shows.
    pub(super) fn around(&self) -> (Vec<Action>, Vec<Action>) {
        let read = |list: &Option<RawJson>| list.as_ref().and_then(|list| list.to().ok()).unwrap_or_default();
        (read(&self.lead), read(&self.tail))
    }

    /// The timestamp of the first entry, for messages that were changed.
    pub(super) fn timestamp(&self) -> Option<String> {
        let (_, first) = self.a.as_ref()?.iter().next()?;
        RawObject::from_raw(first)?.get("ts")?.as_string()
    }
}

fn patched(action: &Action, patch: &RawObject) -> Option<Action> {
    if patch.is_empty() {
        return Some(action.clone());
    }
    let members = match patch.get("at") {
        Some(entries) => members(&attachments::restore_attachments(action, entries)?),
        None => members(action),
    };
    RawJson::from_value(&amended(members, patch)?).ok()?.to().ok()
}

/// SHA-256 of the canonical form of a list of actions, in hexadecimal.
pub(super) fn digest<'a>(actions: impl Iterator<Item = &'a Action>) -> String {
    let list = serde_json::to_string(&actions.collect::<Vec<_>>()).unwrap_or_default();
    // The actions may come back from a JavaScript client.
    let digest = Sha256::digest(canonical::canonical(&list, CanonicalForm::JavaScript));
    format!("{digest:x}")
}

/// The thread without its actions.
pub(super) fn header(thread: &Thread) -> RawObject {
    let mut bare = thread.clone();
    bare.actions = crate::document::Actions::default();
    let mut header =
        RawJson::from_value(&bare).ok().and_then(|bare| RawObject::from_raw(&bare)).unwrap_or_default();
    header.remove("actions");
    header
}

/// Restores a thread, without actions, from a header.
pub(super) fn from_header(header: &RawObject) -> Option<Thread> {
    let mut members = header.clone();
    members.insert("actions", RawJson::from_text("[]".to_owned()).ok()?);
    RawJson::from_value(&members).ok()?.to().ok()
}

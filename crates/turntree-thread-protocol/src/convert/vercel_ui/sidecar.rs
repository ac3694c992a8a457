//! The sidecar: what parts cannot say, in `metadata.thread_protocol` of a message, so that a thread that went to a client
//! and came back is the thread it was. UI message stream, §15.
//!
//! It is made by reading the message that will be sent and writing down what differs from the actions it stands for, so
//! that nothing can be forgotten. A digest of these actions says whether the message is still the one that was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::attachments;
use super::sidecar_patch::{amended, changes, members};
use crate::action::Action;
use crate::document::Thread;
use crate::roundtrip_metadata::is_private_action;
use turntree_core::json::{RawJson, RawObject, canonical, json_object};

/// The member of the message's metadata.
pub(super) const MEMBER: &str = "thread_protocol";
const VERSION: &str = "1.0.0";

json_object! {
    /// What `metadata.thread_protocol` says.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub(super) struct Sidecar {
        /// The version of the protocol.
        pub v: String = "v", default,
        /// The thread.
        pub thread_id: Option<String> = "thread_id",
        /// Who speaks in this message.
        pub agent_id: Option<String> = "agent_id",
        /// The sequence of the first action.
        pub base: Option<u64> = "base",
        /// What an action says that its part does not, by its place in the message.
        pub a: Option<RawObject> = "a",
        /// The actions, where parts cannot tell them.
        pub raw: Option<RawJson> = "raw",
        /// Actions before the message that no message shows.
        pub lead: Option<RawJson> = "lead",
        /// Actions after the message that no message shows.
        pub tail: Option<RawJson> = "tail",
        /// Whether actions of the message stand before it in the thread.
        pub moved: Option<bool> = "moved",
        /// The thread without its actions; in the first message.
        pub thread: Option<RawObject> = "thread",
        /// The digest of the canonical actions.
        pub sha256: Option<String> = "sha256",
    }
}

/// The sidecar of a message: `wanted` are the actions it stands for, `read` those that a reader finds in it.
pub(super) fn of(wanted: &[Arc<Action>], read: Vec<Action>, agent_id: &str, thread_id: &str) -> Sidecar {
    Sidecar {
        v: VERSION.to_owned(),
        thread_id: Some(thread_id.to_owned()),
        agent_id: Some(agent_id.to_owned()),
        base: Some(base_of(wanted)),
        ..rest(wanted, read)
    }
}

/// What is known of the sidecar before the message is: the other half of it is [`rest`].
pub(super) fn beginning(base: u64, source: &Thread) -> Sidecar {
    Sidecar {
        v: VERSION.to_owned(),
        thread_id: Some(source.thread_id.clone()),
        base: Some(base),
        thread: Some(header(source)),
        ..Sidecar::default()
    }
}

fn base_of(wanted: &[Arc<Action>]) -> u64 {
    wanted.first().map_or(1, |action| action.sequence())
}

/// What the parts of a message do not say, and the digest of what they and this say.
pub(super) fn rest(wanted: &[Arc<Action>], read: Vec<Action>) -> Sidecar {
    let base = base_of(wanted);
    let mut sidecar = Sidecar {
        v: VERSION.to_owned(),
        sha256: Some(digest(wanted.iter().map(AsRef::as_ref))),
        ..Sidecar::default()
    };
    let shown = wanted.iter().filter(|action| !is_private_action(action)).count();
    let fits = shown == read.len()
        && wanted
            .iter()
            .filter(|action| !is_private_action(action))
            .zip(&read)
            .all(|(wanted, read)| wanted.action_type() == read.action_type());
    if !fits {
        sidecar.raw = RawJson::from_value(&wanted.iter().map(AsRef::as_ref).collect::<Vec<&Action>>()).ok();
        return sidecar;
    }
    let mut read = read.into_iter();
    let mut entries = RawObject::new();
    for (index, wanted) in wanted.iter().enumerate() {
        let sequence = base.saturating_add(u64::try_from(index).unwrap_or(u64::MAX));
        let entry = if is_private_action(wanted) {
            [("raw", RawJson::from_value(&**wanted).unwrap_or_default())].into_iter().collect()
        } else {
            read.next().map(|read| difference(wanted, read, sequence)).unwrap_or_default()
        };
        if !entry.is_empty() {
            entries.insert(index.to_string(), RawJson::from_value(&entry).unwrap_or_default());
        }
    }
    sidecar.a = (!entries.is_empty()).then_some(entries);
    sidecar
}

/// What has to be said so that `read` becomes `wanted`.
fn difference(wanted: &Action, mut read: Action, sequence: u64) -> RawObject {
    read.set_sequence(sequence);
    let attachments = attachments::told(wanted, &mut read);
    let mut entry = changes(&members(wanted), &members(&read));
    if let Some(attachments) = attachments {
        entry.insert("at", attachments);
    }
    entry
}

/// The sidecar of a message, if it has one.
pub(super) fn read(value: &RawJson) -> Option<Sidecar> {
    value.to::<Sidecar>().ok().filter(|sidecar| sidecar.v == VERSION)
}

impl Sidecar {
    /// The actions of the message, if it still is the message that was sent. `read` are those a reader finds in it.
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

    /// The time that the message says for its actions, for when they are not those that were sent.
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
        Some(entries) => members(&attachments::restored(action, entries)?),
        None => members(action),
    };
    RawJson::from_value(&amended(members, patch)?).ok()?.to().ok()
}

/// SHA-256 over the canonical form of a list of actions, in hexadecimal.
pub(super) fn digest<'a>(actions: impl Iterator<Item = &'a Action>) -> String {
    let list = serde_json::to_string(&actions.collect::<Vec<_>>()).unwrap_or_default();
    let digest = Sha256::digest(canonical::canonical(&list));
    format!("{digest:x}")
}

/// A thread without its actions.
pub(super) fn header(thread: &Thread) -> RawObject {
    let mut bare = thread.clone();
    bare.actions = crate::document::Actions::default();
    let mut header =
        RawJson::from_value(&bare).ok().and_then(|bare| RawObject::from_raw(&bare)).unwrap_or_default();
    header.remove("actions");
    header
}

/// The thread of a header, without actions.
pub(super) fn from_header(header: &RawObject) -> Option<Thread> {
    let mut members = header.clone();
    members.insert("actions", RawJson::from_text("[]".to_owned()).ok()?);
    RawJson::from_value(&members).ok()?.to().ok()
}

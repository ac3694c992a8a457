//! Attachments of user messages. Clients only have file parts, so attachments become the last file parts of the
//! message, and the sidecar stores how many of them are attachments. Decision S18.

use super::content;
use super::message::UiPart;
use super::options::Sdk;
use super::sidecar_patch::{amended, changes, members};
use crate::action::{Action, UserMessageAction};
use crate::content::{Attachment, ContentPart, MessageContent};
use turntree_core::json::{RawJson, RawObject};

/// The parts of a user message: its content, then its attachments. An empty text is written only if there is nothing
/// else.
pub(super) fn to_parts(message: &UserMessageAction, sdk: Sdk) -> Vec<UiPart> {
    let attached = parts_of(message);
    let says_nothing = matches!(&message.content, MessageContent::Text(text) if text.is_empty());
    let mut parts = if says_nothing && !attached.is_empty() {
        Vec::new()
    } else {
        content::to_parts(&message.content, sdk)
    };
    parts.extend(attached);
    parts
}

/// The attachments that a client can show, as parts.
pub(super) fn parts_of(message: &UserMessageAction) -> Vec<UiPart> {
    let attached = message.attachments.iter().flatten();
    attached.filter_map(Attachment::part).filter_map(|part| content::to_part(&part)).collect()
}

/// The sidecar entries of the attachments of `target`: the fields that its file part does not hold, or the whole
/// attachment if it has no file part. Updates `read`, the message without a sidecar, to what these entries restore.
pub(super) fn sidecar_entries(target: &Action, read: &mut Action) -> Option<RawJson> {
    let (Action::UserMessage(target), Action::UserMessage(read)) = (target, read) else { return None };
    let attachments = target.attachments.as_deref().filter(|attachments| !attachments.is_empty())?;
    let shown = attachments.iter().filter(|attachment| attachment.part().is_some()).count();
    let mut files = last_files(&read.content, shown)?.into_iter();
    let entries: Vec<RawObject> = attachments
        .iter()
        .map(|attachment| match attachment.part().and_then(|_| files.next()) {
            Some(file) => changes(&members(attachment), &members(&file)),
            None => [("raw", RawJson::from_value(attachment).unwrap_or_default())].into_iter().collect(),
        })
        .collect();
    let entries = RawJson::from_value(&entries).ok()?;
    *read = moved(read, &entries)?;
    Some(entries)
}

/// Restores the attachments of a message from sidecar entries; `None` if the entries do not match the message.
pub(super) fn restore_attachments(read: &Action, entries: &RawJson) -> Option<Action> {
    let Action::UserMessage(read) = read else { return None };
    moved(read, entries).map(Action::UserMessage)
}

fn moved(read: &UserMessageAction, entries: &RawJson) -> Option<UserMessageAction> {
    let entries: Vec<RawObject> = entries.to().ok()?;
    let shown = entries.iter().filter(|entry| entry.get("raw").is_none()).count();
    let mut files = last_files(&read.content, shown)?.into_iter();
    let mut attachments = Vec::with_capacity(entries.len());
    for entry in &entries {
        attachments.push(match entry.get("raw") {
            Some(raw) => raw.to().ok()?,
            None => RawJson::from_value(&amended(members(&files.next()?), entry)?).ok()?.to().ok()?,
        });
    }
    Some(UserMessageAction {
        content: without_last(&read.content, shown),
        attachments: Some(attachments),
        ..read.clone()
    })
}

/// The last parts of a content as attachments; `None` if not all of them are files.
fn last_files(content: &MessageContent, count: usize) -> Option<Vec<Attachment>> {
    let MessageContent::Parts(parts) = content else { return (count == 0).then(Vec::new) };
    let last = parts.get(parts.len().checked_sub(count)?..)?;
    last.iter().map(attachment).collect()
}

fn attachment(part: &ContentPart) -> Option<Attachment> {
    macro_rules! of {
        ($file:expr) => {
            Attachment {
                name: $file.name.clone().unwrap_or_default(),
                url: $file.url.clone(),
                data: $file.base64.clone(),
                media_type: $file.media_type.clone().unwrap_or_default(),
                ..Attachment::default()
            }
        };
    }
    Some(match part {
        ContentPart::Image(file) => of!(file),
        ContentPart::File(file) => of!(file),
        ContentPart::Audio(file) => of!(file),
        ContentPart::Video(file) => of!(file),
        ContentPart::Text(_) | ContentPart::Unknown(_) => return None,
    })
}

fn without_last(content: &MessageContent, count: usize) -> MessageContent {
    let MessageContent::Parts(parts) = content else { return content.clone() };
    match parts.get(..parts.len().saturating_sub(count)).unwrap_or_default() {
        [] if count > 0 => MessageContent::default(),
        [ContentPart::Text(text)] => MessageContent::Text(text.text.clone()),
        rest => MessageContent::Parts(rest.to_vec()),
    }
}

//! Decodes actions and their round-trip metadata to messages; the exact inverse of `encode`.
//!
//! Actions without metadata are grouped by the rules of the specification: user messages and tool returns form
//! requests, actions of one agent form responses.

use std::borrow::Cow;
use std::collections::HashMap;

use super::content_items;
use super::field_layout::{Expected, FieldLayouts};
use super::merge_text::cut;
use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use super::part_fields::{self, RETRY, expected, is_annotation, is_verbatim};
use super::read::read_object;
use super::roundtrip_metadata::{ActionMetadata, LayoutEntry, MessageMetadata, PieceMetadata};
use super::thread_metadata::{ThreadMetadata, action_metadata, damaged};
use super::usage::{expected_of_message, expected_of_usage};
use crate::action::Action;
use crate::content::{ContentPart, MessageContent};
use crate::document::Thread;
use crate::error::ThreadError;

/// The actions of one message.
#[derive(Debug, Default)]
pub(super) struct ActionGroup<'t> {
    /// The actions of parts.
    actions: Vec<(&'t Action, ActionMetadata<'t>)>,
    /// All actions. The first one has the timestamp of the message.
    all: Vec<&'t Action>,
    message: Option<MessageMetadata<'t>>,
    /// The sender, for groups without metadata.
    sender: Option<Sender<'t>>,
}

/// The sender of a group without metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender<'t> {
    Request,
    Response(&'t str),
}

impl<'t> ActionGroup<'t> {
    /// Adds an action with its metadata.
    pub(super) fn push(&mut self, action: &'t Action, mut stored: ActionMetadata<'t>) {
        if let Some(message) = stored.message.take() {
            self.message = Some(message);
        }
        self.all.push(action);
        if !is_annotation(action.action_type()) {
            self.actions.push((action, stored));
        }
    }

    fn kind(&self) -> Kind {
        let user_items = self.message.as_ref().and_then(|message| message.kind.as_ref());
        match (user_items, self.sender) {
            (Some(kind), _) => Kind::from(kind.as_str()),
            (None, Some(Sender::Response(_))) => Kind::Response,
            (None, _) => Kind::Request,
        }
    }
}

/// Decodes all messages of a thread.
///
/// # Errors
/// [`ThreadError::RoundtripMetadata`] if round-trip metadata is damaged.
pub(super) fn to_messages(thread: &Thread) -> Result<History<'_>, ThreadError> {
    let mut messages = Vec::new();
    for_each_message(thread, |message| {
        messages.push(message);
        Ok(())
    })?;
    Ok(messages)
}

/// As [`to_messages`], one message at a time, so that a long history is never in memory as a whole.
///
/// # Errors
/// As [`to_messages`], and the errors of `use_message`.
pub(super) fn for_each_message<'t>(
    thread: &'t Thread,
    mut use_message: impl FnMut(ModelMessage<'t>) -> Result<(), ThreadError>,
) -> Result<(), ThreadError> {
    let metadata = ThreadMetadata::of(thread)?;
    let layouts = metadata.layouts()?;
    let plain = FieldLayouts::default();
    let mut group: Option<(usize, ActionGroup<'_>)> = None;
    let mut finish = |group| -> Result<(), ThreadError> {
        if let Some((position, mut group)) = group {
            let group: &mut ActionGroup<'_> = &mut group;
            let layouts = if group.sender.is_some() { &plain } else { &layouts };
            use_message(decode_message(layouts, group).map_err(|message| damaged(position, message))?)?;
        }
        Ok(())
    };
    for (position, action) in thread.actions.iter().enumerate() {
        let stored =
            action_metadata(action, &metadata).map_err(|error| damaged(position, error.to_string()))?;
        let goes_on = group.as_ref().is_some_and(|(_, group)| belongs(group, action, stored.as_ref()));
        if !goes_on {
            let sender = if stored.is_some() { None } else { sender(action) };
            if stored.is_none() && sender.is_none() {
                continue;
            }
            finish(group.take())?;
            group = Some((position, ActionGroup { sender, ..ActionGroup::default() }));
        }
        if let Some((_, group)) = &mut group {
            group.push(action, stored.unwrap_or_default());
        }
    }
    finish(group)
}

/// True if an action continues the message of a group.
fn belongs(group: &ActionGroup<'_>, action: &Action, stored: Option<&ActionMetadata<'_>>) -> bool {
    match (&group.message, stored) {
        (Some(message), Some(stored)) => stored.message.is_none() && stored.m == Some(message.index),
        (None, None) => match (group.sender, sender(action)) {
            (Some(Sender::Request), Some(Sender::Request)) => true,
            (Some(Sender::Response(one)), Some(Sender::Response(other))) => {
                let says = |action: &Action| matches!(action, Action::AssistantMessage(_));
                one == other && !(says(action) && group.all.iter().any(|action| says(action)))
            }
            _ => false,
        },
        _ => false,
    }
}

/// The sender of an action without metadata; `None` for events that models do not receive.
fn sender(action: &Action) -> Option<Sender<'_>> {
    match action {
        Action::UserMessage(_) | Action::ToolReturn(_) => Some(Sender::Request),
        Action::AssistantMessage(_) | Action::Thinking(_) | Action::ToolCall(_) => {
            action.agent_id().map(Sender::Response)
        }
        Action::System(system) if system.action_type == RETRY => Some(Sender::Request),
        Action::System(_) | Action::Other(_) => None,
    }
}

/// Decodes a message.
///
/// # Errors
/// The description of the damage.
pub(super) fn decode_message<'t>(
    layouts: &FieldLayouts<'t>,
    group: &mut ActionGroup<'t>,
) -> Result<ModelMessage<'t>, String> {
    let stored = group.message.take().unwrap_or_default();
    if let Some(raw) = stored.raw {
        return serde_json::from_str(raw.get()).map_err(|error| format!("raw: {error}"));
    }
    group.message = None;
    let kind = match (&stored.kind, group.sender) {
        (Some(kind), _) => Kind::from(kind.as_str()),
        (None, _) => group.kind(),
    };
    let parts = decode_parts(layouts, &stored, group)?;
    let layout = layouts.get(kind.name()).ok_or_else(|| format!("no kind of message \"{}\"", kind.name()))?;
    let address = stored.instructions.as_ref().map(|address| Cow::Borrowed(address.as_str()));
    let address = address.or_else(|| layouts.instructions.clone());
    let instructions = match address {
        Some(address) if kind == Kind::Request => {
            let text = layouts.texts.get(&*address);
            Some(
                text.cloned()
                    .ok_or_else(|| format!("no text \"{address}\" in metadata.pydantic_ai.texts"))?,
            )
        }
        _ => None,
    };
    let calls =
        group.sender.is_some() && group.all.iter().any(|action| matches!(action, Action::ToolCall(_)));
    let keys = stored.keys.as_ref().map(|keys| keys.0.as_slice());
    let members = layout.rebuild(keys, &stored.fields.0, |key| match key {
        "finish_reason" if calls => Expected::text("tool_call"),
        _ => expected_of_message(group.all.iter().copied(), kind.name(), instructions.as_ref(), key),
    });
    let usage = match (members.get("usage"), layouts.get("usage")) {
        (Some(Value::Field), Some(layout)) => {
            let keys = stored.usage_keys.as_ref().map(|keys| keys.0.as_slice());
            let derive = |key: &str| expected_of_usage(group.all.iter().copied(), key);
            Some(layout.rebuild(keys, &stored.usage.0, derive))
        }
        _ => None,
    };
    Ok(ModelMessage { kind, members, parts, usage })
}

fn decode_parts<'t>(
    layouts: &FieldLayouts<'t>,
    stored: &MessageMetadata<'t>,
    group: &ActionGroup<'t>,
) -> Result<Vec<Part<'t>>, String> {
    let Some(layout) = &stored.layout else {
        let mut actions: Vec<_> = group.actions.iter().collect();
        if group.sender.is_some() {
            // Providers require tool returns before other user content.
            actions.sort_by_key(|(action, _)| !matches!(action, Action::ToolReturn(_)));
        }
        let mut parts = Vec::with_capacity(actions.len());
        for (action, stored) in actions {
            decode_action(layouts, action, stored, |part| parts.push(part))?;
        }
        return Ok(parts);
    };
    // The end of the previous part in each merged text.
    let mut ends: HashMap<(usize, Option<usize>), usize> = HashMap::new();
    let action = |position: usize| {
        group
            .actions
            .get(position)
            .ok_or_else(|| format!("layout refers to action {position} of {}", group.actions.len()))
    };
    let part = |slot: &LayoutEntry<'t>| match slot {
        LayoutEntry::Action(position) => {
            action(*position).and_then(|(action, stored)| decode_part(layouts, action, stored))
        }
        LayoutEntry::Other(slot) => match (slot.raw, &slot.text, slot.action) {
            (Some(raw), ..) => {
                read_object(raw.get()).ok_or_else(|| "layout: a raw part is not an object".to_owned())
            }
            (None, Some(address), _) => system_prompt(layouts, slot, address.as_str()),
            (None, None, Some(position)) => {
                piece(layouts, slot, action(position)?.0, ends.entry((position, slot.item)).or_default())
            }
            (None, None, None) => Err("layout: an entry is empty".to_owned()),
        },
    };
    layout.iter().map(part).collect()
}

fn slot_keys<'s, 't>(slot: &'s PieceMetadata<'t>) -> Option<&'s [Cow<'t, str>]> {
    slot.keys.as_ref().map(|keys| keys.0.as_slice())
}

fn system_prompt<'t>(
    layouts: &FieldLayouts<'t>,
    slot: &PieceMetadata<'t>,
    address: &str,
) -> Result<Part<'t>, String> {
    let text = layouts.texts.get(address).cloned();
    let text = text.ok_or_else(|| format!("no text \"{address}\" in metadata.pydantic_ai.texts"))?;
    let layout = layouts.get("system-prompt").ok_or("no template for system prompts")?;
    Ok(layout.rebuild(slot_keys(slot), &slot.part.0, |key| match key {
        "content" => Expected::Value(text.clone()),
        "part_kind" => Expected::text("system-prompt"),
        _ => Expected::Default,
    }))
}

fn piece<'t>(
    layouts: &FieldLayouts<'t>,
    slot: &PieceMetadata<'t>,
    action: &'t Action,
    end: &mut usize,
) -> Result<Part<'t>, String> {
    let Action::AssistantMessage(message) = action else {
        return Err("layout: only assistant messages can be split into parts".to_owned());
    };
    let text = match (&message.content, slot.item) {
        (MessageContent::Text(text), None) => text.as_str(),
        (MessageContent::Parts(parts), Some(item)) => match parts.get(item) {
            Some(ContentPart::Text(part)) => part.text.as_str(),
            Some(part) if slot.kind.is_some() => return file(layouts, part, Some(slot)),
            _ => return Err("layout: the content part of an entry is not a text".to_owned()),
        },
        _ => return Err("layout: an entry does not match the content of its action".to_owned()),
    };
    let (text, after) = cut(text, *end, slot.gap, slot.length).ok_or("layout: an entry exceeds its text")?;
    *end = after;
    let layout = layouts.get("text").ok_or("no template for texts")?;
    Ok(layout.rebuild(slot_keys(slot), &slot.part.0, |key| match key {
        "content" => Expected::text(text),
        "part_kind" => Expected::text("text"),
        _ => Expected::Default,
    }))
}

/// Decodes a file part.
fn file<'t>(
    layouts: &FieldLayouts<'t>,
    part: &'t ContentPart,
    slot: Option<&PieceMetadata<'t>>,
) -> Result<Part<'t>, String> {
    let layout = layouts.get("file").ok_or("no template for files")?;
    let members = slot.map(|slot| slot.part.0.as_slice()).unwrap_or_default();
    let item = slot.and_then(|slot| slot.file.as_ref());
    Ok(layout.rebuild(slot.and_then(slot_keys), members, |key| match key {
        "content" => Expected::Value(content_items::decode_item(part, item, layouts)),
        "part_kind" => Expected::text("file"),
        _ => Expected::Default,
    }))
}

/// Decodes the parts of an action: one part, or one per text and file for a message without metadata. Responses of
/// Pydantic AI only have inline files; a remote file becomes a text with a link.
pub(super) fn decode_action<'t>(
    layouts: &FieldLayouts<'t>,
    action: &'t Action,
    stored: &ActionMetadata<'t>,
    mut take: impl FnMut(Part<'t>),
) -> Result<(), String> {
    let Action::AssistantMessage(message) = action else {
        return decode_part(layouts, action, stored).map(take);
    };
    let (MessageContent::Parts(parts), None) = (&message.content, &stored.kind) else {
        return decode_part(layouts, action, stored).map(take);
    };
    let layout = layouts.get("text").ok_or("no template for texts")?;
    for part in parts {
        if content_items::is_inline(part) {
            take(file(layouts, part, None)?);
            continue;
        }
        let text = part.as_text().map_or_else(|| Cow::Owned(content_items::link(part)), Cow::Borrowed);
        take(layout.rebuild(None, &[], |key| match key {
            "content" => Expected::Value(Value::Text(text.clone())),
            "part_kind" => Expected::text("text"),
            _ => Expected::Default,
        }));
    }
    Ok(())
}

/// Decodes the part of an action.
pub(super) fn decode_part<'t>(
    layouts: &FieldLayouts<'t>,
    action: &'t Action,
    stored: &ActionMetadata<'t>,
) -> Result<Part<'t>, String> {
    if let Action::System(system) = action
        && is_verbatim(&system.action_type)
    {
        return read_object(system.data.get())
            .ok_or_else(|| "the data of a verbatim part is not an object".to_owned());
    }
    let class = stored.kind.as_ref().map_or_else(|| part_fields::default_class(action), |kind| kind.as_str());
    let layout = layouts.get(class).ok_or_else(|| format!("no kind of part \"{class}\""))?;
    let as_text = match &stored.args {
        Some(form) => form.as_str() == "text",
        None => layouts.arguments_as_text,
    };
    let as_text = as_text && matches!(action, Action::ToolCall(call) if !call.args.is_string());
    let items = match action {
        _ if class == "speech" => part_fields::audio(action, stored.items.as_deref(), layouts),
        Action::UserMessage(message) => content_items::user_items(message, stored.items.as_deref(), layouts),
        _ => None,
    };
    let items_key = if class == "speech" { "audio" } else { "content" };
    let keys = stored.keys.as_ref().map(|keys| keys.0.as_slice());
    let part: Object<'t> = layout.rebuild(keys, &stored.part.0, |key| match (key, &items) {
        (key, Some(items)) if key == items_key => Expected::Value(items.clone()),
        _ => expected(action, class, key, as_text),
    });
    Ok(part)
}

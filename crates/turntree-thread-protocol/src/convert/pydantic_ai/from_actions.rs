//! Decodes actions and their round-trip metadata to messages; the exact inverse of `encode`.
//!
//! Actions without metadata are grouped by the rules of the specification: user messages and tool returns form
//! requests, actions of one agent form responses.

use std::borrow::Cow;
use std::collections::HashMap;

use super::arguments;
use super::content_items;
use super::field_layout::{Expected, FieldLayouts};
use super::large_numbers;
use super::merge_text::cut;
use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use super::part_fields::{self, RETRY, expected, is_annotation, is_verbatim};
use super::prompts::{AgentPrompts, LeadingPrompts, changed_instructions};
use super::read::read_object;
use super::roundtrip_metadata::{ActionMetadata, LayoutEntry, MessageMetadata, PieceMetadata};
use super::thread_metadata::{ThreadMetadata, action_metadata, damaged};
use super::usage::{USAGE, expected_of_message, expected_of_usage};
use crate::action::{Action, SystemAction};
use crate::content::{ContentPart, MessageContent};
use crate::convert::agent_view::is_prompt;
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::describe_part;

/// The actions of one message.
#[derive(Debug, Default)]
pub(super) struct ActionGroup<'t> {
    /// The instructions of a request without metadata.
    pub instructions: Option<Value<'t>>,
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
    /// A request without parts.
    fn request(instructions: Option<Value<'t>>) -> Self {
        Self { instructions, sender: Some(Sender::Request), ..Self::default() }
    }

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
    let mut prompts =
        if metadata.is_full() { AgentPrompts::default() } else { AgentPrompts::of(thread, &metadata, None) };
    // The prompts of the configuration come before the first message.
    let mut leading = prompts.leading(&plain, &thread.created_at);
    let mut group: Option<(usize, ActionGroup<'_>)> = None;
    let mut finish = |group| -> Result<(), ThreadError> {
        if let Some((position, mut group)) = group {
            let group: &mut ActionGroup<'_> = &mut group;
            let layouts = if group.sender.is_some() { &plain } else { &layouts };
            let mut message = decode_message(layouts, group).map_err(|message| damaged(position, message))?;
            if let Some(leading) = leading.take() {
                let first = put_first(&plain, leading, &mut message);
                first.map_err(|message| damaged(position, message))?.map_or(Ok(()), &mut use_message)?;
            }
            use_message(message)?;
        }
        Ok(())
    };
    for (position, action) in thread.actions.iter().enumerate() {
        let stored =
            action_metadata(action, &metadata).map_err(|error| damaged(position, describe_part(&error)))?;
        let goes_on = group.as_ref().is_some_and(|(_, group)| belongs(group, action, stored.as_ref()));
        if !goes_on {
            let sender = if stored.is_some() { None } else { sender(action) };
            if stored.is_none() && sender.is_none() {
                continue;
            }
            finish(group.take())?;
            group = Some((position, ActionGroup { sender, ..ActionGroup::default() }));
        }
        if let Some(changed) = changed_instructions(action) {
            prompts.instructions = changed;
        }
        if let Some((_, group)) = &mut group {
            if group.sender.is_some() {
                group.instructions.clone_from(&prompts.instructions);
            }
            group.push(action, stored.unwrap_or_default());
        }
    }
    finish(group)?;
    let Some(leading) = leading else { return Ok(()) };
    use_message(prompts_only(&plain, leading).map_err(|message| damaged(0, message))?)
}

/// Puts leading system prompts in front of the first message: in it, or in a request before it, which is returned.
fn put_first<'t>(
    layouts: &FieldLayouts<'t>,
    leading: LeadingPrompts<'t>,
    message: &mut ModelMessage<'t>,
) -> Result<Option<ModelMessage<'t>>, String> {
    if message.kind != Kind::Request {
        return prompts_only(layouts, leading).map(Some);
    }
    message.parts.splice(0..0, leading.parts);
    Ok(None)
}

/// A request that has only prompts.
fn prompts_only<'t>(
    layouts: &FieldLayouts<'t>,
    leading: LeadingPrompts<'t>,
) -> Result<ModelMessage<'t>, String> {
    let mut request = decode_message(layouts, &mut ActionGroup::request(leading.instructions))?;
    request.parts = leading.parts;
    Ok(request)
}

/// True if an action continues the message of a group.
fn belongs(group: &ActionGroup<'_>, action: &Action, stored: Option<&ActionMetadata<'_>>) -> bool {
    match (&group.message, stored) {
        (Some(message), Some(stored)) => stored.message.is_none() && stored.m == Some(message.index),
        (None, None) => match (group.sender, sender(action)) {
            (Some(Sender::Request), Some(Sender::Request)) => true,
            (Some(Sender::Response(one)), Some(Sender::Response(other))) => {
                let says = |action: &Action| matches!(action, Action::AssistantMessage(_));
                // The usage is the last action of its response.
                let is_over = group.all.last().is_some_and(|last| last.action_type() == USAGE);
                // A text has the usage of its response, so another usage is that of a response without text.
                let has_usage = |action: &&Action| match action {
                    Action::AssistantMessage(text) => text.usage.is_some(),
                    _ => false,
                };
                let is_next = action.action_type() == USAGE && group.all.iter().any(has_usage);
                let says_twice = says(action) && group.all.iter().any(|action| says(action));
                one == other && !is_over && !is_next && !says_twice
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
        Action::System(system) if system.action_type == RETRY || is_prompt(system) => Some(Sender::Request),
        Action::System(system) if system.action_type == USAGE => agent_of_usage(system).map(Sender::Response),
        Action::System(_) | Action::Other(_) => None,
    }
}

/// The agent of `system.tp.usage`.
fn agent_of_usage(system: &SystemAction) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Data<'d> {
        #[serde(borrow)]
        agent_id: Option<&'d str>,
    }
    serde_json::from_str::<Data<'_>>(system.data.get()).ok()?.agent_id
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
        let message =
            serde_json::from_str(raw.get()).map_err(|error| format!("raw: {}", describe_part(&error)))?;
        return Ok(match &stored.exact {
            Some(exact) => large_numbers::restore(message, exact.as_str()),
            None => message,
        });
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
        _ if kind == Kind::Request => group.instructions.take(),
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
    let message = ModelMessage { kind, members, parts, usage };
    Ok(match &stored.exact {
        Some(exact) => large_numbers::restore(message, exact.as_str()),
        None => message,
    })
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

/// Decodes a leading system prompt.
pub(super) fn system_prompt<'t>(
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
    let mut arguments = match action {
        Action::ToolCall(call) => arguments::text(&call.args, stored, layouts.arguments.unwrap_or_default()),
        _ => None,
    };
    let items = match action {
        _ if class == "speech" => part_fields::audio(action, stored.items.as_deref(), layouts),
        Action::UserMessage(message) => content_items::user_items(message, stored.items.as_deref(), layouts),
        _ => None,
    };
    let items_key = if class == "speech" { "audio" } else { "content" };
    let keys = stored.keys.as_ref().map(|keys| keys.0.as_slice());
    let part: Object<'t> = layout.rebuild(keys, &stored.part.0, |key| match (key, &items) {
        (key, Some(items)) if key == items_key => Expected::Value(items.clone()),
        ("args", _) if arguments.is_some() => {
            arguments.take().map_or(Expected::Default, |text| Expected::Value(Value::Text(text)))
        }
        _ => expected(action, class, key),
    });
    Ok(part)
}

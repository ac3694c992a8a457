//! Exports to Pydantic AI: the whole history, one agent's view, or a history for an older version.
//!
//! [`agent_view`] builds the view, [`prompts`] has its system prompts and instructions.

use std::borrow::Cow;
use std::sync::Arc;

use super::coerce;
use super::content_items::{decode_all, is_inline};
use super::downgrade::{Change, downgrade};
use super::field_layout::{Expected, FieldLayouts};
use super::from_actions::{decode_action, decode_part, for_each_message, system_prompt, to_messages};
use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use super::part_fields::{NATIVE_RETURN, is_annotation};
use super::prompts::{self, AgentPrompts, changed_instructions};
use super::roundtrip_metadata::{ActionMetadata, LayoutEntry, MessageMetadata};
use super::thread_metadata::{ThreadMetadata, action_metadata, damaged};
use super::usage::{expected_of_message, expected_of_usage};
use super::versions::Version;
use super::write::write_message;
use crate::action::Action;
use crate::content::{ContentPart, MessageContent};
use crate::convert::agent_view::{
    self, ActionOrigin, Rendering, SystemPrompts, ViewItem, ViewOptions, prefixed,
};
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::tagged::CowStr;
use turntree_core::json::{ParseError, ParseErrorKind, PathSegment, describe_part};

/// The `part_kind` of a call of a provider's tool.
const NATIVE_CALL: &str = "builtin-tool-call";

impl Thread {
    /// Converts the thread, or one agent's view of it, to messages.
    ///
    /// # Errors
    /// [`ThreadError::UnknownAgent`] if the registry does not have the agent; [`ThreadError::RoundtripMetadata`] if
    /// round-trip metadata is damaged.
    pub fn to_messages(&self, options: &ViewOptions) -> Result<History<'_>, ThreadError> {
        let mut messages = match &options.agent_id {
            None => to_messages(self)?,
            Some(agent_id) => self.view_of(agent_id, options)?,
        };
        prompts::apply(&mut messages, options.system_prompts);
        Ok(messages)
    }

    fn view_of(&self, agent_id: &str, options: &ViewOptions) -> Result<History<'_>, ThreadError> {
        let metadata = ThreadMetadata::of(self)?;
        let mut stored = Vec::with_capacity(self.actions.len());
        for (position, action) in self.actions.iter().enumerate() {
            let of_action = action_metadata(action, &metadata)
                .map_err(|error| damaged(position, describe_part(&error)))?;
            stored.push(of_action.unwrap_or_default());
        }
        let origins = origins(self, &stored);
        let view = agent_view::messages(self, agent_id, options, &origins, false)?;
        let prompts = AgentPrompts::of(self, &metadata, Some(agent_id));
        let metadata_is_full = metadata.is_full();
        let mut renderer = ViewRenderer {
            layouts: metadata.layouts()?,
            plain: FieldLayouts::default(),
            instructions: prompts.instructions.clone().filter(|_| !metadata_is_full),
            next: agent_view::responders(self),
            agent_id,
            origins: &origins,
            stored,
        };
        let leading = renderer.leading_prompts(&prompts, &self.created_at);
        let mut messages: History<'_> =
            view.iter().map(|message| renderer.message(message)).collect::<Result<_, _>>()?;
        let configured = prompts.instructions.is_some() && !metadata_is_full;
        prompts::prepend(&mut messages, leading, configured, || ModelMessage {
            kind: Kind::Request,
            members: message_members(
                &renderer.plain,
                "request",
                None,
                &[],
                Some(&self.created_at),
                prompts.instructions.as_ref(),
            ),
            parts: Vec::new(),
            usage: None,
        });
        Ok(messages)
    }

    /// Writes the history byte for byte as `dump_json` wrote it, or one agent's view of it.
    ///
    /// # Errors
    /// As [`Self::to_messages`]; [`ThreadError::Parse`] if the output exceeds the limits.
    pub fn to_pydantic_ai_json(&self, options: &ViewOptions) -> Result<Vec<u8>, ThreadError> {
        written(&self.to_messages(options)?, options)
    }

    /// As [`Self::to_pydantic_ai_json`], in chunks, so that a long history is never in memory as a whole.
    ///
    /// # Errors
    /// As [`Self::to_pydantic_ai_json`]; chunks may have been written before an error.
    pub fn write_pydantic_ai_json(
        &self,
        options: &ViewOptions,
        mut write: impl FnMut(&[u8]),
    ) -> Result<(), ThreadError> {
        let mut writer = HistoryWriter::new(options.limits.bytes);
        let mut add = |message: &ModelMessage<'_>| -> Result<(), ThreadError> {
            writer.add(message)?;
            if writer.out.len() >= PIECE {
                write(&writer.out);
                writer.taken += writer.out.len();
                writer.out.clear();
            }
            Ok(())
        };
        match &options.agent_id {
            None if options.system_prompts == SystemPrompts::Include => {
                for_each_message(self, |message| add(&message))?;
            }
            _ => self.to_messages(options)?.iter().try_for_each(add)?,
        }
        write(&writer.finish());
        Ok(())
    }
}

/// The approximate size of a chunk.
const PIECE: usize = 64 * 1024;

impl Thread {
    /// As [`Self::to_pydantic_ai_json`], for an older version of Pydantic AI. Also returns the changes that this
    /// required.
    ///
    /// # Errors
    /// As [`Self::to_pydantic_ai_json`].
    pub fn to_older_pydantic_ai_json(
        &self,
        options: &ViewOptions,
        version: Version,
    ) -> Result<(Vec<u8>, Vec<Change>), ThreadError> {
        let (messages, changes) = downgrade(&self.to_messages(options)?, version);
        Ok((written(&messages, options)?, changes))
    }
}

fn written(messages: &History<'_>, options: &ViewOptions) -> Result<Vec<u8>, ThreadError> {
    let mut writer = HistoryWriter::new(options.limits.bytes);
    messages.iter().try_for_each(|message| writer.add(message))?;
    Ok(writer.finish())
}

/// Writes a list of messages, up to a limit.
struct HistoryWriter {
    out: Vec<u8>,
    /// The number of bytes taken from `out`.
    taken: usize,
    messages: usize,
    limit: usize,
}

impl HistoryWriter {
    fn new(limit: usize) -> Self {
        Self { out: vec![b'['], taken: 0, messages: 0, limit }
    }

    fn add(&mut self, message: &ModelMessage<'_>) -> Result<(), ThreadError> {
        if self.messages > 0 {
            self.out.push(b',');
        }
        write_message(&mut self.out, message);
        if self.taken + self.out.len() > self.limit {
            return Err(too_long(self.messages, self.limit).into());
        }
        self.messages += 1;
        Ok(())
    }

    fn finish(mut self) -> Vec<u8> {
        self.out.push(b']');
        self.out
    }
}

fn too_long(position: usize, limit: usize) -> ParseError {
    ParseError {
        kind: ParseErrorKind::Limit,
        path: vec![PathSegment::Index(position)],
        message: format!("the history has more than {limit} bytes; raise the limit or split the thread"),
    }
}

/// The source message of each action, whether it belongs to a provider's tool, and whether a part can represent it.
fn origins(thread: &Thread, stored: &[ActionMetadata<'_>]) -> Vec<ActionOrigin> {
    let mut head: Option<(usize, u64)> = None;
    let origin = |(position, (action, stored)): (usize, (&Arc<Action>, &ActionMetadata<'_>))| {
        if let Some(message) = &stored.message {
            head = Some((position, message.index));
        }
        let index = stored.message.as_ref().map(|message| message.index).or(stored.m);
        let message = head.filter(|(_, of_head)| index == Some(*of_head)).map(|(position, _)| position);
        let kind = stored.kind.as_ref().map(CowStr::as_str);
        let native = matches!(kind, Some(NATIVE_CALL | NATIVE_RETURN));
        ActionOrigin { message, native, unrepresentable: kind.is_none() && is_unrepresentable(action) }
    };
    thread.actions.iter().zip(stored).enumerate().map(origin).collect()
}

/// True if Pydantic AI has no part for the content of a message: it has no text and no inline file.
fn is_unrepresentable(action: &Action) -> bool {
    let Action::AssistantMessage(message) = action else { return false };
    let MessageContent::Parts(parts) = &message.content else { return false };
    !parts.iter().any(|part| part.as_text().is_some() || is_inline(part))
}

/// Renders a view as Pydantic AI messages.
struct ViewRenderer<'t, 'o> {
    layouts: FieldLayouts<'t>,
    agent_id: &'o str,
    origins: &'o [ActionOrigin],
    /// For each action, the agent of the next response.
    next: Vec<Option<&'t str>>,
    /// The instructions in effect.
    instructions: Option<Value<'t>>,
    /// The layouts of messages without round-trip metadata.
    plain: FieldLayouts<'t>,
    /// The round-trip metadata of each action.
    stored: Vec<ActionMetadata<'t>>,
}

impl<'t> ViewRenderer<'t, '_> {
    /// The leading system prompts: those of the first message, or of the configuration.
    fn leading_prompts(&self, prompts: &AgentPrompts<'t>, timestamp: &'t str) -> Vec<Part<'t>> {
        let layout = self.stored.first().and_then(|first| first.message.as_ref()?.layout.as_ref());
        let own = layout.into_iter().flatten().map_while(|entry| match entry {
            LayoutEntry::Other(entry) => {
                system_prompt(&self.layouts, entry, entry.text.as_ref()?.as_str()).ok()
            }
            LayoutEntry::Action(_) => None,
        });
        let own: Vec<Part<'t>> = own.collect();
        if own.is_empty() { prompts.parts(&self.plain, timestamp) } else { own }
    }

    /// The instructions of a request: of its last source message that the agent answers.
    fn instructions_of(&mut self, items: &[ViewItem<'t>]) -> Option<Value<'t>> {
        for item in items {
            if let Some(changed) = changed_instructions(item.action) {
                self.instructions = changed;
                continue;
            }
            let head = self.origins.get(item.index).and_then(|origin| origin.message);
            let message = head.and_then(|head| self.stored.get(head)?.message.as_ref());
            let is_request = |message: &&MessageMetadata<'t>| {
                message.kind.as_ref().is_some_and(|kind| kind.as_str() == "request")
            };
            let Some(message) = message.filter(is_request) else { continue };
            let next = self.next.get(item.index).copied().flatten();
            self.instructions = match next {
                Some(next) if next != self.agent_id => None,
                _ => self.stored_instructions(message),
            };
        }
        self.instructions.clone()
    }

    fn stored_instructions(&self, message: &MessageMetadata<'t>) -> Option<Value<'t>> {
        let keys = message.keys.as_ref().map(|keys| keys.0.as_slice());
        let has_key = match keys {
            Some(keys) => keys.iter().any(|key| key == "instructions"),
            None => {
                self.layouts.get("request").is_some_and(|layout| layout.members.get("instructions").is_some())
            }
        };
        let own = message.fields.0.iter().find(|(key, _)| key == "instructions");
        if own.is_none() && !has_key {
            return None;
        }
        if let Some((_, raw)) = own {
            return Some(Value::Raw(raw)).filter(Value::is_text);
        }
        let address = message.instructions.as_ref().map(|address| Cow::Borrowed(address.as_str()));
        let address = address.or_else(|| self.layouts.instructions.clone())?;
        self.layouts.texts.get(&*address).cloned()
    }

    fn message(&mut self, message: &agent_view::ViewMessage<'t>) -> Result<ModelMessage<'t>, ThreadError> {
        let mut parts = Vec::with_capacity(message.items.len());
        for item in &message.items {
            let answers = message.speaker.is_some();
            self.parts(item, answers, |part| parts.push(part)).map_err(|error| damaged(item.index, error))?;
        }
        if message.speaker.is_none() {
            let timestamp = message.items.first().map(|item| item.action.timestamp());
            let instructions = self.instructions_of(&message.items);
            let members =
                message_members(&self.plain, "request", None, &[], timestamp, instructions.as_ref());
            return Ok(ModelMessage { kind: Kind::Request, members, parts, usage: None });
        }
        // Use the metadata of a message once, even if messages of others split it.
        let stored = message.origin.and_then(|head| self.stored.get_mut(head)?.message.take());
        let layouts = if stored.is_some() { &self.layouts } else { &self.plain };
        let actions: Vec<&Action> = message.items.iter().map(|item| item.action).collect();
        let members = message_members(layouts, "response", stored.as_ref(), &actions, None, None);
        let usage = matches!(members.get("usage"), Some(Value::Field))
            .then(|| usage(layouts, stored.as_ref(), &actions))
            .flatten();
        Ok(ModelMessage { kind: Kind::Response, members, parts, usage })
    }

    fn parts(
        &self,
        item: &ViewItem<'t>,
        answers: bool,
        mut take: impl FnMut(Part<'t>),
    ) -> Result<(), String> {
        let default = ActionMetadata::default();
        let stored = self.stored.get(item.index).unwrap_or(&default);
        let action = item.action;
        if is_annotation(action.action_type()) {
            return Ok(());
        }
        match (&item.rendering, action) {
            (Rendering::AsIs, _) => decode_action(&self.layouts, action, stored, take)?,
            (Rendering::Call { id, own: true } | Rendering::Return { id, own: true }, _) => {
                take(under(decode_part(&self.layouts, action, stored)?, id));
            }
            (Rendering::Call { id, .. }, Action::ToolCall(call)) => {
                take(self.part("tool-call", |key| match key {
                    "tool_name" => Expected::text(&call.tool_name),
                    "tool_call_id" => Expected::Value(Value::Text(id.clone())),
                    "args" => coerce::arguments(call.args.get()),
                    _ => Expected::Default,
                }))
            }
            (Rendering::Return { id, .. }, _) => take(self.part("tool-return", |key| match key {
                "tool_call_id" => Expected::Value(Value::Text(id.clone())),
                _ => super::part_fields::expected(action, "tool-return", key),
            })),
            (Rendering::Quoted(prefix), Action::AssistantMessage(message)) => {
                let text = || Value::Text(Cow::Owned(prefixed(&message.content.text(), prefix)));
                take(if answers {
                    self.part("text", |key| match key {
                        "content" => Expected::Value(text()),
                        _ => Expected::Default,
                    })
                } else {
                    self.user_prompt(&attributed(&message.content, prefix), action.timestamp())
                });
            }
            (Rendering::Summary(line), _) => {
                take(self.user_prompt(&Value::Text(Cow::Owned(line.clone())), action.timestamp()));
            }
            (Rendering::Call { .. } | Rendering::Quoted(_), _) => {}
        }
        Ok(())
    }

    fn user_prompt(&self, content: &Value<'t>, timestamp: &'t str) -> Part<'t> {
        self.part("user-prompt", |key| match key {
            "content" => Expected::Value(content.clone()),
            "timestamp" => coerce::time(timestamp),
            _ => Expected::Default,
        })
    }

    fn part(&self, class: &'static str, derive: impl Fn(&str) -> Expected<'t>) -> Part<'t> {
        let derive = |key: &str| if key == "part_kind" { Expected::text(class) } else { derive(key) };
        self.plain.get(class).map(|layout| layout.rebuild(None, &[], derive)).unwrap_or_default()
    }
}

/// Replaces the call id of a tool part if it differs.
fn under<'t>(part: Part<'t>, id: &Cow<'t, str>) -> Part<'t> {
    if part.text("tool_call_id").as_deref() == Some(&**id) {
        return part;
    }
    let mut renamed = Object::with_capacity(part.len());
    for (key, value) in part.entries() {
        let is_id = key == "tool_call_id";
        renamed.push(key.clone(), if is_id { Value::Text(id.clone()) } else { value.clone() });
    }
    renamed
}

fn message_members<'t>(
    layouts: &FieldLayouts<'t>,
    kind: &'static str,
    stored: Option<&MessageMetadata<'t>>,
    actions: &[&'t Action],
    timestamp: Option<&'t str>,
    instructions: Option<&Value<'t>>,
) -> Object<'t> {
    let Some(layout) = layouts.get(kind) else { return Object::new() };
    let calls = stored.is_none() && actions.iter().any(|action| matches!(action, Action::ToolCall(_)));
    let keys = stored.and_then(|stored| stored.keys.as_ref()).map(|keys| keys.0.as_slice());
    let fields = stored.map(|stored| stored.fields.0.as_slice()).unwrap_or_default();
    layout.rebuild(keys, fields, |key| match (key, timestamp) {
        ("timestamp", Some(timestamp)) => coerce::time(timestamp),
        ("finish_reason", _) if calls => Expected::text("tool_call"),
        _ => expected_of_message(actions.iter().copied(), kind, instructions, key),
    })
}

fn usage<'t>(
    layouts: &FieldLayouts<'t>,
    stored: Option<&MessageMetadata<'t>>,
    actions: &[&'t Action],
) -> Option<Object<'t>> {
    let keys = stored.and_then(|stored| stored.usage_keys.as_ref()).map(|keys| keys.0.as_slice());
    let members = stored.map(|stored| stored.usage.0.as_slice()).unwrap_or_default();
    let derive = |key: &str| expected_of_usage(actions.iter().copied(), key);
    layouts.get("usage").map(|layout| layout.rebuild(keys, members, derive))
}

/// The content of another agent's message with its attribution: in the first text, or before all items.
fn attributed<'t>(content: &'t MessageContent, prefix: &str) -> Value<'t> {
    let parts = match content {
        MessageContent::Text(text) => return Value::Text(Cow::Owned(prefixed(text, prefix))),
        MessageContent::Parts(parts) => parts,
    };
    let first = parts.iter().position(|part| matches!(part, ContentPart::Text(_)));
    let mut items = decode_all(parts, None, &FieldLayouts::default());
    match first.and_then(|first| items.get_mut(first)) {
        Some(item) => {
            let text = item.as_text().unwrap_or_default();
            *item = Value::Text(Cow::Owned(prefixed(&text, prefix)));
        }
        None => items.insert(0, Value::Text(Cow::Owned(prefix.trim_end().to_owned()))),
    }
    Value::List(items)
}

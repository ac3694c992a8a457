//! Encodes messages as actions.
//!
//! In the full profile, each member of a message is compared byte for byte with the value that the decoder derives. If
//! that is not conclusive, the message is decoded from the written metadata. A message that differs from its source is
//! stored verbatim beside its actions (decision 3).

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::field_layout::{Expected, FieldLayouts};
use super::from_actions::{ActionGroup, decode_message};
use super::large_numbers;
use super::merge_text::{MergedPart, join_texts};
use super::message_builder::{MessageBuilder, MessageSource, PartLocation, RoundTripMismatch};
use super::model::{Kind, ModelMessage, Part, Value, part_kind};
use super::options::ImportOptions;
use super::part_fields::{INSTRUCTIONS, MESSAGE};
use super::part_to_actions::{self, EncodeContext, EncodedPart};
use super::portable::{self, PortableState};
use super::roundtrip_metadata::{ActionMetadata, ObjectWriter};
use super::thread_metadata::address;
use super::write::{Comparer, message_to_json, object_to_json, write_message};
use crate::action::Action;
use crate::convert::portable::{DeferredAction, ProfileKind, assistant, object, system};
use crate::document::AgentRegistry;
use crate::roundtrip_metadata::PYDANTIC_AI;
use turntree_core::intern::InternedStr;
use turntree_core::json::canonical::normalize;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::Timestamp;

/// Encodes messages one after another.
#[derive(Debug)]
pub(super) struct Encoder<'o, 'a> {
    pub(super) options: &'o ImportOptions,
    /// The field layouts of the history.
    pub layouts: FieldLayouts<'a>,
    /// The agents so far.
    pub agents: AgentRegistry,
    /// The actions so far, in the final list: a long history has no second one.
    pub actions: Vec<Arc<Action>>,
    /// The addresses of the system prompts before the first message.
    pub system_prompts: Vec<String>,
    default_agent: Option<String>,
    /// The timestamp of the previous action; before the first action, the default.
    pub(super) timestamp: String,
    pub(super) clamp: Option<Timestamp>,
    last_instructions: Option<(Value<'a>, String)>,
    requests_seen: bool,
    /// The instructions of the previous request (portable profile).
    latest_instructions: Option<String>,
    pub(super) portable: PortableState,
}

impl<'o, 'a> Encoder<'o, 'a> {
    /// Creates an encoder. `timestamp` is used for parts before the first timestamp.
    pub(super) fn new(options: &'o ImportOptions, timestamp: String) -> Self {
        Self {
            options,
            layouts: FieldLayouts::default(),
            agents: AgentRegistry::default(),
            actions: Vec::new(),
            system_prompts: Vec::new(),
            default_agent: None,
            timestamp,
            clamp: None,
            last_instructions: None,
            requests_seen: false,
            latest_instructions: None,
            portable: PortableState::default(),
        }
    }

    const fn is_full(&self) -> bool {
        matches!(self.options.profile, ProfileKind::Full)
    }

    /// Appends the actions of a message. `before` is the previous message.
    ///
    /// Returns the length of the message in its source text.
    ///
    /// # Errors
    /// [`RoundTripMismatch`] if the source is a text and its message differs. The caller finds the end of the message
    /// and calls again with exactly its text.
    pub(super) fn message(
        &mut self,
        index: usize,
        message: &ModelMessage<'a>,
        before: Option<&ModelMessage<'a>>,
        source: MessageSource<'_>,
        whole: bool,
    ) -> Result<usize, RoundTripMismatch> {
        let agent_id = if message.kind == Kind::Response { self.agent_id(message) } else { String::new() };
        let mut builder = match message.kind {
            Kind::Request => self.request(index, message, before),
            Kind::Response => self.response(message, &agent_id),
            Kind::Other(_) => MessageBuilder { irregular: true, ..MessageBuilder::default() },
        };
        if !self.is_full() {
            if let Some(changed) = self.changed_instructions(message) {
                builder.annotate(changed);
            }
            self.finish_portable(message, builder, &agent_id);
            return Ok(0);
        }
        if builder.actions.is_empty() {
            builder.annotate(self.empty_message(message));
        }
        let fragment = self.message_fragment(index, message, &mut builder);
        let mut actions = std::mem::take(&mut builder.actions);
        Self::set_metadata(&mut actions, &builder.fragments, index, &fragment, None);
        let verified = if builder.irregular {
            None
        } else {
            builder.proven_length(message, source).or_else(|| self.verify(&actions, message, source))
        };
        debug_assert!(
            builder.irregular || verified == self.verify(&actions, message, source),
            "a message that was compared part by part must decode to itself"
        );
        let length = match verified {
            Some(length) => length,
            None if !whole && matches!(source, MessageSource::Text(_)) => return Err(RoundTripMismatch),
            None => {
                let text = match source {
                    MessageSource::Text(text) => Cow::Borrowed(text),
                    MessageSource::Written => Cow::Owned(message_to_json(message)),
                };
                let raw =
                    if text.contains(['\n', '\r']) { normalize(&text).into() } else { Cow::Borrowed(&*text) };
                Self::set_metadata(&mut actions, &builder.fragments, index, &fragment, Some(&raw));
                text.len()
            }
        };
        if let Some(last) = actions.last() {
            last.timestamp().clone_into(&mut self.timestamp);
        }
        for action in actions {
            self.push(action);
        }
        Ok(length)
    }

    /// The action of a message that has no other action.
    fn empty_message(&self, message: &ModelMessage<'_>) -> Action {
        let kind = RawJson::from_str_value(message.kind.name());
        let data = RawJson::from_text(format!("{{\"kind\":{kind}}}")).unwrap_or_default();
        let timestamp = message.text("timestamp");
        system(MESSAGE, timestamp.as_deref().unwrap_or(&self.timestamp), data)
    }

    /// Decodes the message and returns the length of its text; `None` if it differs.
    fn verify(
        &self,
        actions: &[Action],
        message: &ModelMessage<'_>,
        source: MessageSource<'_>,
    ) -> Option<usize> {
        let decoded = self.decoded(actions)?;
        let MessageSource::Text(text) = source else { return (decoded == *message).then_some(0) };
        let mut comparer = Comparer::new(text.as_bytes());
        write_message(&mut comparer, &decoded);
        comparer.rest().map(|rest| text.len() - rest.len())
    }

    /// The message decoded from its actions.
    fn decoded<'t>(&self, actions: &'t [Action]) -> Option<ModelMessage<'t>>
    where
        'a: 't,
    {
        let mut group = ActionGroup::default();
        for action in actions {
            let metadata = action.metadata()?.get("pydantic_ai")?;
            group.push(action, serde_json::from_str::<ActionMetadata<'_>>(metadata.get()).ok()?);
        }
        decode_message(&self.layouts, &mut group).ok()
    }

    /// Stores the round-trip metadata of each action.
    fn set_metadata(
        actions: &mut [Action],
        fragments: &[String],
        index: usize,
        message: &str,
        raw: Option<&str>,
    ) {
        let index = index.to_string();
        let namespace = InternedStr::from(PYDANTIC_AI);
        let mut writer = ObjectWriter::with_capacity(message.len() + raw.map_or(0, str::len));
        for (position, (action, part)) in actions.iter_mut().zip(fragments).enumerate() {
            if position == 0 {
                writer.json("message", "{");
                writer.raw(message);
                if let Some(raw) = raw {
                    writer.json("raw", raw);
                }
                writer.raw("}");
            } else {
                writer.json("m", &index);
            }
            writer.append(part);
            let mut metadata = RawObject::new();
            metadata.insert(namespace.clone(), writer.take().unwrap_or_default());
            *action.metadata_mut() = Some(metadata);
        }
    }

    /// Appends an action and numbers it.
    pub(super) fn push(&mut self, mut action: Action) {
        action.set_sequence(u64::try_from(self.actions.len()).unwrap_or(u64::MAX).saturating_add(1));
        self.actions.push(Arc::new(action));
    }

    fn agent_id(&mut self, message: &ModelMessage<'_>) -> String {
        if let Some(agent) = self.options.agent.choose(message) {
            let id = agent.agent_id.clone();
            if !self.agents.contains(&id) {
                self.agents.add(agent);
            }
            return id;
        }
        let agents = &mut self.agents;
        self.default_agent
            .get_or_insert_with(|| {
                let agent = assistant();
                let id = agent.agent_id.clone();
                agents.add(agent);
                id
            })
            .clone()
    }

    fn request(
        &mut self,
        index: usize,
        message: &ModelMessage<'a>,
        before: Option<&ModelMessage<'a>>,
    ) -> MessageBuilder {
        let mut builder = MessageBuilder::default();
        let own = message.text("timestamp");
        let mut timestamp = own.as_deref().unwrap_or(&self.timestamp).to_owned();
        let mut leading = index == 0;
        if leading {
            // A message that differs from its text is encoded twice.
            self.system_prompts.clear();
        }
        let mut encoded = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            leading = leading && part_kind(part) == "system-prompt";
            if leading && let Some(entry) = self.system_prompt(part, &mut builder) {
                builder.layout.other(entry);
                continue;
            }
            let context = EncodeContext {
                kind: &message.kind,
                timestamp: &timestamp,
                agent_id: "",
                provider_name: None,
                validation_status: self.options.validation_status,
                portable: !self.is_full(),
            };
            let one = part_to_actions::encode(part, &context, &mut self.layouts);
            if own.is_none() {
                one.action.timestamp().clone_into(&mut timestamp);
            }
            encoded.push(one);
        }
        match before.and_then(|before| call_order(&encoded, before)) {
            None => encoded.into_iter().for_each(|one| builder.push(one)),
            Some(order) => {
                let mut slots: Vec<Option<EncodedPart>> = encoded.into_iter().map(Some).collect();
                let mut positions = vec![PartLocation::Action(0); order.len()];
                for (position, part) in order.into_iter().enumerate() {
                    if let Some(one) = slots.get_mut(part).and_then(Option::take) {
                        builder.push(one);
                    }
                    if let Some(entry) = positions.get_mut(part) {
                        *entry = PartLocation::Action(position);
                    }
                }
                builder.layout.entries.truncate(builder.layout.entries.len() - positions.len());
                builder.layout.entries.append(&mut positions);
                builder.layout.needed = true;
            }
        }
        builder
    }

    /// Stores a leading system prompt as a text of the thread, not as an action.
    fn system_prompt(&mut self, part: &Part<'a>, builder: &mut MessageBuilder) -> Option<String> {
        let content = part.get("content")?;
        let address = self.store_text(&content.as_text()?, content.clone());
        self.layouts.observe("system-prompt", part);
        let mut writer = ObjectWriter::default();
        writer.text("text", &address);
        let diff = self.layouts.get("system-prompt")?.diff(part, |key| match key {
            "content" => Expected::Covered,
            "part_kind" => Expected::text("system-prompt"),
            _ => Expected::Default,
        });
        builder.irregular |= diff.is_none();
        if let Some(diff) = &diff {
            writer.write_diff(diff, "keys", "part");
        }
        self.system_prompts.push(address);
        Some(writer.finish())
    }

    /// Stores a text under its content address.
    fn store_text(&mut self, text: &str, value: Value<'a>) -> String {
        let address = address(text);
        self.layouts.texts.entry(Cow::Owned(address.clone())).or_insert(value);
        address
    }

    fn response(&mut self, message: &ModelMessage<'a>, agent_id: &str) -> MessageBuilder {
        let mut builder = MessageBuilder::default();
        let timestamp = message.text("timestamp").unwrap_or(Cow::Borrowed(&self.timestamp)).into_owned();
        let provider_name = message.text("provider_name");
        let context = EncodeContext {
            kind: &message.kind,
            timestamp: &timestamp,
            agent_id,
            // Streams do not contain it.
            provider_name: provider_name.as_deref().filter(|_| self.is_full()),
            validation_status: self.options.validation_status,
            portable: !self.is_full(),
        };
        let mut joined = join_texts(&message.parts, self.options.combine_text, &context, &mut self.layouts);
        let mut positions: HashMap<usize, usize> = HashMap::new();
        let (mut sources, mut called) = (Vec::new(), false);
        for (position, part) in message.parts.iter().enumerate() {
            let first = builder.actions.len();
            let joined = joined.get_mut(position).and_then(Option::take);
            if !matches!(joined, Some(MergedPart::Next { .. } | MergedPart::Empty)) {
                builder.sources(&mut sources, called);
            }
            if context.portable {
                called |= portable::is_call(part);
                sources.extend(self.portable.citations(part, &timestamp));
            }
            match joined {
                None if context.portable && portable::is_empty_thought(part) => {}
                None => {
                    let encoded = part_to_actions::encode(part, &context, &mut self.layouts);
                    // Streams carry it as data, which never separates calls from their results.
                    if context.portable && called && matches!(encoded.action, Action::System(_)) {
                        builder.deferred.push(DeferredAction::new(encoded.action));
                    } else {
                        builder.push(encoded);
                    }
                }
                Some(MergedPart::Deferred(remark)) => builder.deferred.push(remark),
                Some(MergedPart::Whole(encoded)) => builder.push(encoded),
                Some(MergedPart::First { encoded, run, entry }) => {
                    positions.insert(run, builder.layout.actions);
                    builder.push(encoded);
                    builder.layout.entries.pop();
                    builder.layout.other(piece(positions.get(&run), &entry));
                }
                Some(MergedPart::Next { run, entry }) => {
                    builder.layout.other(piece(positions.get(&run), &entry))
                }
                Some(MergedPart::Empty) => {
                    let mut writer = ObjectWriter::default();
                    writer.json("raw", &object_to_json(part));
                    builder.layout.other(writer.finish());
                }
            }
            builder.set_times(first, part.text("timestamp").as_deref(), &timestamp);
        }
        builder.sources(&mut sources, called);
        Self::cost(message, &mut builder);
        builder
    }

    /// Sets usage and finish reason of the last assistant message, and the usage of the first thinking action.
    fn cost(message: &ModelMessage<'a>, builder: &mut MessageBuilder) {
        let last = builder.actions.iter_mut().rev().find_map(|action| match action {
            Action::AssistantMessage(text) => Some(text),
            _ => None,
        });
        if let Some(text) = last {
            text.finish_reason = message
                .text("finish_reason")
                .filter(|reason| matches!(&**reason, "stop" | "tool_call" | "length" | "content_filter"))
                .map(Into::into);
            text.usage = message.usage.as_ref().and_then(super::usage::counted).map(Box::new);
        }
        let first = builder.actions.iter_mut().find_map(|action| match action {
            Action::Thinking(thought) => Some(thought),
            _ => None,
        });
        if let (Some(thought), Some(usage)) = (first, &message.usage) {
            thought.usage = super::usage::thinking(usage).map(Box::new);
        }
    }

    /// The round-trip metadata of the message: the fields that no action holds.
    fn message_fragment(
        &mut self,
        index: usize,
        message: &ModelMessage<'a>,
        builder: &mut MessageBuilder,
    ) -> String {
        let mut writer = ObjectWriter::default();
        writer.json("index", &index.to_string());
        writer.text("kind", message.kind.name());
        let instructions = self.instructions(message, &mut writer);
        self.layouts.observe(message.kind.name(), &message.members);
        let text = instructions.as_ref().and_then(|address| self.layouts.texts.get(address.as_str()));
        let expected =
            |key: &str| super::usage::expected_of_message(&builder.actions, message.kind.name(), text, key);
        let layout = self.layouts.get(message.kind.name());
        let diff = layout.and_then(|layout| layout.diff(&message.members, expected));
        builder.irregular |= diff.is_none();
        builder.unproven |= diff.as_ref().is_some_and(|diff| !diff.exact);
        if let Some(diff) = &diff {
            writer.write_diff(diff, "keys", "fields");
        }
        if let Some(usage) = &message.usage {
            self.layouts.observe("usage", usage);
            let expected = |key: &str| super::usage::expected_of_usage(&builder.actions, key);
            let diff = self.layouts.get("usage").and_then(|layout| layout.diff(usage, expected));
            builder.irregular |= diff.is_none();
            builder.unproven |= diff.as_ref().is_some_and(|diff| !diff.exact);
            if let Some(diff) = &diff {
                writer.write_diff(diff, "usage_keys", "usage");
            }
        }
        if builder.layout.needed {
            writer.json("layout", &builder.layout.to_json());
        }
        if large_numbers::of_message(message) {
            writer.text("exact", &message_to_json(message));
        }
        writer.into_fragment()
    }

    /// The action of instructions that change, for the portable profile. The first ones are configuration.
    fn changed_instructions(&mut self, message: &ModelMessage<'a>) -> Option<Action> {
        if message.kind != Kind::Request {
            return None;
        }
        let value = message.members.get("instructions").filter(|value| value.is_text());
        let text = value.and_then(Value::as_text);
        let first = !std::mem::replace(&mut self.requests_seen, true);
        if text.as_deref() == self.latest_instructions.as_deref() {
            return None;
        }
        self.latest_instructions = text.as_deref().map(str::to_owned);
        if let (true, Some(text), Some(value)) = (first, &text, value) {
            let address = self.store_text(text, value.clone());
            self.layouts.instructions = Some(Cow::Owned(address));
            return None;
        }
        let timestamp = message.text("timestamp");
        let text = text.map_or_else(RawJson::default, |text| RawJson::from_str_value(&text));
        let timestamp = timestamp.as_deref().unwrap_or(&self.timestamp);
        Some(system(INSTRUCTIONS, timestamp, object(&[("instructions", text)])))
    }

    /// Stores the instructions of a request and returns their address.
    fn instructions(&mut self, message: &ModelMessage<'a>, writer: &mut ObjectWriter) -> Option<String> {
        if message.kind != Kind::Request {
            return None;
        }
        // Only the first request sets the default: metadata of requests before a change does not name an address.
        let first = !std::mem::replace(&mut self.requests_seen, true);
        let default = self.layouts.instructions.as_deref().map(str::to_owned);
        let Some(value) = message.members.get("instructions").filter(|value| !value.is_null()) else {
            return default;
        };
        let address = match &self.last_instructions {
            Some((last, address)) if last.is_written_as(value) => address.clone(),
            _ => {
                let Some(text) = value.as_text() else { return default };
                let address = self.store_text(&text, value.clone());
                self.last_instructions = Some((value.clone(), address.clone()));
                address
            }
        };
        if first {
            self.layouts.instructions = Some(Cow::Owned(address.clone()));
        } else if default.as_deref() != Some(&address) {
            writer.text("instructions", &address);
        }
        Some(address)
    }
}

fn piece(position: Option<&usize>, entry: &str) -> String {
    let mut writer = ObjectWriter::default();
    writer.json("action", &position.copied().unwrap_or_default().to_string());
    writer.append(entry);
    writer.finish()
}

/// The order of a request's parts that puts tool returns in the order of their calls; `None` if they are in order.
fn call_order(encoded: &[EncodedPart], before: &ModelMessage<'_>) -> Option<Vec<usize>> {
    let returns: Vec<(usize, &str)> = encoded
        .iter()
        .enumerate()
        .filter_map(|(position, one)| match &one.action {
            Action::ToolReturn(action) => Some((position, action.tool_call_id.as_str())),
            _ => None,
        })
        .collect();
    let called = || before.parts.iter().filter(|part| part_kind(part) == "tool-call");
    let as_called = || {
        returns.iter().zip(called()).all(|((_, id), call)| call.text("tool_call_id").as_deref() == Some(*id))
    };
    if returns.len() < 2 || as_called() {
        return None;
    }
    let mut calls: HashMap<Cow<'_, str>, VecDeque<usize>> = HashMap::new();
    for (position, part) in before.parts.iter().enumerate().filter(|(_, part)| part_kind(part) == "tool-call")
    {
        calls.entry(part.text("tool_call_id").unwrap_or_default()).or_default().push_back(position);
    }
    let mut sorted: Vec<(usize, usize)> = returns
        .iter()
        .map(|(position, id)| {
            (calls.get_mut(*id).and_then(VecDeque::pop_front).unwrap_or(usize::MAX), *position)
        })
        .collect();
    if sorted.is_sorted_by_key(|(call, _)| *call) {
        return None;
    }
    sorted.sort_by_key(|(call, _)| *call);
    let mut order: Vec<usize> = (0..encoded.len()).collect();
    for ((slot, _), (_, part)) in returns.iter().zip(&sorted) {
        if let Some(entry) = order.get_mut(*slot) {
            *entry = *part;
        }
    }
    Some(order)
}

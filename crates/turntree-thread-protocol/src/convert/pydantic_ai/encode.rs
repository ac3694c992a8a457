//! History to thread, message by message.
//!
//! In the full profile every member of a message is compared, to the byte, with what the decoder derives for it; where
//! that cannot tell, the message is decoded again from the very metadata that was written. Where it differs from what it
//! came from, it is kept verbatim beside its actions (decision 3).

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::decode::{Group, decode_message};
use super::field_layout::{Expected, FieldLayouts};
use super::merge_text::{Joined, join_texts};
use super::message_builder::{Differs, MessageBuilder, PartLocation, Source};
use super::model::{Kind, ModelMessage, Part, Value, part_kind};
use super::options::ImportOptions;
use super::parts::{self, EncodeContext, Encoded, MESSAGE};
use super::portable::{self, PortableState};
use super::roundtrip_metadata::{ActionMetadata, ObjectWriter};
use super::thread_metadata::address;
use super::write::{Comparer, message_to_json, object_to_json, write_message};
use crate::action::Action;
use crate::convert::portable::{DeferredAction, ProfileKind, assistant, system};
use crate::document::AgentRegistry;
use turntree_core::json::canonical::normalize;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::Timestamp;

/// Turns messages into actions, one after another.
#[derive(Debug)]
pub(super) struct Encoder<'o, 'a> {
    pub(super) options: &'o ImportOptions,
    /// What the history says once.
    pub layouts: FieldLayouts<'a>,
    /// The agents so far.
    pub agents: AgentRegistry,
    /// The actions so far, each where the thread will have it: of a long history there is no second list.
    pub actions: Vec<Arc<Action>>,
    /// The system prompts before the first message, by address.
    pub system_prompts: Vec<String>,
    default_agent: Option<String>,
    /// The time of the action before, and what to say before there is one.
    pub(super) timestamp: String,
    pub(super) clamp: Option<Timestamp>,
    last_instructions: Option<(Value<'a>, String)>,
    requests_seen: bool,
    pub(super) portable: PortableState,
}

impl<'o, 'a> Encoder<'o, 'a> {
    /// Ready for the first message; `timestamp` is for parts before anything says a time.
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
            portable: PortableState::default(),
        }
    }

    const fn is_full(&self) -> bool {
        matches!(self.options.profile, ProfileKind::Full)
    }

    /// Adds the actions of a message. `before` is the message before it.
    ///
    /// Gives the text that follows the message in its source.
    ///
    /// # Errors
    /// [`Differs`] when the source is a text, and the message cannot be told from it: the caller knows where the
    /// message ends and calls again with exactly its text.
    pub(super) fn message(
        &mut self,
        index: usize,
        message: &ModelMessage<'a>,
        before: Option<&ModelMessage<'a>>,
        source: Source<'_>,
        whole: bool,
    ) -> Result<usize, Differs> {
        let agent_id = if message.kind == Kind::Response { self.agent_id(message) } else { String::new() };
        let mut draft = match message.kind {
            Kind::Request => self.request(index, message, before),
            Kind::Response => self.response(message, &agent_id),
            Kind::Other(_) => MessageBuilder { irregular: true, ..MessageBuilder::default() },
        };
        if !self.is_full() {
            self.finish_portable(message, draft, &agent_id);
            return Ok(0);
        }
        if draft.actions.is_empty() {
            let data = RawJson::from_str_value(message.kind.name());
            let data = RawJson::from_text(format!("{{\"kind\":{data}}}")).unwrap_or_default();
            let timestamp = message.text("timestamp");
            let timestamp = timestamp.as_deref().unwrap_or(&self.timestamp);
            draft.remark(system(MESSAGE, timestamp, data));
        }
        let fragment = self.message_fragment(index, message, &mut draft);
        let mut actions = std::mem::take(&mut draft.actions);
        Self::set_metadata(&mut actions, &draft.fragments, index, &fragment, None);
        let verified = if draft.irregular {
            None
        } else {
            draft.proven_length(message, source).or_else(|| self.verify(&actions, message, source))
        };
        debug_assert!(
            draft.irregular || verified == self.verify(&actions, message, source),
            "a message that was compared part by part must come back"
        );
        let length = match verified {
            Some(length) => length,
            None if !whole && matches!(source, Source::Text(_)) => return Err(Differs),
            None => {
                let text = match source {
                    Source::Text(text) => Cow::Borrowed(text),
                    Source::Written => Cow::Owned(message_to_json(message)),
                };
                let text = &*text;
                let raw = if text.contains(['\n', '\r']) {
                    Cow::Owned(normalize(text))
                } else {
                    Cow::Borrowed(text)
                };
                Self::set_metadata(&mut actions, &draft.fragments, index, &fragment, Some(&raw));
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

    /// Decodes the message again, and gives the length of its text; `None` when it is not what it was.
    fn verify(&self, actions: &[Action], message: &ModelMessage<'_>, source: Source<'_>) -> Option<usize> {
        let decoded = self.decoded(actions)?;
        let Source::Text(text) = source else { return decoded.same(message).then_some(0) };
        let mut comparer = Comparer::new(text.as_bytes());
        write_message(&mut comparer, &decoded);
        comparer.rest().map(|rest| text.len() - rest.len())
    }

    /// The message that the actions give back.
    fn decoded<'t>(&self, actions: &'t [Action]) -> Option<ModelMessage<'t>>
    where
        'a: 't,
    {
        let mut group = Group::default();
        for action in actions {
            let metadata = action.metadata()?.get("pydantic_ai")?;
            group.push(action, serde_json::from_str::<ActionMetadata<'_>>(metadata.get()).ok()?);
        }
        decode_message(&self.layouts, &mut group).ok()
    }

    /// Puts the envelope of each action into its metadata.
    fn set_metadata(
        actions: &mut [Action],
        fragments: &[String],
        index: usize,
        message: &str,
        raw: Option<&str>,
    ) {
        for (place, (action, part)) in actions.iter_mut().zip(fragments).enumerate() {
            let mut writer =
                ObjectWriter::with_capacity(message.len() + raw.map_or(0, str::len) + part.len());
            if place == 0 {
                writer.json("message", "{");
                writer.raw(message);
                if let Some(raw) = raw {
                    writer.json("raw", raw);
                }
                writer.raw("}");
            } else {
                writer.json("m", &index.to_string());
            }
            writer.append(part);
            let mut metadata = RawObject::new();
            metadata.insert("pydantic_ai", RawJson::from_text(writer.finish()).unwrap_or_default());
            *action.metadata_mut() = Some(metadata);
        }
    }

    /// Adds an action at the end and numbers it.
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
        let mut draft = MessageBuilder::default();
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
            if leading && let Some(entry) = self.system_prompt(part, &mut draft) {
                draft.layout.other(entry);
                continue;
            }
            let around = EncodeContext {
                kind: &message.kind,
                timestamp: &timestamp,
                agent_id: "",
                provider_name: None,
                validation_status: self.options.validation_status,
                portable: !self.is_full(),
            };
            let one = parts::encode(part, &around, &mut self.layouts);
            if own.is_none() {
                one.action.timestamp().clone_into(&mut timestamp);
            }
            encoded.push(one);
        }
        match before.and_then(|before| call_order(&encoded, before)) {
            None => encoded.into_iter().for_each(|one| draft.push(one)),
            Some(order) => {
                let mut slots: Vec<Option<Encoded>> = encoded.into_iter().map(Some).collect();
                let mut places = vec![PartLocation::Action(0); order.len()];
                for (place, part) in order.into_iter().enumerate() {
                    if let Some(one) = slots.get_mut(part).and_then(Option::take) {
                        draft.push(one);
                    }
                    if let Some(entry) = places.get_mut(part) {
                        *entry = PartLocation::Action(place);
                    }
                }
                draft.layout.entries.truncate(draft.layout.entries.len() - places.len());
                draft.layout.entries.append(&mut places);
                draft.layout.needed = true;
            }
        }
        draft
    }

    /// A system prompt before everything else: no action, but a text of the thread.
    fn system_prompt(&mut self, part: &Part<'a>, draft: &mut MessageBuilder) -> Option<String> {
        let content = part.get("content")?;
        let address = self.store_text(&content.as_text()?, content.clone());
        self.layouts.observe("system-prompt", part);
        let mut writer = ObjectWriter::default();
        writer.text("text", &address);
        let residue = self.layouts.template("system-prompt")?.residue(part, |key| match key {
            "content" => Expected::Covered,
            "part_kind" => Expected::text("system-prompt"),
            _ => Expected::Default,
        });
        draft.irregular |= residue.is_none();
        if let Some(residue) = &residue {
            writer.residue(residue, "keys", "part");
        }
        self.system_prompts.push(address);
        Some(writer.finish())
    }

    /// Keeps a text under its content address.
    fn store_text(&mut self, text: &str, value: Value<'a>) -> String {
        let address = address(text);
        self.layouts.texts.entry(Cow::Owned(address.clone())).or_insert(value);
        address
    }

    fn response(&mut self, message: &ModelMessage<'a>, agent_id: &str) -> MessageBuilder {
        let mut draft = MessageBuilder::default();
        let timestamp = message.text("timestamp").unwrap_or(Cow::Borrowed(&self.timestamp)).into_owned();
        let provider_name = message.text("provider_name");
        let around = EncodeContext {
            kind: &message.kind,
            timestamp: &timestamp,
            agent_id,
            // A stream does not say it.
            provider_name: provider_name.as_deref().filter(|_| self.is_full()),
            validation_status: self.options.validation_status,
            portable: !self.is_full(),
        };
        let mut joined = join_texts(&message.parts, self.options.combine_text, &around, &mut self.layouts);
        let mut places: HashMap<usize, usize> = HashMap::new();
        let (mut sources, mut called) = (Vec::new(), false);
        for (place, part) in message.parts.iter().enumerate() {
            let joined = joined.get_mut(place).and_then(Option::take);
            if !matches!(joined, Some(Joined::Next { .. } | Joined::Nothing)) {
                draft.sources(&mut sources, called);
            }
            if around.portable {
                called |= portable::is_call(part);
                sources.extend(self.portable.citations(part, &timestamp));
            }
            match joined {
                None if around.portable && portable::is_empty_thought(part) => {}
                None => {
                    let encoded = parts::encode(part, &around, &mut self.layouts);
                    // Streams carry it as data, which never stands between calls and their results.
                    if around.portable && called && matches!(encoded.action, Action::System(_)) {
                        draft.late.push(DeferredAction::new(encoded.action));
                    } else {
                        draft.push(encoded);
                    }
                }
                Some(Joined::Aside(remark)) => draft.late.push(remark),
                Some(Joined::Whole(encoded)) => draft.push(encoded),
                Some(Joined::First { encoded, run, entry }) => {
                    places.insert(run, draft.layout.actions);
                    draft.push(encoded);
                    draft.layout.entries.pop();
                    draft.layout.other(piece(places.get(&run), &entry));
                }
                Some(Joined::Next { run, entry }) => draft.layout.other(piece(places.get(&run), &entry)),
                Some(Joined::Nothing) => {
                    let mut writer = ObjectWriter::default();
                    writer.json("raw", &object_to_json(part));
                    draft.layout.other(writer.finish());
                }
            }
        }
        draft.sources(&mut sources, called);
        Self::cost(message, &mut draft);
        draft
    }

    /// Puts usage and finish reason on the last text of the answer, and thinking tokens on its first thought.
    fn cost(message: &ModelMessage<'a>, draft: &mut MessageBuilder) {
        let last = draft.actions.iter_mut().rev().find_map(|action| match action {
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
        let first = draft.actions.iter_mut().find_map(|action| match action {
            Action::Thinking(thought) => Some(thought),
            _ => None,
        });
        if let (Some(thought), Some(usage)) = (first, &message.usage) {
            thought.usage = super::usage::thinking(usage).map(Box::new);
        }
    }

    /// What no action says about the message.
    fn message_fragment(
        &mut self,
        index: usize,
        message: &ModelMessage<'a>,
        draft: &mut MessageBuilder,
    ) -> String {
        let mut writer = ObjectWriter::default();
        writer.json("index", &index.to_string());
        writer.text("kind", message.kind.name());
        let instructions = self.instructions(message, &mut writer);
        self.layouts.observe(message.kind.name(), &message.members);
        let text = instructions.as_ref().and_then(|address| self.layouts.texts.get(address.as_str()));
        let expected =
            |key: &str| super::usage::expected_of_message(&draft.actions, message.kind.name(), text, key);
        let template = self.layouts.template(message.kind.name());
        let residue = template.and_then(|template| template.residue(&message.members, expected));
        draft.irregular |= residue.is_none();
        draft.unproven |= residue.as_ref().is_some_and(|residue| !residue.exact);
        if let Some(residue) = &residue {
            writer.residue(residue, "keys", "fields");
        }
        if let Some(usage) = &message.usage {
            self.layouts.observe("usage", usage);
            let expected = |key: &str| super::usage::expected_of_usage(&draft.actions, key);
            let residue =
                self.layouts.template("usage").and_then(|template| template.residue(usage, expected));
            draft.irregular |= residue.is_none();
            draft.unproven |= residue.as_ref().is_some_and(|residue| !residue.exact);
            if let Some(residue) = &residue {
                writer.residue(residue, "usage_keys", "usage");
            }
        }
        if draft.layout.needed {
            writer.json("layout", &draft.layout.to_json());
        }
        writer.into_fragment()
    }

    /// Keeps the instructions of a request, and gives the address that its envelope or the thread says.
    fn instructions(&mut self, message: &ModelMessage<'a>, writer: &mut ObjectWriter) -> Option<String> {
        if message.kind != Kind::Request {
            return None;
        }
        // Only the first request decides the default: the ones before a later change said nothing.
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

fn piece(place: Option<&usize>, entry: &str) -> String {
    let mut writer = ObjectWriter::default();
    writer.json("action", &place.copied().unwrap_or_default().to_string());
    writer.append(entry);
    writer.finish()
}

/// The order of a request's parts that puts tool returns in the order of their calls; `None` when they are.
fn call_order(encoded: &[Encoded], before: &ModelMessage<'_>) -> Option<Vec<usize>> {
    let returns: Vec<(usize, &str)> = encoded
        .iter()
        .enumerate()
        .filter_map(|(place, one)| match &one.action {
            Action::ToolReturn(action) => Some((place, action.tool_call_id.as_str())),
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
    for (place, part) in before.parts.iter().enumerate().filter(|(_, part)| part_kind(part) == "tool-call") {
        calls.entry(part.text("tool_call_id").unwrap_or_default()).or_default().push_back(place);
    }
    let mut sorted: Vec<(usize, usize)> = returns
        .iter()
        .map(|(place, id)| (calls.get_mut(*id).and_then(VecDeque::pop_front).unwrap_or(usize::MAX), *place))
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

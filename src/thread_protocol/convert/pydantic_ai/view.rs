//! What one agent sees of a thread, as messages for its model. ThreadProtocol 1.0.0, "ThreadProtocol → `ModelMessages`";
//! decisions 4, 11 and 12.
//!
//! Own words, calls and results stay as they are; what other agents say is attributed to them; their tools are hidden,
//! summarised or shown; their thinking never appears, and neither do system actions. System prompts and instructions
//! belong to the agent's configuration and are not part of a view.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::decode::{damaged, decode_action, decode_part, envelope_of, for_each_message, to_messages};
use super::downgrade::{Change, downgrade};
use super::envelope::{Envelope, MessageEnvelope};
use super::model::{History, Kind, ModelMessage, Object, Part, Value};
use super::parts::NATIVE_RETURN;
use super::profile::{Expected, Profile};
use super::thread_metadata::ThreadMetadata;
use super::usage::{expected_of_message, expected_of_usage};
use super::versions::Version;
use super::write::write_message;
use crate::core::json::{ParseError, ParseErrorKind, PathSegment};
use crate::core::limits::Limits;
use crate::thread_protocol::action::{Action, AssistantMessageAction, ToolCallAction, ToolReturnAction};
use crate::thread_protocol::content::{ContentPart, MessageContent};
use crate::thread_protocol::document::Thread;
use crate::thread_protocol::error::ThreadError;

/// How many characters of arguments and of results a summary shows.
const SUMMARY_CHARACTERS: usize = 200;

/// In whose voice an agent hears other agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OthersRole {
    /// As if a user said it: models imitate what stands in their own voice.
    #[default]
    User,
    /// As if the model itself said it.
    Assistant,
}

/// What an agent hears of what other agents say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    /// Their words, after who said them.
    #[default]
    Prefix,
    /// Nothing.
    Hide,
}

/// What an agent sees of the tools of other agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolVisibility {
    /// Nothing.
    #[default]
    Hide,
    /// One line for a call and its return.
    Summarize,
    /// Calls and returns, in pairs, with ids made unique.
    Show,
}

/// Which messages to make of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewOptions {
    /// Whose view; `None` for the whole history as it was imported.
    pub agent_id: Option<String>,
    /// What it hears of others.
    pub others: Others,
    /// In whose voice.
    pub others_role: OthersRole,
    /// What goes before the words of another agent; `NAME` stands for its name.
    pub attribution: String,
    /// What it sees of others' tools.
    pub tool_visibility: ToolVisibility,
    /// How many bytes may be written: texts that a thread holds once are written wherever they belong.
    pub limits: Limits,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            agent_id: None,
            others: Others::default(),
            others_role: OthersRole::default(),
            attribution: "{agent:NAME}: ".to_owned(),
            tool_visibility: ToolVisibility::default(),
            limits: Limits::default(),
        }
    }
}

impl ViewOptions {
    /// The view of one agent.
    pub fn of(agent_id: impl Into<String>) -> Self {
        Self { agent_id: Some(agent_id.into()), ..Self::default() }
    }
}

impl Thread {
    /// The messages that the thread holds, or that one of its agents sees.
    ///
    /// # Errors
    /// [`ThreadError::UnknownAgent`] when the registry does not have the agent; [`ThreadError::Residue`] when metadata
    /// that the way back needs is damaged.
    pub fn to_messages(&self, options: &ViewOptions) -> Result<History<'_>, ThreadError> {
        let Some(agent_id) = &options.agent_id else { return to_messages(self) };
        if !self.agents.contains(agent_id) {
            let known = self.agents.iter().map(|(key, _)| format!("\"{key}\"")).collect();
            return Err(ThreadError::UnknownAgent { agent_id: agent_id.clone(), known });
        }
        let metadata = ThreadMetadata::of(self)?;
        let mut view = View {
            thread: self,
            options,
            agent_id,
            profile: metadata.profile()?,
            plain: Profile::default(),
            pairs: pairs(self),
            last_word: last_word(self, agent_id, options),
            messages: Vec::new(),
            group: None,
        };
        for (place, action) in self.actions.iter().enumerate() {
            let envelope =
                envelope_of(action, &metadata).map_err(|error| damaged(place, error.to_string()))?;
            view.action(place, action, envelope).map_err(|message| damaged(place, message))?;
        }
        view.finish_group();
        Ok(view.messages)
    }

    /// Writes the history that the thread holds, byte for byte as `dump_json` wrote it, or the view of one agent.
    ///
    /// # Errors
    /// As [`Self::to_messages`]; [`ThreadError::Parse`] when more would be written than the limits allow.
    pub fn to_pydantic_ai_json(&self, options: &ViewOptions) -> Result<Vec<u8>, ThreadError> {
        written(&self.to_messages(options)?, options)
    }

    /// As [`Self::to_pydantic_ai_json`], in pieces: a long history is never in one place.
    ///
    /// # Errors
    /// As [`Self::to_pydantic_ai_json`]; pieces may have been written by then.
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
            None => for_each_message(self, |message| add(&message))?,
            Some(_) => self.to_messages(options)?.iter().try_for_each(add)?,
        }
        write(&writer.finish());
        Ok(())
    }
}

/// Histories are written in pieces of about this size.
const PIECE: usize = 64 * 1024;

impl Thread {
    /// As [`Self::to_pydantic_ai_json`], for an older version of Pydantic AI, with what had to be changed for it.
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

/// Writes messages as a list, up to a limit.
struct HistoryWriter {
    out: Vec<u8>,
    /// Bytes that were taken out of `out`.
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

fn too_long(place: usize, limit: usize) -> ParseError {
    ParseError {
        kind: ParseErrorKind::Limit,
        path: vec![PathSegment::Index(place)],
        message: format!("the history has more than {limit} bytes; raise the limit or split the thread"),
    }
}

/// Calls and their returns by place. Ids repeat, so the first open call of an id is the one that a return answers.
#[derive(Debug, Default)]
struct Pairs {
    return_of: HashMap<usize, usize>,
    call_of: HashMap<usize, usize>,
}

fn pairs(thread: &Thread) -> Pairs {
    let mut pairs = Pairs::default();
    let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, action) in thread.actions.iter().enumerate() {
        match &**action {
            Action::ToolCall(call) => open.entry(&call.tool_call_id).or_default().push_back(place),
            Action::ToolReturn(returned) => {
                let call = open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                if let Some(call) = call {
                    pairs.call_of.insert(place, call);
                    pairs.return_of.insert(call, place);
                }
            }
            _ => {}
        }
    }
    pairs
}

/// The place of the last thing that a user or an agent said or a tool answered. Calls of others that the view tells of
/// are said, too.
fn last_word(thread: &Thread, agent_id: &str, options: &ViewOptions) -> usize {
    let said = |action: &Action| match action {
        Action::UserMessage(_) | Action::AssistantMessage(_) | Action::ToolReturn(_) => true,
        Action::ToolCall(call) => {
            call.agent_id != agent_id && options.tool_visibility != ToolVisibility::Hide
        }
        _ => false,
    };
    thread.actions.iter().rposition(|action| said(action)).unwrap_or_default()
}

/// A message that is being put together.
#[derive(Debug)]
enum GroupOf<'t> {
    /// Parts, and whether each is a tool's return.
    Request { parts: Vec<(bool, Part<'t>)>, timestamp: &'t str },
    /// Parts of one agent's answer, and the actions they come from.
    Response {
        agent_id: String,
        index: Option<u64>,
        parts: Vec<Part<'t>>,
        actions: Vec<&'t Action>,
        envelope: Option<Box<MessageEnvelope<'t>>>,
    },
}

struct View<'t, 'o> {
    thread: &'t Thread,
    options: &'o ViewOptions,
    agent_id: &'o str,
    profile: Profile<'t>,
    /// The shapes of messages that no history said.
    plain: Profile<'t>,
    pairs: Pairs,
    /// The place of the last thing that was said or answered.
    last_word: usize,
    messages: History<'t>,
    group: Option<GroupOf<'t>>,
}

impl<'t> View<'t, '_> {
    fn action(
        &mut self,
        place: usize,
        action: &'t Action,
        envelope: Option<Envelope<'t>>,
    ) -> Result<(), String> {
        match action {
            Action::UserMessage(_) => {
                let part = decode_part(&self.profile, action, &envelope.unwrap_or_default())?;
                self.say(action, false, part);
            }
            Action::ToolCall(call)
                if call.agent_id == self.agent_id && self.is_orphan(place, envelope.as_ref()) => {}
            Action::AssistantMessage(_) | Action::Thinking(_) | Action::ToolCall(_)
                if action.agent_id() == Some(self.agent_id) =>
            {
                self.own(action, envelope)?;
            }
            Action::AssistantMessage(message) => self.other_message(action, message),
            Action::ToolCall(call) => self.other_call(place, action, call),
            Action::ToolReturn(returned) => self.tool_return(place, action, returned, envelope)?,
            Action::Thinking(_) | Action::System(_) | Action::Other(_) => {}
        }
        Ok(())
    }

    /// Whether nothing ever answered a call though the conversation went on: no provider would take it. Calls at the
    /// end may still be answered, and providers answer their own as they like.
    fn is_orphan(&self, place: usize, envelope: Option<&Envelope<'t>>) -> bool {
        let native = envelope.is_some_and(|envelope| envelope.kind.is_some());
        !native && place < self.last_word && !self.pairs.return_of.contains_key(&place)
    }

    /// Adds a part to the request that is open, or opens one.
    fn say(&mut self, action: &'t Action, is_return: bool, part: Part<'t>) {
        if let Some(GroupOf::Request { parts, .. }) = &mut self.group {
            parts.push((is_return, part));
            return;
        }
        self.finish_group();
        self.group = Some(GroupOf::Request { parts: vec![(is_return, part)], timestamp: action.timestamp() });
    }

    /// Adds what the agent itself did to its answer.
    fn own(&mut self, action: &'t Action, envelope: Option<Envelope<'t>>) -> Result<(), String> {
        let mut envelope = envelope.unwrap_or_default();
        let index = envelope.message.as_ref().map(|message| message.index).or(envelope.m);
        let message = envelope.message.take();
        let mut parts = Vec::new();
        decode_action(&self.profile, action, &envelope, |part| parts.push(part))?;
        self.answer(action, self.agent_id, index, message, parts);
        Ok(())
    }

    fn answer(
        &mut self,
        action: &'t Action,
        speaker: &str,
        new_index: Option<u64>,
        message: Option<MessageEnvelope<'t>>,
        mut new: Vec<Part<'t>>,
    ) {
        let says = |action: &Action| matches!(action, Action::AssistantMessage(_));
        if let Some(GroupOf::Response { agent_id, index, parts, actions, .. }) = &mut self.group
            && agent_id == speaker
            && *index == new_index
            && (index.is_some() || !says(action) || !actions.iter().any(|action| says(action)))
        {
            parts.append(&mut new);
            actions.push(action);
            return;
        }
        self.finish_group();
        self.group = Some(GroupOf::Response {
            agent_id: speaker.to_owned(),
            index: new_index,
            parts: new,
            actions: vec![action],
            envelope: message.map(Box::new),
        });
    }

    fn attribution(&self, agent_id: &str) -> String {
        let name = self.thread.agents.get(agent_id).map_or(agent_id, |agent| &agent.agent_name);
        self.options.attribution.replace("NAME", name)
    }

    fn other_message(&mut self, action: &'t Action, message: &'t AssistantMessageAction) {
        if self.options.others == Others::Hide {
            return;
        }
        let prefix = self.attribution(&message.agent_id);
        match self.options.others_role {
            OthersRole::User => {
                let part = self.user_prompt(&attributed(&message.content, &prefix), &message.timestamp);
                self.say(action, false, part);
            }
            OthersRole::Assistant => {
                let text = prefixed(&message.content.text(), &prefix);
                let part = self.part("text", |key| match key {
                    "content" => Expected::Value(Value::Text(Cow::Owned(text.clone()))),
                    _ => Expected::Default,
                });
                self.answer(action, &message.agent_id, None, None, vec![part]);
            }
        }
    }

    fn other_call(&mut self, place: usize, action: &'t Action, call: &'t ToolCallAction) {
        let answered = self.pairs.return_of.contains_key(&place);
        match self.options.tool_visibility {
            ToolVisibility::Show if answered => {
                let id = format!("{}:{}", call.agent_id, call.tool_call_id);
                let part = self.part("tool-call", |key| match key {
                    "tool_name" => Expected::text(&call.tool_name),
                    "tool_call_id" => Expected::Value(Value::Text(Cow::Owned(id.clone()))),
                    "args" => Expected::Value(Value::json(call.args.get())),
                    _ => Expected::Default,
                });
                self.answer(action, &call.agent_id, None, None, vec![part]);
            }
            // A call with a return is told where the return is.
            ToolVisibility::Summarize if !answered => self.summarize(action, call, "no result"),
            ToolVisibility::Hide | ToolVisibility::Show | ToolVisibility::Summarize => {}
        }
    }

    fn tool_return(
        &mut self,
        place: usize,
        action: &'t Action,
        returned: &'t ToolReturnAction,
        envelope: Option<Envelope<'t>>,
    ) -> Result<(), String> {
        // A return without its call is nobody's, and no provider would take it.
        let call = self.pairs.call_of.get(&place).and_then(|call| self.thread.actions.get(*call));
        let Some(Action::ToolCall(call)) = call.map(|call| &**call) else { return Ok(()) };
        if call.agent_id == self.agent_id {
            let native = envelope.as_ref().and_then(|envelope| envelope.kind.as_ref());
            if native.is_some_and(|kind| kind.as_str() == NATIVE_RETURN) {
                return self.own(action, envelope);
            }
            let part = decode_part(&self.profile, action, &envelope.unwrap_or_default())?;
            self.say(action, true, part);
            return Ok(());
        }
        match self.options.tool_visibility {
            ToolVisibility::Hide => {}
            ToolVisibility::Summarize => {
                let result = format!("{}: {}", returned.status, shorten(returned.content.get()));
                self.summarize(action, call, &result);
            }
            ToolVisibility::Show => {
                let id = format!("{}:{}", call.agent_id, returned.tool_call_id);
                let part = self.part("tool-return", |key| match key {
                    "tool_call_id" => Expected::Value(Value::Text(Cow::Owned(id.clone()))),
                    _ => super::parts::expected(action, "tool-return", key, false),
                });
                self.say(action, true, part);
            }
        }
        Ok(())
    }

    fn summarize(&mut self, action: &'t Action, call: &ToolCallAction, result: &str) {
        let line = format!(
            "{}[tool {}({}) → {result}]",
            self.attribution(&call.agent_id),
            call.tool_name,
            shorten(call.args.get())
        );
        let part = self.user_prompt(&Value::Text(Cow::Owned(line)), action.timestamp());
        self.say(action, false, part);
    }

    fn user_prompt(&self, content: &Value<'t>, timestamp: &'t str) -> Part<'t> {
        self.part("user-prompt", |key| match key {
            "content" => Expected::Value(content.clone()),
            "timestamp" => Expected::text(timestamp),
            _ => Expected::Default,
        })
    }

    fn part(&self, class: &'static str, derive: impl Fn(&str) -> Expected<'t>) -> Part<'t> {
        let derive = |key: &str| if key == "part_kind" { Expected::text(class) } else { derive(key) };
        self.plain.template(class).map(|template| template.rebuild(None, &[], derive)).unwrap_or_default()
    }

    fn finish_group(&mut self) {
        let message = match self.group.take() {
            None => return,
            Some(GroupOf::Request { mut parts, timestamp }) => {
                // Providers want the results of tools before anything else that the user says.
                parts.sort_by_key(|(is_return, _)| !is_return);
                let parts = parts.into_iter().map(|(_, part)| part).collect();
                let members = message_members(&self.plain, "request", None, &[], Some(timestamp));
                ModelMessage { kind: Kind::Request, members, parts, usage: None }
            }
            Some(GroupOf::Response { parts, actions, envelope, .. }) => {
                let profile = if envelope.is_some() { &self.profile } else { &self.plain };
                let members = message_members(profile, "response", envelope.as_deref(), &actions, None);
                let usage = matches!(members.get("usage"), Some(Value::Field))
                    .then(|| usage(profile, envelope.as_deref(), &actions))
                    .flatten();
                ModelMessage { kind: Kind::Response, members, parts, usage }
            }
        };
        self.messages.push(message);
    }
}

fn message_members<'t>(
    profile: &Profile<'t>,
    kind: &'static str,
    envelope: Option<&MessageEnvelope<'t>>,
    actions: &[&'t Action],
    timestamp: Option<&'t str>,
) -> Object<'t> {
    let Some(template) = profile.template(kind) else { return Object::new() };
    let calls = envelope.is_none() && actions.iter().any(|action| matches!(action, Action::ToolCall(_)));
    let keys = envelope.and_then(|envelope| envelope.keys.as_ref()).map(|keys| keys.0.as_slice());
    let fields = envelope.map(|envelope| envelope.fields.0.as_slice()).unwrap_or_default();
    template.rebuild(keys, fields, |key| match (key, timestamp) {
        ("timestamp", Some(timestamp)) => Expected::text(timestamp),
        ("finish_reason", _) if calls => Expected::text("tool_call"),
        _ => expected_of_message(actions.iter().copied(), kind, None, key),
    })
}

fn usage<'t>(
    profile: &Profile<'t>,
    envelope: Option<&MessageEnvelope<'t>>,
    actions: &[&'t Action],
) -> Option<Object<'t>> {
    let keys = envelope.and_then(|envelope| envelope.usage_keys.as_ref()).map(|keys| keys.0.as_slice());
    let members = envelope.map(|envelope| envelope.usage.0.as_slice()).unwrap_or_default();
    let derive = |key: &str| expected_of_usage(actions.iter().copied(), key);
    profile.template("usage").map(|template| template.rebuild(keys, members, derive))
}

/// A text after who said it. One that says so already, because it comes from a view, says it once.
fn prefixed(text: &str, prefix: &str) -> String {
    if text.starts_with(prefix) { text.to_owned() } else { format!("{prefix}{text}") }
}

/// The content of another agent's message, after who said it: before the first text, or before everything.
fn attributed<'t>(content: &'t MessageContent, prefix: &str) -> Value<'t> {
    let parts = match content {
        MessageContent::Text(text) => return Value::Text(Cow::Owned(prefixed(text, prefix))),
        MessageContent::Parts(parts) => parts,
    };
    let first = parts.iter().position(|part| matches!(part, ContentPart::Text(_)));
    let Value::List(mut items) = super::items::decode(parts, None, &Profile::default()) else {
        return Value::Text(Cow::Owned(prefix.to_owned()));
    };
    match first.and_then(|first| items.get_mut(first)) {
        Some(item) => {
            let text = item.as_text().unwrap_or_default();
            *item = Value::Text(Cow::Owned(prefixed(&text, prefix)));
        }
        None => items.insert(0, Value::Text(Cow::Owned(prefix.trim_end().to_owned()))),
    }
    Value::List(items)
}

/// The beginning of a JSON text.
fn shorten(json: &str) -> Cow<'_, str> {
    match json.char_indices().nth(SUMMARY_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", json.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(json),
    }
}

//! Messages of the provider layer (UPP-1.2 §3–4): in, out, and nothing lost.
//!
//! A message becomes the actions of what is said in it: thinking, text and files in order, calls and results one action
//! each. The first action of a message keeps in `metadata.turntree` what no action says (ids, vendor facts), the others
//! the place of their message. A message that does not come back equal from that is kept whole.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::core::json::{Extra, RawJson, RawObject, json_object};
use crate::core::time::Timestamp;
use crate::message::content::{
    AudioBlock, Base64Source, BinaryBlock, ContentBlock, DocumentBlock, DocumentSource, ImageBlock,
    ImageSource, TextSource, UrlSource, VideoBlock,
};
use crate::message::media::Binary;
use crate::message::message::{Body, Message};
use crate::message::tool::{ToolCall, ToolResult};
use crate::thread_protocol::action::{
    Action, AssistantMessageAction, ThinkingAction, ToolCallAction, ToolReturnAction, UserMessageAction,
};
use crate::thread_protocol::content::{
    AudioContent, ContentPart, FileContent, ImageContent, MessageContent, VideoContent,
};
use crate::thread_protocol::document::{AgentConfig, Thread};
use crate::thread_protocol::error::ThreadError;

/// The namespace of what the way back needs.
const NAMESPACE: &str = "turntree";
/// The tool of a result whose call is not there.
const UNKNOWN_TOOL: &str = "unknown";
const TITLE_CHARACTERS: usize = 80;

json_object! {
    /// What an action says about the message it belongs to.
    #[derive(Debug, Clone, PartialEq)]
    struct Envelope {
        /// The place of the message in the history.
        pub m: u64 = "m",
        /// In the first action of a message: its id.
        pub id: Option<String> = "id",
        /// In the first action of a message: vendor facts.
        pub metadata: Option<RawObject> = "metadata",
        /// The whole message, where nothing else gives it back.
        pub raw: Option<RawJson> = "raw",
    }
}

/// How to make a thread of messages.
#[derive(Debug, Clone)]
pub struct UppOptions {
    /// Who the assistant of the messages is.
    pub agent: AgentConfig,
    /// The thread's id.
    pub thread_id: String,
    /// The thread's title; else the beginning of the first user text.
    pub title: Option<String>,
    /// Whether to keep what the exact way back needs.
    pub full: bool,
}

/// Makes a thread of messages.
///
/// With `full`, [`Thread::to_upp`] gives back messages equal to these. Blocks that the protocol has no content for are
/// kept whole there, and left out otherwise.
pub fn from_upp<'m>(messages: impl IntoIterator<Item = &'m Arc<Message>>, options: &UppOptions) -> Thread {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut thread = Thread::new(options.thread_id.clone(), "", "");
    for (index, message) in messages.into_iter().enumerate() {
        let mut actions = encode(message, &options.agent.agent_id, &mut names);
        if options.full {
            keep(index, message, &mut actions);
        }
        for action in actions {
            thread.append(action);
        }
    }
    let first = thread.actions.get(0).map(|action| action.timestamp().to_owned());
    thread.created_at = first.unwrap_or_else(|| Timestamp::from_microseconds(0).to_string());
    if thread.updated_at.is_empty() {
        thread.updated_at.clone_from(&thread.created_at);
    }
    thread.title = options.title.clone().unwrap_or_else(|| title(&thread));
    let mut agent = options.agent.clone();
    if agent.created_at.is_empty() {
        agent.created_at.clone_from(&thread.created_at);
    }
    thread.agents.add(agent);
    thread
}

/// The agent of messages that name none.
pub fn assistant() -> AgentConfig {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"urn:turntree:thread-protocol:assistant");
    AgentConfig {
        agent_id: id.to_string(),
        agent_identifier: "assistant".to_owned(),
        agent_name: "Assistant".to_owned(),
        ..AgentConfig::default()
    }
}

fn title(thread: &Thread) -> String {
    let first = thread.actions.iter().find_map(|action| match &**action {
        Action::UserMessage(message) => Some(&message.content),
        _ => None,
    });
    first.map(MessageContent::text).unwrap_or_default().chars().take(TITLE_CHARACTERS).collect()
}

/// Puts into metadata what the actions of a message do not say.
fn keep(index: usize, message: &Arc<Message>, actions: &mut Vec<Action>) {
    let place = u64::try_from(index).unwrap_or(u64::MAX);
    if actions.is_empty() {
        // Something has to stand for the message.
        actions.push(Action::System(crate::thread_protocol::SystemAction {
            action_type: "system.turntree.message".to_owned(),
            timestamp: message.timestamp.to_string(),
            data: RawJson::empty_object(),
            ..crate::thread_protocol::SystemAction::default()
        }));
    }
    let envelope = |first: bool, raw: Option<RawJson>| Envelope {
        m: place,
        id: first.then(|| message.id.clone()),
        metadata: if first { message.metadata.clone() } else { None },
        raw,
        extra: Extra::new(),
    };
    let set = |actions: &mut [Action], raw: Option<RawJson>| {
        let mut raw = raw;
        for (place, action) in actions.iter_mut().enumerate() {
            let said = RawJson::from_value(&envelope(place == 0, raw.take())).unwrap_or_default();
            action.metadata_mut().get_or_insert_default().insert(NAMESPACE, said);
        }
    };
    set(actions, None);
    let back = decode(actions.iter().map(|action| (action, envelope_of(action))));
    if back.as_ref().ok().and_then(Option::as_ref) != Some(&**message) {
        set(actions, RawJson::from_value(&**message).ok());
    }
}

fn envelope_of(action: &Action) -> Option<Envelope> {
    action.metadata()?.get(NAMESPACE)?.to().ok()
}

fn encode(message: &Message, agent_id: &str, names: &mut HashMap<String, String>) -> Vec<Action> {
    let timestamp = message.timestamp.to_string();
    let mut actions = Vec::new();
    match &message.body {
        Body::User { content } => actions.push(Action::UserMessage(UserMessageAction {
            timestamp,
            content: content_of(content.iter()),
            ..UserMessageAction::default()
        })),
        Body::Assistant { content, tool_calls } => {
            let is_thought = |block: &ContentBlock| matches!(block, ContentBlock::Reasoning(_));
            for run in content.chunk_by(|one, other| !is_thought(one) && !is_thought(other)) {
                actions.push(match run {
                    [ContentBlock::Reasoning(thought)] => Action::Thinking(ThinkingAction {
                        timestamp: timestamp.clone(),
                        agent_id: agent_id.to_owned(),
                        content: Some(thought.text.clone()),
                        provider_name: UNKNOWN_TOOL.to_owned(),
                        ..ThinkingAction::default()
                    }),
                    run => Action::AssistantMessage(AssistantMessageAction {
                        timestamp: timestamp.clone(),
                        agent_id: agent_id.to_owned(),
                        content: content_of(run.iter()),
                        ..AssistantMessageAction::default()
                    }),
                });
            }
            for call in tool_calls.iter().flatten() {
                names.insert(call.tool_call_id.clone(), call.tool_name.clone());
                actions.push(Action::ToolCall(ToolCallAction {
                    timestamp: timestamp.clone(),
                    agent_id: agent_id.to_owned(),
                    tool_name: call.tool_name.clone(),
                    tool_call_id: call.tool_call_id.clone(),
                    args: call.arguments.clone(),
                    ..ToolCallAction::default()
                }));
            }
        }
        Body::ToolResult { results } => {
            for result in results {
                let name = names.get(&result.tool_call_id).map_or(UNKNOWN_TOOL, String::as_str);
                actions.push(Action::ToolReturn(ToolReturnAction {
                    timestamp: timestamp.clone(),
                    tool_call_id: result.tool_call_id.clone(),
                    tool_name: name.to_owned(),
                    status: if result.failed() { "error" } else { "success" }.to_owned(),
                    content: result.result.clone(),
                    ..ToolReturnAction::default()
                }));
            }
        }
    }
    actions
}

fn content_of<'b>(blocks: impl ExactSizeIterator<Item = &'b ContentBlock>) -> MessageContent {
    let one = blocks.len() == 1;
    let mut parts: Vec<ContentPart> = blocks.filter_map(part_of).collect();
    match parts.pop() {
        Some(ContentPart::Text(only)) if one => MessageContent::Text(only.text),
        last => {
            parts.extend(last);
            MessageContent::Parts(parts)
        }
    }
}

/// The content part of a block that has one.
fn part_of(block: &ContentBlock) -> Option<ContentPart> {
    let binary = |data: &Binary| Some(data.to_base64());
    Some(match block {
        ContentBlock::Text(text) => ContentPart::text(&text.text),
        ContentBlock::Image(image) => ContentPart::Image(ImageContent {
            url: match &image.source {
                ImageSource::Url(source) => Some(source.url.clone()),
                _ => None,
            },
            base64: image.source.to_base64().map(std::borrow::Cow::into_owned),
            media_type: Some(image.mime_type.clone()),
            ..ImageContent::default()
        }),
        ContentBlock::Document(document) => {
            let (url, base64) = match &document.source {
                DocumentSource::Url(source) => (Some(source.url.clone()), None),
                DocumentSource::Base64(source) => (None, Some(source.data.clone())),
                DocumentSource::Text(source) => (None, binary(&Binary::new(source.data.clone()))),
                DocumentSource::Unknown(_) => return None,
            };
            ContentPart::File(FileContent {
                url,
                base64,
                media_type: Some(document.mime_type.clone()),
                name: document.title.clone(),
                ..FileContent::default()
            })
        }
        ContentBlock::Audio(audio) => ContentPart::Audio(AudioContent {
            base64: binary(&audio.data),
            media_type: Some(audio.mime_type.clone()),
            ..AudioContent::default()
        }),
        ContentBlock::Video(video) => ContentPart::Video(VideoContent {
            base64: binary(&video.data),
            media_type: Some(video.mime_type.clone()),
            ..VideoContent::default()
        }),
        ContentBlock::Binary(other) => ContentPart::File(FileContent {
            base64: binary(&other.data),
            media_type: Some(other.mime_type.clone()),
            ..FileContent::default()
        }),
        ContentBlock::Reasoning(_) | ContentBlock::Unknown(_) => return None,
    })
}

/// Whose voice an action without an envelope is in.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Voice<'t> {
    User,
    Agent(&'t str),
    Tool,
}

fn voice(action: &Action) -> Option<Voice<'_>> {
    match action {
        Action::UserMessage(_) => Some(Voice::User),
        Action::ToolReturn(_) => Some(Voice::Tool),
        Action::System(_) | Action::Other(_) => None,
        action => action.agent_id().map(Voice::Agent),
    }
}

impl Thread {
    /// The messages that the thread holds: equal to those it was made of, or made of what its actions say.
    ///
    /// Message ids that no metadata gives follow from the thread's id and the place of the message.
    ///
    /// # Errors
    /// [`ThreadError::Residue`] when metadata that the way back needs is damaged; [`ThreadError::UnknownAgent`] when the
    /// registry does not have `agent_id`.
    pub fn to_upp(&self, agent_id: Option<&str>) -> Result<Vec<Message>, ThreadError> {
        let seen = match agent_id {
            None => None,
            Some(agent_id) => Some(self.heard_by(agent_id)?),
        };
        let actions = seen.as_ref().unwrap_or(&self.actions);
        let mut messages = Vec::new();
        let mut group: Vec<(&Action, Option<Envelope>)> = Vec::new();
        let mut begin = 0;
        for (place, action) in actions.iter().enumerate() {
            let envelope = match action.metadata().and_then(|metadata| metadata.get(NAMESPACE)) {
                Some(said) => {
                    said.to::<Envelope>().map(Some).map_err(|error| damaged(place, error.to_string()))?
                }
                None => None,
            };
            if envelope.is_none() && voice(action).is_none() {
                continue;
            }
            if group.last().is_some_and(|last| !goes_on(last, action, envelope.as_ref(), &group)) {
                messages.extend(self.message(begin, messages.len(), std::mem::take(&mut group))?);
            }
            if group.is_empty() {
                begin = place;
            }
            group.push((action, envelope));
        }
        if !group.is_empty() {
            messages.extend(self.message(begin, messages.len(), group)?);
        }
        Ok(messages)
    }

    fn message(
        &self,
        place: usize,
        index: usize,
        group: Vec<(&Action, Option<Envelope>)>,
    ) -> Result<Option<Message>, ThreadError> {
        let message = decode(group.into_iter()).map_err(|message| damaged(place, message))?;
        Ok(message.map(|mut message| {
            if message.id.is_empty() {
                let name = format!("{}/messages/{index}", self.thread_id);
                message.id = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string();
            }
            message
        }))
    }

    /// What one agent hears: its own words and tools, what users say, and what other agents say, after their names.
    fn heard_by(&self, agent_id: &str) -> Result<crate::thread_protocol::Actions, ThreadError> {
        if !self.agents.contains(agent_id) {
            let known = self.agents.iter().map(|(key, _)| format!("\"{key}\"")).collect();
            return Err(ThreadError::UnknownAgent { agent_id: agent_id.to_owned(), known });
        }
        let mut own_calls: HashMap<&str, std::collections::VecDeque<bool>> = HashMap::new();
        let mut heard = imbl::Vector::new();
        for action in self.actions.iter() {
            match &**action {
                Action::ToolCall(call) => {
                    let own = call.agent_id == agent_id;
                    own_calls.entry(&call.tool_call_id).or_default().push_back(own);
                    if own {
                        heard.push_back(Arc::clone(action));
                    }
                }
                Action::ToolReturn(returned) => {
                    let calls = own_calls.get_mut(returned.tool_call_id.as_str());
                    if calls.and_then(std::collections::VecDeque::pop_front) == Some(true) {
                        heard.push_back(Arc::clone(action));
                    }
                }
                Action::AssistantMessage(message) if message.agent_id != agent_id => {
                    let name =
                        self.agents.get(&message.agent_id).map_or(&message.agent_id, |a| &a.agent_name);
                    let content = attributed(&message.content, &format!("{{agent:{name}}}: "));
                    heard.push_back(Arc::new(Action::UserMessage(UserMessageAction {
                        timestamp: message.timestamp.clone(),
                        sequence: message.sequence,
                        content,
                        ..UserMessageAction::default()
                    })));
                }
                Action::Thinking(thought) if thought.agent_id != agent_id => {}
                Action::System(_) | Action::Other(_) => {}
                _ => heard.push_back(Arc::clone(action)),
            }
        }
        Ok(crate::thread_protocol::Actions(heard))
    }
}

fn attributed(content: &MessageContent, prefix: &str) -> MessageContent {
    let parts = match content {
        MessageContent::Text(text) => return MessageContent::Text(format!("{prefix}{text}")),
        MessageContent::Parts(parts) => parts,
    };
    let mut parts = parts.clone();
    match parts.iter_mut().find_map(|part| match part {
        ContentPart::Text(text) => Some(&mut text.text),
        _ => None,
    }) {
        Some(text) => text.insert_str(0, prefix),
        None => parts.insert(0, ContentPart::text(prefix.trim_end())),
    }
    MessageContent::Parts(parts)
}

fn damaged(place: usize, message: String) -> ThreadError {
    ThreadError::Residue { pointer: format!("/actions/{place}/metadata/{NAMESPACE}"), message }
}

/// Whether an action belongs to the message of the actions before it.
fn goes_on(
    last: &(&Action, Option<Envelope>),
    action: &Action,
    envelope: Option<&Envelope>,
    group: &[(&Action, Option<Envelope>)],
) -> bool {
    match (&last.1, envelope) {
        (Some(last), Some(envelope)) => last.m == envelope.m && envelope.id.is_none(),
        (None, None) => match (voice(last.0), voice(action)) {
            (Some(Voice::Agent(one)), Some(Voice::Agent(other))) => {
                let says = |action: &Action| matches!(action, Action::AssistantMessage(_));
                let calls = group.iter().any(|(action, _)| matches!(action, Action::ToolCall(_)));
                let said = group.iter().any(|(action, _)| says(action));
                // Calls end what a model says at once.
                one == other && (matches!(action, Action::ToolCall(_)) || !calls) && !(said && says(action))
            }
            (Some(Voice::Tool), Some(Voice::Tool)) => true,
            _ => false,
        },
        _ => false,
    }
}

/// The message that actions are; `None` when they say nothing.
fn decode<'t>(
    group: impl Iterator<Item = (&'t Action, Option<Envelope>)>,
) -> Result<Option<Message>, String> {
    let mut message: Option<Message> = None;
    for (action, envelope) in group {
        let envelope_raw = envelope.as_ref().and_then(|envelope| envelope.raw.as_ref());
        if let Some(raw) = envelope_raw {
            return raw.to().map(Some).map_err(|error| format!("raw: {error}"));
        }
        let Some(body) = body_of(action) else { continue };
        let Some(message) = &mut message else {
            message = Some(Message {
                id: envelope.as_ref().and_then(|envelope| envelope.id.clone()).unwrap_or_default(),
                timestamp: action
                    .timestamp()
                    .parse()
                    .map_err(|error: crate::core::time::TimestampError| error.to_string())?,
                metadata: envelope.and_then(|envelope| envelope.metadata),
                body,
                extra: Extra::new(),
            });
            continue;
        };
        match (&mut message.body, body) {
            (
                Body::Assistant { content, tool_calls },
                Body::Assistant { content: mut more, tool_calls: more_calls },
            ) => {
                content.append(&mut more);
                if let Some(mut calls) = more_calls {
                    tool_calls.get_or_insert_default().append(&mut calls);
                }
            }
            (Body::ToolResult { results }, Body::ToolResult { results: mut more }) => {
                results.append(&mut more)
            }
            _ => return Err("the actions of one message have several voices".to_owned()),
        }
    }
    Ok(message)
}

/// What an action says, as the body of a message of its own.
fn body_of(action: &Action) -> Option<Body> {
    Some(match action {
        Action::UserMessage(message) => Body::User { content: blocks_of(&message.content) },
        Action::AssistantMessage(message) => {
            Body::Assistant { content: blocks_of(&message.content), tool_calls: None }
        }
        Action::Thinking(thought) => Body::Assistant {
            content: thought.content.iter().map(ContentBlock::reasoning).collect(),
            tool_calls: None,
        },
        Action::ToolCall(call) => Body::Assistant {
            content: Vec::new(),
            tool_calls: Some(vec![ToolCall {
                tool_call_id: call.tool_call_id.clone(),
                tool_name: call.tool_name.clone(),
                arguments: call.args.clone(),
                extra: Extra::new(),
            }]),
        },
        Action::ToolReturn(returned) => Body::ToolResult {
            results: vec![ToolResult {
                tool_call_id: returned.tool_call_id.clone(),
                result: returned.content.clone(),
                is_error: Some(returned.status != "success"),
                extra: Extra::new(),
            }],
        },
        Action::System(_) | Action::Other(_) => return None,
    })
}

fn blocks_of(content: &MessageContent) -> Vec<ContentBlock> {
    match content {
        MessageContent::Text(text) => vec![ContentBlock::text(text)],
        MessageContent::Parts(parts) => parts.iter().filter_map(block_of).collect(),
    }
}

/// The block of a content part that has one: files that only a provider keeps have none.
fn block_of(part: &ContentPart) -> Option<ContentBlock> {
    let decoded = |base64: &Option<String>| Binary::from_base64(base64.as_deref()?).ok();
    let extra = Extra::new;
    Some(match part {
        ContentPart::Text(text) => ContentBlock::text(&text.text),
        ContentPart::Image(image) => {
            let source = match (&image.url, &image.base64) {
                (Some(url), _) => ImageSource::Url(UrlSource { url: url.clone(), extra: extra() }),
                (None, Some(data)) => {
                    ImageSource::Base64(Base64Source { data: data.clone(), extra: extra() })
                }
                (None, None) => return None,
            };
            ContentBlock::Image(ImageBlock {
                source,
                mime_type: image.media_type.clone().unwrap_or_else(|| "image/png".to_owned()),
                width: None,
                height: None,
                extra: extra(),
            })
        }
        ContentPart::File(file) => {
            let mime_type = file.media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
            let source = match (&file.url, &file.base64, &*mime_type) {
                (Some(url), ..) => DocumentSource::Url(UrlSource { url: url.clone(), extra: extra() }),
                (None, Some(data), "application/pdf") => {
                    DocumentSource::Base64(Base64Source { data: data.clone(), extra: extra() })
                }
                (None, Some(_), "text/plain") => {
                    let text = String::from_utf8(decoded(&file.base64)?.as_slice().to_vec()).ok()?;
                    DocumentSource::Text(TextSource { data: text, extra: extra() })
                }
                _ => {
                    let data = decoded(&file.base64)?;
                    return Some(ContentBlock::Binary(BinaryBlock {
                        data,
                        mime_type,
                        metadata: None,
                        extra: extra(),
                    }));
                }
            };
            ContentBlock::Document(DocumentBlock {
                source,
                mime_type,
                title: file.name.clone(),
                extra: extra(),
            })
        }
        ContentPart::Audio(audio) => ContentBlock::Audio(AudioBlock {
            data: decoded(&audio.base64)?,
            mime_type: audio.media_type.clone().unwrap_or_else(|| "audio/wav".to_owned()),
            duration: None,
            extra: extra(),
        }),
        ContentPart::Video(video) => ContentBlock::Video(VideoBlock {
            data: decoded(&video.base64)?,
            mime_type: video.media_type.clone().unwrap_or_else(|| "video/mp4".to_owned()),
            duration: None,
            width: None,
            height: None,
            extra: extra(),
        }),
        ContentPart::Unknown(_) => return None,
    })
}

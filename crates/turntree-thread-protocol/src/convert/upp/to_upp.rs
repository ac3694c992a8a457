//! Exports a thread to messages: the whole history, or one agent's view.

use std::borrow::Cow;

use uuid::Uuid;

use super::blocks::{blocks_of, user_blocks};
use super::message_metadata::{MessageMetadata, NAMESPACE};
use crate::action::{Action, AssistantMessageAction, UserMessageAction};
use crate::content::{ContentPart, MessageContent};
use crate::convert::agent_view::{
    self, ActionOrigin, Rendering, SystemPrompts, ViewItem, ViewOptions, prefixed,
};
use crate::convert::pydantic_ai::later_prompt;
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::{
    Extra, ParseError, ParseErrorKind, PathSegment, RawJson, RawObject, describe_part,
};
use turntree_core::limits::{Limits, OUTER_LEVELS_OF_MESSAGES};
use turntree_core::message::content::ContentBlock;
use turntree_core::message::message::{Body, Message};
use turntree_core::message::tool::{ToolCall, ToolResult};

/// The role of an action without metadata.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Speaker<'t> {
    User,
    Agent(&'t str),
    Tool,
}

fn speaker(action: &Action) -> Option<Speaker<'_>> {
    match action {
        Action::UserMessage(_) => Some(Speaker::User),
        Action::ToolReturn(_) => Some(Speaker::Tool),
        Action::System(_) | Action::Other(_) => None,
        action => action.agent_id().map(Speaker::Agent),
    }
}

impl Thread {
    /// Converts the thread to messages.
    ///
    /// Without an agent in the options, these are the messages that were imported; messages without round-trip metadata
    /// are built from the actions. With an agent, these are the messages of its view. A message id that is not in the
    /// metadata is derived from the thread's id and the index of the message.
    ///
    /// # Errors
    /// [`ThreadError::RoundtripMetadata`] if round-trip metadata is damaged; [`ThreadError::UnknownAgent`] if the
    /// registry does not have the agent.
    pub fn to_upp(&self, options: &ViewOptions) -> Result<Vec<Message>, ThreadError> {
        let thread = self.unhoisted();
        let envelopes = thread.actions.iter().enumerate().map(|(index, action)| {
            let stored_json = action.metadata().and_then(|metadata| metadata.get(NAMESPACE));
            stored_json
                .map(|stored_json| {
                    stored_json.to::<MessageMetadata>().map_err(|error| damaged(index, describe_part(&error)))
                })
                .transpose()
        });
        let envelopes: Vec<Option<MessageMetadata>> = envelopes.collect::<Result<_, _>>()?;
        let includes = options.system_prompts == SystemPrompts::Include;
        let groups = match &options.agent_id {
            None => all_groups(&thread, envelopes, includes),
            Some(agent_id) => agent_groups(&thread, agent_id, options, &envelopes)?,
        };
        let mut messages = Vec::new();
        if includes && let Some(prompt) = thread.system_prompt(options.agent_id.as_deref())? {
            messages.extend(prompt_message(&thread, &prompt, &self.thread_id)?);
        }
        for group in groups {
            let message = decode(group.actions.iter().map(|(action, stored)| (&**action, stored.clone())));
            let Some(mut message) = message.map_err(|message| damaged(group.index, message))? else {
                continue;
            };
            if message.id.is_empty() {
                let name = format!("{}/messages/{}", self.thread_id, messages.len());
                message.id = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string();
            }
            check_depth(&message, group.index)?;
            messages.push(message);
        }
        Ok(messages)
    }
}

/// Refuses a message that is too deep to be read again: a document may be deeper than a message.
fn check_depth(message: &Message, index: usize) -> Result<(), ThreadError> {
    // The levels of a message around arguments and results; metadata has one less.
    let limits = Limits::of_part(OUTER_LEVELS_OF_MESSAGES + 3);
    let metadata = message.metadata.iter().flat_map(RawObject::iter).map(|(_, value)| value);
    let arguments = message.tool_calls().iter().map(|call| &call.arguments);
    let results = message.results().iter().map(|result| &result.result);
    let is_deep = |value: &RawJson| value.get().len() > limits.depth && limits.check(value.get()).is_err();
    if !metadata.chain(arguments).chain(results).any(is_deep) {
        return Ok(());
    }
    let path = vec![PathSegment::Key("actions".to_owned()), PathSegment::Index(index)];
    let message = format!(
        "a value is nested deeper than {} levels, the maximum in a message; flatten it",
        limits.depth
    );
    Err(ParseError { kind: ParseErrorKind::Limit, path, message }.into())
}

/// A message with the system prompt of the agent. User messages are those of users and applications.
fn prompt_message(thread: &Thread, prompt: &str, thread_id: &str) -> Result<Option<Message>, ThreadError> {
    let action = Action::UserMessage(UserMessageAction {
        timestamp: thread.created_at.as_str().into(),
        content: prompt.into(),
        ..UserMessageAction::default()
    });
    let mut message = decode(std::iter::once((&action, None))).map_err(|message| damaged(0, message))?;
    if let Some(message) = &mut message {
        let name = format!("{thread_id}/system_prompt");
        message.id = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string();
    }
    Ok(message)
}

/// The actions of one message.
struct ActionGroup<'t> {
    /// The index of its first action in the thread.
    index: usize,
    actions: Vec<(Cow<'t, Action>, Option<MessageMetadata>)>,
    /// True if it has an assistant message.
    says: bool,
    /// True if it has a call.
    calls: bool,
}

impl<'t> ActionGroup<'t> {
    fn new(index: usize) -> Self {
        Self { index, actions: Vec::new(), says: false, calls: false }
    }

    fn push(&mut self, action: Cow<'t, Action>, stored: Option<MessageMetadata>) {
        self.says |= matches!(&*action, Action::AssistantMessage(_));
        self.calls |= matches!(&*action, Action::ToolCall(_));
        self.actions.push((action, stored));
    }

    /// True if an action without metadata, or with this metadata, belongs to the same message.
    fn is_continued_by(&self, action: &Action, stored: Option<&MessageMetadata>) -> bool {
        let Some((last, of_last)) = self.actions.last() else { return false };
        match (of_last, stored) {
            (Some(last), Some(stored)) => last.m == stored.m && stored.id.is_none(),
            (None, None) => match (speaker(last), speaker(action)) {
                (Some(Speaker::Agent(one)), Some(Speaker::Agent(other))) => {
                    let says = matches!(action, Action::AssistantMessage(_));
                    // Calls end a response.
                    one == other
                        && (matches!(action, Action::ToolCall(_)) || !self.calls)
                        && !(self.says && says)
                }
                (Some(Speaker::Tool), Some(Speaker::Tool)) => true,
                _ => false,
            },
            _ => false,
        }
    }
}

/// Groups all actions by message.
fn all_groups(
    thread: &Thread,
    envelopes: Vec<Option<MessageMetadata>>,
    includes: bool,
) -> Vec<ActionGroup<'_>> {
    let mut groups: Vec<ActionGroup<'_>> = Vec::new();
    for (index, (action, stored)) in thread.actions.iter().zip(envelopes).enumerate() {
        let action = match later_prompt(action).filter(|_| includes) {
            Some(prompt) => Cow::Owned(prompt_action(action, prompt)),
            None => Cow::Borrowed(&**action),
        };
        if stored.is_none() && speaker(&action).is_none() {
            continue;
        }
        match groups.last_mut() {
            Some(last) if last.is_continued_by(&action, stored.as_ref()) => {
                last.push(action, stored);
            }
            _ => {
                let mut group = ActionGroup::new(index);
                group.push(action, stored);
                groups.push(group);
            }
        }
    }
    groups
}

/// True for system prompts and instructions.
fn is_prompt(action: &Action) -> bool {
    matches!(action, Action::System(system) if agent_view::is_prompt(system))
}

/// A later system prompt as a user message.
fn prompt_action(action: &Action, prompt: String) -> Action {
    Action::UserMessage(UserMessageAction {
        timestamp: action.timestamp().into(),
        content: MessageContent::Text(prompt),
        ..UserMessageAction::default()
    })
}

/// Groups the actions of one agent's view by message.
fn agent_groups<'t>(
    thread: &'t Thread,
    agent_id: &str,
    options: &ViewOptions,
    envelopes: &[Option<MessageMetadata>],
) -> Result<Vec<ActionGroup<'t>>, ThreadError> {
    let origins = origins(envelopes);
    let includes = options.system_prompts == SystemPrompts::Include;
    let mut groups = Vec::new();
    for message in agent_view::messages(thread, agent_id, options, &origins, true)? {
        let answers = message.speaker.is_some();
        // Results of one source message and the actions of one response form one message. Each user message is a
        // message of its own.
        let together = |one: &ViewItem<'_>, other: &ViewItem<'_>| {
            let is_return = |item: &ViewItem<'_>| matches!(item.rendering, Rendering::Return { .. });
            let origin = |item: &ViewItem<'_>| origins.get(item.index).and_then(|origin| origin.message);
            answers || (is_return(one) && is_return(other) && origin(one) == origin(other))
        };
        let shown: Vec<ViewItem<'_>> =
            message.items.into_iter().filter(|item| includes || !is_prompt(item.action)).collect();
        for items in shown.chunk_by(together) {
            let Some(index) = items.first().map(|item| item.index) else { continue };
            let complete = is_complete(items, &origins, thread);
            let mut group = ActionGroup::new(index);
            for item in items {
                let stored = envelopes.get(item.index).cloned().flatten();
                let stored = stored
                    .filter(|_| is_unchanged(item))
                    .map(|stored| MessageMetadata { raw: stored.raw.filter(|_| complete), ..stored });
                group.push(as_rendered(item, answers), stored);
            }
            groups.push(group);
        }
    }
    Ok(groups)
}

/// The source message of each action.
fn origins(envelopes: &[Option<MessageMetadata>]) -> Vec<ActionOrigin> {
    let mut head: Option<(usize, u64)> = None;
    let origin = |(index, stored): (usize, &Option<MessageMetadata>)| {
        head = stored.as_ref().map(|stored| match head {
            Some((first, of_head)) if stored.id.is_none() && of_head == stored.m => (first, of_head),
            _ => (index, stored.m),
        });
        ActionOrigin { message: head.map(|(first, _)| first), ..ActionOrigin::default() }
    };
    envelopes.iter().enumerate().map(origin).collect()
}

/// True if the action keeps its round-trip metadata: it belongs to the agent or to a user.
fn is_unchanged(item: &ViewItem<'_>) -> bool {
    !matches!(
        item.rendering,
        Rendering::Quoted(_)
            | Rendering::Summary(_)
            | Rendering::Call { own: false, .. }
            | Rendering::Return { own: false, .. }
    )
}

/// True if the items are all actions of their source message, unchanged.
fn is_complete(items: &[ViewItem<'_>], origins: &[ActionOrigin], thread: &Thread) -> bool {
    let origin = |index: usize| origins.get(index).and_then(|origin| origin.message);
    let Some(first) = items.first().and_then(|item| origin(item.index)) else { return false };
    let all = (0..thread.actions.len()).skip(first).take_while(|index| origin(*index) == Some(first));
    let as_it_is = |item: &ViewItem<'_>| match (&item.rendering, item.action) {
        (Rendering::AsIs, _) => true,
        (Rendering::Call { id, own: true }, Action::ToolCall(call)) => *id == *call.tool_call_id,
        (Rendering::Return { id, own: true }, Action::ToolReturn(returned)) => *id == *returned.tool_call_id,
        _ => false,
    };
    items.iter().all(as_it_is) && all.eq(items.iter().map(|item| item.index))
}

/// The action as it appears in the view.
fn as_rendered<'t>(item: &ViewItem<'t>, answers: bool) -> Cow<'t, Action> {
    let mut action = Cow::Borrowed(item.action);
    let user = |content: MessageContent| {
        Action::UserMessage(UserMessageAction {
            timestamp: item.action.timestamp().into(),
            content,
            ..UserMessageAction::default()
        })
    };
    match (&item.rendering, item.action) {
        (Rendering::AsIs, system @ Action::System(_)) => match later_prompt(system) {
            Some(prompt) => Cow::Owned(prompt_action(system, prompt)),
            None => action,
        },
        (Rendering::Quoted(prefix), Action::AssistantMessage(message)) if answers => {
            Cow::Owned(Action::AssistantMessage(AssistantMessageAction {
                timestamp: message.timestamp.clone(),
                agent_id: message.agent_id.clone(),
                content: MessageContent::Text(prefixed(&message.content.text(), prefix)),
                ..AssistantMessageAction::default()
            }))
        }
        (Rendering::Quoted(prefix), Action::AssistantMessage(message)) => {
            Cow::Owned(user(attributed(&message.content, prefix)))
        }
        (Rendering::Summary(line), _) => Cow::Owned(user(MessageContent::Text(line.clone()))),
        (Rendering::Call { id, .. }, Action::ToolCall(call)) if *id != *call.tool_call_id => {
            if let Action::ToolCall(call) = action.to_mut() {
                call.tool_call_id = id.as_ref().into();
            }
            action
        }
        (Rendering::Return { id, .. }, Action::ToolReturn(returned)) if *id != *returned.tool_call_id => {
            if let Action::ToolReturn(returned) = action.to_mut() {
                returned.tool_call_id = id.as_ref().into();
            }
            action
        }
        _ => action,
    }
}

fn attributed(content: &MessageContent, prefix: &str) -> MessageContent {
    let parts = match content {
        MessageContent::Text(text) => return MessageContent::Text(prefixed(text, prefix)),
        MessageContent::Parts(parts) => parts,
    };
    let mut parts = parts.clone();
    match parts.iter_mut().find_map(|part| match part {
        ContentPart::Text(text) => Some(&mut text.text),
        _ => None,
    }) {
        Some(text) => *text = prefixed(text, prefix),
        None => parts.insert(0, ContentPart::text(prefix.trim_end())),
    }
    MessageContent::Parts(parts)
}

fn damaged(index: usize, message: String) -> ThreadError {
    ThreadError::RoundtripMetadata { pointer: format!("/actions/{index}/metadata/{NAMESPACE}"), message }
}

/// Builds the message of a group of actions; `None` if it has no content.
pub(super) fn decode<'t>(
    group: impl Iterator<Item = (&'t Action, Option<MessageMetadata>)>,
) -> Result<Option<Message>, String> {
    let mut message: Option<Message> = None;
    for (action, stored) in group {
        let raw = stored.as_ref().and_then(|stored| stored.raw.as_ref());
        if let Some(raw) = raw {
            return raw.to().map(Some).map_err(|error| format!("raw: {}", describe_part(&error)));
        }
        let Some(body) = body_of(action) else { continue };
        let Some(message) = &mut message else {
            message = Some(Message {
                id: stored.as_ref().and_then(|stored| stored.id.clone()).unwrap_or_default(),
                timestamp: action
                    .timestamp()
                    .parse()
                    .map_err(|error: turntree_core::time::TimestampError| error.to_string())?,
                metadata: stored.and_then(|stored| stored.metadata),
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
            _ => return Err("the actions of one message have different roles".to_owned()),
        }
    }
    Ok(message)
}

/// The body of a message with this action only.
fn body_of(action: &Action) -> Option<Body> {
    Some(match action {
        Action::UserMessage(message) => Body::User { content: user_blocks(message) },
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
                tool_call_id: call.tool_call_id.to_string(),
                tool_name: call.tool_name.to_string(),
                arguments: call.args.clone(),
                extra: Extra::new(),
            }]),
        },
        Action::ToolReturn(returned) => Body::ToolResult {
            results: vec![ToolResult {
                tool_call_id: returned.tool_call_id.to_string(),
                result: returned.content.clone(),
                is_error: Some(returned.status != "success"),
                extra: Extra::new(),
            }],
        },
        Action::System(_) | Action::Other(_) => return None,
    })
}

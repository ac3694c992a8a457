//! Imports messages: each message becomes one or more actions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::blocks::content_of;
use super::message_metadata::{MessageMetadata, NAMESPACE};
use super::to_upp::decode;
use crate::action::{
    Action, AssistantMessageAction, SystemAction, ThinkingAction, ToolCallAction, ToolReturnAction,
    UserMessageAction,
};
use crate::convert::portable::title;
use crate::document::{AgentConfig, Thread};
use crate::validate::has_unmatched_return;
use turntree_core::intern::InternedStr;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::content::ContentBlock;
use turntree_core::message::message::{Body, Message};
use turntree_core::time::Timestamp;

/// The tool name of a result without a call.
const UNKNOWN_TOOL: &str = "unknown";
/// Options of [`from_upp`].
#[derive(Debug, Clone)]
pub struct UppOptions {
    /// The agent of the assistant messages.
    pub agent: AgentConfig,
    /// The id of the thread.
    pub thread_id: String,
    /// The title; by default the beginning of the first user text.
    pub title: Option<String>,
    /// Whether to store the metadata for a lossless round trip.
    pub full: bool,
}

/// Converts messages to a thread.
///
/// With `full`, [`Thread::to_upp`] returns equal messages. Blocks without a content part are then preserved verbatim in
/// metadata; otherwise they are left out.
pub fn from_upp<'m>(messages: impl IntoIterator<Item = &'m Arc<Message>>, options: &UppOptions) -> Thread {
    let mut open_calls = OpenCalls::default();
    let mut thread = Thread::new(options.thread_id.clone(), "", "");
    for (index, message) in messages.into_iter().enumerate() {
        // The agent of the conversation is named, too, when another one has handed it back.
        let named = agent_of(message).filter(|agent| !has_name(&options.agent, &agent.agent_name));
        let agent_id = named.as_ref().map_or(&options.agent.agent_id, |agent| &agent.agent_id);
        let mut actions = encode(message, agent_id, &mut open_calls);
        if let Some(agent) = named
            && thread.agents.iter().all(|(id, _)| id != agent.agent_id)
        {
            thread.agents.add(agent);
        }
        if options.full {
            attach_metadata(index, message, &mut actions);
        }
        for action in actions {
            thread.append(action);
        }
    }
    if !options.full && has_unmatched_return(&thread.actions) {
        // Validation then knows that a history is the source.
        let source = RawJson::from_text(r#"{"profile":"portable"}"#.to_owned()).unwrap_or_default();
        thread.metadata.get_or_insert_default().insert(NAMESPACE, source);
    }
    let first = thread.actions.get(0).map(|action| action.timestamp().to_owned());
    thread.created_at = first.unwrap_or_else(|| Timestamp::from_microseconds(0).to_string());
    if thread.updated_at.is_empty() {
        thread.updated_at.clone_from(&thread.created_at);
    }
    thread.title = options.title.clone().unwrap_or_else(|| title(thread.actions.iter().map(AsRef::as_ref)));
    let mut agent = options.agent.clone();
    if agent.created_at.is_empty() {
        agent.created_at.clone_from(&thread.created_at);
    }
    thread.agents.add(agent);
    thread
}

/// The default agent.
pub fn assistant() -> AgentConfig {
    let id = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"urn:turntree:thread-protocol:assistant");
    AgentConfig {
        agent_id: id.to_string(),
        agent_identifier: "assistant".to_owned(),
        agent_name: "Assistant".to_owned(),
        ..AgentConfig::default()
    }
}

/// The agent that a message names as its author, in a conversation that agents have handed over. Its id is computed from its
/// name.
fn agent_of(message: &Message) -> Option<AgentConfig> {
    let marks = message.metadata.as_ref()?.get(NAMESPACE).and_then(RawObject::from_raw)?;
    let name = marks.get("agent")?.as_string()?;
    let id =
        Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("urn:turntree:thread-protocol:agent:{name}").as_bytes());
    Some(AgentConfig {
        agent_id: id.to_string(),
        agent_identifier: name.clone(),
        agent_name: name,
        created_at: message.timestamp.to_string(),
        ..AgentConfig::default()
    })
}

fn has_name(agent: &AgentConfig, name: &str) -> bool {
    agent.agent_name == name || agent.agent_identifier == name
}

/// Stores in metadata what the actions of a message do not hold.
fn attach_metadata(index: usize, message: &Arc<Message>, actions: &mut Vec<Action>) {
    let position = u64::try_from(index).unwrap_or(u64::MAX);
    if actions.is_empty() {
        // A message needs at least one action.
        actions.push(Action::System(SystemAction {
            action_type: "system.turntree.message".into(),
            timestamp: message.timestamp.to_string().into(),
            data: RawJson::empty_object(),
            ..SystemAction::default()
        }));
    }
    let stored = |first: bool, raw: Option<RawJson>| MessageMetadata {
        m: position,
        id: first.then(|| message.id.clone()),
        metadata: if first { message.metadata.clone() } else { None },
        raw,
        extra: Extra::new(),
    };
    let set = |actions: &mut [Action], raw: Option<RawJson>| {
        let mut raw = raw;
        for (position, action) in actions.iter_mut().enumerate() {
            let stored_json = RawJson::from_value(&stored(position == 0, raw.take())).unwrap_or_default();
            action.metadata_mut().get_or_insert_default().insert(NAMESPACE, stored_json);
        }
    };
    set(actions, None);
    let back = decode(actions.iter().map(|action| (action, message_metadata(action))));
    if back.as_ref().ok().and_then(Option::as_ref) != Some(&**message) {
        set(actions, RawJson::from_value(&**message).ok());
    }
}

fn message_metadata(action: &Action) -> Option<MessageMetadata> {
    action.metadata()?.get(NAMESPACE)?.to().ok()
}

fn encode(message: &Message, agent_id: &str, open_calls: &mut OpenCalls) -> Vec<Action> {
    let timestamp = InternedStr::from(message.timestamp.to_string());
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
                        agent_id: agent_id.into(),
                        content: Some(thought.text.clone()),
                        provider_name: UNKNOWN_TOOL.into(),
                        ..ThinkingAction::default()
                    }),
                    run => Action::AssistantMessage(AssistantMessageAction {
                        timestamp: timestamp.clone(),
                        agent_id: agent_id.into(),
                        content: content_of(run.iter()),
                        ..AssistantMessageAction::default()
                    }),
                });
            }
            for call in tool_calls.iter().flatten() {
                open_calls.open(&call.tool_call_id, &call.tool_name);
                actions.push(Action::ToolCall(ToolCallAction {
                    timestamp: timestamp.clone(),
                    agent_id: agent_id.into(),
                    tool_name: call.tool_name.as_str().into(),
                    tool_call_id: call.tool_call_id.as_str().into(),
                    args: call.arguments.clone(),
                    ..ToolCallAction::default()
                }));
            }
        }
        Body::ToolResult { results } => {
            for result in results {
                let name = open_calls.close(&result.tool_call_id);
                actions.push(Action::ToolReturn(ToolReturnAction {
                    timestamp: timestamp.clone(),
                    tool_call_id: result.tool_call_id.as_str().into(),
                    tool_name: name.as_deref().unwrap_or(UNKNOWN_TOOL).into(),
                    status: if result.failed() { "error" } else { "success" }.into(),
                    content: result.result.clone(),
                    ..ToolReturnAction::default()
                }));
            }
        }
    }
    actions
}

/// Tool names of open calls. Ids are not unique: the first call with an id gets the first result.
#[derive(Default)]
struct OpenCalls(HashMap<String, VecDeque<String>>);

impl OpenCalls {
    fn open(&mut self, id: &str, tool: &str) {
        self.0.entry(id.to_owned()).or_default().push_back(tool.to_owned());
    }

    fn close(&mut self, id: &str) -> Option<String> {
        self.0.get_mut(id).and_then(VecDeque::pop_front)
    }
}

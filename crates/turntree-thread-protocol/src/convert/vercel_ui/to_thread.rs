//! Messages to a thread.
//!
//! Spec: UI message stream, §12; decisions 1, 2, 10, 11 and 13.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::message::UiMessage;
use super::options::{SidecarLevel, UiImportOptions};
use super::roundtrip_metadata;
use super::sidecar::{self, Sidecar};
use super::to_actions::{MessageActions, SenderContext, actions_of};
use super::to_chunks::recorded_reason;
use crate::action::{Action, SystemAction, ToolReturnAction};
use crate::convert::portable::{EPOCH, ProfileKind, assistant, namespace, object, title};
use crate::document::{Actions, AgentConfig, Thread};
use crate::roundtrip_metadata::is_private_action;
use turntree_core::intern::InternedStr;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::Timestamp;

/// The outcome of a stream: finish reason, errors and aborts, which no message holds.
///
/// Spec: UI message stream, §12.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StreamOutcome {
    pub finish_reason: Option<String>,
    /// Error messages, with the id of the call that each one ended.
    pub errors: Vec<(String, Option<String>)>,
    /// Reasons of aborts.
    pub aborts: Vec<Option<String>>,
}

/// Converts messages to a thread. `outcome` belongs to the last message.
pub(super) fn thread_of(
    messages: &[UiMessage],
    outcome: &StreamOutcome,
    options: &UiImportOptions,
) -> Thread {
    let mut reading = ThreadBuilder::new(options);
    for (index, message) in messages.iter().enumerate() {
        let outcome = (index + 1 == messages.len()).then_some(outcome);
        reading.message(message, outcome);
    }
    reading.finish(messages.first())
}

/// Converts the messages of a list while it is read, so that they are never in memory together.
pub(super) struct EachMessage<'o>(pub &'o UiImportOptions);

impl<'de> Visitor<'de> for EachMessage<'_> {
    type Value = Thread;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Thread, A::Error> {
        let (mut reading, mut first) = (ThreadBuilder::new(self.0), None);
        while let Some(message) = list.next_element::<UiMessage>()? {
            reading.message(&message, None);
            first.get_or_insert(message);
        }
        Ok(reading.finish(first.as_ref()))
    }
}

struct ThreadBuilder<'o> {
    options: &'o UiImportOptions,
    agent: AgentConfig,
    actions: Vec<Action>,
    /// The thread from the header of a sidecar.
    described: Option<Thread>,
    thread_id: Option<String>,
    /// True if all messages are unchanged.
    exact: bool,
    /// True if actions are in a later message than their position in the thread.
    moved: bool,
    timestamp: String,
}

impl<'o> ThreadBuilder<'o> {
    fn new(options: &'o UiImportOptions) -> Self {
        Self {
            options,
            agent: options.agent.clone().unwrap_or_else(assistant),
            actions: Vec::new(),
            described: None,
            thread_id: None,
            exact: true,
            moved: false,
            timestamp: options.timestamp.clone().unwrap_or_else(|| EPOCH.to_owned()),
        }
    }

    fn message(&mut self, message: &UiMessage, outcome: Option<&StreamOutcome>) {
        let sidecar = message.metadata_member(sidecar::MEMBER).and_then(|value| sidecar::read(&value));
        let level = self.options.sidecar;
        let sidecar = sidecar.filter(|_| level != SidecarLevel::None);
        if let Some(sidecar) = &sidecar {
            self.describe(sidecar);
        }
        let outcome = outcome.cloned().unwrap_or_default();
        if let Some(sidecar) = &sidecar
            && let Some(mut actions) = self.restored(message, sidecar)
        {
            let known = actions.len();
            self.add_outcome(&mut actions, &outcome, None);
            self.exact &= actions.len() == known;
            let (lead, tail) = sidecar.around();
            self.actions.extend(lead);
            self.actions.append(&mut actions);
            self.actions.extend(tail);
            self.moved |= sidecar.moved == Some(true);
            return;
        }
        self.exact = false;
        self.read(message, &outcome, sidecar.as_ref());
    }

    fn describe(&mut self, sidecar: &Sidecar) {
        if let Some(header) = &sidecar.thread
            && self.described.is_none()
        {
            let full = self.options.sidecar == SidecarLevel::Full;
            // Only the core of a thread is restored from portable sidecars.
            self.described =
                sidecar::from_header(header).map(|thread| if full { thread } else { thread.core() });
        }
        self.thread_id = self.thread_id.take().or_else(|| sidecar.thread_id.clone());
    }

    fn restored(&self, message: &UiMessage, sidecar: &Sidecar) -> Option<Vec<Action>> {
        let agent_id = sidecar.agent_id.as_deref().unwrap_or(&self.agent.agent_id);
        let context = SenderContext { agent_id, timestamp: EPOCH, approvals: false };
        let actions = sidecar.restore(actions_of(message, context).actions)?;
        let is_core = |action: &Action| !is_private_action(action) && action.metadata().is_none();
        let (lead, tail) = sidecar.around();
        let taken = self.options.sidecar == SidecarLevel::Full
            || actions.iter().chain(&lead).chain(&tail).all(is_core);
        taken.then_some(actions)
    }

    fn read(&mut self, message: &UiMessage, outcome: &StreamOutcome, sidecar: Option<&Sidecar>) {
        let full = self.options.profile == ProfileKind::Full;
        let server_time = sidecar.and_then(Sidecar::timestamp).or_else(|| server_timestamp(message));
        if let Some(server_time) = server_time {
            let is_later = server_time.parse::<Timestamp>().ok() >= self.timestamp.parse::<Timestamp>().ok();
            if full || is_later {
                self.timestamp = server_time;
            }
        }
        let of_sidecar = sidecar
            .and_then(|sidecar| sidecar.agent_id.as_deref())
            .filter(|id| self.described.as_ref().is_some_and(|thread| thread.agents.contains(id)));
        let agent_id = of_sidecar.unwrap_or(&self.agent.agent_id).to_owned();
        let context = SenderContext { agent_id: &agent_id, timestamp: &self.timestamp, approvals: full };
        let MessageActions { mut actions, payloads, last_response } = actions_of(message, context);
        self.add_outcome(&mut actions, outcome, Some(last_response));
        if full {
            self.remember(message, &mut actions, &payloads);
        }
        self.actions.append(&mut actions);
    }

    /// Stores the round-trip metadata of a message.
    fn remember(
        &self,
        message: &UiMessage,
        actions: &mut Vec<Action>,
        payloads: &[(usize, super::to_actions::Payload)],
    ) {
        let message = without_sidecar(message);
        if actions.is_empty() {
            actions.push(
                self.system(roundtrip_metadata::MESSAGE, RawJson::from_value(&*message).unwrap_or_default()),
            );
            return;
        }
        let residue = roundtrip_metadata::of(&message, actions, payloads);
        if let Some(first) = actions.first_mut() {
            roundtrip_metadata::attach(first, residue);
        }
    }

    fn system(&self, action_type: &str, data: RawJson) -> Action {
        Action::System(SystemAction {
            action_type: action_type.into(),
            timestamp: self.timestamp.as_str().into(),
            data,
            ..SystemAction::default()
        })
    }

    /// Adds the finish reason, errors and aborts of the stream. Decisions S1, S7, S17.
    fn add_outcome(&self, actions: &mut Vec<Action>, outcome: &StreamOutcome, last_response: Option<usize>) {
        let reason = outcome.finish_reason.as_deref().and_then(recorded_reason);
        if let (Some(reason), Some(begin)) = (reason, last_response) {
            let answers = actions.iter_mut().skip(begin).rev();
            let answer = answers.into_iter().find_map(|action| match action {
                Action::AssistantMessage(message) => Some(message),
                _ => None,
            });
            if let Some(answer) = answer {
                answer.finish_reason = Some(reason.into());
            }
        }
        let mut open = open_calls(&outcome.errors, actions);
        for (text, call_id) in &outcome.errors {
            // A call has one result.
            let tool_name = call_id.as_deref().and_then(|id| open.remove(id));
            actions.push(match (call_id, tool_name) {
                (Some(id), Some(tool_name)) => self.failed(id, tool_name, text),
                _ => self.system("system.tp.error", object(&[("error_text", RawJson::from_str_value(text))])),
            });
        }
        for reason in &outcome.aborts {
            let reason = reason.as_deref().map(|reason| ("reason", RawJson::from_str_value(reason)));
            actions.push(self.system("system.tp.abort", object(reason.as_slice())));
        }
    }

    /// The result of a call that an error ended.
    fn failed(&self, id: &str, tool_name: InternedStr, text: &str) -> Action {
        Action::ToolReturn(ToolReturnAction {
            timestamp: self.timestamp.as_str().into(),
            tool_call_id: id.into(),
            tool_name,
            status: "error".into(),
            content: RawJson::from_str_value(text),
            ..ToolReturnAction::default()
        })
    }

    fn finish(mut self, first_message: Option<&UiMessage>) -> Thread {
        if self.moved {
            self.actions.sort_by_key(Action::sequence);
        }
        if !self.exact {
            for (action, sequence) in self.actions.iter_mut().zip(1_u64..) {
                action.set_sequence(sequence);
            }
        }
        let first = self.actions.first().map_or(EPOCH, Action::timestamp).to_owned();
        let last = self.actions.last().map_or(EPOCH, Action::timestamp).to_owned();
        let title = self.options.title.clone().unwrap_or_else(|| title(self.actions.iter()));
        let mut thread = match self.described.take() {
            Some(described) => described,
            None => Thread::new(self.id(first_message), first.clone(), title),
        };
        if !self.exact || thread.updated_at.is_empty() {
            thread.updated_at = last;
        }
        if let Some(id) = &self.options.thread_id {
            thread.thread_id.clone_from(id);
        }
        if let Some(title) = &self.options.title {
            thread.title.clone_from(title);
        }
        let is_used = self.actions.iter().any(|action| action.agent_id() == Some(&self.agent.agent_id));
        if (is_used || thread.agents.is_empty())
            && !thread.agents.contains(&self.agent.agent_id)
            && !self.exact_and_empty(&thread)
        {
            if self.agent.created_at.is_empty() {
                self.agent.created_at = first;
            }
            thread.agents.add(self.agent);
        }
        thread.actions = self.actions.into_iter().collect::<Actions>();
        thread
    }

    /// True for a restored thread without agents: it stays without agents.
    fn exact_and_empty(&self, thread: &Thread) -> bool {
        self.exact && thread.agents.is_empty() && self.thread_id.is_some()
    }

    /// The id of the thread: decision 13. The id of a chat is used if it is a UUID; otherwise the thread's id is
    /// derived from it.
    fn id(&self, first_message: Option<&UiMessage>) -> String {
        if let Some(id) = self.options.thread_id.clone().or_else(|| self.thread_id.clone()) {
            return id;
        }
        if let Some(chat) = &self.options.chat_id {
            let derived =
                || Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("threadprotocol:chat:{chat}").as_bytes());
            return Uuid::parse_str(chat).unwrap_or_else(|_| derived()).to_string();
        }
        let first = first_message.map(serde_json::to_vec).and_then(Result::ok).unwrap_or_default();
        Uuid::new_v5(&namespace(), &Sha256::digest(first)).to_string()
    }
}

/// The tools of the calls in `errors` that have no result.
fn open_calls<'e>(
    errors: &'e [(String, Option<String>)],
    actions: &[Action],
) -> HashMap<&'e str, InternedStr> {
    let wanted: HashSet<&str> = errors.iter().filter_map(|(_, call)| call.as_deref()).collect();
    let mut open = HashMap::new();
    if wanted.is_empty() {
        return open;
    }
    for action in actions {
        match action {
            Action::ToolCall(call) => {
                if let Some(id) = wanted.get(call.tool_call_id.as_str()) {
                    open.insert(*id, call.tool_name.clone());
                }
            }
            Action::ToolReturn(returned) => {
                open.remove(returned.tool_call_id.as_str());
            }
            _ => {}
        }
    }
    open
}

/// The message without its sidecar.
fn without_sidecar(message: &UiMessage) -> Cow<'_, UiMessage> {
    let metadata = message.metadata.get().and_then(RawObject::from_raw);
    let Some(mut metadata) = metadata.filter(|metadata| metadata.get(sidecar::MEMBER).is_some()) else {
        return Cow::Borrowed(message);
    };
    metadata.remove(sidecar::MEMBER);
    let mut message = message.clone();
    message.metadata.0 = (!metadata.is_empty()).then(|| RawJson::from_value(&metadata).unwrap_or_default());
    Cow::Owned(message)
}

/// The timestamp that a Pydantic AI server adds to a message.
fn server_timestamp(message: &UiMessage) -> Option<String> {
    let metadata = message.metadata_member("pydantic_ai").and_then(|value| RawObject::from_raw(&value))?;
    let time = metadata.get("timestamp")?.as_string()?;
    time.parse::<Timestamp>().is_ok().then_some(time)
}

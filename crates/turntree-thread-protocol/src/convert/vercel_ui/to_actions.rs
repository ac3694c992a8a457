//! One message to actions.
//!
//! The parts between two `step-start` parts are a response. Texts, reasoning and calls stay in order. Results follow in
//! the order of their calls; results of provider tools directly follow their calls. Data, sources and files after a
//! call come last.
//!
//! Spec: UI message stream, §12; decisions 5 to 8.

use std::collections::HashMap;

use super::content;
use super::message::{STEP_START, UiMessage, UiPart};
use crate::action::{
    Action, AssistantMessageAction, ThinkingAction, ToolCallAction, ToolReturnAction, UserMessageAction,
};
use crate::content::{ContentPart, MessageContent};
use crate::convert::portable::{
    APPROVAL, FILE, SOURCE_DOCUMENT, SOURCE_URL, data_action_type, object, object_arguments, system,
};
use crate::roundtrip_metadata::{is_private, is_private_action};
use turntree_core::json::{RawJson, RawObject};

/// The result that Pydantic AI writes for interrupted calls.
const INTERRUPTED: &str = "The tool call was interrupted before a result was produced.";
/// The result of a denied call without a reason.
pub(super) const DENIED: &str = "The tool call was denied.";
/// The action type of client data whose name is reserved for servers.
const RESERVED: &str = "system.tp.reserved";
/// Members with the signature of reasoning, by priority.
const SIGNATURES: &[&str] =
    &["signature", "redactedData", "reasoningEncryptedContent", "encryptedContent", "thoughtSignature"];

/// Agent, time and detail of the recorded actions.
#[derive(Debug, Clone, Copy)]
pub(super) struct SenderContext<'c> {
    pub agent_id: &'c str,
    pub timestamp: &'c str,
    /// True to record approvals (full profile).
    pub approvals: bool,
}

/// The location of a part's payload in the actions of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// A part of a message's text.
    Text { action: usize, part: Option<usize>, start: usize, length: usize },
    /// The content of a thinking action.
    Thought { action: usize },
    /// The arguments and result of a call.
    Tool { call: usize, result: Option<usize> },
    /// The data of a system action.
    Data { action: usize },
    /// The URL of a content part.
    File { action: usize, part: usize },
}

/// The actions of a message, and the locations of its payloads.
#[derive(Debug, Default)]
pub(super) struct MessageActions {
    pub actions: Vec<Action>,
    pub payloads: Vec<(usize, Payload)>,
    /// The index of the first action of the last response.
    pub last_response: usize,
}

/// An action with the parts whose payloads it holds.
struct ActionDraft {
    action: Action,
    payloads: Vec<(usize, Payload)>,
    /// The part of its call.
    call: Option<usize>,
    /// Actions that precede it.
    before: Vec<Action>,
}

impl ActionDraft {
    fn new(action: Action) -> Self {
        Self { action, payloads: Vec::new(), call: None, before: Vec::new() }
    }

    /// The action of a data part. An action of reserved data holds the whole part.
    fn of_data(action: Action, part: usize) -> Self {
        if action.action_type() == RESERVED {
            Self::new(action)
        } else {
            Self::holding(action, part, Payload::Data { action: 0 })
        }
    }

    fn holding(action: Action, part: usize, payload: Payload) -> Self {
        Self { payloads: vec![(part, payload)], ..Self::new(action) }
    }
}

/// One response.
#[derive(Default)]
struct ResponseDraft {
    head: Vec<ActionDraft>,
    returns: Vec<ActionDraft>,
    late: Vec<ActionDraft>,
    /// The index in `returns` of the first result of each call.
    return_of: HashMap<String, usize>,
    called: bool,
    /// The open assistant message: the next text or file is appended to it.
    answer: Option<OpenMessage>,
}

/// An assistant message under construction: its content and the locations of its payloads.
#[derive(Default)]
struct OpenMessage {
    parts: Vec<ContentPart>,
    payloads: Vec<(usize, Payload)>,
}

/// Converts a message to actions without sequence.
pub(super) fn actions_of(message: &UiMessage, context: SenderContext<'_>) -> MessageActions {
    let mut builder = ActionBuilder {
        context,
        output: MessageActions::default(),
        tools: HashMap::new(),
        response: ResponseDraft::default(),
    };
    match message.role.as_str() {
        "user" => builder.user(message),
        // Decision 9: a system message is part of the configuration of agents.
        "system" => {}
        _ => {
            for (position, part) in message.parts.iter().enumerate() {
                builder.part(position, part);
            }
            builder.flush();
        }
    }
    builder.output
}

struct ActionBuilder<'c> {
    context: SenderContext<'c>,
    output: MessageActions,
    /// The index in the payloads of the call of each part.
    tools: HashMap<usize, usize>,
    response: ResponseDraft,
}

impl ActionBuilder<'_> {
    fn user(&mut self, message: &UiMessage) {
        let (mut parts, mut payloads, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (position, part) in message.parts.iter().enumerate() {
            if let Some(name) = part.kind.strip_prefix("data-") {
                late.push((position, self.data_action(name, part)));
            } else if let Some(content) = content::of_part(part) {
                let payload = match &content {
                    ContentPart::Text(text) => Payload::Text {
                        action: 0,
                        part: Some(parts.len()),
                        start: 0,
                        length: text.text.len(),
                    },
                    _ => Payload::File { action: 0, part: parts.len() },
                };
                payloads.push((position, payload));
                parts.push(content);
            }
        }
        if !parts.is_empty() || late.is_empty() {
            let content = as_content(parts, &mut payloads);
            let action = self.user_message(content);
            self.add(ActionDraft { payloads, ..ActionDraft::new(action) });
        }
        for (position, action) in late {
            self.add(ActionDraft::of_data(action, position));
        }
    }

    fn part(&mut self, position: usize, part: &UiPart) {
        match part.kind.as_str() {
            "text" => return self.text(position, part),
            "file" if !self.response.called => return self.file(position, part),
            _ => self.close_answer(),
        }
        match part.kind.as_str() {
            STEP_START => {
                self.flush();
                self.output.last_response = self.output.actions.len();
            }
            "reasoning" => self.thought(position, part),
            "file" => self.late("file", content::fields(part, FILE)),
            "source-url" => self.portable_action("source_url", content::fields(part, SOURCE_URL)),
            "source-document" => {
                self.portable_action("source_document", content::fields(part, SOURCE_DOCUMENT));
            }
            "custom" => self.portable_action("custom", custom(part)),
            "steering-message" => self.steering(part),
            // The arguments are unknown until they are complete.
            _ if part.is_tool() && part.is("input-streaming") => {}
            _ if part.is_tool() => self.tool(position, part),
            kind => {
                if let Some(name) = kind.strip_prefix("data-") {
                    self.data(position, name, part);
                }
            }
        }
    }

    fn text(&mut self, position: usize, part: &UiPart) {
        let text = part.text.as_deref().unwrap_or_default();
        if text.is_empty() {
            // An empty text has no action and does not separate its neighbours.
            return;
        }
        let answer = self.response.answer.get_or_insert_default();
        let start = if let Some(ContentPart::Text(before)) = answer.parts.last_mut() {
            let start = before.text.len();
            before.text.push_str(text);
            start
        } else {
            answer.parts.push(ContentPart::text(text));
            0
        };
        let piece =
            Payload::Text { action: 0, part: answer.parts.len().checked_sub(1), start, length: text.len() };
        answer.payloads.push((position, piece));
    }

    fn file(&mut self, position: usize, part: &UiPart) {
        let Some(file) = content::of_part(part) else { return };
        let answer = self.response.answer.get_or_insert_default();
        answer.payloads.push((position, Payload::File { action: 0, part: answer.parts.len() }));
        answer.parts.push(file);
    }

    fn close_answer(&mut self) {
        let Some(OpenMessage { parts, mut payloads }) = self.response.answer.take() else { return };
        let content = as_content(parts, &mut payloads);
        let action = Action::AssistantMessage(AssistantMessageAction {
            timestamp: self.context.timestamp.into(),
            agent_id: self.context.agent_id.into(),
            content,
            ..AssistantMessageAction::default()
        });
        self.response.head.push(ActionDraft { payloads, ..ActionDraft::new(action) });
    }

    fn thought(&mut self, position: usize, part: &UiPart) {
        let about = part.provider_metadata.get().and_then(RawObject::from_raw).unwrap_or_default();
        let text = part.text.clone().filter(|text| !text.is_empty());
        if text.is_none() && about.is_empty() {
            return;
        }
        let (provider, signature, thinking_id) = proof(&about);
        let has_text = text.is_some();
        let action = Action::Thinking(ThinkingAction {
            timestamp: self.context.timestamp.into(),
            agent_id: self.context.agent_id.into(),
            content: text,
            signature: signature.map(Into::into),
            provider_name: provider.as_deref().unwrap_or("unknown").into(),
            thinking_id: thinking_id.map(Into::into),
            ..ThinkingAction::default()
        });
        let mut draft = ActionDraft::new(action);
        if has_text {
            draft.payloads.push((position, Payload::Thought { action: 0 }));
        }
        self.response.head.push(draft);
    }

    fn tool(&mut self, position: usize, part: &UiPart) {
        let tool_name = part.tool().unwrap_or_default();
        let call_id = part.tool_call_id.as_deref().unwrap_or_default();
        let call = Action::ToolCall(ToolCallAction {
            timestamp: self.context.timestamp.into(),
            agent_id: self.context.agent_id.into(),
            tool_name: tool_name.into(),
            tool_call_id: call_id.into(),
            args: arguments(part),
            ..ToolCallAction::default()
        });
        self.response.called = true;
        self.response.head.push(ActionDraft {
            call: Some(position),
            ..ActionDraft::holding(call, position, Payload::Tool { call: 0, result: None })
        });
        if self.context.approvals
            && let Some(approval) = &part.approval
        {
            let data = approval_data(call_id, approval);
            let action = self.system("system.tp.approval", data);
            self.response.head.push(ActionDraft::new(action));
        }
        let Some((status, content)) = outcome(part) else { return };
        let provider_ran = part.provider_executed == Some(true);
        let mut results = Vec::new();
        if part.is("output-denied") {
            results.push(ActionDraft::new(self.system("system.tp.tool_denied", about_call(call_id))));
        }
        let returned = Action::ToolReturn(ToolReturnAction {
            timestamp: self.context.timestamp.into(),
            tool_call_id: call_id.into(),
            tool_name: tool_name.into(),
            status: status.into(),
            content,
            ..ToolReturnAction::default()
        });
        results.push(ActionDraft { call: Some(position), ..ActionDraft::new(returned) });
        if provider_ran {
            self.response.head.extend(results);
            return;
        }
        let last = self.response.returns.len() + results.len() - 1;
        self.response.return_of.entry(call_id.to_owned()).or_insert(last);
        self.response.returns.extend(results);
    }

    fn steering(&mut self, part: &UiPart) {
        self.flush();
        let parts: Vec<ContentPart> = part.parts.iter().flatten().filter_map(content::of_part).collect();
        let content = as_content(parts, &mut Vec::new());
        let action = self.user_message(content);
        self.add(ActionDraft::new(action));
    }

    fn data(&mut self, position: usize, name: &str, part: &UiPart) {
        let data = part.data.or_null();
        match name {
            "tp-user_message" => {
                if let Ok(user_action) = data.to::<UserMessageAction>() {
                    self.flush();
                    let timestamp = self.context.timestamp.into();
                    let user_action = UserMessageAction { timestamp, metadata: None, ..user_action };
                    self.add(ActionDraft::new(Action::UserMessage(user_action)));
                    return;
                }
            }
            "tp-action" => {
                if let Ok(mut action) = data.to::<Action>()
                    && !is_private_action(&action)
                {
                    *action.metadata_mut() = None;
                    action.set_timestamp(self.context.timestamp.into());
                    return self.push_data(ActionDraft::new(action));
                }
            }
            "tp-tool_denied" => {
                let call_id = RawObject::from_raw(&data)
                    .and_then(|data| data.get("tool_call_id").and_then(RawJson::as_string));
                let position = call_id.and_then(|id| self.response.return_of.get(&id).copied());
                let action = || system("system.tp.tool_denied", self.context.timestamp, data.clone());
                if let Some(draft) = position.and_then(|position| self.response.returns.get_mut(position)) {
                    draft.before.push(action());
                    return;
                }
            }
            _ => {}
        }
        let action = self.data_action(name, part);
        self.push_data(ActionDraft::of_data(action, position));
    }

    fn data_action(&self, name: &str, part: &UiPart) -> Action {
        let name = data_action_type(name);
        if is_private(&name) {
            // Clients must not create actions that servers trust.
            return self.system(
                RESERVED,
                object(&[("name", RawJson::from_str_value(&name)), ("data", part.data.or_null())]),
            );
        }
        self.system(&name, part.data.or_null())
    }

    fn portable_action(&mut self, name: &str, data: RawJson) {
        let action = self.system(&format!("system.tp.{name}"), data);
        self.push_data(ActionDraft::new(action));
    }

    fn late(&mut self, name: &str, data: RawJson) {
        let action = self.system(&format!("system.tp.{name}"), data);
        self.response.late.push(ActionDraft::new(action));
    }

    /// Adds data: in its position before the first call, otherwise after the results.
    fn push_data(&mut self, draft: ActionDraft) {
        let list = if self.response.called { &mut self.response.late } else { &mut self.response.head };
        list.push(draft);
    }

    fn system(&self, action_type: &str, data: RawJson) -> Action {
        system(action_type, self.context.timestamp, data)
    }

    fn user_message(&self, content: MessageContent) -> Action {
        Action::UserMessage(UserMessageAction {
            timestamp: self.context.timestamp.into(),
            content,
            ..UserMessageAction::default()
        })
    }

    fn flush(&mut self) {
        self.close_answer();
        let response = std::mem::take(&mut self.response);
        for draft in response.head.into_iter().chain(response.returns).chain(response.late) {
            self.add(draft);
        }
    }

    /// Appends a draft and resolves the locations of its payloads.
    fn add(&mut self, draft: ActionDraft) {
        self.output.actions.extend(draft.before);
        let index = self.output.actions.len();
        for (part, mut payload) in draft.payloads {
            match &mut payload {
                Payload::Text { action, .. }
                | Payload::Thought { action }
                | Payload::Data { action }
                | Payload::File { action, .. } => *action = index,
                Payload::Tool { call, .. } => *call = index,
            }
            if matches!(payload, Payload::Tool { .. }) {
                self.tools.entry(part).or_insert(self.output.payloads.len());
            }
            self.output.payloads.push((part, payload));
        }
        if let (Some(part), Action::ToolReturn(_)) = (draft.call, &draft.action) {
            let of_call = self.tools.get(&part).and_then(|position| self.output.payloads.get_mut(*position));
            if let Some((_, Payload::Tool { result, .. })) = of_call {
                *result = Some(index);
            }
        }
        self.output.actions.push(draft.action);
    }
}

/// The content of parts: plain text for a single text part. Its payloads then have no part index.
fn as_content(parts: Vec<ContentPart>, payloads: &mut [(usize, Payload)]) -> MessageContent {
    match <[ContentPart; 1]>::try_from(parts) {
        Ok([ContentPart::Text(text)]) => {
            for (_, payload) in payloads {
                if let Payload::Text { part, .. } = payload {
                    *part = None;
                }
            }
            MessageContent::Text(text.text)
        }
        Ok([part]) => MessageContent::Parts(vec![part]),
        Err(parts) => MessageContent::Parts(parts),
    }
}

/// The arguments of a call as an object.
fn arguments(part: &UiPart) -> RawJson {
    let raw = part.input.get().filter(|value| !value.is_null()).or(part.raw_input.get());
    raw.map_or_else(RawJson::empty_object, object_arguments)
}

/// The status and content of a result; `None` without a result.
fn outcome(part: &UiPart) -> Option<(&'static str, RawJson)> {
    match part.state.as_deref()? {
        "output-available" if part.preliminary == Some(true) => None,
        "output-available" => {
            let output = part.output.or_null();
            let is_interrupted = output.as_string().as_deref() == Some(INTERRUPTED);
            Some((if is_interrupted { "error" } else { "success" }, output))
        }
        "output-error" => {
            Some(("error", RawJson::from_str_value(part.error_text.as_deref().unwrap_or_default())))
        }
        "output-denied" => {
            let reason = part.approval.as_ref().and_then(|approval| approval.get("reason"));
            let reason = reason.and_then(RawJson::as_string).unwrap_or_else(|| DENIED.to_owned());
            Some(("error", RawJson::from_str_value(&reason)))
        }
        _ => None,
    }
}

/// Provider, signature and id of reasoning: from Pydantic AI's metadata, otherwise of the first provider with a
/// signature.
fn proof(about: &RawObject) -> (Option<String>, Option<String>, Option<String>) {
    let text = |object: &RawObject, key: &str| object.get(key).and_then(RawJson::as_string);
    if let Some(user_action) = about.get("pydantic_ai").and_then(RawObject::from_raw) {
        return (
            text(&user_action, "provider_name"),
            text(&user_action, "signature"),
            text(&user_action, "id"),
        );
    }
    let mut providers: Vec<(&str, RawObject)> =
        about.iter().filter_map(|(key, value)| Some((key, RawObject::from_raw(value)?))).collect();
    providers.sort_by_key(|(key, _)| *key);
    let signature = |object: &RawObject| SIGNATURES.iter().find_map(|key| text(object, key));
    let signed = providers.iter().find(|(_, object)| signature(object).is_some());
    match signed.or_else(|| providers.first()) {
        Some((name, object)) => (Some((*name).to_owned()), signature(object), text(object, "itemId")),
        None => (None, None, None),
    }
}

pub(super) fn custom(part: &UiPart) -> RawJson {
    let kind = part.extra.get("kind").cloned().unwrap_or_default();
    let mut data = vec![("kind", kind)];
    if let Some(about) = part.provider_metadata.get() {
        data.push(("provider_metadata", about.clone()));
    }
    object(&data)
}

/// The data of `system.tp.approval`.
fn approval_data(call_id: &str, approval: &RawObject) -> RawJson {
    let mut data = vec![("tool_call_id", RawJson::from_str_value(call_id))];
    for (key, name) in APPROVAL {
        if let Some(value) = approval.get(key) {
            data.push((name, value.clone()));
        }
    }
    object(&data)
}

fn about_call(call_id: &str) -> RawJson {
    object(&[("tool_call_id", RawJson::from_str_value(call_id))])
}

//! Actions to chunks that a real client assembles without error.
//!
//! Some chunks are never written: a result without a call, a second result of a call, members that the client's schema
//! rejects, and chunks of later majors. Such actions become data parts, which all clients accept.
//!
//! Spec: UI message stream, §9, §10, §13.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::chunk::{Chunk, without_prototypes};
use super::message::{Optional, UiPart};
use super::options::Sdk;
use super::to_actions::DENIED;
use super::{attachments, content};
use crate::action::{
    Action, AssistantMessageAction, SystemAction, ThinkingAction, ToolCallAction, ToolReturnAction,
    UserMessageAction,
};
use crate::content::{ContentPart, MessageContent};
use crate::convert::portable::{FILE, Names, SOURCE_DOCUMENT, SOURCE_URL, object};
use crate::roundtrip_metadata::is_private_action;
use turntree_core::intern::InternedStr;
use turntree_core::json::{RawJson, RawObject};

/// The open step.
#[derive(Default)]
struct OpenStep {
    /// True if a call of the step has a result.
    returned: bool,
    /// True if the last action is an assistant message.
    answered: bool,
    /// The calls of the step.
    calls: HashSet<InternedStr>,
}

/// The outcome of the stream.
#[derive(Debug, Default)]
struct StreamEnding {
    finish_reason: Option<String>,
    error: Option<String>,
    #[expect(clippy::option_option, reason = "no abort, an abort without a reason, an abort with a reason")]
    abort: Option<Option<String>>,
}

/// Converts actions to chunks, one action at a time. [`Self::next`] takes the chunks.
///
/// It stores the calls of the stream and the open step, but no chunks.
pub(super) struct ChunkEmitter {
    sdk: Sdk,
    /// Chunks that were not taken yet.
    chunks: VecDeque<Chunk>,
    step: Option<OpenStep>,
    /// The calls of the stream, and whether they have a result.
    calls: HashMap<InternedStr, bool>,
    /// Denied calls whose results follow.
    denied: HashSet<InternedStr>,
    /// The number of results that follow for each call; empty if the thread has no approvals.
    results_ahead: HashMap<InternedStr, usize>,
    blocks: usize,
    ending: StreamEnding,
}

/// Passes the chunks between `start` and `finish` to `take`. All steps are closed.
pub(super) fn body(actions: &[Arc<Action>], sdk: Sdk, mut take: impl FnMut(Chunk)) {
    let mut emitter = ChunkEmitter::new(sdk, actions);
    for (index, action) in actions.iter().enumerate() {
        emitter.action(action, actions.get(index + 1..).unwrap_or_default());
        emitter.chunks.drain(..).for_each(&mut take);
    }
    emitter.close_step();
    emitter.chunks.drain(..).for_each(take);
}

impl ChunkEmitter {
    /// Creates an emitter for these actions.
    pub(super) fn new(sdk: Sdk, actions: &[Arc<Action>]) -> Self {
        Self {
            sdk,
            chunks: VecDeque::new(),
            step: None,
            calls: HashMap::new(),
            denied: HashSet::new(),
            results_ahead: results_by_call(actions),
            blocks: 0,
            ending: StreamEnding::default(),
        }
    }

    /// Takes the next chunk.
    pub(super) fn next(&mut self) -> Option<Chunk> {
        self.chunks.pop_front()
    }

    /// Writes the end of the stream.
    pub(super) fn end(&mut self) {
        let ending = std::mem::take(&mut self.ending);
        if let Some(reason) = ending.abort {
            // Major 5 does not have the reason.
            let reason = reason.filter(|_| self.sdk != Sdk::V5);
            self.chunks.push_back(Chunk { reason, ..Chunk::of("abort") });
            return;
        }
        let failed = ending.error.is_some();
        self.chunks.extend(ending.error.as_deref().map(Chunk::error));
        let finish_reason = if failed { Some("error".to_owned()) } else { ending.finish_reason };
        self.chunks.push_back(Chunk { finish_reason, ..Chunk::of("finish") });
    }

    /// Closes the open step.
    pub(super) fn close_step(&mut self) {
        if self.step.take().is_some() {
            self.chunks.push_back(Chunk::of("finish-step"));
        }
    }

    fn new_step(&mut self) -> &mut OpenStep {
        self.close_step();
        self.chunks.push_back(Chunk::of("start-step"));
        self.step.insert(OpenStep::default())
    }

    /// The step for the next model output: the open one, unless it has results or `ends` is true.
    fn model_step(&mut self, ends: impl Fn(&OpenStep) -> bool) -> &mut OpenStep {
        let is_over = self.step.as_ref().is_none_or(|step| step.returned || ends(step));
        if is_over {
            return self.new_step();
        }
        self.step.get_or_insert_default()
    }

    /// Writes an action; `rest` are the actions after it.
    pub(super) fn action(&mut self, action: &Action, rest: &[Arc<Action>]) {
        self.ending = StreamEnding::default();
        if is_private_action(action) {
            return;
        }
        match action {
            Action::UserMessage(message) => self.user_message(message),
            Action::AssistantMessage(message) => self.answer(message),
            Action::Thinking(thought) => self.thought(thought),
            Action::ToolCall(call) => self.call(call),
            Action::ToolReturn(returned) => self.result(action, returned),
            Action::System(system) => self.system(action, system, rest),
            Action::Other(_) => self.verbatim(action),
        }
        let answers = matches!(action, Action::AssistantMessage(_));
        if let Some(step) = &mut self.step {
            step.answered = answers;
        }
    }

    fn user_message(&mut self, message: &UserMessageAction) {
        self.close_step();
        if self.sdk == Sdk::V7 {
            let parts = attachments::to_parts(message, self.sdk);
            let id = format!("steering-{}", message.sequence);
            self.chunks.push_back(Chunk {
                id: Some(id),
                parts: Some(parts),
                ..Chunk::of("steering-message")
            });
            return;
        }
        let mut user_action = message.clone();
        user_action.metadata = None;
        self.data("tp-user_message", &RawJson::from_value(&user_action).unwrap_or_default());
    }

    fn answer(&mut self, message: &AssistantMessageAction) {
        let has_files = matches!(&message.content, MessageContent::Parts(parts)
            if parts.iter().any(|part| part.as_text().is_none()));
        // A file after a call would be taken for a file of the tool.
        self.model_step(|step| step.answered || (has_files && !step.calls.is_empty()));
        match &message.content {
            MessageContent::Text(text) => self.text(text),
            MessageContent::Parts(parts) => {
                for part in parts {
                    self.content(part);
                }
            }
        }
        self.ending.finish_reason = message.finish_reason.as_deref().and_then(finish_reason);
    }

    fn content(&mut self, part: &ContentPart) {
        if let Some(text) = part.as_text() {
            return self.text(text);
        }
        if let Some(UiPart { url, media_type, .. }) = content::to_part(part) {
            self.chunks.push_back(Chunk { url, media_type, ..Chunk::of("file") });
        }
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let id = self.block_id("text");
        self.chunks.push_back(Chunk::block("text-start", &id));
        self.chunks.push_back(Chunk { delta: Some(text.to_owned()), ..Chunk::block("text-delta", &id) });
        self.chunks.push_back(Chunk::block("text-end", &id));
    }

    fn block_id(&mut self, kind: &str) -> String {
        self.blocks += 1;
        format!("{kind}-{}", self.blocks)
    }

    fn thought(&mut self, thought: &ThinkingAction) {
        self.model_step(|_| false);
        let id = self.block_id("reasoning");
        let mut about = Vec::new();
        let mut say = |key, value: Option<&str>| {
            about.extend(value.map(|value| (key, RawJson::from_str_value(value))));
        };
        say("id", thought.thinking_id.as_deref());
        say("signature", thought.signature.as_deref());
        say("provider_name", Some(&thought.provider_name));
        let about = Optional::from(object(&[("pydantic_ai", object(&about))]));
        let piece = |kind| Chunk { provider_metadata: about.clone(), ..Chunk::block(kind, &id) };
        self.chunks.push_back(piece("reasoning-start"));
        if let Some(text) = thought.content.clone().filter(|text| !text.is_empty()) {
            self.chunks.push_back(Chunk { delta: Some(text), ..Chunk::block("reasoning-delta", &id) });
        }
        self.chunks.push_back(piece("reasoning-end"));
    }

    fn call(&mut self, call: &ToolCallAction) {
        let id = &call.tool_call_id;
        let step = self.model_step(|step| step.calls.contains(id));
        step.calls.insert(id.clone());
        self.calls.insert(id.clone(), false);
        let input = clean(&call.args);
        let tool_name = Some(call.tool_name.to_string());
        self.chunks.push_back(Chunk { tool_name: tool_name.clone(), ..Chunk::tool("tool-input-start", id) });
        let text = input.get().to_owned();
        self.chunks.push_back(Chunk { input_text_delta: Some(text), ..Chunk::tool("tool-input-delta", id) });
        self.chunks.push_back(Chunk {
            tool_name,
            input: input.into(),
            ..Chunk::tool("tool-input-available", id)
        });
    }

    fn result(&mut self, action: &Action, returned: &ToolReturnAction) {
        let id = &returned.tool_call_id;
        if let Some(ahead) = self.results_ahead.get_mut(id) {
            *ahead -= 1;
        }
        match self.calls.get_mut(id) {
            Some(answered) if !*answered => *answered = true,
            // The client does not know the call, or would overwrite its result.
            _ => return self.verbatim(action),
        }
        if let Some(step) = &mut self.step {
            step.returned = true;
        }
        let text = returned.content.as_string();
        if self.denied.remove(id) {
            self.denial(id, text.as_deref().unwrap_or(returned.content.get()));
            return;
        }
        let chunk = if returned.status == "success" {
            Chunk { output: clean(&returned.content).into(), ..Chunk::tool("tool-output-available", id) }
        } else {
            let text = text.unwrap_or_else(|| returned.content.get().to_owned());
            Chunk { error_text: Some(text), ..Chunk::tool("tool-output-error", id) }
        };
        self.chunks.push_back(chunk);
    }

    /// Writes the denial of a call. Before major 7 a stream cannot contain a human response, and a denial without one
    /// is invalid: the denial becomes an error, with a data part that identifies it.
    fn denial(&mut self, id: &str, reason: &str) {
        if self.sdk != Sdk::V7 {
            let error_text = Some(reason.to_owned());
            self.chunks.push_back(Chunk { error_text, ..Chunk::tool("tool-output-error", id) });
            self.data("tp-tool_denied", &object(&[("tool_call_id", RawJson::from_str_value(id))]));
            return;
        }
        let approval_id = Some(id.to_owned());
        self.chunks.push_back(Chunk {
            approval_id: approval_id.clone(),
            ..Chunk::tool("tool-approval-request", id)
        });
        self.chunks.push_back(Chunk {
            approval_id,
            approved: Some(false),
            reason: Some(reason.to_owned()).filter(|reason| reason != DENIED),
            ..Chunk::of("tool-approval-response")
        });
        self.chunks.push_back(Chunk::tool("tool-output-denied", id));
    }

    fn system(&mut self, action: &Action, system: &SystemAction, rest: &[Arc<Action>]) {
        let name = system.action_type.strip_prefix("system.").unwrap_or_default();
        let Some(event) = name.strip_prefix("tp.") else {
            if name.is_empty() || name.starts_with("tp-") {
                return self.verbatim(action);
            }
            return self.data(name, &system.data);
        };
        let data = RawObject::from_raw(&system.data).unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(RawJson::as_string);
        match event {
            "tool_denied" if text("tool_call_id").is_some_and(|id| self.is_answered_next(&id, rest)) => {
                self.denied.extend(text("tool_call_id").map(InternedStr::from));
            }
            "file" if self.step.as_ref().is_some_and(|step| !step.calls.is_empty()) => {
                self.known("file", FILE, &["media_type", "url"], event, system);
            }
            "source_url" => self.known("source-url", SOURCE_URL, &["source_id", "url"], event, system),
            "source_document" => {
                let required = &["source_id", "media_type", "title"];
                self.known("source-document", SOURCE_DOCUMENT, required, event, system);
            }
            "custom" if self.sdk == Sdk::V7 && text("kind").is_some_and(|kind| kind.contains('.')) => {
                let about = Optional(data.get("provider_metadata").map(clean));
                self.chunks.push_back(Chunk {
                    custom_kind: text("kind"),
                    provider_metadata: about,
                    ..Chunk::of("custom")
                });
            }
            "approval" => self.approval(&data, system),
            _ => {
                self.data(&format!("tp-{event}"), &system.data);
                if rest.is_empty() && event == "error" {
                    self.ending.error = text("error_text");
                }
                if rest.is_empty() && event == "abort" {
                    self.ending.abort = Some(text("reason"));
                }
            }
        }
    }

    /// True if the next action is the result of this open call.
    fn is_answered_next(&self, id: &str, rest: &[Arc<Action>]) -> bool {
        self.calls.get(id) == Some(&false)
            && matches!(rest.first().map(AsRef::as_ref), Some(Action::ToolReturn(returned)) if returned.tool_call_id == id)
    }

    /// Writes an event as a chunk of its own type, if it has the required members.
    fn known(&mut self, kind: &str, names: Names, required: &[&str], event: &str, system: &SystemAction) {
        let data = RawObject::from_raw(&system.data).unwrap_or_default();
        let is_text = |name: &&str| data.get(name).is_some_and(RawJson::is_string);
        let known = |(name, value): (&str, &RawJson)| {
            value.is_string() && names.iter().any(|(_, known)| *known == name)
        };
        if !required.iter().all(is_text)
            || !data.iter().all(known)
            || (kind == "file" && data.get("filename").is_some())
        {
            return self.data(&format!("tp-{event}"), &system.data);
        }
        let mut chunk = Chunk::of(kind);
        for (member, name) in names {
            let value = data.get(name).and_then(RawJson::as_string);
            match *member {
                "sourceId" => chunk.source_id = value,
                "url" => chunk.url = value,
                "title" => chunk.title = value,
                "mediaType" => chunk.media_type = value,
                _ => chunk.filename = value,
            }
        }
        self.chunks.push_back(chunk);
    }

    fn approval(&mut self, data: &RawObject, system: &SystemAction) {
        let text = |key: &str| data.get(key).and_then(RawJson::as_string);
        let (call_id, approval_id) = (text("tool_call_id"), text("approval_id"));
        let approved = data.get("approved").and_then(|value| value.to::<bool>().ok());
        let waits = call_id.as_deref().is_some_and(|id| self.calls.get(id) == Some(&false));
        let ahead = call_id.as_deref().and_then(|id| self.results_ahead.get(id));
        let has_result = ahead.is_some_and(|ahead| *ahead > 0);
        // A rejected call has no result, and only major 7 accepts a response.
        let fits = match (self.sdk, approved) {
            (Sdk::V5, _) | (Sdk::V6, Some(_)) => false,
            (Sdk::V6, None) | (Sdk::V7, None | Some(false)) => !has_result,
            (Sdk::V7, Some(true)) => true,
        };
        let (Some(call_id), Some(approval_id), true) = (call_id, approval_id, waits && fits) else {
            return self.data("tp-approval", &system.data);
        };
        let approval_id = Some(approval_id);
        let later = self.sdk == Sdk::V7;
        self.chunks.push_back(Chunk {
            approval_id: approval_id.clone(),
            reason: text("request_reason").filter(|_| later),
            is_automatic: data.get("is_automatic").and_then(|value| value.to().ok()).filter(|_| later),
            ..Chunk::tool("tool-approval-request", &call_id)
        });
        if approved.is_some() {
            self.chunks.push_back(Chunk {
                approval_id,
                approved,
                reason: text("reason"),
                ..Chunk::of("tool-approval-response")
            });
        }
    }

    fn data(&mut self, name: &str, data: &RawJson) {
        self.chunks.push_back(Chunk::data(name, clean(data)));
    }

    /// Writes an action that no chunk can represent, as data.
    fn verbatim(&mut self, action: &Action) {
        let mut action = action.clone();
        *action.metadata_mut() = None;
        self.data("tp-action", &RawJson::from_value(&action).unwrap_or_default());
    }
}

/// The number of results of each call, if there are approvals.
fn results_by_call(actions: &[Arc<Action>]) -> HashMap<InternedStr, usize> {
    let mut results = HashMap::new();
    if actions.iter().any(|action| action.action_type() == "system.tp.approval") {
        for action in actions {
            if let Action::ToolReturn(returned) = &**action {
                *results.entry(returned.tool_call_id.clone()).or_default() += 1;
            }
        }
    }
    results
}

fn clean(value: &RawJson) -> RawJson {
    without_prototypes(value).unwrap_or_else(|| value.clone())
}

/// The finish reason of the stream.
fn finish_reason(reason: &str) -> Option<String> {
    let reason = match reason {
        "stop" | "length" => reason,
        "content_filter" => "content-filter",
        "tool_call" => "tool-calls",
        _ => return None,
    };
    Some(reason.to_owned())
}

/// The finish reason of ThreadProtocol; `None` for reasons that it does not have.
pub(super) fn recorded_reason(reason: &str) -> Option<String> {
    let reason = match reason {
        "stop" | "length" => reason,
        "content-filter" => "content_filter",
        "tool-calls" => "tool_call",
        _ => return None,
    };
    Some(reason.to_owned())
}

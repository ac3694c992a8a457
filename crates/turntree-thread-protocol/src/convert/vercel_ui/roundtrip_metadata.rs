//! `metadata.ui`: fields of a message that no action holds, stored in its first action: id, metadata, order of parts,
//! titles, states, provider metadata. Decision 2.
//!
//! Texts, arguments, results and files are not stored twice: the `$` member of a part refers to the action that holds
//! them.

use super::message::{UiMessage, UiPart};
use super::to_actions::Payload;
use crate::action::Action;
use crate::content::MessageContent;
use crate::convert::portable::url_of;
use turntree_core::json::{Extra, RawJson, RawObject, json_object};

/// The namespace in the metadata of actions.
pub(super) const NAMESPACE: &str = "ui";
/// The type of the action of a message without other actions.
pub(super) const MESSAGE: &str = "system.ui.message";

json_object! {
    /// The value of `metadata.ui`.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub(super) struct RoundtripMetadata {
        /// The number of actions of the message.
        pub actions: u64 = "actions",
        /// The message without its payloads.
        pub message: RawJson = "message",
        /// True if the message includes its payloads, because it could not be restored without them.
        pub whole: Option<bool> = "whole",
    }
}

json_object! {
    /// The location of a part's payload.
    #[derive(Debug, Clone, PartialEq, Default)]
    struct Reference {
        /// The action; for tools, the call.
        pub action: Option<u64> = "a",
        /// The content part.
        pub part: Option<u64> = "c",
        /// The first byte of the text.
        pub start: Option<u64> = "s",
        /// The length of the text in bytes.
        pub length: Option<u64> = "l",
        /// The result.
        pub result: Option<u64> = "r",
    }
}

/// Builds the round-trip metadata of a message with these actions.
pub(super) fn of(message: &UiMessage, actions: &[Action], payloads: &[(usize, Payload)]) -> RawJson {
    let count = u64::try_from(actions.len()).unwrap_or(u64::MAX);
    let residue = |message: RawJson, whole: Option<bool>| RoundtripMetadata {
        actions: count,
        message,
        whole,
        extra: Extra::new(),
    };
    let mut skeleton = message.clone();
    for (index, payload) in payloads {
        if let Some(part) = skeleton.parts.get_mut(*index) {
            take_out(part, *payload, actions);
        }
    }
    let short = residue(RawJson::from_value(&skeleton).unwrap_or_default(), None);
    let wanted = serde_json::to_string(message).unwrap_or_default();
    let actions: Vec<&Action> = actions.iter().collect();
    let comes_back = rebuild(&short, &actions)
        .is_some_and(|back| serde_json::to_string(&back).is_ok_and(|back| back == wanted));
    let retained = if comes_back {
        short
    } else {
        residue(RawJson::from_value(message).unwrap_or_default(), Some(true))
    };
    RawJson::from_value(&retained).unwrap_or_default()
}

fn take_out(part: &mut UiPart, payload: Payload, actions: &[Action]) {
    let number = |index: usize| u64::try_from(index).ok();
    let mut reference = Reference::default();
    match payload {
        Payload::Text { action, part: content, start, length } => {
            reference.action = number(action);
            reference.part = content.and_then(number);
            let whole = text_at(actions.get(action), content).map(str::len);
            if start != 0 || whole != Some(length) {
                reference.start = number(start);
                reference.length = number(length);
            }
            part.text = None;
        }
        Payload::Thought { action } => {
            reference.action = number(action);
            part.text = None;
        }
        Payload::Data { action } => {
            reference.action = number(action);
            part.data.0 = None;
        }
        Payload::File { action, part: content } => {
            reference.action = number(action);
            reference.part = number(content);
            part.url = None;
        }
        Payload::Tool { call, result } => {
            let same = |value: Option<&RawJson>, held: &RawJson| {
                value.is_some_and(|value| value.get() == held.get())
            };
            if let Some(Action::ToolCall(action)) = actions.get(call)
                && same(part.input.get(), &action.args)
            {
                reference.action = number(call);
                part.input.0 = None;
            }
            if let Some(Action::ToolReturn(action)) = result.and_then(|result| actions.get(result)) {
                let error = part.error_text.as_deref().map(RawJson::from_str_value);
                if same(part.output.get(), &action.content) {
                    reference.result = result.and_then(number);
                    part.output.0 = None;
                } else if same(error.as_ref(), &action.content) {
                    reference.result = result.and_then(number);
                    part.error_text = None;
                }
            }
        }
    }
    if let Ok(reference) = RawJson::from_value(&reference) {
        part.extra.insert("$", reference);
    }
}

fn text_at(action: Option<&Action>, part: Option<usize>) -> Option<&str> {
    let content = match action? {
        Action::AssistantMessage(action) => &action.content,
        Action::UserMessage(action) => &action.content,
        _ => return None,
    };
    match (content, part) {
        (MessageContent::Text(text), None) => Some(text),
        (MessageContent::Parts(parts), Some(part)) => parts.get(part)?.as_text(),
        _ => None,
    }
}

/// The round-trip metadata of an action.
pub(super) fn in_action(action: &Action) -> Option<RoundtripMetadata> {
    action.metadata()?.get(NAMESPACE)?.to().ok()
}

/// Restores a message from its metadata and actions; `None` if they do not match any more.
pub(super) fn rebuild(residue: &RoundtripMetadata, actions: &[&Action]) -> Option<UiMessage> {
    let mut message: UiMessage = residue.message.to().ok()?;
    if residue.whole == Some(true) {
        return Some(message);
    }
    for part in &mut message.parts {
        let Some(reference) = take_reference(part)? else { continue };
        put_back(part, &reference, actions)?;
    }
    Some(message)
}

/// `None` if a reference cannot be resolved.
#[expect(clippy::option_option, reason = "failure, absence and presence")]
fn take_reference(part: &mut UiPart) -> Option<Option<Reference>> {
    let Some(raw) = part.extra.get("$").cloned() else { return Some(None) };
    let retained: Vec<(String, RawJson)> = part
        .extra
        .iter()
        .filter(|(key, _)| *key != "$")
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    part.extra = Extra::new();
    for (key, value) in retained {
        part.extra.insert(key, value);
    }
    raw.to().ok().map(Some)
}

fn put_back(part: &mut UiPart, reference: &Reference, actions: &[&Action]) -> Option<()> {
    let index = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let action = index(reference.action).and_then(|index| actions.get(index).copied());
    let content = index(reference.part);
    match part.kind.as_str() {
        "text" => {
            let text = text_at(action, content)?;
            let piece = match (index(reference.start), index(reference.length)) {
                (Some(start), Some(length)) => text.get(start..start.checked_add(length)?)?,
                _ => text,
            };
            part.text = Some(piece.to_owned());
        }
        "reasoning" => {
            let Some(Action::Thinking(thought)) = action else { return None };
            part.text = Some(thought.content.clone().unwrap_or_default());
        }
        "file" => {
            let parts = match action? {
                Action::AssistantMessage(message) => &message.content,
                Action::UserMessage(message) => &message.content,
                _ => return None,
            };
            let MessageContent::Parts(parts) = parts else { return None };
            part.url = Some(url_of(parts.get(content?)?)?);
        }
        kind if kind.starts_with("data-") => {
            let Some(Action::System(system)) = action else { return None };
            part.data = system.data.clone().into();
        }
        _ => return tool_back(part, reference, actions),
    }
    Some(())
}

fn tool_back(part: &mut UiPart, reference: &Reference, actions: &[&Action]) -> Option<()> {
    let at = |number: u64| usize::try_from(number).ok().and_then(|index| actions.get(index).copied());
    let is_same = |id: &str| part.tool_call_id.as_deref().unwrap_or_default() == id;
    if let Some(index) = reference.action {
        let Some(Action::ToolCall(call)) = at(index) else { return None };
        is_same(&call.tool_call_id).then_some(())?;
        part.input = call.args.clone().into();
    }
    if let Some(index) = reference.result {
        let is_same = |id: &str| part.tool_call_id.as_deref().unwrap_or_default() == id;
        let Some(Action::ToolReturn(returned)) = at(index) else { return None };
        is_same(&returned.tool_call_id).then_some(())?;
        if part.is("output-available") {
            part.output = returned.content.clone().into();
        } else {
            part.error_text =
                Some(returned.content.as_string().unwrap_or_else(|| returned.content.get().to_owned()));
        }
    }
    Some(())
}

/// Stores round-trip metadata in an action.
pub(super) fn attach(action: &mut Action, residue: RawJson) {
    let metadata: &mut RawObject = action.metadata_mut().get_or_insert_default();
    metadata.insert(NAMESPACE, residue);
}

//! Messages of clients in the form that one major of the SDK accepts.
//!
//! An imported message may have parts of another major, or parts that only lenient readers accept. A part that the
//! major does not have becomes a data part, which all majors accept, so that no content is lost.
//!
//! Spec: UI message stream, §5, §7, §9.

use super::content;
use super::message::{DYNAMIC_TOOL, Optional, STEP_START, UiMessage, UiPart};
use super::options::Sdk;
use super::to_actions::custom;
use crate::action::UserMessageAction;
use crate::content::{ContentPart, MessageContent};
use crate::convert::portable::{FILE, SOURCE_DOCUMENT, SOURCE_URL};
use turntree_core::json::{RawJson, RawObject};

/// Changes a message to what a major accepts.
pub(super) fn adapt(message: &mut UiMessage, sdk: Sdk) {
    for part in &mut message.parts {
        adapt_part(part, sdk);
    }
    if message.parts.is_empty() && message.role != "assistant" {
        message.parts.push(UiPart { text: Some(String::new()), ..UiPart::of("text") });
    }
}

fn adapt_part(part: &mut UiPart, sdk: Sdk) {
    match part.kind.as_str() {
        "text" | "reasoning" => {
            part.text.get_or_insert_default();
            part.state = part.state.take().filter(|state| matches!(state.as_str(), "streaming" | "done"));
        }
        STEP_START => {}
        "file" => {
            let is_complete = part.url.is_some() && part.media_type.is_some();
            let is_stored = part.url.as_deref() == Some("") && sdk != Sdk::V7;
            if !is_complete || is_stored {
                *part = data("tp-file", described(part, content::fields(part, FILE)));
            }
        }
        "source-url" if part.source_id.is_none() || part.url.is_none() => {
            *part = data("tp-source_url", content::fields(part, SOURCE_URL));
        }
        "source-document"
            if part.source_id.is_none() || part.media_type.is_none() || part.title.is_none() =>
        {
            *part = data("tp-source_document", content::fields(part, SOURCE_DOCUMENT));
        }
        "custom" if sdk != Sdk::V7 => *part = data("tp-custom", custom(part)),
        "steering-message" if sdk != Sdk::V7 => *part = data("tp-user_message", steering(part)),
        "reasoning-file" if sdk != Sdk::V7 => *part = data("tp-reasoning_file", content::fields(part, FILE)),
        "source-url" | "source-document" | "custom" | "steering-message" | "reasoning-file" => {}
        kind if kind.starts_with("data-") => {
            part.data.0.get_or_insert_default();
        }
        _ if part.is_tool() => adapt_tool(part, sdk),
        _ => *part = data("tp-part", RawJson::from_value(part).unwrap_or_default()),
    }
}

fn data(name: &str, data: RawJson) -> UiPart {
    UiPart { data: data.into(), ..UiPart::of(format!("data-{name}")) }
}

/// The data of a file, with the ids of the file at its providers.
fn described(part: &UiPart, fields: RawJson) -> RawJson {
    let Some(ids) = part.extra.get(content::REFERENCE) else { return fields };
    let mut fields = RawObject::from_raw(&fields).unwrap_or_default();
    fields.insert("provider_reference", ids.clone());
    RawJson::from_value(&fields).unwrap_or_default()
}

fn steering(part: &UiPart) -> RawJson {
    let mut parts: Vec<ContentPart> = part.parts.iter().flatten().filter_map(content::of_part).collect();
    let content = match parts.as_mut_slice() {
        [ContentPart::Text(only)] => MessageContent::Text(std::mem::take(&mut only.text)),
        _ => MessageContent::Parts(parts),
    };
    RawJson::from_value(&UserMessageAction { content, ..UserMessageAction::default() }).unwrap_or_default()
}

/// The members of a tool part that each state requires and forbids.
fn adapt_tool(part: &mut UiPart, sdk: Sdk) {
    let state = part.state.clone().unwrap_or_default();
    let has_approval = matches!(&*state, "approval-requested" | "approval-responded" | "output-denied");
    let dynamic_name = part.tool_name.take_if(|_| part.kind == DYNAMIC_TOOL);
    if let Some(name) = dynamic_name {
        // Dynamic tools of major 5 have no approvals.
        if sdk == Sdk::V5 && has_approval {
            part.kind = format!("tool-{name}");
        } else {
            part.tool_name = Some(name);
        }
    }
    part.tool_call_id.get_or_insert_default();
    match &*state {
        "input-streaming" => {}
        "input-available" | "approval-requested" | "approval-responded" | "output-available"
        | "output-denied" => {
            part.input.0.get_or_insert_default();
        }
        "output-error" => {
            part.error_text.get_or_insert_default();
        }
        _ => {
            *part = data("tp-part", RawJson::from_value(part).unwrap_or_default());
            return;
        }
    }
    if state == "output-available" {
        part.output.0.get_or_insert_default();
    } else {
        part.output = Optional(None);
    }
    if state != "output-error" {
        part.error_text = None;
    }
    adapt_approval(part, &state);
}

/// The approval of a tool part: whether it is required, allowed or forbidden depends on the state.
fn adapt_approval(part: &mut UiPart, state: &str) {
    let is_answered = match state {
        "approval-requested" => None,
        "approval-responded" => Some(None),
        "output-denied" => Some(Some(false)),
        "output-available" | "output-error" if part.approval.is_some() => Some(Some(true)),
        _ => {
            part.approval = None;
            return;
        }
    };
    let mut approval = part.approval.take().unwrap_or_default();
    if !approval.get("id").is_some_and(RawJson::is_string) {
        approval.insert("id", RawJson::from_str_value(part.tool_call_id.as_deref().unwrap_or_default()));
    }
    let given = approval.get("approved").and_then(|approved| approved.to::<bool>().ok());
    match is_answered {
        None => {
            approval.remove("approved");
            if let Some(reason) = approval.remove("reason")
                && approval.get("requestReason").is_none()
            {
                approval.insert("requestReason", reason);
            }
        }
        Some(required) => {
            let approved = required.or(given).unwrap_or(false);
            if given != Some(approved) {
                approval.insert("approved", RawJson::from_value(&approved).unwrap_or_default());
            }
            if approval.get("reason").is_some_and(|reason| !reason.is_string()) {
                approval.remove("reason");
            }
        }
    }
    part.approval = Some(approval);
}

//! Why the model stopped, read from a message: its metadata has the vendor's word.
//!
//! A turn keeps the message and not the response, so the reason is known for turns of any age, also after a reload.
//!
//! Spec: UPP-1.2 §14, §19.0

use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Body, Message};

use crate::request::{ModelResponse, StopReason};

/// The namespace of turntree in the metadata of messages.
const NAMESPACE: &str = "turntree";

/// The member of the metadata with a reason that the vendor's own members do not have.
const MEMBER: &str = "stopReason";

/// The members of vendors' metadata with their words, in the order in which they are read.
const VENDOR_MEMBERS: [&str; 6] =
    ["incomplete_reason", "stop_reason", "finish_reason", "finishReason", "done_reason", "status"];

/// Why the model stopped: `end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `content_filter`, `refusal`,
/// `pause_turn` or `error`.
///
/// ```
/// use turntree_core::message::Message;
/// use turntree_upp::stop_reason;
///
/// let text = r#"{"id":"m","type":"assistant","content":[],"timestamp":"2026-01-01T00:00:00Z","metadata":{"anthropic":{"stop_reason":"refusal"}}}"#;
/// let message: Message = serde_json::from_str(text)?;
/// assert_eq!(stop_reason::of_message(&message), "refusal");
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn of_message(message: &Message) -> &'static str {
    let metadata = message.metadata.as_ref();
    let own = metadata.and_then(|metadata| RawObject::from_raw(metadata.get(NAMESPACE)?));
    let own = own.and_then(|own| own.get(MEMBER)?.as_string());
    let spoken = own.as_deref().and_then(word_of).or_else(|| {
        let namespaces = metadata.into_iter().flat_map(RawObject::iter);
        let mut namespaces = namespaces.filter_map(|(_, members)| RawObject::from_raw(members));
        namespaces.find_map(|members| {
            let words = VENDOR_MEMBERS.iter().filter_map(|name| members.get(name)?.as_string());
            words.into_iter().find_map(|word| word_of(&word))
        })
    });
    let has_calls =
        matches!(&message.body, Body::Assistant { tool_calls: Some(calls), .. } if !calls.is_empty());
    match spoken {
        None | Some("end_turn") if has_calls => "tool_use",
        Some("tool_use") if !has_calls => "end_turn",
        spoken => spoken.unwrap_or("end_turn"),
    }
}

/// The vendor's own word and its explanation, such as `OTHER` and `MALFORMED_FUNCTION_CALL: …`; empty if there is none.
pub fn vendor_word(message: &Message) -> String {
    let namespaces = message.metadata.iter().flat_map(RawObject::iter);
    let mut vendors = namespaces.filter(|(name, _)| *name != NAMESPACE);
    let found = vendors.find_map(|(_, members)| {
        let members = RawObject::from_raw(members)?;
        let word = VENDOR_MEMBERS.iter().find_map(|name| members.get(name)?.as_string())?;
        let explained = members.get("finishMessage").and_then(RawJson::as_string);
        Some(explained.map_or(word.clone(), |explained| format!("{word}: {explained}")))
    });
    found.unwrap_or_default()
}

/// True if the answer was paused and is continued when the model is called again with it. A response that still waits in
/// a queue of the vendor is not.
pub fn is_continuable(message: &Message) -> bool {
    let namespaces = message.metadata.iter().flat_map(RawObject::iter);
    let states =
        namespaces.filter_map(|(_, members)| RawObject::from_raw(members)?.get("status")?.as_string());
    !states.into_iter().any(|state| matches!(state.as_str(), "queued" | "in_progress"))
}

/// The word of UPP for a vendor's word.
fn word_of(vendor: &str) -> Option<&'static str> {
    Some(match vendor.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "completed" | "eos" | "finish" => "end_turn",
        "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
            "max_tokens"
        }
        "stop_sequence" => "stop_sequence",
        "tool_calls" | "tool_use" | "function_call" => "tool_use",
        "content_filter"
        | "content_filtered"
        | "guardrail_intervened"
        | "safety"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "image_safety"
        | "image_prohibited_content"
        | "image_recitation"
        | "language"
        | "model_armor" => "content_filter",
        "refusal" => "refusal",
        "pause_turn" | "queued" | "in_progress" => "pause_turn",
        "error"
        | "failed"
        | "insufficient_system_resource"
        | "malformed_function_call"
        | "malformed_response"
        | "malformed_model_output"
        | "malformed_tool_use"
        | "unexpected_tool_call"
        | "too_many_tool_calls"
        | "missing_thought_signature" => "error",
        _ => return None,
    })
}

/// Stores the reason of a response in its message, if the vendor's own members do not have it: a refusal that is a part
/// of the content.
pub(crate) fn record(response: &mut ModelResponse, filtered: &str) {
    let word = match response.stop_reason {
        StopReason::ContentFilter => filtered,
        other => other.as_str(),
    };
    let known = of_message(&response.message);
    let is_filtered = response.stop_reason == StopReason::ContentFilter;
    if known == word || (is_filtered && matches!(known, "content_filter" | "refusal")) {
        return;
    }
    if !is_filtered && !matches!(word, "max_tokens" | "stop_sequence" | "pause_turn" | "error") {
        return;
    }
    let message = std::sync::Arc::make_mut(&mut response.message);
    let metadata = message.metadata.get_or_insert_default();
    let mut own = metadata.get(NAMESPACE).and_then(RawObject::from_raw).unwrap_or_default();
    own.insert(MEMBER, RawJson::from_str_value(word));
    metadata.insert(NAMESPACE, RawJson::from_value(&own).unwrap_or_default());
}

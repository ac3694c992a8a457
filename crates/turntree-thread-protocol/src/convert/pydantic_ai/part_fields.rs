//! The fields of a part that follow from its action.
//!
//! [`expected`] serves both directions: the encoder stores the differences from it, the decoder starts from it.
//!
//! Spec: Pydantic AI messages, §3.1.

use super::coerce;
use super::content_items;
use super::field_layout::{Expected, FieldLayouts, class_name};
use super::model::Value;
use super::roundtrip_metadata::ItemMetadata;
use super::usage::USAGE;
use crate::action::{Action, AssistantMessageAction, SystemAction, UserMessageAction};
use crate::content::{ContentPart, MessageContent};
use turntree_core::json::RawJson;

/// The action type of a retry without a tool call.
pub(super) const RETRY: &str = "system.tp.retry";
/// The action type beside the return of a denied call.
pub(super) const DENIED: &str = "system.tp.tool_denied";
/// The action type of a message without other actions.
pub(super) const MESSAGE: &str = "system.pydantic_ai.message";
/// The action type of instructions that change, in the portable profile.
pub(super) const INSTRUCTIONS: &str = "system.pydantic_ai.instructions";
/// The action type of a part without an action type of its own.
pub(super) const PART: &str = "system.pydantic_ai.part";

/// The `part_kind` of a return of a provider's tool. It is in the response, after its call.
pub(super) const NATIVE_RETURN: &str = "builtin-tool-return";

/// Parts that are stored verbatim under an action type of their own.
pub(super) const VERBATIM: &[(&str, &str)] = &[
    ("system-prompt", "system.pydantic_ai.system_prompt"),
    ("instruction-delta", "system.pydantic_ai.instruction_delta"),
    ("instruction-baseline", "system.pydantic_ai.instruction_baseline"),
];

/// Parts whose fields become the data of an action. The type is the name of the stream chunk with the same data.
pub(super) const DATA: &[(&str, &str)] = &[
    ("compaction", "system.compaction"),
    ("tool-availability-delta", "system.tool-availability-delta"),
    ("capability-load-delta", "system.capability-load-delta"),
    ("model-settings-delta", "system.model-settings-delta"),
];

/// True if the data of the action is a whole part.
pub(super) fn is_verbatim(action_type: &str) -> bool {
    action_type == PART || VERBATIM.iter().any(|(_, name)| *name == action_type)
}

/// True if the action represents no part.
pub(super) fn is_annotation(action_type: &str) -> bool {
    matches!(action_type, DENIED | USAGE | MESSAGE | INSTRUCTIONS)
}

/// The class of an action's part if the metadata does not name one.
pub(super) fn default_class(action: &Action) -> &'static str {
    match action {
        Action::UserMessage(_) => "user-prompt",
        Action::AssistantMessage(_) => "text",
        Action::Thinking(_) => "thinking",
        Action::ToolCall(_) => "tool-call",
        Action::ToolReturn(_) => "tool-return",
        Action::System(_) | Action::Other(_) => "retry-feedback",
    }
}

/// The expected value of a part's field, given its action. [`super::arguments`] has the arguments that are texts.
pub(super) fn expected<'t>(action: &'t Action, class: &str, key: &str) -> Expected<'t> {
    match (action, key) {
        (_, "part_kind") => return Expected::Value(Value::Text(class_name(class))),
        (_, "timestamp") => return coerce::time(action.timestamp()),
        _ => {}
    }
    let optional = |text: Option<&'t str>| text.map_or(Expected::Default, Expected::text);
    match action {
        Action::UserMessage(UserMessageAction { content, .. })
        | Action::AssistantMessage(AssistantMessageAction { content, .. })
            if class == "speech" =>
        {
            expected_of_speech(action, content, key)
        }
        Action::UserMessage(action) => match (key, &action.content) {
            ("content", MessageContent::Text(text)) => Expected::text(text),
            _ => Expected::Default,
        },
        Action::AssistantMessage(action) => match (key, &action.content) {
            ("content", MessageContent::Text(text)) => Expected::text(text),
            ("content", content) => Expected::Value(Value::Text(content.text())),
            _ => Expected::Default,
        },
        Action::Thinking(action) => match key {
            "content" => Expected::text(action.content.as_deref().unwrap_or_default()),
            "signature" => optional(action.signature.as_deref()),
            "id" => optional(action.thinking_id.as_deref()),
            "provider_name" => Expected::text(&action.provider_name),
            _ => Expected::Default,
        },
        Action::ToolCall(action) => match key {
            "tool_name" => Expected::text(&action.tool_name),
            "tool_call_id" => Expected::text(&action.tool_call_id),
            "args" => coerce::arguments(action.args.get()),
            _ => Expected::Default,
        },
        Action::ToolReturn(action) => match key {
            "tool_name" => Expected::text(&action.tool_name),
            "tool_call_id" => Expected::text(&action.tool_call_id),
            "content" => coerce::returned(action.content.get()),
            "outcome" => Expected::text(outcome(&action.status)),
            _ => Expected::Default,
        },
        Action::System(system) => expected_of_system(action, system, class, key),
        Action::Other(_) => Expected::Default,
    }
}

/// As [`expected`], for speech.
fn expected_of_speech<'t>(action: &'t Action, content: &'t MessageContent, key: &str) -> Expected<'t> {
    match key {
        "speaker" => Expected::text(speaker(action)),
        "transcript" => content_text(content).map_or(Expected::Default, Expected::text),
        _ => Expected::Default,
    }
}

/// As [`expected`], for system actions.
fn expected_of_system<'t>(
    action: &'t Action,
    system: &'t SystemAction,
    class: &str,
    key: &str,
) -> Expected<'t> {
    if class == "retry-feedback" && system.action_type == RETRY {
        let feedback_json = member(&system.data, "content").map(serde_json::value::RawValue::get);
        return match key {
            "content" => coerce::feedback(feedback_json.unwrap_or("\"\"")),
            "retry" => {
                let cause =
                    member(&system.data, "cause").and_then(|cause| serde_json::from_str(cause.get()).ok());
                coerce::retry(cause, feedback_json)
            }
            _ => Expected::Default,
        };
    }
    match data_key(action, class, key).and_then(|key| member(&system.data, key)) {
        Some(value) => Expected::Value(Value::Raw(value)),
        None => Expected::Default,
    }
}

/// The member of an action's data that holds a field of its part.
fn data_key<'k>(action: &Action, class: &str, key: &'k str) -> Option<&'k str> {
    match key {
        "part_kind" => None,
        // The name in streams and in the first versions.
        "tools_added" if class == "tool-availability-delta" => Some("added"),
        _ if DATA.iter().any(|(_, name)| *name == action.action_type()) => Some(key),
        "content" => Some(key),
        _ => None,
    }
}

fn outcome(status: &str) -> &'static str {
    match status {
        "success" => "success",
        "validation_error" => "retried",
        _ => "failed",
    }
}

fn member<'d>(data: &'d RawJson, name: &str) -> Option<&'d serde_json::value::RawValue> {
    let members: super::roundtrip_metadata::Members<'_> = serde_json::from_str(data.get()).ok()?;
    members.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
}

/// The speaker of speech.
const fn speaker(action: &Action) -> &'static str {
    if matches!(action, Action::UserMessage(_)) { "user" } else { "assistant" }
}

/// The first text of a content.
fn content_text(content: &MessageContent) -> Option<&str> {
    match content {
        MessageContent::Text(text) => Some(text),
        MessageContent::Parts(parts) => parts.iter().find_map(ContentPart::as_text),
    }
}

/// The `audio` field of speech.
pub(super) fn audio<'t>(
    action: &'t Action,
    items: Option<&[Option<ItemMetadata<'t>>]>,
    layouts: &FieldLayouts<'t>,
) -> Option<Value<'t>> {
    let content = match action {
        Action::UserMessage(action) => &action.content,
        Action::AssistantMessage(action) => &action.content,
        _ => return None,
    };
    let MessageContent::Parts(parts) = content else { return None };
    let sound = parts.iter().find(|part| part.as_text().is_none())?;
    let item = items.and_then(|items| items.first()).and_then(Option::as_ref);
    Some(content_items::decode_item(sound, item, layouts))
}

//! Encodes one part as one action, and records the fields that the action does not hold.
//!
//! Spec: Pydantic AI messages, §3.1.

use std::borrow::Cow;

use super::arguments::{self, ArgumentsForm, ArgumentsText};
use super::content_items;
use super::field_layout::{Expected, FieldLayouts};
use super::model::{Kind, Part, Value, part_kind};
use super::part_fields::{DATA, DENIED, NATIVE_RETURN, PART, RETRY, VERBATIM, default_class, expected};
use super::portable;
use super::roundtrip_metadata::ObjectWriter;
use super::write::{object_to_json, write_value};
use crate::action::{
    Action, AssistantMessageAction, ThinkingAction, ToolCallAction, ToolReturnAction, UserMessageAction,
};
use crate::content::{ContentPart, MessageContent};
use crate::convert::portable::{DeferredAction, system};
use turntree_core::json::RawJson;

/// An encoded part.
#[derive(Debug)]
pub(super) struct EncodedPart {
    /// The action, without sequence and metadata.
    pub action: Action,
    /// The members of its round-trip metadata.
    pub fragment: String,
    /// An action to insert before it.
    pub before: Option<Action>,
    /// Actions that follow the results of the response (portable profile).
    pub deferred: Vec<DeferredAction>,
    /// True if the message can only be preserved verbatim.
    pub irregular: bool,
    /// True if all fields were compared byte for byte with the decoder's result.
    pub exact: bool,
}

impl EncodedPart {
    fn verbatim(part: &Part<'_>, class: &str, timestamp: &str) -> Self {
        let action_type = VERBATIM.iter().find(|(kind, _)| *kind == class).map_or(PART, |(_, name)| name);
        let data = RawJson::from_text(object_to_json(part));
        let irregular = data.is_err();
        let action = system(action_type, timestamp, data.unwrap_or_default());
        Self { action, fragment: String::new(), before: None, deferred: Vec::new(), irregular, exact: false }
    }
}

/// The context of a part.
#[derive(Debug)]
pub(super) struct EncodeContext<'m> {
    /// The kind of its message.
    pub kind: &'m Kind,
    /// The timestamp of its message, for parts without one.
    pub timestamp: &'m str,
    /// The agent of the response.
    pub agent_id: &'m str,
    /// The provider of the response, for thinking parts without one.
    pub provider_name: Option<&'m str>,
    /// Whether failed validation of arguments has a status of its own.
    pub validation_status: bool,
    /// True for the portable profile.
    pub portable: bool,
}

/// Encodes any part except the texts of a response, which may be merged.
pub(super) fn encode<'a>(
    part: &Part<'a>,
    context: &EncodeContext<'_>,
    layouts: &mut FieldLayouts<'a>,
) -> EncodedPart {
    let class = part_kind(part);
    let own = part.text("timestamp");
    let timestamp = own.as_deref().unwrap_or(context.timestamp);
    let mut writer = ObjectWriter::default();
    let mut before = None;
    let mut irregular = false;
    let mut deferred = Vec::new();
    let action = match (context.kind, &*class) {
        (Kind::Request, "user-prompt") => user_prompt(part, timestamp, layouts, &mut writer, &mut irregular),
        (Kind::Request, "tool-return") | (Kind::Response, NATIVE_RETURN) => {
            tool_return(part, &class, timestamp, context.validation_status)
        }
        (Kind::Request, "retry-prompt") if part.text("tool_name").is_some() => {
            tool_return(part, &class, timestamp, context.validation_status)
        }
        (Kind::Request, "retry-prompt" | "retry-feedback") => Some(retry(part, timestamp)),
        (Kind::Response, "thinking") => thinking(part, timestamp, context),
        (Kind::Response, "tool-call" | "builtin-tool-call") => {
            tool_call(part, timestamp, context.agent_id, layouts, &mut writer)
        }
        (Kind::Request | Kind::Response, "speech") => {
            speech(part, timestamp, context, layouts, &mut writer, &mut irregular)
        }
        _ => data_action(part, &class, timestamp),
    };
    let Some(action) = action else { return EncodedPart::verbatim(part, &class, timestamp) };
    if matches!(action, Action::ToolReturn(_)) && part.text("outcome").as_deref() == Some("denied") {
        before = part.text("tool_call_id").map(|id| denied(&id, timestamp));
    }
    if context.portable && class == "tool-return" {
        deferred = portable::deferred_by_tool(part, timestamp);
    }
    if class != default_class(&action) {
        writer.text("kind", &class);
    }
    let exact = write_part_diff(part, &class, &action, layouts, &mut writer);
    irregular |= exact.is_none();
    let fragment = writer.into_fragment();
    EncodedPart { action, fragment, before, deferred, irregular, exact: exact.unwrap_or(false) }
}

/// Writes the fields that follow neither from the action nor from the layout. Returns whether all others were compared
/// byte for byte; `None` if the fields cannot be stored.
pub(super) fn write_part_diff<'a>(
    part: &Part<'a>,
    class: &str,
    action: &Action,
    layouts: &mut FieldLayouts<'a>,
    writer: &mut ObjectWriter,
) -> Option<bool> {
    layouts.observe(class, part);
    let has_arguments_text =
        matches!(action, Action::ToolCall(call) if arguments::is_text(part.get("args"), &call.args));
    let has_items = match action {
        Action::UserMessage(UserMessageAction { content, .. })
        | Action::AssistantMessage(AssistantMessageAction { content, .. }) => {
            class == "speech" || matches!(content, MessageContent::Parts(_))
        }
        _ => false,
    };
    let expect = |key: &str| match key {
        // Decoding the message checks these fields.
        "content" | "audio" if has_items => Expected::Covered,
        "part_kind" => Expected::text(class),
        // Reading the text has shown that it follows from the action.
        "args" if has_arguments_text => Expected::Proven,
        _ => expected(action, class, key),
    };
    let diff = layouts.get(class)?.diff(part, expect)?;
    writer.write_diff(&diff, "keys", "part");
    Some(diff.exact)
}

/// The action of a part whose fields are the action's data, without `null`s, as in streams.
fn data_action(part: &Part<'_>, class: &str, timestamp: &str) -> Option<Action> {
    let (_, action_type) = DATA.iter().find(|(kind, _)| *kind == class)?;
    let mut data = ObjectWriter::default();
    for (key, value) in part.iter().filter(|(key, _)| *key != "part_kind") {
        let key = if key == "tools_added" { "added" } else { key };
        if !value.is_null() {
            write_value(data.key(key), value);
        }
    }
    Some(system(action_type, timestamp, RawJson::from_text(data.finish()).ok()?))
}

/// The action of speech: its transcript and its audio.
fn speech<'a>(
    part: &Part<'a>,
    timestamp: &str,
    context: &EncodeContext<'_>,
    layouts: &mut FieldLayouts<'a>,
    writer: &mut ObjectWriter,
    irregular: &mut bool,
) -> Option<Action> {
    let transcript = part.text("transcript").map(Cow::into_owned);
    let audio = part.get("audio").filter(|audio| !audio.is_null());
    let content = match (transcript, audio) {
        (None, None) => return None,
        (Some(text), None) => MessageContent::Text(text),
        (transcript, Some(audio)) => {
            let (sound, entry) = content_items::encode_file(audio, layouts)?;
            *irregular |= entry.is_none();
            if let Some(entry) = entry.filter(|entry| entry != "null") {
                writer.json("items", &format!("[{entry}]"));
            }
            MessageContent::Parts(transcript.map(ContentPart::text).into_iter().chain([sound]).collect())
        }
    };
    let timestamp = timestamp.into();
    Some(match context.kind {
        Kind::Request => {
            Action::UserMessage(UserMessageAction { timestamp, content, ..UserMessageAction::default() })
        }
        _ => Action::AssistantMessage(AssistantMessageAction {
            timestamp,
            agent_id: context.agent_id.into(),
            content,
            ..AssistantMessageAction::default()
        }),
    })
}

fn user_prompt<'a>(
    part: &Part<'a>,
    timestamp: &str,
    layouts: &mut FieldLayouts<'a>,
    writer: &mut ObjectWriter,
    irregular: &mut bool,
) -> Option<Action> {
    let value = part.get("content")?;
    let content = if let Some(text) = value.as_text() {
        MessageContent::Text(text.into_owned())
    } else {
        let encoded = content_items::encode(value, layouts)?;
        if let Some(diff) = &encoded.diff {
            writer.json("items", diff);
        }
        *irregular = encoded.irregular;
        MessageContent::Parts(encoded.parts)
    };
    Some(Action::UserMessage(UserMessageAction {
        timestamp: timestamp.into(),
        content,
        ..UserMessageAction::default()
    }))
}

fn tool_return(part: &Part<'_>, class: &str, timestamp: &str, validation_status: bool) -> Option<Action> {
    let outcome = part.text("outcome");
    let content = raw_json(part.get("content")?)?;
    let retried = class == "retry-prompt" || outcome.as_deref() == Some("retried");
    let failed = retried || outcome.as_deref().is_some_and(|outcome| outcome != "success");
    let status = match failed {
        false => "success",
        true if validation_status && retried && is_validation(part, &content) => "validation_error",
        true => "error",
    };
    Some(Action::ToolReturn(ToolReturnAction {
        timestamp: timestamp.into(),
        tool_call_id: part.text("tool_call_id").unwrap_or_default().into(),
        tool_name: part.text("tool_name")?.into(),
        status: status.into(),
        content,
        ..ToolReturnAction::default()
    }))
}

/// True if a retry reports failed validation of arguments: by its cause, or by a list of error details.
fn is_validation(part: &Part<'_>, content: &RawJson) -> bool {
    let cause = part.get("retry").filter(|retry| !retry.is_null()).and_then(retry_cause);
    cause.map_or_else(|| content.is_array(), |cause| cause == "validation_error")
}

fn retry_cause(retry: &Value<'_>) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Retry {
        cause: Option<String>,
    }
    serde_json::from_str::<Retry>(&retry.to_json()).ok()?.cause
}

fn denied(tool_call_id: &str, timestamp: &str) -> Action {
    let mut data = ObjectWriter::default();
    data.text("tool_call_id", tool_call_id);
    system(DENIED, timestamp, RawJson::from_text(data.finish()).unwrap_or_default())
}

fn retry(part: &Part<'_>, timestamp: &str) -> Action {
    let content = part.get("content").and_then(raw_json).unwrap_or_default();
    let cause = part.get("retry").filter(|retry| !retry.is_null()).and_then(retry_cause);
    let expect = if content.is_array() { "validation_error" } else { "model_retry" };
    let mut data = ObjectWriter::default();
    data.json("content", content.get());
    data.text("cause", cause.as_deref().unwrap_or(expect));
    system(RETRY, timestamp, RawJson::from_text(data.finish()).unwrap_or_default())
}

fn thinking(part: &Part<'_>, timestamp: &str, context: &EncodeContext<'_>) -> Option<Action> {
    let content = part.text("content")?;
    let provider_name = part.text("provider_name");
    Some(Action::Thinking(ThinkingAction {
        timestamp: timestamp.into(),
        agent_id: context.agent_id.into(),
        content: (!content.is_empty()).then(|| content.into_owned()),
        signature: part.text("signature").map(Into::into),
        provider_name: provider_name.as_deref().or(context.provider_name).unwrap_or("unknown").into(),
        thinking_id: part.text("id").map(Into::into),
        ..ThinkingAction::default()
    }))
}

fn tool_call<'a>(
    part: &Part<'a>,
    timestamp: &str,
    agent_id: &str,
    layouts: &mut FieldLayouts<'a>,
    writer: &mut ObjectWriter,
) -> Option<Action> {
    let value = part.get("args").unwrap_or(&Value::NULL);
    let (args, text) = match value.as_text().and_then(|text| ArgumentsText::read(&text)) {
        Some((object, text)) => (object, Some(text)),
        None => (raw_json(value)?, None),
    };
    let default = *layouts
        .arguments
        .get_or_insert_with(|| text.as_ref().map_or(ArgumentsForm::Json, ArgumentsText::form));
    match text {
        Some(text) => text.write(default, writer),
        None => arguments::write_form(ArgumentsForm::Json, default, writer),
    }
    Some(Action::ToolCall(ToolCallAction {
        timestamp: timestamp.into(),
        agent_id: agent_id.into(),
        tool_name: part.text("tool_name")?.into(),
        tool_call_id: part.text("tool_call_id").unwrap_or_default().into(),
        args,
        ..ToolCallAction::default()
    }))
}

fn raw_json(value: &Value<'_>) -> Option<RawJson> {
    match value {
        Value::Raw(raw) => Some(RawJson::from(*raw)),
        _ => RawJson::from_text(value.to_json().into_owned()).ok(),
    }
}

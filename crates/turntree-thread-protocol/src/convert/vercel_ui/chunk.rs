//! One chunk of a UI message stream. UI message stream, §3.

use super::message::{Optional, UiPart};
use turntree_core::json::object::Field;
use turntree_core::json::{RawJson, RawObject, json_object};
use turntree_core::sse::Event;

json_object! {
    /// One chunk: the members of every kind in one struct, those of other kinds missing.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Chunk {
        /// Its kind: `start`, `text-delta`, `tool-output-available`, `data-NAME` …
        pub kind: String = "type",
        /// Text, reasoning, data and steering messages: the id.
        pub id: Option<String> = "id",
        /// Text and reasoning: the new piece.
        pub delta: Option<String> = "delta",
        /// `start`: the id of the message.
        pub message_id: Option<String> = "messageId",
        /// Facts of the application about the message.
        pub message_metadata: Optional = "messageMetadata",
        /// `finish`: why the model ended.
        pub finish_reason: Option<String> = "finishReason",
        /// Approvals and aborts: why.
        pub reason: Option<String> = "reason",
        /// Errors: what went wrong.
        pub error_text: Option<String> = "errorText",
        /// Tools: the call.
        pub tool_call_id: Option<String> = "toolCallId",
        /// Tools: the tool.
        pub tool_name: Option<String> = "toolName",
        /// Tools: a new piece of the arguments.
        pub input_text_delta: Option<String> = "inputTextDelta",
        /// Tools: `json` or `text`.
        pub input_encoding: Option<String> = "inputEncoding",
        /// Tools: the arguments.
        pub input: Optional = "input",
        /// Tools: the result.
        pub output: Optional = "output",
        /// Tools: whether the result is not the last one.
        pub preliminary: Option<bool> = "preliminary",
        /// Tools: whether the provider runs it.
        pub provider_executed: Option<bool> = "providerExecuted",
        /// Tools: whether the client does not know the tool.
        pub dynamic: Option<bool> = "dynamic",
        /// Tools and sources: a name for people.
        pub title: Option<String> = "title",
        /// Tools: outcome of the application.
        pub tool_metadata: Optional = "toolMetadata",
        /// Approvals: the id of the question.
        pub approval_id: Option<String> = "approvalId",
        /// Approvals: the answer.
        pub approved: Option<bool> = "approved",
        /// Approvals: whether a rule answers, not a person.
        pub is_automatic: Option<bool> = "isAutomatic",
        /// Approvals: the server's proof of the question.
        pub signature: Option<String> = "signature",
        /// Approvals: what the application says about the question.
        pub approval_descriptor: Optional = "approvalDescriptor",
        /// Approvals: the arguments as the schema reads them.
        pub input_schema_input: Optional = "inputSchemaInput",
        /// Text: where it comes from.
        pub citations: Optional = "citations",
        /// Files and sources: where, often as a data URL.
        pub url: Option<String> = "url",
        /// Files and sources: the media type.
        pub media_type: Option<String> = "mediaType",
        /// Sources: the file name.
        pub filename: Option<String> = "filename",
        /// Sources: the id.
        pub source_id: Option<String> = "sourceId",
        /// Custom parts: `provider.name`.
        pub custom_kind: Option<String> = "kind",
        /// Steering messages: their parts.
        pub parts: Option<Vec<UiPart>> = "parts",
        /// Data: the data.
        pub data: Optional = "data",
        /// Data: whether it is heard once and not kept.
        pub transient: Option<bool> = "transient",
        /// Facts of the provider.
        pub provider_metadata: Optional = "providerMetadata",
    }
}

impl Field for Chunk {}

impl Chunk {
    /// A chunk of a kind, with nothing in it.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// A chunk of a text or a reasoning: `text-start`, `reasoning-end` …
    pub(super) fn block(kind: &str, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..Self::of(kind) }
    }

    /// A chunk of a tool call.
    pub(super) fn tool(kind: &str, call_id: &str) -> Self {
        Self { tool_call_id: Some(call_id.to_owned()), ..Self::of(kind) }
    }

    /// A chunk of data.
    pub(super) fn data(name: &str, data: RawJson) -> Self {
        Self { data: data.into(), ..Self::of(format!("data-{name}")) }
    }

    /// A chunk that says that something went wrong.
    pub(super) fn error(text: &str) -> Self {
        Self { error_text: Some(text.to_owned()), ..Self::of("error") }
    }

    /// Whether it is data of the application.
    pub fn is_data(&self) -> bool {
        self.kind.starts_with("data-")
    }

    /// The chunk as JSON.
    pub fn to_json(&self) -> RawJson {
        // Members are strings, booleans or JSON already: nothing of it can fail.
        RawJson::from_value(self).unwrap_or_default()
    }

    /// Appends the chunk as a server-sent event, with the empty line that a client needs.
    pub fn write_frame(&self, out: &mut Vec<u8>) {
        Event { data: self.to_json().get().into(), ..Event::default() }.encode(out);
    }
}

/// The members of each chunk type that a client's schema knows, beside the type. Clients ignore other members.
const MEMBERS: &[(&[&str], &[&str])] = &[
    (&["start"], &["messageId", "messageMetadata"]),
    (&["finish"], &["finishReason", "messageMetadata"]),
    (&["message-metadata"], &["messageMetadata"]),
    (&["abort"], &["reason"]),
    (&["error"], &["errorText"]),
    (&["text-start", "reasoning-start", "reasoning-end"], &["id", "providerMetadata"]),
    (&["text-delta", "reasoning-delta"], &["id", "delta", "providerMetadata"]),
    (&["text-end"], &["id", "providerMetadata", "citations"]),
    (
        &["tool-input-start"],
        &[
            "toolCallId",
            "toolName",
            "providerExecuted",
            "providerMetadata",
            "toolMetadata",
            "dynamic",
            "title",
            "inputEncoding",
        ],
    ),
    (&["tool-input-delta"], &["toolCallId", "inputTextDelta"]),
    (
        &["tool-input-available", "tool-input-error"],
        &[
            "toolCallId",
            "toolName",
            "input",
            "errorText",
            "providerExecuted",
            "providerMetadata",
            "toolMetadata",
            "dynamic",
            "title",
        ],
    ),
    (
        &["tool-output-available", "tool-output-error"],
        &[
            "toolCallId",
            "output",
            "errorText",
            "providerExecuted",
            "providerMetadata",
            "toolMetadata",
            "dynamic",
            "preliminary",
        ],
    ),
    (&["tool-output-denied"], &["toolCallId"]),
    (
        &["tool-approval-request"],
        &[
            "toolCallId",
            "approvalId",
            "reason",
            "isAutomatic",
            "signature",
            "approvalDescriptor",
            "inputSchemaInput",
        ],
    ),
    (
        &["tool-approval-response"],
        &["approvalId", "approved", "reason", "providerExecuted", "providerMetadata"],
    ),
    (&["source-url"], &["sourceId", "url", "title", "providerMetadata"]),
    (&["source-document"], &["sourceId", "mediaType", "title", "filename", "providerMetadata"]),
    (&["file", "reasoning-file"], &["url", "mediaType", "providerMetadata"]),
    (&["custom"], &["kind", "providerMetadata"]),
    (&["steering-message"], &["id", "parts"]),
];

/// The members that a client's schema knows of a chunk type.
fn known_members(kind: &str) -> &'static [&'static str] {
    if kind.starts_with("data-") {
        return &["id", "data", "transient"];
    }
    MEMBERS.iter().find(|(kinds, _)| kinds.contains(&kind)).map_or(&[], |(_, members)| members)
}

/// The JSON of a chunk with nothing in it that its kind does not know; `None` if it has no kind.
pub(super) fn with_known_members(text: &str) -> Option<RawJson> {
    let mut members = RawObject::from_raw(&RawJson::from_text(text.to_owned()).ok()?)?;
    let kind = members.get("type")?.as_string()?;
    let keys: Vec<String> = members.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys.iter().filter(|key| *key != "type" && !known_members(&kind).contains(&key.as_str())) {
        members.remove(key);
    }
    RawJson::from_value(&members).ok()
}

/// The frame that ends a stream.
pub const DONE_FRAME: &[u8] = b"data: [DONE]\n\n";

/// The response headers of a UI message stream, in lower case. UI message stream, §2.
pub const HEADERS: &[(&str, &str)] = &[
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("connection", "keep-alive"),
    ("x-vercel-ai-ui-message-stream", "v1"),
    ("x-accel-buffering", "no"),
];

/// Takes out of a value what makes the real client give up a stream: members named `__proto__`, and `constructor`s that
/// hold a `prototype`. `None` when there is nothing to take out, which a search of the text tells.
pub(super) fn without_prototypes(value: &RawJson) -> Option<RawJson> {
    let text = value.get();
    // An escape could spell either name.
    if !text.contains("__proto__") && !text.contains("constructor") && !text.contains("\\u") {
        return None;
    }
    clean(value)
}

fn clean(value: &RawJson) -> Option<RawJson> {
    if let Some(object) = RawObject::from_raw(value) {
        let mut changed = false;
        let mut kept = RawObject::new();
        for (key, member) in object.iter() {
            let is_harmful = key == "__proto__"
                || (key == "constructor"
                    && RawObject::from_raw(member).is_some_and(|inner| inner.get("prototype").is_some()));
            if is_harmful {
                changed = true;
                continue;
            }
            let cleaned = clean(member);
            changed |= cleaned.is_some();
            kept.insert(key, cleaned.unwrap_or_else(|| member.clone()));
        }
        return changed.then(|| RawJson::from_value(&kept).unwrap_or_default());
    }
    if value.is_array() {
        let items: Vec<RawJson> = value.to().ok()?;
        let cleaned: Vec<Option<RawJson>> = items.iter().map(clean).collect();
        if cleaned.iter().all(Option::is_none) {
            return None;
        }
        let items: Vec<RawJson> =
            items.into_iter().zip(cleaned).map(|(old, new)| new.unwrap_or(old)).collect();
        return RawJson::from_value(&items).ok();
    }
    None
}

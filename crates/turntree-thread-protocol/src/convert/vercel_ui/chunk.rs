//! The chunks of a UI message stream.
//!
//! Spec: UI message stream, §3.

use super::message::{Optional, UiPart};
use turntree_core::json::object::Field;
use turntree_core::json::{RawJson, RawObject, json_object};
use turntree_core::sse::Event;

json_object! {
    /// One chunk. The struct has the members of all types of chunks.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Chunk {
        /// The type: `start`, `text-delta`, `tool-output-available`, `data-NAME` …
        pub kind: String = "type",
        /// Text, reasoning, data and steering messages: the id.
        pub id: Option<String> = "id",
        /// Text and reasoning: the new text.
        pub delta: Option<String> = "delta",
        /// `start`: the id of the message.
        pub message_id: Option<String> = "messageId",
        /// Metadata of the application about the message.
        pub message_metadata: Optional = "messageMetadata",
        /// `finish`: why the model stopped.
        pub finish_reason: Option<String> = "finishReason",
        /// Approvals and aborts: the reason.
        pub reason: Option<String> = "reason",
        /// Errors: the message.
        pub error_text: Option<String> = "errorText",
        /// Tools: the id of the call.
        pub tool_call_id: Option<String> = "toolCallId",
        /// Tools: the name of the tool.
        pub tool_name: Option<String> = "toolName",
        /// Tools: new text of the arguments.
        pub input_text_delta: Option<String> = "inputTextDelta",
        /// Tools: `json` or `text`.
        pub input_encoding: Option<String> = "inputEncoding",
        /// Tools: the arguments.
        pub input: Optional = "input",
        /// Tools: the result.
        pub output: Optional = "output",
        /// Tools: whether another result follows.
        pub preliminary: Option<bool> = "preliminary",
        /// Tools: whether the provider runs it.
        pub provider_executed: Option<bool> = "providerExecuted",
        /// Tools: whether the client does not define the tool.
        pub dynamic: Option<bool> = "dynamic",
        /// Tools and sources: the display name.
        pub title: Option<String> = "title",
        /// Tools: metadata of the application.
        pub tool_metadata: Optional = "toolMetadata",
        /// Approvals: the id of the request.
        pub approval_id: Option<String> = "approvalId",
        /// Approvals: the response.
        pub approved: Option<bool> = "approved",
        /// Approvals: whether a rule responds, not a human.
        pub is_automatic: Option<bool> = "isAutomatic",
        /// Approvals: the server's signature of the request.
        pub signature: Option<String> = "signature",
        /// Approvals: the application's description of the request.
        pub approval_descriptor: Optional = "approvalDescriptor",
        /// Approvals: the arguments as parsed by the schema.
        pub input_schema_input: Optional = "inputSchemaInput",
        /// Text: the citations.
        pub citations: Optional = "citations",
        /// Files and sources: the URL, often a data URL.
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
        /// Data: whether the client discards it after handling.
        pub transient: Option<bool> = "transient",
        /// Provider metadata.
        pub provider_metadata: Optional = "providerMetadata",
    }
}

impl Field for Chunk {}

impl Chunk {
    /// Creates an empty chunk of a type.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// Creates a chunk of a text or reasoning block: `text-start`, `reasoning-end` …
    pub(super) fn block(kind: &str, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..Self::of(kind) }
    }

    /// Creates a chunk of a tool call.
    pub(super) fn tool(kind: &str, call_id: &str) -> Self {
        Self { tool_call_id: Some(call_id.to_owned()), ..Self::of(kind) }
    }

    /// Creates a data chunk.
    pub(super) fn data(name: &str, data: RawJson) -> Self {
        Self { data: data.into(), ..Self::of(format!("data-{name}")) }
    }

    /// Creates an error chunk.
    pub(super) fn error(text: &str) -> Self {
        Self { error_text: Some(text.to_owned()), ..Self::of("error") }
    }

    /// True for data of the application.
    pub fn is_data(&self) -> bool {
        self.kind.starts_with("data-")
    }

    /// The chunk as JSON.
    pub fn to_json(&self) -> RawJson {
        // Serialization cannot fail: all members are strings, booleans or JSON.
        RawJson::from_value(self).unwrap_or_default()
    }

    /// Appends the chunk as a server-sent event, including the final empty line.
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

/// The known members of a chunk type.
fn known_members(kind: &str) -> &'static [&'static str] {
    if kind.starts_with("data-") {
        return &["id", "data", "transient"];
    }
    MEMBERS.iter().find(|(kinds, _)| kinds.contains(&kind)).map_or(&[], |(_, members)| members)
}

/// The JSON of a chunk without members that its type does not have; `None` if it has no type.
pub(super) fn with_known_members(text: &str) -> Option<RawJson> {
    let mut members = RawObject::from_raw(&RawJson::from_text(text.to_owned()).ok()?)?;
    let kind = members.get("type")?.as_string()?;
    let known = known_members(&kind);
    members.retain(|key| key == "type" || known.contains(&key));
    RawJson::from_value(&members).ok()
}

/// The frame that ends a stream.
pub const DONE_FRAME: &[u8] = b"data: [DONE]\n\n";

/// The response headers of a UI message stream, in lower case.
///
/// Spec: UI message stream, §2.
pub const HEADERS: &[(&str, &str)] = &[
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("connection", "keep-alive"),
    ("x-vercel-ai-ui-message-stream", "v1"),
    ("x-accel-buffering", "no"),
];

/// Removes the members that the real client rejects: members named `__proto__`, and `constructor` members that
/// contain a `prototype`. `None` if there are none.
pub(super) fn without_prototypes(value: &RawJson) -> Option<RawJson> {
    let text = value.get();
    // An escape sequence may spell either name.
    if !text.contains("__proto__") && !text.contains("constructor") && !text.contains("\\u") {
        return None;
    }
    clean(value)
}

fn clean(value: &RawJson) -> Option<RawJson> {
    if let Some(object) = RawObject::from_raw(value) {
        let mut changed = false;
        let mut retained = RawObject::new();
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
            retained.insert(key, cleaned.unwrap_or_else(|| member.clone()));
        }
        return changed.then(|| RawJson::from_value(&retained).unwrap_or_default());
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

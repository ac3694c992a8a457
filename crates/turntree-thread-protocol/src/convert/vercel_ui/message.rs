//! The `UIMessage` of the Vercel AI SDK.
//!
//! One struct has the members of all types of parts. Unknown types and unknown members are preserved. Members that
//! accept any JSON are an [`Optional`], which distinguishes `null` from a missing member.
//!
//! Spec: UI message stream, §5.

use serde::{Deserialize, Serialize};

use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{RawJson, RawObject, json_object};

/// A member that accepts any JSON and may be missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Optional(pub Option<RawJson>);

impl Optional {
    /// The value, if the member exists.
    pub const fn get(&self) -> Option<&RawJson> {
        self.0.as_ref()
    }

    /// The value; `null` if the member is missing.
    pub fn or_null(&self) -> RawJson {
        self.0.clone().unwrap_or_default()
    }

    /// The text, if the value is a string.
    pub fn as_string(&self) -> Option<String> {
        self.get().and_then(RawJson::as_string)
    }
}

impl From<RawJson> for Optional {
    fn from(value: RawJson) -> Self {
        Self(Some(value))
    }
}

impl Field for Optional {
    const IS_REQUIRED: bool = false;

    fn missing() -> Option<Self> {
        Some(Self(None))
    }

    fn is_written(&self) -> bool {
        self.0.is_some()
    }
}

impl Serialize for Optional {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Optional {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawJson::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl JsonSchema for Optional {
    fn schema(_definitions: &mut Definitions) -> serde_json::Value {
        serde_json::Value::Bool(true)
    }
}

json_object! {
    /// One part of a [`UiMessage`].
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct UiPart {
        /// The type: `text`, `reasoning`, `tool-NAME`, `dynamic-tool`, `data-NAME`, `file`, `step-start` …
        pub kind: String = "type",
        /// Reasoning, data and steering parts: the id.
        pub id: Option<String> = "id",
        /// Text and reasoning: the text so far.
        pub text: Option<String> = "text",
        /// The state: `streaming`, `done`, or the state of a tool.
        pub state: Option<String> = "state",
        /// Dynamic tools: the name of the tool.
        pub tool_name: Option<String> = "toolName",
        /// Tools: the id of the call.
        pub tool_call_id: Option<String> = "toolCallId",
        /// Tools: the display name.
        pub title: Option<String> = "title",
        /// Tools: the arguments.
        pub input: Optional = "input",
        /// Tools: the arguments as the model wrote them, while they stream or if they are invalid.
        pub raw_input: Optional = "rawInput",
        /// Tools: `json` or `text`.
        pub input_encoding: Option<String> = "inputEncoding",
        /// Tools: the result.
        pub output: Optional = "output",
        /// Tools: the error message.
        pub error_text: Option<String> = "errorText",
        /// Tools: whether another result follows.
        pub preliminary: Option<bool> = "preliminary",
        /// Tools: whether the provider ran the tool.
        pub provider_executed: Option<bool> = "providerExecuted",
        /// Tools: the approval request and its response.
        pub approval: Option<RawObject> = "approval",
        /// Tools: metadata of the application.
        pub tool_metadata: Optional = "toolMetadata",
        /// Tools: provider metadata of the call.
        pub call_provider_metadata: Optional = "callProviderMetadata",
        /// Tools: provider metadata of the result.
        pub result_provider_metadata: Optional = "resultProviderMetadata",
        /// Other parts: provider metadata.
        pub provider_metadata: Optional = "providerMetadata",
        /// Text: the citations.
        pub citations: Optional = "citations",
        /// Data parts: the data.
        pub data: Optional = "data",
        /// Files and sources: the URL, often a data URL.
        pub url: Option<String> = "url",
        /// Files and sources: the media type.
        pub media_type: Option<String> = "mediaType",
        /// Files and sources: the file name.
        pub filename: Option<String> = "filename",
        /// Sources: the id.
        pub source_id: Option<String> = "sourceId",
        /// Steering messages: their parts.
        pub parts: Option<Vec<UiPart>> = "parts",
    }
}

impl Field for UiPart {}

/// The type of the part that starts a step.
pub(super) const STEP_START: &str = "step-start";
/// The type of a part for a tool that the client does not define.
pub(super) const DYNAMIC_TOOL: &str = "dynamic-tool";

impl UiPart {
    /// Creates an empty part of a type.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// The name of the tool, for tool parts.
    pub fn tool(&self) -> Option<&str> {
        if self.kind == DYNAMIC_TOOL {
            return self.tool_name.as_deref();
        }
        self.kind.strip_prefix("tool-")
    }

    /// True for tool parts.
    pub fn is_tool(&self) -> bool {
        self.kind == DYNAMIC_TOOL || self.kind.starts_with("tool-")
    }

    /// True if the part has this state.
    pub(super) fn is(&self, state: &str) -> bool {
        self.state.as_deref() == Some(state)
    }
}

json_object! {
    /// A chat message of the Vercel AI SDK.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct UiMessage {
        /// The id, assigned by the creator of the message.
        pub id: String = "id", default,
        /// `system`, `user` or `assistant`.
        pub role: String = "role",
        /// Metadata of the application.
        pub metadata: Optional = "metadata",
        /// The parts, in order.
        pub parts: Vec<UiPart> = "parts",
    }
}

impl UiMessage {
    /// Creates an assistant message without parts.
    pub fn assistant(id: impl Into<String>) -> Self {
        Self { id: id.into(), role: "assistant".to_owned(), ..Self::default() }
    }

    /// The member of the metadata with this name; `None` if the metadata is not an object.
    pub(super) fn metadata_member(&self, name: &str) -> Option<RawJson> {
        let metadata = RawObject::from_raw(self.metadata.get()?)?;
        metadata.get(name).cloned()
    }
}

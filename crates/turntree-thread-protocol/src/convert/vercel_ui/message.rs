//! A `UIMessage` as the Vercel AI SDK keeps, sends and receives it. UI message stream, §5.
//!
//! One struct holds the members of every kind of part: kinds that are not known, and members that are not, are carried
//! as they are. What may be any JSON is a [`Optional`], because a member that is `null` is not a member that is missing.

use serde::{Deserialize, Serialize};

use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::{RawJson, RawObject, json_object};

/// A member that may be any JSON, or missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Optional(pub Option<RawJson>);

impl Optional {
    /// The value, if the member is there.
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
        /// Its kind: `text`, `reasoning`, `tool-NAME`, `dynamic-tool`, `data-NAME`, `file`, `step-start` …
        pub kind: String = "type",
        /// Reasoning, data and steering parts: their id.
        pub id: Option<String> = "id",
        /// Text and reasoning: the text so far.
        pub text: Option<String> = "text",
        /// How far it is: `streaming`, `done`, or the state of a tool.
        pub state: Option<String> = "state",
        /// Dynamic tools: the tool's name.
        pub tool_name: Option<String> = "toolName",
        /// Tools: the call.
        pub tool_call_id: Option<String> = "toolCallId",
        /// Tools: a name for people.
        pub title: Option<String> = "title",
        /// Tools: the arguments.
        pub input: Optional = "input",
        /// Tools: the arguments as the model spelled them, while they arrive or where they are wrong.
        pub raw_input: Optional = "rawInput",
        /// Tools: `json` or `text`.
        pub input_encoding: Option<String> = "inputEncoding",
        /// Tools: the result.
        pub output: Optional = "output",
        /// Tools: what went wrong.
        pub error_text: Option<String> = "errorText",
        /// Tools: whether the result is not the last one.
        pub preliminary: Option<bool> = "preliminary",
        /// Tools: whether the provider ran it.
        pub provider_executed: Option<bool> = "providerExecuted",
        /// Tools: what a person was asked and answered.
        pub approval: Option<RawObject> = "approval",
        /// Tools: outcome of the application.
        pub tool_metadata: Optional = "toolMetadata",
        /// Tools: outcome of the provider about the call.
        pub call_provider_metadata: Optional = "callProviderMetadata",
        /// Tools: outcome of the provider about the result.
        pub result_provider_metadata: Optional = "resultProviderMetadata",
        /// Other parts: outcome of the provider.
        pub provider_metadata: Optional = "providerMetadata",
        /// Text: where it comes from.
        pub citations: Optional = "citations",
        /// Data parts: the data.
        pub data: Optional = "data",
        /// Files and sources: where, often as a data URL.
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

/// The type of the part that begins a step.
pub(super) const STEP_START: &str = "step-start";
/// The type of a part for a tool that the client does not know.
pub(super) const DYNAMIC_TOOL: &str = "dynamic-tool";

impl UiPart {
    /// A part of a kind, with nothing in it.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// The name of the tool, for the parts of tools.
    pub fn tool(&self) -> Option<&str> {
        if self.kind == DYNAMIC_TOOL {
            return self.tool_name.as_deref();
        }
        self.kind.strip_prefix("tool-")
    }

    /// Whether it is the part of a tool.
    pub fn is_tool(&self) -> bool {
        self.kind == DYNAMIC_TOOL || self.kind.starts_with("tool-")
    }

    /// Whether this is the state of the part.
    pub(super) fn is(&self, state: &str) -> bool {
        self.state.as_deref() == Some(state)
    }
}

json_object! {
    /// One message of a chat of the Vercel AI SDK.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct UiMessage {
        /// Its id, given by whoever made it first.
        pub id: String = "id", default,
        /// `system`, `user` or `assistant`.
        pub role: String = "role",
        /// Facts of the application.
        pub metadata: Optional = "metadata",
        /// Its parts, in order.
        pub parts: Vec<UiPart> = "parts",
    }
}

impl UiMessage {
    /// An assistant's message without parts.
    pub fn assistant(id: impl Into<String>) -> Self {
        Self { id: id.into(), role: "assistant".to_owned(), ..Self::default() }
    }

    /// The member of the metadata with this name, if the metadata is an object that has it.
    pub(super) fn metadata_member(&self, name: &str) -> Option<RawJson> {
        let metadata = RawObject::from_raw(self.metadata.get()?)?;
        metadata.get(name).cloned()
    }
}

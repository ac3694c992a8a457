//! Stream events: the deltas of a message while a model generates it, and the executions of tools.
//!
//! Spec: UPP-1.2 §11.1

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::CodeExecutionBlock;
use super::media::Binary;
use crate::json::schema::{Definitions, JsonSchema};
use crate::json::tagged::CowStr;
use crate::json::{Extra, RawJson, RawObject, json_object};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent {
    /// The index of the content block, unique within its message; for tool executions the index of the call in the
    /// response.
    pub index: u32,
    /// The change.
    pub delta: Delta,
    /// Unknown members.
    pub extra: Extra,
}

json_object! {
    /// A piece of text.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TextDelta {
        /// The new text.
        pub text: String = "text",
    }
}

json_object! {
    /// A piece of binary data.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct DataDelta {
        /// The new bytes.
        pub data: Binary = "data",
    }
}

json_object! {
    /// A piece of a tool call.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolCallDelta {
        /// The id of the call.
        pub tool_call_id: std::sync::Arc<str> = "toolCallId",
        /// The name of the tool.
        pub tool_name: std::sync::Arc<str> = "toolName",
        /// The new piece of the arguments, as JSON text.
        pub arguments_json: String = "argumentsJson",
    }
}

json_object! {
    /// Code that a vendor ran for the model, and its output.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct CodeExecutionDelta {
        /// The code, if the vendor reports it.
        pub code: Option<String> = "code",
        /// The language of the code, such as `python` or `bash`.
        pub language: Option<String> = "language",
        /// What the code wrote, errors included; `None` if the vendor does not report it.
        pub output: Option<String> = "output",
        /// True if the code failed.
        pub is_error: Option<bool> = "isError",
    }
}

impl From<&CodeExecutionBlock> for CodeExecutionDelta {
    fn from(block: &CodeExecutionBlock) -> Self {
        let CodeExecutionBlock { code, language, output, is_error, extra } = block.clone();
        Self { code, language, output, is_error, extra }
    }
}

impl From<&CodeExecutionDelta> for CodeExecutionBlock {
    fn from(delta: &CodeExecutionDelta) -> Self {
        let CodeExecutionDelta { code, language, output, is_error, extra } = delta.clone();
        Self { code, language, output, is_error, extra }
    }
}

json_object! {
    /// The start of a tool execution.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolExecutionStart {
        /// The id of the call.
        pub tool_call_id: String = "toolCallId",
        /// The name of the tool.
        pub tool_name: String = "toolName",
        /// The time in milliseconds since 1970.
        pub timestamp: i64 = "timestamp",
    }
}

json_object! {
    /// The end of a tool execution.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolExecutionEnd {
        /// The id of the call.
        pub tool_call_id: String = "toolCallId",
        /// The name of the tool.
        pub tool_name: String = "toolName",
        /// The result for the model.
        pub result: RawJson = "result",
        /// True if the tool failed.
        pub is_error: bool = "isError",
        /// The time in milliseconds since 1970.
        pub timestamp: i64 = "timestamp",
    }
}

json_object! {
    /// A delta without members.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Empty {}
}

macro_rules! deltas {
    ($( $(#[$meta:meta])* $variant:ident($type:ty) = $kind:literal, )*) => {
        /// The change that an event reports, by type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Delta {
            $( $(#[$meta])* $variant($type), )*
            /// An unknown type.
            Unknown {
                /// The name of the type.
                kind: Box<str>,
                /// The delta as it was read.
                delta: RawObject,
            },
        }

        impl Delta {
            /// The types of UPP-1.2 in the order of its table, with that of code execution.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of the type in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            fn schemas(definitions: &mut Definitions) -> Vec<serde_json::Value> {
                vec![$( event_schema($kind, &<$type>::schema(definitions)) ),*]
            }

            fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $( Self::$variant(delta) => map.serialize_entry("delta", delta), )*
                    Self::Unknown { delta, .. } => map.serialize_entry("delta", delta),
                }
            }

        }

        /// Reads the delta of an event of this type.
        struct OfKind<'a>(&'a str);

        impl<'de> DeserializeSeed<'de> for OfKind<'_> {
            type Value = Delta;
            fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Delta, D::Error> {
                Ok(match self.0 {
                    $( $kind => Delta::$variant(<$type>::deserialize(deserializer)?), )*
                    _ => Delta::Unknown { kind: self.0.into(), delta: RawObject::deserialize(deserializer)? },
                })
            }
        }
    };
}

deltas! {
    /// A piece of text.
    Text(TextDelta) = "text_delta",
    /// A piece of reasoning.
    Reasoning(TextDelta) = "reasoning_delta",
    /// A piece of an image.
    Image(DataDelta) = "image_delta",
    /// A piece of audio.
    Audio(DataDelta) = "audio_delta",
    /// A piece of video.
    Video(DataDelta) = "video_delta",
    /// A piece of a tool call.
    ToolCall(ToolCallDelta) = "tool_call_delta",
    /// A piece of the structured output, as JSON text.
    Object(TextDelta) = "object_delta",
    /// The start of a tool execution.
    ToolExecutionStart(ToolExecutionStart) = "tool_execution_start",
    /// The end of a tool execution.
    ToolExecutionEnd(ToolExecutionEnd) = "tool_execution_end",
    /// Code that a vendor ran, and its output. UPP-1.2 does not define it.
    CodeExecution(CodeExecutionDelta) = "code_execution_delta",
    /// The start of a response.
    MessageStart(Empty) = "message_start",
    /// The end of a response.
    MessageStop(Empty) = "message_stop",
    /// The start of a content block.
    ContentBlockStart(Empty) = "content_block_start",
    /// The end of a content block.
    ContentBlockStop(Empty) = "content_block_stop",
}

impl StreamEvent {
    /// An event without unknown members.
    pub const fn new(index: u32, delta: Delta) -> Self {
        Self { index, delta, extra: Extra::new() }
    }

    /// A piece of text.
    pub fn text(index: u32, text: impl Into<String>) -> Self {
        Self::new(index, Delta::Text(TextDelta { text: text.into(), extra: Extra::new() }))
    }

    /// A piece of reasoning.
    pub fn reasoning(index: u32, text: impl Into<String>) -> Self {
        Self::new(index, Delta::Reasoning(TextDelta { text: text.into(), extra: Extra::new() }))
    }

    /// A piece of the structured output, as JSON text.
    pub fn object(index: u32, text: impl Into<String>) -> Self {
        Self::new(index, Delta::Object(TextDelta { text: text.into(), extra: Extra::new() }))
    }

    /// A piece of a tool call.
    pub fn tool_call(
        index: u32,
        tool_call_id: std::sync::Arc<str>,
        tool_name: std::sync::Arc<str>,
        arguments_json: impl Into<String>,
    ) -> Self {
        let arguments_json = arguments_json.into();
        let delta = ToolCallDelta { tool_call_id, tool_name, arguments_json, extra: Extra::new() };
        Self::new(index, Delta::ToolCall(delta))
    }

    /// Code that a vendor ran, and its output.
    pub fn code_execution(index: u32, block: &CodeExecutionBlock) -> Self {
        Self::new(index, Delta::CodeExecution(block.into()))
    }

    /// The start of a response.
    pub fn message_start() -> Self {
        Self::new(0, Delta::MessageStart(Empty::default()))
    }

    /// The end of a response.
    pub fn message_stop() -> Self {
        Self::new(0, Delta::MessageStop(Empty::default()))
    }

    /// The start of a content block.
    pub fn block_start(index: u32) -> Self {
        Self::new(index, Delta::ContentBlockStart(Empty::default()))
    }

    /// The end of a content block.
    pub fn block_stop(index: u32) -> Self {
        Self::new(index, Delta::ContentBlockStop(Empty::default()))
    }
}

impl Serialize for StreamEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.delta.kind())?;
        map.serialize_entry("index", &self.index)?;
        self.delta.write(&mut map)?;
        self.extra.serialize_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for StreamEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = StreamEvent;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a stream event")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StreamEvent, A::Error> {
                let (mut kind, mut index, mut extra) = (None::<CowStr<'de>>, 0, Extra::new());
                // If the type comes first, the delta is read directly; otherwise it is buffered as text.
                let (mut delta, mut unread) = (None, None);
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    match (key.as_str(), &kind) {
                        ("type", _) => kind = Some(map.next_value()?),
                        ("index", _) => index = map.next_value()?,
                        ("delta", Some(kind)) => delta = Some(map.next_value_seed(OfKind(kind.as_str()))?),
                        ("delta", None) => unread = Some(map.next_value::<&'de RawValue>()?),
                        (key, _) => extra.push(key, map.next_value()?),
                    }
                }
                extra.settle();
                let kind = kind.ok_or_else(|| A::Error::missing_field("type"))?;
                let delta = match delta {
                    Some(delta) => delta,
                    None => OfKind(kind.as_str())
                        .deserialize(&mut serde_json::Deserializer::from_str(
                            unread.map_or("{}", RawValue::get),
                        ))
                        .map_err(A::Error::custom)?,
                };
                Ok(StreamEvent { index, delta, extra })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

fn event_schema(kind: &str, delta: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({
        "type": "object",
        "properties": { "type": { "const": kind, "type": "string" }, "index": { "type": "integer" }, "delta": delta },
        "required": ["type"],
    })
}

impl JsonSchema for StreamEvent {
    fn schema(definitions: &mut Definitions) -> serde_json::Value {
        definitions.reference("StreamEvent", |definitions| {
            let known = Delta::schemas(definitions);
            let other = serde_json::json!({
                "type": "object",
                "properties": { "type": { "type": "string", "not": { "enum": Delta::KINDS } } },
                "required": ["type"],
            });
            serde_json::json!({ "anyOf": [{ "oneOf": known }, other] })
        })
    }
}

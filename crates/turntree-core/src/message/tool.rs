//! Tool data: definitions, calls, results and execution records.
//!
//! Spec: UPP-1.2 §4–5

use super::message::Metadata;
use crate::json::{RawJson, json_object};

json_object! {
    /// The definition of a tool that is sent to a model. It does not contain the function that runs.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolDefinition {
        /// The name, unique among the tools of one request.
        pub name: String = "name",
        /// The description for the model.
        pub description: String = "description",
        /// The JSON Schema of the arguments; its root is an object. The schema is preserved as given.
        pub parameters: RawJson = "parameters",
        /// Provider metadata by provider name, for example `cache_control` or `strict`.
        pub metadata: Option<Metadata> = "metadata",
    }
}

json_object! {
    /// A tool call that a model requests.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolCall {
        /// The id of the call. Its result has the same id.
        pub tool_call_id: String = "toolCallId",
        /// The name of the tool.
        pub tool_name: String = "toolName",
        /// The arguments: an object. Not validated against the schema.
        pub arguments: RawJson = "arguments",
    }
}

json_object! {
    /// The result of a tool call.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolResult {
        /// The id of the call.
        pub tool_call_id: String = "toolCallId",
        /// The value, or the error message. `null` for no value.
        pub result: RawJson = "result",
        /// True if the tool failed.
        pub is_error: Option<bool> = "isError",
    }
}

json_object! {
    /// The record of one tool execution in a turn.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolExecution {
        /// The name of the tool.
        pub tool_name: String = "toolName",
        /// The id of the call.
        pub tool_call_id: String = "toolCallId",
        /// The arguments, after changes by hooks.
        pub arguments: RawJson = "arguments",
        /// The result that the model received.
        pub result: RawJson = "result",
        /// True if the tool failed.
        pub is_error: bool = "isError",
        /// The duration in milliseconds.
        pub duration: u64 = "duration",
        /// The decision of the approval handler; `None` without a handler.
        pub approved: Option<bool> = "approved",
    }
}

impl ToolResult {
    /// The result of a successful call.
    pub fn success(tool_call_id: impl Into<String>, result: RawJson) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            result,
            is_error: Some(false),
            extra: crate::json::Extra::new(),
        }
    }

    /// The result of a failed call. The model receives `message`.
    pub fn error(tool_call_id: impl Into<String>, message: &str) -> Self {
        Self { is_error: Some(true), ..Self::success(tool_call_id, RawJson::from_str_value(message)) }
    }

    /// True if the tool failed.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }
}

//! Tools as data: what a model may call, what it called, what came back. UPP-1.2 §4–5.

use super::message::Metadata;
use crate::json::{RawJson, json_object};

json_object! {
    /// A tool as a model sees it. What runs it is the agent's business.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolDefinition {
        /// Unique among the tools of one call.
        pub name: String = "name",
        /// What it does, for the model.
        pub description: String = "description",
        /// JSON Schema of its arguments; the root is an object. Opaque: `$defs`, `anyOf` and the like survive.
        pub parameters: RawJson = "parameters",
        /// Vendor facts by provider name, as `cache_control` or `strict`.
        pub metadata: Option<Metadata> = "metadata",
    }
}

json_object! {
    /// A model's wish to call a tool.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolCall {
        /// Ties the result to the call.
        pub tool_call_id: String = "toolCallId",
        /// The tool's name.
        pub tool_name: String = "toolName",
        /// The arguments, an object. Never checked against the schema here.
        pub arguments: RawJson = "arguments",
    }
}

json_object! {
    /// What a tool gave back.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolResult {
        /// The call it answers.
        pub tool_call_id: String = "toolCallId",
        /// The value, or what went wrong. Nothing is `null`.
        pub result: RawJson = "result",
        /// Whether it went wrong.
        pub is_error: Option<bool> = "isError",
    }
}

json_object! {
    /// The record of one execution, in a turn.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ToolExecution {
        /// The tool's name.
        pub tool_name: String = "toolName",
        /// The call.
        pub tool_call_id: String = "toolCallId",
        /// The arguments that were used, after any hook changed them.
        pub arguments: RawJson = "arguments",
        /// What the model was told.
        pub result: RawJson = "result",
        /// Whether it went wrong.
        pub is_error: bool = "isError",
        /// Milliseconds it ran.
        pub duration: u64 = "duration",
        /// What the approval handler said; `None` when there was none to ask.
        pub approved: Option<bool> = "approved",
    }
}

impl ToolResult {
    /// A value.
    pub fn success(tool_call_id: impl Into<String>, result: RawJson) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            result,
            is_error: Some(false),
            extra: crate::json::Extra::new(),
        }
    }

    /// A failure, in words that the model can read.
    pub fn error(tool_call_id: impl Into<String>, message: &str) -> Self {
        Self { is_error: Some(true), ..Self::success(tool_call_id, RawJson::from_str_value(message)) }
    }

    /// Whether it went wrong.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }
}

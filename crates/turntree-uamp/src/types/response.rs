//! Responses and their deltas.
//!
//! Spec: UAMP-1.0 §5.12, §6.6, §6.7

use turntree_core::json::union::tagged_union;

use super::content::{ContentItem, ToolCall};
use super::message::Message;
use super::number::Number;
use super::session::Modality;
use super::tool::ToolDefinition;
use super::usage::UsageStats;

object! {
    /// Settings of one response, instead of those of the session.
    ResponseOptions {
        /// The kinds of content.
        pub modalities: Option<Vec<Modality>> = "modalities",
        /// Instructions for the agent.
        pub instructions: Option<String> = "instructions",
        /// Tools that the client runs.
        pub tools: Option<Vec<ToolDefinition>> = "tools",
        /// The history, instead of that of the session.
        pub messages: Option<Vec<Message>> = "messages",
        /// The model.
        pub model: Option<String> = "model",
        /// The temperature.
        pub temperature: Option<Number> = "temperature",
        /// The largest number of output tokens.
        pub max_tokens: Option<Number> = "max_tokens",
    }
}

text_enum! {
    /// How a response ended.
    ResponseStatus {
        /// It is complete.
        Completed = "completed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It failed.
        Failed = "failed",
    }
}

object! {
    /// A complete response.
    Response {
        /// The id.
        pub id: Option<String> = "id",
        /// How it ended.
        pub status: ResponseStatus = "status",
        /// The output.
        pub output: Vec<ContentItem> = "output",
        /// The usage of all model calls.
        pub usage: Option<UsageStats> = "usage",
    }
}

text_enum! {
    /// What makes progress.
    ProgressTarget {
        /// A response.
        Response = "response",
        /// A tool.
        Tool = "tool",
        /// An upload.
        Upload = "upload",
        /// Reasoning.
        Reasoning = "reasoning",
    }
}

object! {
    /// A piece of text.
    TextDelta {
        tag "type" = "text",
        /// The piece.
        pub text: String = "text",
    }
}

object! {
    /// A piece of audio.
    AudioDelta {
        tag "type" = "audio",
        /// The piece as base64.
        pub audio: String = "audio",
    }
}

object! {
    /// A piece of a call.
    ToolCallDelta {
        tag "type" = "tool_call",
        /// The id and the name of the call, and a piece of its arguments.
        pub tool_call: ToolCall = "tool_call",
    }
}

object! {
    /// The result of a tool of the server.
    ToolResultSummary {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The result as JSON text.
        pub result: Option<String> = "result",
        /// `success` or `error`.
        pub status: Option<String> = "status",
    }
}

object! {
    /// The result of a tool of the server, as a delta.
    ToolResultDelta {
        tag "type" = "tool_result",
        /// The result.
        pub tool_result: ToolResultSummary = "tool_result",
    }
}

object! {
    /// What a tool reports while it runs.
    ToolProgress {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The text.
        pub text: String = "text",
    }
}

object! {
    /// What a tool reports while it runs, as a delta.
    ToolProgressDelta {
        tag "type" = "tool_progress",
        /// The report.
        pub tool_progress: ToolProgress = "tool_progress",
    }
}

tagged_union! {
    /// A change of a response. Unknown types can be ignored.
    pub enum Delta by "type" {
        /// A piece of text.
        Text(TextDelta) = "text",
        /// A piece of audio.
        Audio(AudioDelta) = "audio",
        /// A piece of a call.
        ToolCall(ToolCallDelta, boxed) = "tool_call",
        /// The result of a tool of the server.
        ToolResult(ToolResultDelta, boxed) = "tool_result",
        /// What a tool reports while it runs.
        ToolProgress(ToolProgressDelta, boxed) = "tool_progress",
    }
}

impl Delta {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextDelta { text: text.into(), ..TextDelta::default() })
    }
}

impl Default for Delta {
    fn default() -> Self {
        Self::Text(TextDelta::default())
    }
}

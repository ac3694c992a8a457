//! Renders tool results as text for the model.
//!
//! Spec: UAP-1.0 §5.3; decision A22

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use turntree_core::json::RawJson;
use turntree_core::message::message::History;
use turntree_core::message::{ToolCall, ToolResult};

/// Format of tool results in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ObservationFormat {
    /// One heading per result.
    #[default]
    Markdown,
    /// A list of objects with `tool`, `toolCallId`, `isError` and `result`.
    Json,
    /// One line per result.
    Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Observed<'a> {
    tool: &'a str,
    tool_call_id: &'a str,
    is_error: bool,
    result: &'a RawJson,
}

impl ObservationFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Markdown, Self::Json, Self::Text];

    /// Name of the format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Json => "json",
            Self::Text => "text",
        }
    }

    /// Renders the tool results at the end of a conversation. Returns `None` if it does not end with tool results.
    pub(super) fn render(self, messages: &History) -> Option<String> {
        let results = messages.last()?.results();
        let calls = messages.len().checked_sub(2).and_then(|index| messages.get(index))?.tool_calls();
        if results.is_empty() {
            return None;
        }
        let observed: Vec<Observed<'_>> = results.iter().map(|result| observed(result, calls)).collect();
        Some(match self {
            Self::Markdown => markdown(&observed),
            Self::Json => RawJson::from_value(&observed).unwrap_or_default().get().to_owned(),
            Self::Text => text(&observed),
        })
    }
}

fn observed<'a>(result: &'a ToolResult, calls: &'a [ToolCall]) -> Observed<'a> {
    let call = calls.iter().find(|call| call.tool_call_id == result.tool_call_id);
    Observed {
        tool: call.map_or(result.tool_call_id.as_str(), |call| &call.tool_name),
        tool_call_id: &result.tool_call_id,
        is_error: result.failed(),
        result: &result.result,
    }
}

fn markdown(observed: &[Observed<'_>]) -> String {
    let mut message = String::from("## Observations");
    for one in observed {
        let failed = if one.is_error { " (failed)" } else { "" };
        let _ = write!(message, "\n\n### {}{failed}\n\n{}", one.tool, plain(one.result));
    }
    message
}

fn text(observed: &[Observed<'_>]) -> String {
    let lines = observed.iter().map(|one| {
        let failed = if one.is_error { " failed" } else { "" };
        format!("{}{failed}: {}", one.tool, plain(one.result))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A string without quotes, any other value as JSON.
fn plain(result: &RawJson) -> String {
    result.as_string().unwrap_or_else(|| result.get().to_owned())
}

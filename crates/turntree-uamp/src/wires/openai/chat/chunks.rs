//! The frames of a streamed completion: the role first, then text, reasoning and calls, the reason of the end, the usage,
//! and `[DONE]`.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::Heading;
use super::completion::{FINGERPRINT, finish_reason, usage_json};
use crate::types::{ToolCall, UsageStats};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::reply::{Ending, ReplyPart};

/// The last frame of a stream.
const DONE: &str = "[DONE]";

/// Writes the frames of one completion. The parts of a frame that do not change are written once.
#[derive(Debug)]
pub struct Chunks {
    before_choices: String,
    has_usage: bool,
    calls: usize,
}

impl Chunks {
    /// The frames of a completion. With `has_usage`, the frame before the last has the usage, and no choices.
    pub fn new(heading: &Heading, has_usage: bool) -> Self {
        let text = |value: &str| Value::from(value).to_string();
        let before_choices = format!(
            r#"{{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"service_tier":"default","system_fingerprint":{},"choices":["#,
            text(&heading.id),
            heading.created,
            text(&heading.model),
            text(FINGERPRINT),
        );
        Self { before_choices, has_usage, calls: 0 }
    }

    /// The frame with the role.
    pub fn start(&self, frames: &mut VecDeque<String>) {
        frames.push_back(self.frame(r#"{"role":"assistant","content":"","refusal":null}"#, None));
    }

    /// The frames of a part that is not the end.
    pub fn push(&mut self, part: ReplyPart, frames: &mut VecDeque<String>) {
        match part {
            ReplyPart::Text(text) if !text.is_empty() => frames.push_back(self.text("content", &text)),
            ReplyPart::Reasoning(text) if !text.is_empty() => {
                frames.push_back(self.text("reasoning_content", &text));
            }
            ReplyPart::Call(call) => {
                frames.push_back(self.frame(&call_delta(self.calls, &call).to_string(), None));
                self.calls += 1;
            }
            // Completions have no place for other media than text.
            ReplyPart::Text(_)
            | ReplyPart::Reasoning(_)
            | ReplyPart::Audio(_)
            | ReplyPart::Transcript(_)
            | ReplyPart::Item(_)
            | ReplyPart::Hidden
            | ReplyPart::End(_) => {}
        }
    }

    /// The frames of the end. A run that was cancelled has none: nobody reads them.
    pub fn end(&self, ending: &Ending, usage: &UsageStats, frames: &mut VecDeque<String>) {
        match ending {
            Ending::Cancelled => return,
            Ending::Failed(error) => {
                frames.push_back(ApiError::from(&**error).body().to_string());
                return;
            }
            Ending::Complete | Ending::Incomplete(_) | Ending::ToolCalls => {
                frames.push_back(self.frame("{}", Some(finish_reason(ending))));
            }
        }
        if self.has_usage {
            frames.push_back(format!("{}],\"usage\":{}}}", self.before_choices, usage_json(usage)));
        }
        frames.push_back(DONE.to_owned());
    }

    /// The frame with the signature. Clients that read it see a chunk without choices.
    pub fn signature(&self, signature: &str) -> String {
        format!("{}],\"signature\":{}}}", self.before_choices, Value::from(signature))
    }

    fn text(&self, member: &str, text: &str) -> String {
        let text = serde_json::to_string(text).unwrap_or_default();
        self.frame(&format!("{{\"{member}\":{text}}}"), None)
    }

    fn frame(&self, delta: &str, finish_reason: Option<&str>) -> String {
        let before = &self.before_choices;
        let usage = if self.has_usage { ",\"usage\":null" } else { "" };
        match finish_reason {
            None => format!(
                r#"{before}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]{usage}}}"#
            ),
            Some(reason) => format!(
                r#"{before}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":"{reason}"}}]{usage}}}"#
            ),
        }
    }
}

/// The delta of a complete call.
fn call_delta(index: usize, call: &ToolCall) -> Value {
    json!({ "tool_calls": [{
        "index": index,
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    }] })
}

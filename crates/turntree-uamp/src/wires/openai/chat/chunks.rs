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

    /// The frame of a piece of text: one for each token, so it is written in one piece of memory.
    fn text(&self, member: &str, text: &str) -> String {
        let mut frame = self.begin(text.len());
        frame.push_str("{\"");
        frame.push_str(member);
        frame.push_str("\":");
        push_json_string(&mut frame, text);
        frame.push('}');
        self.finish(frame, None)
    }

    fn frame(&self, delta: &str, finish_reason: Option<&str>) -> String {
        let mut frame = self.begin(delta.len());
        frame.push_str(delta);
        self.finish(frame, finish_reason)
    }

    /// A frame up to its delta.
    fn begin(&self, length: usize) -> String {
        const BEFORE_DELTA: &str = r#"{"index":0,"delta":"#;
        const REST: usize = 128;
        let mut frame = String::with_capacity(self.before_choices.len() + BEFORE_DELTA.len() + length + REST);
        frame.push_str(&self.before_choices);
        frame.push_str(BEFORE_DELTA);
        frame
    }

    /// A frame from its delta on.
    fn finish(&self, mut frame: String, finish_reason: Option<&str>) -> String {
        frame.push_str(r#","logprobs":null,"finish_reason":"#);
        match finish_reason {
            None => frame.push_str("null}]"),
            Some(reason) => {
                frame.push('"');
                frame.push_str(reason);
                frame.push_str("\"}]");
            }
        }
        frame.push_str(if self.has_usage { r#","usage":null}"# } else { "}" });
        frame
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

/// Writes text as a string of JSON. Most pieces of text need no escapes.
fn push_json_string(json: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        json.push_str(&Value::from(text).to_string());
        return;
    }
    json.push('"');
    json.push_str(text);
    json.push('"');
}

//! The body of a completion in one piece.

use serde_json::{Value, json};

use super::Heading;
use crate::types::{ToolCall, UsageStats};
use crate::wires::openai::reply::{Ending, Incomplete, ReplyPart};

/// Which configuration has made a completion: this version.
pub(super) const FINGERPRINT: &str = concat!("fp_turntree_", env!("CARGO_PKG_VERSION"));

/// Collects the parts of a completion.
#[derive(Debug)]
pub struct Completion {
    heading: Heading,
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    ending: Ending,
}

impl Completion {
    /// A completion without output.
    pub const fn new(heading: Heading) -> Self {
        Self {
            heading,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            ending: Ending::Complete,
        }
    }

    /// Adds a part.
    pub fn push(&mut self, part: ReplyPart) {
        match part {
            ReplyPart::Text(text) => self.text.push_str(&text),
            ReplyPart::Reasoning(text) => self.reasoning.push_str(&text),
            ReplyPart::Call(call) => self.calls.push(call),
            ReplyPart::End(ending) => self.ending = ending,
            // Completions have no place for other media than text.
            ReplyPart::Audio(_) | ReplyPart::Transcript(_) | ReplyPart::Item(_) | ReplyPart::Hidden => {}
        }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The body.
    pub fn finish(self, usage: &UsageStats) -> Value {
        let Self { heading, text, reasoning, calls, ending } = self;
        let content = (!text.is_empty() || calls.is_empty()).then_some(text);
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if let Some(message) = message.as_object_mut() {
            if !reasoning.is_empty() {
                message.insert("reasoning_content".to_owned(), reasoning.into());
            }
            if !calls.is_empty() {
                let calls: Vec<Value> = calls.iter().map(call_json).collect();
                message.insert("tool_calls".to_owned(), calls.into());
            }
        }
        json!({
            "id": heading.id,
            "object": "chat.completion",
            "created": heading.created,
            "model": heading.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": finish_reason(&ending),
            }],
            "usage": usage_json(usage),
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
        })
    }
}

fn call_json(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": call.arguments },
    })
}

/// Why a completion ended.
pub(super) const fn finish_reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::ToolCalls => "tool_calls",
        Ending::Incomplete(Incomplete::Length) => "length",
        Ending::Incomplete(Incomplete::Filtered) => "content_filter",
        Ending::Complete | Ending::Cancelled | Ending::Failed(_) => "stop",
    }
}

/// The usage of a completion.
pub(super) fn usage_json(usage: &UsageStats) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": usage.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens.unwrap_or(0), "audio_tokens": 0 },
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

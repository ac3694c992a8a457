//! Chat Completions: `chat.completion` documents and `chat.completion.chunk` streams.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::answers::{ARGUMENTS, Forms, Output};
use crate::body::{event, to_bytes};

const ID: &str = "chatcmpl-bench0000000000000000000001";
const CREATED: u64 = 1_700_000_000;
const CALL_ID: &str = "call_bench000000000000000001";

/// The document and the streams of this API.
pub(crate) fn forms(model: &str, output: &Output) -> Forms {
    Forms {
        json: to_bytes(&document(model, output)),
        events: stream(model, output, false),
        events_with_usage: stream(model, output, true),
    }
}

fn document(model: &str, output: &Output) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    match output {
        Output::Text(pieces) => message["content"] = pieces.concat().into(),
        Output::ToolCall => {
            message["tool_calls"] = json!([{
                "id": CALL_ID, "type": "function",
                "function": {"name": "add", "arguments": ARGUMENTS.concat()},
            }]);
        }
    }
    json!({
        "id": ID, "object": "chat.completion", "created": CREATED, "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(output)}],
        "usage": usage(output), "service_tier": "default", "system_fingerprint": "fp_bench",
    })
}

fn stream(model: &str, output: &Output, with_usage: bool) -> Arc<[Bytes]> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": ID, "object": "chat.completion.chunk", "created": CREATED, "model": model,
            "service_tier": "default", "system_fingerprint": "fp_bench", "choices": choices,
        });
        if with_usage {
            chunk["usage"] = usage;
        }
        event(None, &chunk)
    };
    let delta = |delta: Value, finish: Value| {
        let choice = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        chunk(choice, Value::Null)
    };

    let mut frames = Vec::new();
    match output {
        Output::Text(pieces) => {
            frames.push(delta(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null));
            frames.extend(pieces.iter().map(|piece| delta(json!({"content": piece}), Value::Null)));
        }
        Output::ToolCall => {
            let call = json!({
                "index": 0, "id": CALL_ID, "type": "function", "function": {"name": "add", "arguments": ""},
            });
            frames.push(delta(
                json!({"role": "assistant", "content": null, "tool_calls": [call], "refusal": null}),
                Value::Null,
            ));
            frames.extend(ARGUMENTS.iter().map(|piece| {
                delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}), Value::Null)
            }));
        }
    }
    frames.push(delta(json!({}), finish_reason(output).into()));
    if with_usage {
        frames.push(chunk(json!([]), usage(output)));
    }
    frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
    frames.into()
}

fn finish_reason(output: &Output) -> &'static str {
    match output {
        Output::Text(_) => "stop",
        Output::ToolCall => "tool_calls",
    }
}

fn usage(output: &Output) -> Value {
    let output = match output {
        Output::Text(pieces) => pieces.len(),
        Output::ToolCall => 12,
    };
    json!({
        "prompt_tokens": 20, "completion_tokens": output, "total_tokens": 20 + output,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}

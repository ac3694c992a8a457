//! Responses: `response` documents and their named, numbered events.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::answers::{ARGUMENTS, Forms, Output};
use crate::body::{event, to_bytes};

const RESPONSE_ID: &str = "resp_bench0000000000000000000000000001";
const MESSAGE_ID: &str = "msg_bench00000000000000000000000000001";
const CALL_ITEM_ID: &str = "fc_bench000000000000000000000000000001";
const CALL_ID: &str = "call_bench000000000000000001";

/// The document and the streams of this API; its streams always contain the usage.
pub(crate) fn forms(model: &str, output: &Output) -> Forms {
    let events = stream(model, output);
    Forms {
        json: to_bytes(&response(model, output, "completed")),
        events: Arc::clone(&events),
        events_with_usage: events,
    }
}

fn response(model: &str, output: &Output, status: &str) -> Value {
    let done = status == "completed";
    json!({
        "id": RESPONSE_ID, "object": "response", "created_at": 1_700_000_000, "status": status,
        "background": false, "error": null, "incomplete_details": null, "instructions": null,
        "max_output_tokens": null, "max_tool_calls": null, "model": model,
        "output": if done { json!([item(output, true)]) } else { json!([]) },
        "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "service_tier": "default", "store": true,
        "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "usage": if done { usage(output) } else { Value::Null }, "user": null, "metadata": {},
    })
}

/// The output item; empty while it is in progress.
fn item(output: &Output, done: bool) -> Value {
    let status = if done { "completed" } else { "in_progress" };
    match output {
        Output::Text(pieces) => json!({
            "id": MESSAGE_ID, "type": "message", "status": status,
            "content": if done { json!([part(&pieces.concat())]) } else { json!([]) }, "role": "assistant",
        }),
        Output::ToolCall => json!({
            "id": CALL_ITEM_ID, "type": "function_call", "status": status,
            "arguments": if done { ARGUMENTS.concat() } else { String::new() },
            "call_id": CALL_ID, "name": "add",
        }),
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn usage(output: &Output) -> Value {
    let output = match output {
        Output::Text(pieces) => pieces.len(),
        Output::ToolCall => 12,
    };
    json!({
        "input_tokens": 20, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20 + output,
    })
}

fn stream(model: &str, output: &Output) -> Arc<[Bytes]> {
    let mut events = vec![
        json!({"type": "response.created", "response": response(model, output, "in_progress")}),
        json!({"type": "response.in_progress", "response": response(model, output, "in_progress")}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item(output, false)}),
    ];
    match output {
        Output::Text(pieces) => {
            let at = |kind: &str| {
                json!({
                    "type": kind, "item_id": MESSAGE_ID, "output_index": 0, "content_index": 0,
                })
            };
            events.push(with(at("response.content_part.added"), "part", part("")));
            events.extend(pieces.iter().map(|piece| {
                let event = with(at("response.output_text.delta"), "delta", piece.as_str().into());
                with(event, "logprobs", json!([]))
            }));
            let text = pieces.concat();
            let event = with(at("response.output_text.done"), "text", text.as_str().into());
            events.push(with(event, "logprobs", json!([])));
            events.push(with(at("response.content_part.done"), "part", part(&text)));
        }
        Output::ToolCall => {
            let at = |kind: &str| json!({"type": kind, "item_id": CALL_ITEM_ID, "output_index": 0});
            events.extend(
                ARGUMENTS.iter().map(|piece| {
                    with(at("response.function_call_arguments.delta"), "delta", (*piece).into())
                }),
            );
            let event = with(at("response.function_call_arguments.done"), "name", "add".into());
            events.push(with(event, "arguments", ARGUMENTS.concat().into()));
        }
    }
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item(output, true)}));
    events.push(json!({"type": "response.completed", "response": response(model, output, "completed")}));

    let numbered = events.into_iter().enumerate().map(|(number, data)| {
        let data = with(data, "sequence_number", number.into());
        event(data["type"].as_str(), &data)
    });
    numbered.collect()
}

/// The same object with one more field.
fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

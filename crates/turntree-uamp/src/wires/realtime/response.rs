//! The events of a response: items are added, grow, and are done; the response begins and ends once.

use serde_json::{Value, json};

use super::items::{Item, call_item};
use super::names::Generation;
use crate::types::{Message, Role, ToolCall, UsageStats};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::reply::{Ending, Incomplete, ReplyPart};

/// A response in progress.
#[derive(Debug)]
pub struct ActiveResponse {
    generation: Generation,
    /// The id.
    pub id: String,
    /// False if the output is not a part of the conversation.
    pub in_conversation: bool,
    metadata: Value,
    /// The message that grows.
    open: Option<(String, String)>,
    output: Vec<Item>,
}

/// Events of the server, without ids.
pub type Events = Vec<Value>;

impl ActiveResponse {
    /// A response without output.
    pub const fn new(generation: Generation, id: String, in_conversation: bool, metadata: Value) -> Self {
        Self { generation, id, in_conversation, metadata, open: None, output: Vec::new() }
    }

    /// The items of the output, after the end.
    pub fn into_output(self) -> Vec<Item> {
        self.output
    }

    /// The first event.
    pub fn created(&self) -> Value {
        json!({ "type": "response.created", "response": self.json("in_progress", &Value::Null, None) })
    }

    /// The events of a part that is not the end.
    pub fn push(&mut self, part: ReplyPart, new_id: impl Fn() -> String) -> Events {
        match part {
            ReplyPart::Text(text) | ReplyPart::Transcript(text) if !text.is_empty() => {
                self.grow(&text, new_id)
            }
            ReplyPart::Call(call) => self.call(&call, new_id()),
            // Reasoning and other media have no events in this protocol.
            ReplyPart::Text(_)
            | ReplyPart::Transcript(_)
            | ReplyPart::Reasoning(_)
            | ReplyPart::Audio(_)
            | ReplyPart::Item(_)
            | ReplyPart::Hidden
            | ReplyPart::End(_) => Vec::new(),
        }
    }

    /// The last events.
    pub fn end(&mut self, ending: &Ending, usage: &UsageStats) -> Events {
        let (status, details) = match ending {
            Ending::Complete | Ending::ToolCalls => ("completed", Value::Null),
            Ending::Incomplete(reason) => {
                let reason = match reason {
                    Incomplete::Length => "max_output_tokens",
                    Incomplete::Filtered => "content_filter",
                };
                ("incomplete", json!({ "type": "incomplete", "reason": reason }))
            }
            Ending::Cancelled => ("cancelled", json!({ "type": "cancelled", "reason": "client_cancelled" })),
            Ending::Failed(error) => {
                let error = ApiError::from(&**error);
                let object =
                    json!({ "type": error.kind(), "code": error.code(), "message": error.to_string() });
                ("failed", json!({ "type": "failed", "error": object }))
            }
        };
        let item_status = if status == "completed" { "completed" } else { "incomplete" };
        let mut events = self.close(item_status);
        let response = self.json(status, &details, Some(usage));
        events.push(json!({ "type": "response.done", "response": response }));
        events
    }

    fn json(&self, status: &str, details: &Value, usage: Option<&UsageStats>) -> Value {
        let output: Vec<&Value> = self.output.iter().map(|item| &item.json).collect();
        let mut object = json!({
            "id": self.id, "object": "realtime.response", "status": status, "status_details": details,
            "output": output, "metadata": self.metadata, "usage": usage.map(usage_json),
            "max_output_tokens": "inf",
        });
        if let Some(object) = object.as_object_mut() {
            object.insert(self.generation.modalities().to_owned(), json!(["text"]));
        }
        object
    }

    fn place(&self, item_id: &str) -> Value {
        json!({ "response_id": self.id, "item_id": item_id, "output_index": self.output.len() })
    }

    fn item_event(&self, kind: &str, item: &Value) -> Value {
        json!({ "type": kind, "response_id": self.id, "output_index": self.output.len(), "item": item })
    }

    fn grow(&mut self, piece: &str, new_id: impl Fn() -> String) -> Events {
        let mut events = Vec::new();
        if self.open.is_none() {
            let id = new_id();
            let item = message_json(&id, "in_progress", &[]);
            events.push(self.item_event("response.output_item.added", &item));
            events.extend(self.generation.item_events().first().map(|kind| item_added(kind, &item)));
            let part = json!({ "content_index": 0, "part": self.part("") });
            events.push(event("response.content_part.added", &self.place(&id), part));
            self.open = Some((id, String::new()));
        }
        if let Some((id, text)) = &mut self.open {
            text.push_str(piece);
            let id = id.clone();
            let delta = json!({ "content_index": 0, "delta": piece });
            events.push(event(self.generation.text_delta(), &self.place(&id), delta));
        }
        events
    }

    fn part(&self, text: &str) -> Value {
        json!({ "type": self.generation.text_part(), "text": text })
    }

    /// Completes the message that grows.
    fn close(&mut self, status: &str) -> Events {
        let Some((id, text)) = self.open.take() else { return Vec::new() };
        let (place, part) = (self.place(&id), self.part(&text));
        let json = message_json(&id, status, std::slice::from_ref(&part));
        let mut events = vec![
            event(self.generation.text_done(), &place, json!({ "content_index": 0, "text": text })),
            event("response.content_part.done", &place, json!({ "content_index": 0, "part": part })),
            self.item_event("response.output_item.done", &json),
        ];
        events.extend(self.generation.item_events().get(1).map(|kind| item_added(kind, &json)));
        self.output.push(Item { id, json, message: Message::text(Role::Assistant, text) });
        events
    }

    fn call(&mut self, call: &ToolCall, id: String) -> Events {
        let mut events = self.close("completed");
        let (place, item) = (self.place(&id), call_item(id, &call.id, &call.name, &call.arguments));
        let mut begun = item.json.clone();
        if let Some(begun) = begun.as_object_mut() {
            begun.insert("status".to_owned(), "in_progress".into());
            begun.insert("arguments".to_owned(), "".into());
        }
        events.push(self.item_event("response.output_item.added", &begun));
        events.extend(self.generation.item_events().first().map(|kind| item_added(kind, &begun)));
        let delta = json!({ "call_id": call.id, "delta": call.arguments });
        events.push(event("response.function_call_arguments.delta", &place, delta));
        let done = json!({ "call_id": call.id, "name": call.name, "arguments": call.arguments });
        events.push(event("response.function_call_arguments.done", &place, done));
        events.push(self.item_event("response.output_item.done", &item.json));
        events.extend(self.generation.item_events().get(1).map(|kind| item_added(kind, &item.json)));
        self.output.push(item);
        events
    }
}

fn item_added(kind: &str, item: &Value) -> Value {
    json!({ "type": kind, "previous_item_id": null, "item": item })
}

fn message_json(id: &str, status: &str, content: &[Value]) -> Value {
    json!({
        "id": id, "object": "realtime.item", "type": "message", "status": status, "role": "assistant",
        "content": content,
    })
}

/// An event with the members of two objects.
fn event(kind: &str, first: &Value, second: Value) -> Value {
    let mut event = json!({ "type": kind });
    if let Some(event) = event.as_object_mut() {
        for members in [first.clone(), second] {
            if let Value::Object(members) = members {
                event.extend(members);
            }
        }
    }
    event
}

fn usage_json(usage: &UsageStats) -> Value {
    let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
    json!({
        "total_tokens": usage.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
        "input_tokens": input,
        "output_tokens": output,
        "input_token_details": {
            "cached_tokens": usage.cached_tokens.unwrap_or(0), "text_tokens": input, "audio_tokens": 0,
        },
        "output_token_details": { "text_tokens": output, "audio_tokens": 0 },
    })
}

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
    open: Option<OpenMessage>,
    output: Vec<Item>,
    has_audio: bool,
}

#[derive(Debug)]
struct OpenMessage {
    id: String,
    parts: Vec<Part>,
}

/// A part of a message.
#[derive(Debug)]
struct Part {
    is_audio: bool,
    /// The text, or that of the audio.
    text: String,
}

/// What a message grows by.
#[derive(Debug)]
enum Piece {
    Text(String),
    /// Audio as base64, which is not kept.
    Audio(String),
    Transcript(String),
}

/// Events of the server, without ids.
pub type Events = Vec<Value>;

impl ActiveResponse {
    /// A response without output.
    pub const fn new(generation: Generation, id: String, in_conversation: bool, metadata: Value) -> Self {
        Self { generation, id, in_conversation, metadata, open: None, output: Vec::new(), has_audio: false }
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
            ReplyPart::Text(text) if !text.is_empty() => self.grow(Piece::Text(text), new_id),
            ReplyPart::Audio(audio) if !audio.is_empty() => self.grow(Piece::Audio(audio), new_id),
            ReplyPart::Transcript(text) if !text.is_empty() => self.grow(Piece::Transcript(text), new_id),
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
            let modalities = if self.has_audio { self.generation.with_audio() } else { &["text"] };
            object.insert(self.generation.modalities().to_owned(), json!(modalities));
        }
        object
    }

    fn place(&self, item_id: &str) -> Value {
        json!({ "response_id": self.id, "item_id": item_id, "output_index": self.output.len() })
    }

    fn item_event(&self, kind: &str, item: &Value) -> Value {
        json!({ "type": kind, "response_id": self.id, "output_index": self.output.len(), "item": item })
    }

    fn grow(&mut self, piece: Piece, new_id: impl Fn() -> String) -> Events {
        let mut events = Vec::new();
        let mut message = self.open.take().unwrap_or_else(|| {
            let id = new_id();
            let item = message_json(&id, "in_progress", &[]);
            events.push(self.item_event("response.output_item.added", &item));
            events.extend(self.generation.item_events().first().map(|kind| item_added(kind, &item)));
            OpenMessage { id, parts: Vec::new() }
        });
        let place = self.place(&message.id);
        let is_audio = !matches!(piece, Piece::Text(_));
        self.has_audio |= is_audio;
        let index = message.parts.iter().position(|part| part.is_audio == is_audio).unwrap_or_else(|| {
            let part = Part { is_audio, text: String::new() };
            let index = message.parts.len();
            let added = json!({ "content_index": index, "part": self.part(&part) });
            events.push(event("response.content_part.added", &place, added));
            message.parts.push(part);
            index
        });
        let (kind, delta) = match piece {
            Piece::Audio(audio) => (self.generation.audio_delta(), audio),
            Piece::Text(text) => (self.generation.text_delta(), text),
            Piece::Transcript(text) => (self.generation.transcript_delta(), text),
        };
        if let Some(part) = message.parts.get_mut(index)
            && kind != self.generation.audio_delta()
        {
            part.text.push_str(&delta);
        }
        events.push(event(kind, &place, json!({ "content_index": index, "delta": delta })));
        self.open = Some(message);
        events
    }

    fn part(&self, part: &Part) -> Value {
        if part.is_audio {
            json!({ "type": self.generation.audio_part(), "transcript": part.text })
        } else {
            json!({ "type": self.generation.text_part(), "text": part.text })
        }
    }

    /// Completes the message that grows.
    fn close(&mut self, status: &str) -> Events {
        let Some(OpenMessage { id, parts }) = self.open.take() else { return Vec::new() };
        let (place, mut events) = (self.place(&id), Vec::new());
        for (index, part) in parts.iter().enumerate() {
            if part.is_audio {
                let done = json!({ "content_index": index });
                events.push(event(self.generation.audio_done(), &place, done));
                let done = json!({ "content_index": index, "transcript": part.text });
                events.push(event(self.generation.transcript_done(), &place, done));
            } else {
                let done = json!({ "content_index": index, "text": part.text });
                events.push(event(self.generation.text_done(), &place, done));
            }
            let done = json!({ "content_index": index, "part": self.part(part) });
            events.push(event("response.content_part.done", &place, done));
        }
        let content: Vec<Value> = parts.iter().map(|part| self.part(part)).collect();
        let json = message_json(&id, status, &content);
        events.push(self.item_event("response.output_item.done", &json));
        events.extend(self.generation.item_events().get(1).map(|kind| item_added(kind, &json)));
        let text: String = parts.into_iter().map(|part| part.text).collect();
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

//! The events of a response: each output item is added, grows, and is done; the response begins and ends once.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::ids::IdSource;

use super::response::{ResponseObject, Status};
use crate::types::{ToolCall, UsageStats};
use crate::wires::openai::common::new_id;
use crate::wires::openai::reply::{Ending, ReplyPart};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type.
    pub kind: &'static str,
    /// The event as JSON.
    pub data: String,
}

/// The item that grows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    kind: OpenKind,
    id: String,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenKind {
    Message,
    Reasoning,
}

/// Writes the events of one response.
#[derive(Debug, Clone)]
pub struct Frames {
    object: ResponseObject,
    open: Option<Open>,
    sequence: u64,
    ids: Arc<dyn IdSource>,
}

impl Frames {
    /// The events of a response in progress.
    pub fn new(object: ResponseObject, ids: Arc<dyn IdSource>) -> Self {
        Self { object, open: None, sequence: 0, ids }
    }

    /// The response as it is now.
    pub const fn object(&self) -> &ResponseObject {
        &self.object
    }

    /// The first events.
    pub fn start(&mut self, frames: &mut VecDeque<Frame>) {
        let object = self.object.to_json();
        self.emit("response.created", json!({ "response": object }), frames);
        self.emit("response.in_progress", json!({ "response": object }), frames);
    }

    /// The events of a part that is not the end.
    pub fn push(&mut self, part: ReplyPart, frames: &mut VecDeque<Frame>) {
        match part {
            ReplyPart::Text(text) if !text.is_empty() => self.grow(OpenKind::Message, &text, frames),
            ReplyPart::Reasoning(text) if !text.is_empty() => {
                self.grow(OpenKind::Reasoning, &text, frames);
            }
            ReplyPart::Call(call) => self.call(&call, frames),
            // Responses have no items for other media than text.
            ReplyPart::Text(_)
            | ReplyPart::Reasoning(_)
            | ReplyPart::Audio(_)
            | ReplyPart::Transcript(_)
            | ReplyPart::Item(_)
            | ReplyPart::Hidden
            | ReplyPart::End(_) => {}
        }
    }

    /// The last events.
    pub fn end(&mut self, ending: &Ending, usage: &UsageStats, now: i64, frames: &mut VecDeque<Frame>) {
        let is_incomplete = matches!(ending, Ending::Incomplete(_) | Ending::Cancelled | Ending::Failed(_));
        self.close(if is_incomplete { "incomplete" } else { "completed" }, frames);
        let (kind, status) = match ending {
            Ending::Complete | Ending::ToolCalls => ("response.completed", Status::Completed),
            Ending::Incomplete(reason) => ("response.incomplete", Status::Incomplete(*reason)),
            Ending::Cancelled => ("response.incomplete", Status::Cancelled),
            Ending::Failed(error) => ("response.failed", Status::Failed(error.clone())),
        };
        self.object.finish(status, usage, now);
        let object = self.object.to_json();
        self.emit(kind, json!({ "response": object }), frames);
    }

    fn place(&self) -> usize {
        self.object.output.len()
    }

    fn emit(&mut self, kind: &'static str, members: Value, frames: &mut VecDeque<Frame>) {
        let mut event = json!({ "type": kind, "sequence_number": self.sequence });
        if let (Some(event), Value::Object(members)) = (event.as_object_mut(), members) {
            event.extend(members);
        }
        self.sequence += 1;
        frames.push_back(Frame { kind, data: event.to_string() });
    }

    /// Adds text to the open item, or opens one.
    fn grow(&mut self, kind: OpenKind, piece: &str, frames: &mut VecDeque<Frame>) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close("completed", frames);
            self.open(kind, frames);
        }
        let (sequence, place) = (self.sequence, self.place());
        let Some(open) = &mut self.open else { return };
        open.text.push_str(piece);
        let delta = serde_json::to_string(piece).unwrap_or_default();
        let (kind, rest) = match kind {
            OpenKind::Message => ("response.output_text.delta", r#""content_index":0,"logprobs":[]"#),
            OpenKind::Reasoning => ("response.reasoning_summary_text.delta", r#""summary_index":0"#),
        };
        let data = format!(
            r#"{{"type":"{kind}","sequence_number":{sequence},"item_id":"{}","output_index":{place},{rest},"delta":{delta}}}"#,
            open.id
        );
        self.sequence += 1;
        frames.push_back(Frame { kind, data });
    }

    fn open(&mut self, kind: OpenKind, frames: &mut VecDeque<Frame>) {
        let place = self.place();
        let id = match kind {
            OpenKind::Message => new_id("msg", &*self.ids),
            OpenKind::Reasoning => new_id("rs", &*self.ids),
        };
        let item = match kind {
            OpenKind::Message => {
                json!({ "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] })
            }
            OpenKind::Reasoning => json!({ "id": id, "type": "reasoning", "summary": [] }),
        };
        self.emit("response.output_item.added", json!({ "output_index": place, "item": item }), frames);
        match kind {
            OpenKind::Message => {
                let part = text_part("");
                let members =
                    json!({ "item_id": id, "output_index": place, "content_index": 0, "part": part });
                self.emit("response.content_part.added", members, frames);
            }
            OpenKind::Reasoning => {
                let part = summary_part("");
                let members =
                    json!({ "item_id": id, "output_index": place, "summary_index": 0, "part": part });
                self.emit("response.reasoning_summary_part.added", members, frames);
            }
        }
        self.open = Some(Open { kind, id, text: String::new() });
    }

    /// Ends the open item with a status.
    fn close(&mut self, status: &str, frames: &mut VecDeque<Frame>) {
        let Some(Open { kind, id, text }) = self.open.take() else { return };
        let place = self.place();
        let item = match kind {
            OpenKind::Message => {
                let at = json!({ "item_id": id, "output_index": place, "content_index": 0 });
                let part = text_part(&text);
                self.emit(
                    "response.output_text.done",
                    with(&at, json!({ "text": text, "logprobs": [] })),
                    frames,
                );
                self.emit("response.content_part.done", with(&at, json!({ "part": part })), frames);
                let content = [part];
                json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
            }
            OpenKind::Reasoning => {
                let at = json!({ "item_id": id, "output_index": place, "summary_index": 0 });
                let part = summary_part(&text);
                self.emit("response.reasoning_summary_text.done", with(&at, json!({ "text": text })), frames);
                self.emit("response.reasoning_summary_part.done", with(&at, json!({ "part": part })), frames);
                json!({ "id": id, "type": "reasoning", "summary": [part] })
            }
        };
        self.finish_item(item, frames);
    }

    fn call(&mut self, call: &ToolCall, frames: &mut VecDeque<Frame>) {
        self.close("completed", frames);
        let (place, id) = (self.place(), new_id("fc", &*self.ids));
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "call_id": call.id,
                "name": call.name, "arguments": arguments,
            })
        };
        let added = json!({ "output_index": place, "item": item("in_progress", "") });
        self.emit("response.output_item.added", added, frames);
        let at = json!({ "item_id": id, "output_index": place });
        let delta = with(&at, json!({ "delta": call.arguments }));
        self.emit("response.function_call_arguments.delta", delta, frames);
        let done = with(&at, json!({ "name": call.name, "arguments": call.arguments }));
        self.emit("response.function_call_arguments.done", done, frames);
        self.finish_item(item("completed", &call.arguments), frames);
    }

    fn finish_item(&mut self, item: Value, frames: &mut VecDeque<Frame>) {
        let place = self.place();
        self.emit("response.output_item.done", json!({ "output_index": place, "item": item }), frames);
        self.object.output.push(item);
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn summary_part(text: &str) -> Value {
    json!({ "type": "summary_text", "text": text })
}

/// An object with the members of two.
fn with(first: &Value, second: Value) -> Value {
    let mut both = first.clone();
    if let (Some(both), Value::Object(second)) = (both.as_object_mut(), second) {
        both.extend(second);
    }
    both
}

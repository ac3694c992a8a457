//! The output of a run as events of AG-UI; without I/O.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::ids::IdSource;

use super::super::media::{MediaPart, Source};
use crate::session::AgentOutput;
use crate::types::{ContentItem, ErrorDetails, ProgressTarget, ToolCall};

/// What the last event has left open.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    Nothing,
    Text { message_id: String },
    Reasoning { message_id: String },
    Call { call_id: String },
}

/// Makes the events of one run. Messages, reasoning and calls are open one after the other; every one that begins ends.
#[derive(Debug)]
pub struct Events {
    thread_id: String,
    run_id: String,
    ids: Arc<dyn IdSource>,
    open: Open,
    /// The message that calls belong to.
    message_id: Option<String>,
    step: Option<String>,
    steps: u64,
    /// The calls whose beginning was sent.
    begun: HashSet<String>,
    /// The calls of tools of the server that have no result.
    running: HashSet<String>,
    awaits_client: bool,
    ended: bool,
}

impl Events {
    /// Events of a run.
    pub fn new(thread_id: String, run_id: String, ids: Arc<dyn IdSource>) -> Self {
        Self {
            thread_id,
            run_id,
            ids,
            open: Open::Nothing,
            message_id: None,
            step: None,
            steps: 0,
            begun: HashSet::new(),
            running: HashSet::new(),
            awaits_client: false,
            ended: false,
        }
    }

    /// The first event.
    pub fn start(&mut self) -> Vec<Value> {
        vec![json!({ "type": "RUN_STARTED", "threadId": self.thread_id, "runId": self.run_id })]
    }

    /// True after the last event.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// The events of a piece of output. After the end there are none.
    pub fn push(&mut self, output: AgentOutput) -> Vec<Value> {
        if self.ended {
            return Vec::new();
        }
        let mut events = Vec::new();
        match output {
            AgentOutput::Text(text) | AgentOutput::Transcript(text) => self.text(&text, &mut events),
            AgentOutput::Thinking(text) | AgentOutput::Planning(text) => self.reasoning(&text, &mut events),
            AgentOutput::ToolCallFragment(call) => {
                self.running.insert(call.id.clone());
                self.fragment(&call, &mut events);
            }
            AgentOutput::ClientToolCall(call) => {
                self.running.remove(&call.id);
                if !self.begun.contains(&call.id) {
                    self.fragment(&call, &mut events);
                }
            }
            AgentOutput::AwaitingClient => self.awaits_client = true,
            AgentOutput::ServerToolResult(outcome) => {
                self.running.remove(&outcome.call_id);
                self.close(&mut events);
                events.push(json!({
                    "type": "TOOL_CALL_RESULT", "messageId": self.ids.string(), "toolCallId": outcome.call_id,
                    "content": outcome.result, "role": "tool",
                }));
            }
            AgentOutput::ToolProgress { call_id, text } => events.push(json!({
                "type": "CUSTOM", "name": "tool_progress", "value": { "toolCallId": call_id, "text": text },
            })),
            AgentOutput::Progress(progress) => {
                let is_step =
                    progress.target == ProgressTarget::Response && progress.stage.as_deref() == Some("step");
                if is_step {
                    self.begin_step(&mut events);
                }
            }
            AgentOutput::Item(item) => events.extend(media(&item)),
            AgentOutput::Usage(usage) => {
                events.push(json!({ "type": "CUSTOM", "name": "usage", "value": *usage }));
            }
            AgentOutput::Failed(error) => self.fail(&error, &mut events),
            AgentOutput::Done => events.extend(self.end()),
            // The complete audio follows.
            AgentOutput::Audio(_) => {}
        }
        // A tool of the server that runs beside those of the front end is completed first.
        if self.awaits_client && self.running.is_empty() {
            events.extend(self.end());
        }
        events
    }

    /// The events at the end of a run.
    pub fn end(&mut self) -> Vec<Value> {
        if self.ended {
            return Vec::new();
        }
        let mut events = Vec::new();
        self.end_step(&mut events);
        self.ended = true;
        events.push(json!({ "type": "RUN_FINISHED", "threadId": self.thread_id, "runId": self.run_id }));
        events
    }

    fn fail(&mut self, error: &ErrorDetails, events: &mut Vec<Value>) {
        self.end_step(events);
        self.ended = true;
        let code = error.code.as_str();
        events.push(json!({ "type": "RUN_ERROR", "message": error.message, "code": code }));
    }

    fn text(&mut self, text: &str, events: &mut Vec<Value>) {
        if text.is_empty() {
            return;
        }
        let message_id = if let Open::Text { message_id } = &self.open {
            message_id.clone()
        } else {
            self.close(events);
            let message_id = self.ids.string();
            events.push(json!({
                "type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant",
            }));
            self.open = Open::Text { message_id: message_id.clone() };
            self.message_id = Some(message_id.clone());
            message_id
        };
        events.push(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text }));
    }

    fn reasoning(&mut self, text: &str, events: &mut Vec<Value>) {
        if text.is_empty() {
            return;
        }
        let message_id = if let Open::Reasoning { message_id } = &self.open {
            message_id.clone()
        } else {
            self.close(events);
            let message_id = self.ids.string();
            events.push(json!({ "type": "REASONING_START", "messageId": message_id }));
            events.push(json!({
                "type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning",
            }));
            self.open = Open::Reasoning { message_id: message_id.clone() };
            message_id
        };
        events.push(json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": message_id, "delta": text }));
    }

    /// A piece of a call. Models write one call after the other.
    fn fragment(&mut self, call: &ToolCall, events: &mut Vec<Value>) {
        let is_open = matches!(&self.open, Open::Call { call_id } if *call_id == call.id);
        if !is_open {
            self.close(events);
            let mut event =
                json!({ "type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name });
            if let (Some(message_id), Some(members)) = (&self.message_id, event.as_object_mut()) {
                // Front ends refuse null.
                members.insert("parentMessageId".to_owned(), message_id.as_str().into());
            }
            events.push(event);
            self.begun.insert(call.id.clone());
            self.open = Open::Call { call_id: call.id.clone() };
        }
        if !call.arguments.is_empty() {
            events.push(json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": call.arguments }));
        }
    }

    /// Ends what is open.
    fn close(&mut self, events: &mut Vec<Value>) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Text { message_id } => {
                events.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": message_id }));
            }
            Open::Reasoning { message_id } => {
                events.push(json!({ "type": "REASONING_MESSAGE_END", "messageId": message_id }));
                events.push(json!({ "type": "REASONING_END", "messageId": message_id }));
            }
            Open::Call { call_id } => {
                events.push(json!({ "type": "TOOL_CALL_END", "toolCallId": call_id }));
            }
        }
    }

    fn begin_step(&mut self, events: &mut Vec<Value>) {
        self.end_step(events);
        self.steps += 1;
        self.message_id = None;
        let name = format!("step {}", self.steps);
        events.push(json!({ "type": "STEP_STARTED", "stepName": name }));
        self.step = Some(name);
    }

    fn end_step(&mut self, events: &mut Vec<Value>) {
        self.close(events);
        if let Some(name) = self.step.take() {
            events.push(json!({ "type": "STEP_FINISHED", "stepName": name }));
        }
    }
}

/// The event of media that the agent has made.
fn media(item: &ContentItem) -> Option<Value> {
    let MediaPart { mime_type, source, filename } = MediaPart::of_item(item)?;
    let (kind, value) = match source {
        Source::Url(url) => ("url", url),
        Source::Base64(data) => ("data", data),
    };
    let source = json!({ "type": kind, "value": value, "mimeType": mime_type });
    Some(json!({ "type": "CUSTOM", "name": "media", "value": { "source": source, "filename": filename } }))
}

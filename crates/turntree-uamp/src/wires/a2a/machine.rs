//! A task as a state machine without I/O: the output of a run in, events of streams out.
//!
//! A stream is the task, updates of its artifacts, and a last update of its state, whose message repeats the text.
//!
//! Spec: A2A 1.0

use std::sync::Arc;

use serde_json::{Value, json};
use turntree_core::ids::IdSource;
use turntree_core::time::Timestamp;

use super::super::media::{MediaPart, Source};
use super::model::{
    Artifact, ArtifactUpdate, Message, Part, Role, StatusUpdate, StreamEvent, Task, TaskState, TaskStatus,
};
use crate::agent::pending_approvals;
use crate::session::AgentOutput;
use crate::types::{ContentItem, ErrorDetails, ToolCall};

/// The artifact with the text of the answer.
const RESPONSE: &str = "response";

/// A task and the output of its run.
#[derive(Debug)]
pub struct TaskMachine {
    task: Task,
    ids: Arc<dyn IdSource>,
    /// The place of the artifact with the text of this run.
    response: Option<usize>,
}

impl TaskMachine {
    /// A new task for a message.
    pub fn new(
        id: String,
        context_id: String,
        message: Message,
        ids: Arc<dyn IdSource>,
        now: Timestamp,
    ) -> Self {
        let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: now.to_string() };
        let mut task = Task { id, context_id, status, artifacts: Vec::new(), history: Vec::new() };
        let first = with_ids(message, &task);
        task.history.push(first);
        Self { task, ids, response: None }
    }

    /// A stored task that a message continues.
    pub fn continued(mut task: Task, message: Message, ids: Arc<dyn IdSource>, now: Timestamp) -> Self {
        if let Some(question) = task.status.message.take() {
            task.history.push(question);
        }
        let message = with_ids(message, &task);
        task.history.push(message);
        task.status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: now.to_string() };
        Self { task, ids, response: None }
    }

    /// A stored task that nobody works on.
    pub const fn stored(task: Task, ids: Arc<dyn IdSource>) -> Self {
        Self { task, ids, response: None }
    }

    /// The task as it is now.
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// Replaces the task by that which another server has stored.
    pub fn adopt(&mut self, task: Task) -> StreamEvent {
        self.task = task;
        self.status_update()
    }

    /// The agent begins.
    pub fn begin(&mut self, now: Timestamp) -> StreamEvent {
        self.set_state(TaskState::Working, None, now)
    }

    /// The events of a piece of output. After the end there are none.
    pub fn push(&mut self, output: AgentOutput, now: Timestamp) -> Vec<StreamEvent> {
        let state = self.task.status.state;
        if state.is_terminal() || state.is_interrupted() {
            return Vec::new();
        }
        match output {
            AgentOutput::Text(text) if !text.is_empty() => vec![self.text(text)],
            AgentOutput::Item(item) => self.media(&item).into_iter().collect(),
            AgentOutput::Done => {
                let text = self.response_text();
                let parts = if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
                vec![self.set_state(TaskState::Completed, Some(parts), now)]
            }
            AgentOutput::Failed(error) => vec![self.fail(&error, now)],
            _ => Vec::new(),
        }
    }

    /// The run was cancelled.
    pub fn cancel(&mut self, now: Timestamp) -> StreamEvent {
        self.set_state(TaskState::Canceled, None, now)
    }

    /// The run has failed, or waits for approvals.
    pub fn fail(&mut self, error: &ErrorDetails, now: Timestamp) -> StreamEvent {
        let calls = pending_approvals(error);
        if calls.is_empty() {
            return self.set_state(TaskState::Failed, Some(vec![Part::text(error.message.clone())]), now);
        }
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let text = format!(
            "The agent asks for approval of: {}. Answer \"approve\", or say why not.",
            names.join(", ")
        );
        let list: Vec<Value> = calls.iter().map(question).collect();
        let parts = vec![Part::text(text), Part::data(json!({ "approvals": list }))];
        self.set_state(TaskState::InputRequired, Some(parts), now)
    }

    fn set_state(&mut self, state: TaskState, parts: Option<Vec<Part>>, now: Timestamp) -> StreamEvent {
        let message = parts.filter(|parts| !parts.is_empty()).map(|parts| Message {
            message_id: self.ids.string(),
            context_id: Some(self.task.context_id.clone()),
            task_id: Some(self.task.id.clone()),
            role: Role::Agent,
            parts,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        });
        if state == TaskState::Completed {
            self.task.history.extend(message.clone());
        }
        self.task.status = TaskStatus { state, message, timestamp: now.to_string() };
        self.status_update()
    }

    fn status_update(&self) -> StreamEvent {
        StreamEvent::StatusUpdate(StatusUpdate {
            task_id: self.task.id.clone(),
            context_id: self.task.context_id.clone(),
            status: self.task.status.clone(),
        })
    }

    fn text(&mut self, text: String) -> StreamEvent {
        let place = self.response.filter(|place| *place < self.task.artifacts.len());
        let append = place.is_some();
        let artifact_id = match place.and_then(|place| self.task.artifacts.get_mut(place)) {
            Some(artifact) => {
                match artifact.parts.first_mut().and_then(|part| part.text.as_mut()) {
                    Some(whole) => whole.push_str(&text),
                    None => artifact.parts.push(Part::text(text.clone())),
                }
                artifact.artifact_id.clone()
            }
            None => self.add_artifact(RESPONSE, Part::text(text.clone())),
        };
        if !append {
            self.response = self.task.artifacts.len().checked_sub(1);
        }
        let artifact =
            Artifact { artifact_id, name: Some(RESPONSE.to_owned()), parts: vec![Part::text(text)] };
        self.artifact_update(artifact, append)
    }

    fn media(&mut self, item: &ContentItem) -> Option<StreamEvent> {
        let MediaPart { mime_type, source, filename } = MediaPart::of_item(item)?;
        let (raw, url) = match source {
            Source::Base64(data) => (Some(data), None),
            Source::Url(url) => (None, Some(url)),
        };
        let part = Part { raw, url, media_type: Some(mime_type), filename, ..Part::default() };
        self.add_artifact("media", part);
        let artifact = self.task.artifacts.last()?.clone();
        Some(self.artifact_update(artifact, false))
    }

    /// Adds an artifact and returns its id.
    fn add_artifact(&mut self, name: &str, part: Part) -> String {
        let artifact_id = format!("{name}-{}", self.task.artifacts.len() + 1);
        let artifact =
            Artifact { artifact_id: artifact_id.clone(), name: Some(name.to_owned()), parts: vec![part] };
        self.task.artifacts.push(artifact);
        artifact_id
    }

    fn artifact_update(&self, artifact: Artifact, append: bool) -> StreamEvent {
        let last_chunk = artifact.name.as_deref() != Some(RESPONSE);
        StreamEvent::ArtifactUpdate(ArtifactUpdate {
            task_id: self.task.id.clone(),
            context_id: self.task.context_id.clone(),
            artifact,
            append,
            last_chunk,
        })
    }

    fn response_text(&self) -> String {
        let artifact = self.response.and_then(|place| self.task.artifacts.get(place));
        let part = artifact.and_then(|artifact| artifact.parts.first());
        part.and_then(|part| part.text.clone()).unwrap_or_default()
    }
}

fn with_ids(message: Message, task: &Task) -> Message {
    Message { context_id: Some(task.context_id.clone()), task_id: Some(task.id.clone()), ..message }
}

/// A call that waits for approval, for the client.
fn question(call: &ToolCall) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    json!({ "callId": call.id, "tool": call.name, "arguments": arguments })
}

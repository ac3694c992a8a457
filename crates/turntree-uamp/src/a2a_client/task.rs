//! The task of a call, as the updates of the agent describe it.
//!
//! Servers differ in which members they send, so updates are read leniently: what is missing does not change the task.

use serde_json::Value;

/// The state of a task: the words of version 0.3, for both versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State(String);

impl State {
    fn read(value: &Value) -> Option<Self> {
        let name = value.as_str()?.to_ascii_lowercase().replace('_', "-");
        Some(Self(name.strip_prefix("task-state-").unwrap_or(&name).to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// True if nothing follows until the client does something.
    pub(super) fn is_last(&self) -> bool {
        matches!(
            self.as_str(),
            "completed" | "failed" | "canceled" | "rejected" | "input-required" | "auth-required"
        )
    }
}

/// The task.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteTask {
    pub(super) id: Option<String>,
    pub(super) context_id: Option<String>,
    pub(super) state: State,
    /// What the agent said with the last state.
    pub(super) message: String,
    /// The texts of the artifacts by their ids, in the order of the artifacts.
    artifacts: Vec<(String, String)>,
}

impl RemoteTask {
    /// Applies an update of a stream or the result of a request. Returns what is new to report.
    pub(super) fn apply(&mut self, update: &Value) -> Option<String> {
        let inner = |name: &str| update.get(name).filter(|value| value.is_object());
        let kind = update.get("kind").and_then(Value::as_str);
        if let Some(task) = inner("task") {
            self.apply_task(task)
        } else if let Some(message) = inner("message") {
            self.apply_message(message)
        } else if let Some(change) = inner("statusUpdate") {
            self.apply_status(change)
        } else if let Some(change) = inner("artifactUpdate") {
            self.apply_artifact(change)
        } else {
            match kind {
                Some("message") => self.apply_message(update),
                Some("status-update") => self.apply_status(update),
                Some("artifact-update") => self.apply_artifact(update),
                _ => self.apply_task(update),
            }
        }
    }

    /// The answer: the artifacts, or what the agent said last.
    pub(super) fn text(&self) -> String {
        let texts: Vec<&str> =
            self.artifacts.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() { self.message.clone() } else { texts.join("\n").trim_end().to_owned() }
    }

    fn apply_ids(&mut self, value: &Value, id: &str) {
        let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(id) = text(id) {
            self.id = Some(id.to_owned());
        }
        if let Some(id) = text("contextId") {
            self.context_id = Some(id.to_owned());
        }
    }

    fn apply_task(&mut self, task: &Value) -> Option<String> {
        self.apply_ids(task, "id");
        if let Some(list) = task.get("artifacts").and_then(Value::as_array) {
            self.artifacts = list.iter().map(|artifact| (id_of(artifact), pieces_of(artifact))).collect();
        }
        task.get("status").and_then(|status| self.apply_state(status))
    }

    /// A message instead of a task is the whole answer.
    fn apply_message(&mut self, message: &Value) -> Option<String> {
        self.apply_ids(message, "taskId");
        self.message = text_of(message);
        self.state = State("completed".to_owned());
        None
    }

    fn apply_status(&mut self, change: &Value) -> Option<String> {
        self.apply_ids(change, "taskId");
        change.get("status").and_then(|status| self.apply_state(status))
    }

    fn apply_state(&mut self, status: &Value) -> Option<String> {
        if let Some(state) = status.get("state").and_then(State::read) {
            self.state = state;
        }
        let said = status.get("message").map(text_of).unwrap_or_default();
        let report = (!said.is_empty() && !self.state.is_last()).then(|| said.clone());
        self.message = said;
        report
    }

    fn apply_artifact(&mut self, change: &Value) -> Option<String> {
        self.apply_ids(change, "taskId");
        let artifact = change.get("artifact")?;
        let (id, text) = (id_of(artifact), pieces_of(artifact));
        let is_more = change.get("append").and_then(Value::as_bool).unwrap_or(false);
        match self.artifacts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, whole)) if is_more => whole.push_str(&text),
            Some((_, whole)) => whole.clone_from(&text),
            None => self.artifacts.push((id, text.clone())),
        }
        (!text.is_empty()).then_some(text)
    }
}

fn id_of(artifact: &Value) -> String {
    artifact.get("artifactId").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn parts_of(value: &Value) -> impl Iterator<Item = &Value> {
    value.get("parts").and_then(Value::as_array).into_iter().flatten()
}

/// The parts of a message as text, each in a line. Files are named.
fn text_of(message: &Value) -> String {
    let texts: Vec<String> = parts_of(message).filter_map(part_text).collect();
    texts.join("\n")
}

/// The parts of an artifact as text. Pieces of a streamed text are parts of their own, so nothing is between texts.
fn pieces_of(artifact: &Value) -> String {
    let mut whole = String::new();
    for part in parts_of(artifact) {
        let is_text = part.get("text").is_some_and(Value::is_string);
        let Some(text) = part_text(part) else { continue };
        if !is_text && !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.push_str(&text);
        if !is_text {
            whole.push('\n');
        }
    }
    whole
}

fn part_text(part: &Value) -> Option<String> {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    if let Some(data) = part.get("data").filter(|data| !data.is_null()) {
        return Some(data.to_string());
    }
    let file = part.get("file").unwrap_or(part);
    let member = |names: [&str; 2]| names.iter().find_map(|name| file.get(name)?.as_str());
    let place = member(["url", "uri"]);
    let name = member(["filename", "name"]).or_else(|| member(["mediaType", "mimeType"]));
    if place.is_none() && member(["raw", "bytes"]).is_none() {
        return None;
    }
    Some(match (name, place) {
        (Some(name), Some(place)) => format!("[file {name}: {place}]"),
        (None, Some(place)) => format!("[file: {place}]"),
        (name, None) => format!("[file {}]", name.unwrap_or("without a name")),
    })
}

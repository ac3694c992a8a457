//! Rewrites histories for older versions of Pydantic AI. Decision 4.
//!
//! Older versions reject later parts, items and values, and silently drop later members. This module removes or
//! rewrites them and reports every change.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::field_layout::FieldLayouts;
use super::model::{History, Kind, ModelMessage, Object, Part, Value, part_kind};
use super::read::read_object;
use super::versions::{Version, class_since, member_since};
use turntree_core::json::{Extra, json_object};

/// A change that an older version requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The JSON pointer in the input.
    pub pointer: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The description.
    pub message: String,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The value was removed.
    Dropped,
    /// The value was rewritten.
    Rewritten,
}

impl ChangeKind {
    /// `dropped` or `rewritten`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Rewritten => "rewritten",
        }
    }
}

json_object! {
    /// A change that makes a history loadable by an older version.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ChangeRecord {
        /// JSON pointer into the original history.
        pub pointer: String = "pointer",
        /// `dropped` or `rewritten`.
        pub kind: String = "kind",
        /// Description of the change and its reason.
        pub message: String = "message",
    }
}

impl From<Change> for ChangeRecord {
    fn from(change: Change) -> Self {
        Self {
            pointer: change.pointer,
            kind: change.kind.name().to_owned(),
            message: change.message,
            extra: Extra::new(),
        }
    }
}

/// Rewrites a history so that version `to` can load it; also returns the changes.
pub fn downgrade<'a>(history: &History<'a>, to: Version) -> (History<'a>, Vec<Change>) {
    let mut downgrader = Downgrader { to, plain: FieldLayouts::default(), changes: Vec::new() };
    let messages = history
        .iter()
        .enumerate()
        .filter_map(|(index, message)| downgrader.message(&format!("/{index}"), message))
        .collect();
    (messages, downgrader.changes)
}

struct Downgrader {
    to: Version,
    plain: FieldLayouts<'static>,
    changes: Vec<Change>,
}

/// Tool kinds that were the only allowed values until the member accepted any string.
const FIRST_TOOL_KINDS: [(&str, Version); 2] =
    [("tool-search", Version::new(1, 95)), ("capability-load", Version::new(1, 105))];
const OPEN_TOOL_KINDS: Version = Version::new(2, 60);
const TYPED_RETRIES: Version = Version::new(2, 60);
const INTERRUPTED_RETURNS: Version = Version::new(2, 10);
const REQUEST_COMPACTIONS: Version = Version::new(2, 60);
const LOCAL_DOWNLOADS: Version = Version::new(1, 56);
const SUSPENDED_ANSWERS: Version = Version::new(2, 0);
const TEXT_CONTENT: Version = Version::new(1, 74);

impl Downgrader {
    fn note(&mut self, pointer: String, kind: ChangeKind, message: String) {
        self.changes.push(Change { pointer, kind, message });
    }

    fn message<'a>(&mut self, pointer: &str, message: &ModelMessage<'a>) -> Option<ModelMessage<'a>> {
        if let Kind::Other(kind) = &message.kind {
            let message_text = format!("no version of pydantic-ai has messages of kind \"{kind}\"");
            self.note(pointer.to_owned(), ChangeKind::Dropped, message_text);
            return None;
        }
        let mut parts = Vec::with_capacity(message.parts.len());
        for (index, part) in message.parts.iter().enumerate() {
            self.part(&format!("{pointer}/parts/{index}"), message, part, &mut parts);
        }
        let usage =
            message.usage.as_ref().map(|usage| self.members(&format!("{pointer}/usage"), "usage", usage));
        let mut members = self.members(pointer, message.kind.name(), &message.members);
        if self.to < SUSPENDED_ANSWERS && members.text("state").as_deref() == Some("suspended") {
            let message_text =
                format!("\"suspended\" was added in {SUSPENDED_ANSWERS}; it is now \"incomplete\"");
            self.note(format!("{pointer}/state"), ChangeKind::Rewritten, message_text);
            members = replaced(&members, "state", &Value::text("incomplete"));
        }
        Some(ModelMessage { kind: message.kind.clone(), members, parts, usage })
    }

    /// The members that the version supports.
    fn members<'a>(&mut self, pointer: &str, class: &str, object: &Object<'a>) -> Object<'a> {
        let mut retained = Object::with_capacity(object.len());
        for (key, value) in object.entries() {
            let since = member_since(&self.plain, class, key);
            // Applications and providers may add their own counters to usage.
            let known = since.map_or(class == "usage", |since| since <= self.to);
            // Older versions accept a response without usage, but not with `null`.
            let refused = class == Kind::Response.name() && key == "usage" && value.as_json() == Some("null");
            if known && !refused {
                retained.push(key.clone(), value.clone());
                continue;
            }
            if !self.says_nothing(class, key, value) {
                let message_text = match since {
                    Some(since) => format!("\"{key}\" was added in {since}"),
                    None => format!("no known version has \"{key}\" here"),
                };
                self.note(format!("{pointer}/{key}"), ChangeKind::Dropped, message_text);
            }
        }
        retained
    }

    /// True if the value equals the default of a missing member in every version.
    fn says_nothing(&self, class: &str, key: &str, value: &Value<'_>) -> bool {
        let default = self.plain.get(class).and_then(|layout| layout.members.get(key));
        default.is_some_and(|default| default == value)
            || matches!(value.as_json(), Some("null" | "[]" | "{}" | "0" | "0.0"))
            || (key == "outcome" && value.as_text().as_deref() == Some("success"))
    }

    fn part<'a>(
        &mut self,
        pointer: &str,
        message: &ModelMessage<'a>,
        part: &Part<'a>,
        out: &mut Vec<Part<'a>>,
    ) {
        let class = part_kind(part).into_owned();
        let request_compaction =
            class == "compaction" && message.kind == Kind::Request && self.to < REQUEST_COMPACTIONS;
        let since = if request_compaction { Some(REQUEST_COMPACTIONS) } else { class_since(&class) };
        if since.is_some_and(|since| since <= self.to) {
            let part = match &*class {
                "user-prompt" => self.prompt(pointer, part),
                "tool-return" | "builtin-tool-return" | "tool-call" | "builtin-tool-call" => {
                    self.tool(pointer, &class, part)
                }
                _ => self.members(pointer, &class, part),
            };
            out.push(part);
            return;
        }
        let replaced = self.replacements(&class, message, part, pointer);
        let why = since.map_or_else(
            || format!("no known version has parts of kind \"{class}\""),
            |since| format!("\"{class}\" parts were added in {since}"),
        );
        match replaced.as_slice() {
            [] => self.note(pointer.to_owned(), ChangeKind::Dropped, why),
            [first, ..] => {
                let message_text = format!("{why}; it is now \"{}\"", part_kind(first));
                self.note(pointer.to_owned(), ChangeKind::Rewritten, message_text);
            }
        }
        out.extend(replaced);
    }

    /// The parts of the older version that replace a later part; empty if there are none.
    fn replacements<'a>(
        &self,
        class: &str,
        message: &ModelMessage<'a>,
        part: &Part<'a>,
        pointer: &str,
    ) -> Vec<Part<'a>> {
        match (class, &message.kind) {
            ("retry-feedback", _) => vec![retry_of_feedback(pointer, part)],
            // The summarized messages are gone: without the summary their content is lost.
            ("compaction", Kind::Request) => {
                let summary = non_empty_text(part, "content");
                summary.map(|summary| user_prompt(message, summary.clone())).into_iter().collect()
            }
            ("speech", Kind::Request) => speech_prompt(message, part).into_iter().collect(),
            ("speech", _) => {
                let has_files = class_since("file").is_some_and(|since| since <= self.to);
                speech_parts(part, has_files)
            }
            _ => Vec::new(),
        }
    }

    fn tool<'a>(&mut self, pointer: &str, class: &str, part: &Part<'a>) -> Part<'a> {
        let outcome = part.text("outcome");
        if class == "tool-return" && outcome.as_deref() == Some("retried") && self.to < TYPED_RETRIES {
            let message_text = format!(
                "returns that request a retry exist since {TYPED_RETRIES}; converted to \"retry-prompt\""
            );
            self.note(pointer.to_owned(), ChangeKind::Rewritten, message_text);
            return retry_prompt(part);
        }
        let mut older = Object::with_capacity(part.len());
        for (key, value) in part.entries() {
            let text = value.as_text();
            let value = match (&**key, text.as_deref()) {
                ("outcome", Some("interrupted")) if self.to < INTERRUPTED_RETURNS => {
                    let message_text =
                        format!("\"interrupted\" was added in {INTERRUPTED_RETURNS}; it is now \"failed\"");
                    self.note(format!("{pointer}/outcome"), ChangeKind::Rewritten, message_text);
                    Value::text("failed")
                }
                // First versions required a description of each match.
                ("tool_kind", Some(kind))
                    if (self.to < OPEN_TOOL_KINDS && !self.knows_tool_kind(kind))
                        || (self.to < Version::new(2, 0)
                            && kind == "tool-search"
                            && is_short_search(class, part)) =>
                {
                    let message_text = format!("this version has no tools of kind \"{kind}\"");
                    self.note(format!("{pointer}/tool_kind"), ChangeKind::Dropped, message_text);
                    Value::NULL
                }
                _ => value.clone(),
            };
            older.push(key.clone(), value);
        }
        self.members(pointer, class, &older)
    }

    fn knows_tool_kind(&self, kind: &str) -> bool {
        FIRST_TOOL_KINDS.iter().any(|(name, since)| *name == kind && *since <= self.to)
    }

    fn prompt<'a>(&mut self, pointer: &str, part: &Part<'a>) -> Part<'a> {
        let items = match part.get("content") {
            Some(Value::List(items)) => items.clone(),
            Some(Value::Raw(raw)) => match serde_json::from_str::<Vec<&'a RawValue>>(raw.get()) {
                Ok(items) => items.into_iter().map(Value::Raw).collect(),
                Err(_) => return self.members(pointer, "user-prompt", part),
            },
            _ => return self.members(pointer, "user-prompt", part),
        };
        let mut retained = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            retained.extend(self.item(&format!("{pointer}/content/{index}"), item));
        }
        let mut prompt = Object::with_capacity(part.len());
        for (key, value) in part.entries() {
            let value =
                if key == "content" { Value::List(std::mem::take(&mut retained)) } else { value.clone() };
            prompt.push(key.clone(), value);
        }
        self.members(pointer, "user-prompt", &prompt)
    }

    fn item<'a>(&mut self, pointer: &str, item: Value<'a>) -> Option<Value<'a>> {
        let object = match &item {
            Value::Object(object) => object.clone(),
            Value::Raw(raw) => match read_object(raw.get()) {
                Some(object) => object,
                None => return Some(item),
            },
            _ => return Some(item),
        };
        let class = object.text("kind").unwrap_or_default().into_owned();
        let since = class_since(&class);
        if since.is_some_and(|since| since <= self.to) {
            let mut object = self.members(pointer, &class, &object);
            let local = object.text("force_download").as_deref() == Some("allow-local");
            if local && self.to < LOCAL_DOWNLOADS {
                let message_text = format!("\"allow-local\" was added in {LOCAL_DOWNLOADS}; it is now true");
                self.note(format!("{pointer}/force_download"), ChangeKind::Rewritten, message_text);
                object = replaced(&object, "force_download", &Value::json("true"));
            }
            return Some(Value::Object(object));
        }
        let why = since.map_or_else(
            || format!("no known version has items of kind \"{class}\""),
            |since| format!("\"{class}\" items were added in {since}"),
        );
        let content = object.get("content").filter(|content| content.as_text().is_some()).cloned();
        let text = matches!(&*class, "structured-content" | "text-content").then_some(content).flatten();
        let Some(text) = text else {
            self.note(pointer.to_owned(), ChangeKind::Dropped, why);
            return None;
        };
        self.note(pointer.to_owned(), ChangeKind::Rewritten, format!("{why}; its text is preserved"));
        if self.to < TEXT_CONTENT {
            return Some(text);
        }
        let mut older = Object::with_capacity(3);
        older.push("content", text);
        older.push("metadata", object.get("metadata").cloned().unwrap_or(Value::NULL));
        older.push("kind", Value::text("text-content"));
        Some(Value::Object(older))
    }
}

/// A string member of a part that is not empty.
fn non_empty_text<'p, 'a>(part: &'p Part<'a>, key: &str) -> Option<&'p Value<'a>> {
    part.get(key).filter(|value| value.as_text().is_some_and(|text| !text.is_empty()))
}

/// A user prompt with the timestamp of its message.
fn user_prompt<'a>(message: &ModelMessage<'a>, content: Value<'a>) -> Part<'a> {
    let mut prompt = Object::with_capacity(3);
    prompt.push("content", content);
    if let Some(timestamp) = message.members.get("timestamp").filter(|time| !time.is_null()) {
        prompt.push("timestamp", timestamp.clone());
    }
    prompt.push("part_kind", Value::text("user-prompt"));
    prompt
}

/// The audio of a speech part.
fn speech_audio<'p, 'a>(part: &'p Part<'a>) -> Option<&'p Value<'a>> {
    part.get("audio").filter(|audio| !audio.is_null())
}

/// Speech of the user as a prompt: the transcript, the audio, or both.
fn speech_prompt<'a>(message: &ModelMessage<'a>, part: &Part<'a>) -> Option<Part<'a>> {
    let content = match (non_empty_text(part, "transcript"), speech_audio(part)) {
        (Some(transcript), None) => transcript.clone(),
        (transcript, Some(audio)) => Value::List(transcript.into_iter().chain([audio]).cloned().collect()),
        (None, None) => return None,
    };
    Some(user_prompt(message, content))
}

/// Speech of the model as a text part and, if the version has files, a file part.
fn speech_parts<'a>(part: &Part<'a>, has_files: bool) -> Vec<Part<'a>> {
    let part_of = |class: &'static str, content: &Value<'a>| {
        let mut part = Object::with_capacity(2);
        part.push("content", content.clone());
        part.push("part_kind", Value::text(class));
        part
    };
    let text = non_empty_text(part, "transcript").map(|transcript| part_of("text", transcript));
    let file = speech_audio(part).filter(|_| has_files).map(|audio| part_of("file", audio));
    text.into_iter().chain(file).collect()
}

/// True if a tool search result lacks fields that the first versions require.
fn is_short_search(class: &str, part: &Part<'_>) -> bool {
    #[derive(serde::Deserialize)]
    struct SearchResult<'f> {
        #[serde(borrow, rename = "discovered_tools")]
        _tools: Vec<Match<'f>>,
    }
    #[derive(serde::Deserialize)]
    struct Match<'f> {
        #[serde(borrow, rename = "description")]
        _description: &'f RawValue,
    }
    let whole = |content: &Value<'_>| serde_json::from_str::<SearchResult<'_>>(&content.to_json()).is_ok();
    class != "tool-call" && class != "builtin-tool-call" && !part.get("content").is_some_and(whole)
}

fn replaced<'a>(object: &Object<'a>, name: &str, new: &Value<'a>) -> Object<'a> {
    let mut copy = Object::with_capacity(object.len());
    for (key, value) in object.entries() {
        copy.push(key.clone(), if key == name { new.clone() } else { value.clone() });
    }
    copy
}

/// The content of a retry: a string, or error details with all fields that older versions require.
fn retry_content<'a>(part: &Part<'a>) -> Value<'a> {
    #[derive(serde::Deserialize)]
    struct ErrorDetails<'e> {
        #[serde(borrow, rename = "type")]
        _type: &'e RawValue,
        #[serde(borrow, rename = "loc")]
        _loc: &'e RawValue,
        #[serde(borrow, rename = "msg")]
        _msg: &'e RawValue,
        #[serde(borrow, rename = "input")]
        _input: &'e RawValue,
    }
    match part.get("content") {
        Some(text) if text.as_text().is_some() => text.clone(),
        Some(list)
            if list
                .as_json()
                .is_some_and(|json| serde_json::from_str::<Vec<ErrorDetails<'_>>>(json).is_ok()) =>
        {
            list.clone()
        }
        Some(other) => Value::Text(Cow::Owned(other.to_json().into_owned())),
        None => Value::text(""),
    }
}

/// The retry that older versions use instead of retry feedback.
fn retry_of_feedback<'a>(pointer: &str, part: &Part<'a>) -> Part<'a> {
    let mut retry = Object::with_capacity(5);
    retry.push("content", retry_content(part));
    retry.push("tool_name", Value::NULL);
    retry.push("tool_call_id", Value::Text(Cow::Owned(made_up_id(pointer, part))));
    if let Some(time) = part.get("timestamp") {
        retry.push("timestamp", time.clone());
    }
    retry.push("part_kind", Value::text("retry-prompt"));
    retry
}

/// The retry that older versions use instead of a return.
fn retry_prompt<'a>(part: &Part<'a>) -> Part<'a> {
    let mut retry = Object::with_capacity(5);
    retry.push("content", retry_content(part));
    for key in ["tool_name", "tool_call_id", "timestamp"] {
        if let Some(value) = part.get(key) {
            retry.push(key, value.clone());
        }
    }
    retry.push("part_kind", Value::text("retry-prompt"));
    retry
}

/// A deterministic id for a retry without a call. Older versions generate a random id on each load.
fn made_up_id(pointer: &str, part: &Part<'_>) -> String {
    use std::fmt::Write as _;
    let digest =
        Sha256::new().chain_update(pointer).chain_update(super::write::object_to_json(part)).finalize();
    let mut id = String::from("pyd_ai_");
    for byte in digest.iter().take(16) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

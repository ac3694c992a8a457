//! Rewrites histories for older versions of Pydantic AI. Decision 4.
//!
//! Older versions reject later parts, items and values, and silently drop later members. This module removes or
//! rewrites them and reports every change: an older version returns what it loads without further losses.

mod files;
mod replacements;
mod tools;
mod values;

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::field_layout::FieldLayouts;
use super::model::{History, Kind, ModelMessage, Object, Part, Value, part_kind};
use super::read::read_object;
use super::versions::{FILE_DIGESTS, Version, class_since, member_since};
use crate::issue::escape;
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

const REQUEST_COMPACTIONS: Version = Version::new(2, 62);
const TEXT_CONTENT: Version = Version::new(1, 74);
/// Older versions drop additional counters of applications and providers.
const OPEN_USAGE: Version = Version::new(2, 20);
/// `tools_added` has the name `added` in older versions.
const RENAMED_TOOLS: Version = Version::new(2, 26);

impl Downgrader {
    fn note(&mut self, pointer: String, kind: ChangeKind, message: String) {
        match self.changes.last_mut().filter(|last| last.pointer == pointer && last.kind == kind) {
            Some(last) => {
                last.message.push_str("; ");
                last.message.push_str(&message);
            }
            None => self.changes.push(Change { pointer, kind, message }),
        }
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
        let members = self.members(pointer, message.kind.name(), &message.members);
        Some(ModelMessage { kind: message.kind.clone(), members, parts, usage })
    }

    /// The members that the version supports.
    fn members<'a>(&mut self, pointer: &str, class: &str, object: &Object<'a>) -> Object<'a> {
        let mut retained = Object::with_capacity(object.len());
        for (key, value) in object.entries() {
            let since = member_since(&self.plain, class, key);
            let open = class == "usage" && self.to >= OPEN_USAGE;
            let known = match since {
                Some(_) if key == FILE_DIGESTS => self.to.records_files(),
                Some(since) => open || since <= self.to,
                None => open,
            };
            // Older versions accept a response without usage, but not with `null`.
            let refused = class == Kind::Response.name() && key == "usage" && value.is_null();
            if known && !refused {
                if let Some(value) = self.value(pointer, class, key, value) {
                    retained.push(key.clone(), value);
                }
                continue;
            }
            // `tool` reports the record of files.
            if key != FILE_DIGESTS && !self.says_nothing(class, key, value) {
                let message_text = match since {
                    Some(since) => format!("\"{key}\" was added in {since}"),
                    None if class == "usage" => format!("additional counters exist since {OPEN_USAGE}"),
                    None => format!("no known version has \"{key}\" here"),
                };
                self.note(format!("{pointer}/{}", escape(key)), ChangeKind::Dropped, message_text);
            }
        }
        retained
    }

    /// Reports the members of a part that its replacement does not have.
    fn note_lost(&mut self, pointer: &str, class: &str, part: &Object<'_>, retained: &[&str]) {
        for (key, value) in part.entries() {
            if !retained.contains(&&**key) && !self.says_nothing(class, key, value) {
                let message = format!("\"{key}\" has no place in the replacement");
                self.note(format!("{pointer}/{}", escape(key)), ChangeKind::Dropped, message);
            }
        }
    }

    /// True if the value equals the default of a missing member in every version.
    fn says_nothing(&self, class: &str, key: &str, value: &Value<'_>) -> bool {
        let default = self.plain.get(class).and_then(|layout| layout.members.get(key));
        default.is_some_and(|default| default == value)
            || value.is_null()
            || (class == "usage" && matches!(value.as_json(), Some("0" | "0.0")))
            || matches!((key, value.as_text().as_deref()), ("outcome", Some("success")) | ("ttl", Some("5m")))
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
                "instruction-delta" | "instruction-baseline" => {
                    let part = self.members(pointer, &class, part);
                    self.instruction_ids(pointer, part)
                }
                "tool-availability-delta" => self.tools_added(pointer, part),
                "file" => self.file_part(pointer, part),
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
                self.note_lost(pointer, &class, part, self.replaced_members(&class, &message.kind));
            }
        }
        out.extend(replaced);
    }

    fn tools_added<'a>(&mut self, pointer: &str, part: &Part<'a>) -> Part<'a> {
        let part = self.members(pointer, "tool-availability-delta", part);
        if self.to >= RENAMED_TOOLS || part.get("tools_added").is_none() {
            return part;
        }
        let message = format!("\"tools_added\" has the name \"added\" before {RENAMED_TOOLS}");
        self.note(format!("{pointer}/tools_added"), ChangeKind::Rewritten, message);
        let mut renamed = Object::with_capacity(part.len());
        for (key, value) in part.entries() {
            let key = if key == "tools_added" { Cow::Borrowed("added") } else { key.clone() };
            renamed.push(key, value.clone());
        }
        renamed
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
            let object = self.members(pointer, &class, &object);
            let object = self.media_type(pointer, &class, object);
            let object = self.identified(pointer, &class, object);
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
            self.note_lost(pointer, &class, &object, &["content", "kind"]);
            return Some(text);
        }
        self.note_lost(pointer, &class, &object, &["content", "metadata", "kind"]);
        let mut older = Object::with_capacity(3);
        older.push("content", text);
        older.push("metadata", object.get("metadata").cloned().unwrap_or(Value::NULL));
        older.push("kind", Value::text("text-content"));
        Some(Value::Object(older))
    }
}

/// The objects of a list; `None` for other values.
fn objects_in(json: &str) -> Option<Vec<Object<'_>>> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    items.into_iter().map(|item| read_object(item.get())).collect()
}

/// A list of objects as JSON.
fn list_json(items: Vec<Object<'_>>) -> Value<'static> {
    let list = Value::List(items.into_iter().map(Value::Object).collect());
    Value::Json(Cow::Owned(list.to_json().into_owned()))
}

//! The digest of the first message, from which the id of a thread is derived. Decision 13.
//!
//! Versions of Pydantic AI add, drop and rename fields when they load and store a history. The digest therefore depends
//! only on what the parts say: texts, files, tool names, arguments, results, and the times of prompts, results and
//! responses.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::model::{Kind, ModelMessage, Object, Part, Value, part_kind};
use super::read::read_object;
use turntree_core::json::canonical::normalize;
use turntree_core::time::Timestamp;

/// The digest of a message's content.
pub(super) fn digest(message: &ModelMessage<'_>) -> [u8; 32] {
    let mut content = ContentDigest(Sha256::new());
    content.text(message.kind.name());
    if message.kind == Kind::Response {
        content.time(message.text("timestamp").as_deref());
    }
    for part in &message.parts {
        content.part(part);
    }
    content.0.finalize().into()
}

/// Texts, each with its length, so that different lists of texts have different digests.
struct ContentDigest(Sha256);

impl ContentDigest {
    fn text(&mut self, text: &str) {
        self.0.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    /// Adds the moment of a time. Its format and its digits beyond microseconds are ignored.
    fn time(&mut self, time: Option<&str>) {
        let time = time.unwrap_or_default();
        match time.parse::<Timestamp>() {
            Ok(at) => self.text(&at.to_string()),
            Err(_) => self.text(time),
        }
    }

    fn part(&mut self, part: &Part<'_>) {
        let class = part_kind(part);
        let has_tool = part.text("tool_name").is_some();
        let retried = part.text("outcome").as_deref() == Some("retried");
        // Version 2.64 replaced retry prompts.
        let is_retry = retried || matches!(&*class, "retry-prompt" | "retry-feedback");
        self.text(if is_retry { "retry" } else { &class });
        if is_retry && has_tool {
            // Its content has other members in each version.
            self.text(&part.text("tool_name").unwrap_or_default());
            return;
        }
        for key in ["tool_name", "transcript"] {
            self.text(&part.text(key).unwrap_or_default());
        }
        match &*class {
            "tool-call" | "builtin-tool-call" => self.value(part.get("args")),
            "user-prompt" => {
                self.content(part.get("content"));
                self.time(part.text("timestamp").as_deref());
            }
            "tool-return" => {
                self.value(part.get("content"));
                self.time(part.text("timestamp").as_deref());
            }
            _ => self.content(part.get("content")),
        }
    }

    /// Adds the content of a prompt: a text, or a list of texts and files.
    fn content(&mut self, content: Option<&Value<'_>>) {
        let Some(content) = content.filter(|content| !content.is_null()) else { return self.text("") };
        if content.is_text() {
            return self.value(Some(content));
        }
        let json = content.to_json();
        if let Some(object) = read_object(&json) {
            return self.item(&object);
        }
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(&json) else {
            return self.text(&normalize(&json));
        };
        for item in items {
            match read_object(item.get()) {
                Some(object) => self.item(&object),
                None => self.value(Some(&Value::Raw(item))),
            }
        }
    }

    /// Adds a file, or a text with metadata.
    fn item(&mut self, item: &Object<'_>) {
        for key in ["kind", "url", "file_id", "content"] {
            self.text(&item.text(key).unwrap_or_default());
        }
        // Both alphabets of base64 are in use.
        let data = item.text("data").unwrap_or_default();
        self.text(&data.trim_end_matches('=').replace('-', "+").replace('_', "/"));
    }

    /// Adds a JSON value; an object in a string is the object.
    fn value(&mut self, value: Option<&Value<'_>>) {
        let Some(value) = value.filter(|value| !value.is_null()) else { return self.text("") };
        match value.as_text() {
            Some(text) if text.trim_start().starts_with('{') => self.text(&compact(&text)),
            Some(text) => self.text(&text),
            None => self.text(&compact(&value.to_json())),
        }
    }
}

/// The compact form of a JSON text; other texts are unchanged.
fn compact(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Cow::Owned(normalize(text)),
        Err(_) => Cow::Borrowed(text),
    }
}

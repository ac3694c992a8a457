//! The parts of older versions that replace later parts.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::super::model::{Kind, ModelMessage, Object, Part, Value};
use super::super::versions::class_since;
use super::Downgrader;

impl Downgrader {
    /// The parts of the older version that replace a later part; empty if there are none.
    pub(super) fn replacements<'a>(
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
            ("speech", _) => speech_parts(part, self.has_files()),
            _ => Vec::new(),
        }
    }

    /// The members whose values are in the replacement.
    pub(super) fn replaced_members(&self, class: &str, kind: &Kind) -> &'static [&'static str] {
        match (class, kind) {
            ("retry-feedback", _) => &["content", "timestamp", "part_kind"],
            ("speech", Kind::Response) if !self.has_files() => &["speaker", "transcript", "part_kind"],
            ("speech", _) => &["speaker", "transcript", "audio", "part_kind"],
            _ => &["content", "part_kind"],
        }
    }

    fn has_files(&self) -> bool {
        class_since("file").is_some_and(|since| since <= self.to)
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
pub(super) fn retry_prompt<'a>(part: &Part<'a>) -> Part<'a> {
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
    let part = super::super::write::object_to_json(part);
    format!("pyd_ai_{}", digest_of(&[pointer.as_bytes(), part.as_bytes()], 16))
}

/// The first bytes of a digest, as hexadecimal digits.
pub(super) fn digest_of(texts: &[&[u8]], bytes: usize) -> String {
    use std::fmt::Write as _;
    let digest = texts.iter().fold(Sha256::new(), Digest::chain_update).finalize();
    let mut id = String::with_capacity(2 * bytes);
    for byte in digest.iter().take(bytes) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

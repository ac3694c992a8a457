//! Collects provider metadata from full and streamed responses.
//!
//! Spec: UPP-1.2 §14

use super::decode::Line;
use turntree_core::json::{RawJson, RawObject};

/// Members of every line; the last value counts.
const REPEATED: [&str; 3] = ["model", "created_at", "done_reason"];

/// Members of the last line, copied as they are.
const DURATIONS: [&str; 4] = ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"];

/// The metadata of one response.
#[derive(Default)]
pub(super) struct MetadataCollector {
    members: RawObject,
    /// The last values of [`REPEATED`]; `members` has placeholders for them.
    repeated: [String; REPEATED.len()],
    logprobs: Vec<RawJson>,
}

impl MetadataCollector {
    /// Takes the metadata of one line.
    pub(super) fn update(&mut self, line: Line<'_>) {
        let values = [&line.model, &line.created_at, &line.done_reason];
        for ((name, last), value) in REPEATED.into_iter().zip(&mut self.repeated).zip(values) {
            if !value.is_empty() {
                if last.is_empty() {
                    self.members.insert(name, RawJson::default());
                }
                value.as_str().clone_into(last);
            }
        }
        let durations =
            [line.total_duration, line.load_duration, line.prompt_eval_duration, line.eval_duration];
        for (name, duration) in DURATIONS.into_iter().zip(durations) {
            if let Some(duration) = duration.and_then(|raw| RawJson::from_text(raw.get().to_owned()).ok()) {
                self.members.insert(name, duration);
            }
        }
        self.logprobs.extend(line.logprobs.into_iter().flatten());
    }

    /// The vendor's reason why the response ended; empty before the last line.
    pub(super) fn done_reason(&self) -> &str {
        let [.., done_reason] = &self.repeated;
        done_reason
    }

    /// The members for the provider's namespace, with the thinking of the whole response.
    pub(super) fn into_object(mut self, thinking: &str) -> RawObject {
        for (name, value) in REPEATED.into_iter().zip(&self.repeated).filter(|(_, value)| !value.is_empty()) {
            self.members.insert(name, RawJson::from_str_value(value));
        }
        if !thinking.is_empty() {
            self.members.insert("thinking", RawJson::from_str_value(thinking));
        }
        if !self.logprobs.is_empty() {
            self.members.insert("logprobs", RawJson::from_value(&self.logprobs).unwrap_or_default());
        }
        self.members
    }
}

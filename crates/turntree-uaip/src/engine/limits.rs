//! Limits on what agents and tasks write.

use serde_json::Value;

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the state of a session as JSON, in bytes. Default: 1 MiB.
    pub state_bytes: usize,
    /// Maximum nesting of one argument or one value of the state. Default: 32.
    pub depth: usize,
    /// Maximum length of a string, in bytes. Default: 256 KiB.
    pub string_bytes: usize,
    /// Maximum size of the result of a task as JSON, in bytes. Default: 1 MiB.
    pub result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { state_bytes: 1 << 20, depth: 32, string_bytes: 256 << 10, result_bytes: 1 << 20 }
    }
}

impl Limits {
    /// Checks the depth and the strings of a value. Returns the rule that it breaks.
    pub(super) fn check(&self, value: &Value) -> Option<(&'static str, String)> {
        let mut waiting = vec![(value, 1)];
        while let Some((value, depth)) = waiting.pop() {
            if depth > self.depth && (value.is_object() || value.is_array()) {
                return Some((
                    "depth",
                    format!("it is nested deeper than {} levels; flatten it", self.depth),
                ));
            }
            match value {
                Value::String(text) if text.len() > self.string_bytes => return Some(self.long(text)),
                Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => {
                    if let Some(key) = members.keys().find(|key| key.len() > self.string_bytes) {
                        return Some(self.long(key));
                    }
                    waiting.extend(members.values().map(|item| (item, depth + 1)));
                }
                _ => {}
            }
        }
        None
    }

    fn long(&self, text: &str) -> (&'static str, String) {
        let limit = self.string_bytes;
        (
            "string_length",
            format!("a string has {} bytes, more than the limit of {limit}; shorten it", text.len()),
        )
    }
}

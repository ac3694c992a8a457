//! JSON objects as short text and as an HTML table.

use super::html::escaped;
use super::terminal::visible;
use crate::json::{RawObject, snake_case};

/// Maximum number of characters of one value.
const VALUE_CHARACTERS: usize = 60;

/// The members of a JSON object under the name of its type. Long values are shortened, and keys are in `snake_case`.
///
/// ```
/// use turntree_core::render::ObjectSummary;
///
/// let summary = ObjectSummary::of("ToolCall", r#"{"toolName": "add", "arguments": {}}"#);
/// assert_eq!(summary.text(), r#"ToolCall(tool_name="add", arguments={})"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSummary {
    name: String,
    members: Vec<(String, String)>,
}

impl ObjectSummary {
    /// The summary of a JSON text. A text that is not an object has no members.
    pub fn of(name: &str, text: &str) -> Self {
        let object: RawObject = serde_json::from_str(text).unwrap_or_default();
        let members = object.iter().map(|(key, value)| (snake_case(key), shortened(value.get())));
        Self { name: name.to_owned(), members: members.collect() }
    }

    /// `UserMessage(id="…", content=[…])`, with control characters escaped.
    pub fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(|(key, value)| format!("{key}={value}")).collect();
        visible(&format!("{}({})", self.name, members.join(", "))).into_owned()
    }

    /// A table with one row for each member.
    pub fn html(&self) -> String {
        let mut rows = String::new();
        for (key, value) in &self.members {
            rows.extend(["<tr><th>", &escaped(key), "</th><td><code>", &escaped(value), "</code></td></tr>"]);
        }
        format!("<table><caption>{}</caption>{rows}</table>", escaped(&self.name))
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= VALUE_CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(VALUE_CHARACTERS - 1).chain(['…']).collect()
}

//! Values as the function `str()` of Python writes them. Clients of the reference profile show this text to models.

use std::fmt::Write as _;

use serde_json::Value;

/// One part that is still to be written.
enum Part<'v> {
    Value(&'v Value),
    Key(&'v str),
    Text(&'static str),
}

/// The text of a value: strings as they are, everything else as a Python expression.
pub fn python_text(value: &Value) -> String {
    let mut text = String::new();
    if let Value::String(string) = value {
        text.push_str(string);
        return text;
    }
    let mut parts = vec![Part::Value(value)];
    while let Some(part) = parts.pop() {
        match part {
            Part::Text(fixed) => text.push_str(fixed),
            Part::Key(key) => {
                quote(&mut text, key);
                text.push_str(": ");
            }
            Part::Value(value) => write_value(&mut text, &mut parts, value),
        }
    }
    text
}

fn write_value<'v>(text: &mut String, parts: &mut Vec<Part<'v>>, value: &'v Value) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) => quote(text, string),
        Value::Array(items) => {
            text.push('[');
            parts.push(Part::Text("]"));
            for (index, item) in items.iter().enumerate().rev() {
                parts.push(Part::Value(item));
                if index > 0 {
                    parts.push(Part::Text(", "));
                }
            }
        }
        Value::Object(members) => {
            text.push('{');
            parts.push(Part::Text("}"));
            for (index, (key, item)) in members.iter().enumerate().rev() {
                parts.push(Part::Value(item));
                parts.push(Part::Key(key));
                if index > 0 {
                    parts.push(Part::Text(", "));
                }
            }
        }
    }
}

/// Writes a string literal: in single quotes, unless it contains one and no double quote.
fn quote(text: &mut String, string: &str) {
    let mark = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(mark);
    for letter in string.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if letter == mark => {
                text.push('\\');
                text.push(letter);
            }
            _ if letter.is_control() && u32::from(letter) < 0x100 => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\x{:02x}", u32::from(letter));
            }
            _ => text.push(letter),
        }
    }
    text.push(mark);
}

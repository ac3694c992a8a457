//! Output formats of values: dicts with Python types and names, indented JSON, short and HTML reprs.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::{Map, Value};

use turntree_core::json::{RawObject, Reader, Token};
use turntree_core::message::media::Binary;

/// Options of `model_dump`. Only members that the schema names are renamed or converted, so tool arguments and metadata
/// are unchanged.
pub(crate) struct Dump<'a> {
    /// The schema document of the class.
    pub(crate) schema: &'a Value,
    /// Whether times and bytes become Python objects.
    pub(crate) python: bool,
    /// Whether keys are the specification's names.
    pub(crate) by_alias: bool,
    /// Whether to omit members that are `None`.
    pub(crate) exclude_none: bool,
    /// The inverse: renames keys from Python's names to the specification's.
    pub(crate) from_names: bool,
}

impl<'a> Dump<'a> {
    /// Converts plain JSON data.
    pub(crate) fn apply<'py>(&self, plain: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(plain, self.schema)
    }

    fn value<'py>(&self, plain: &Bound<'py, PyAny>, schema: &'a Value) -> PyResult<Bound<'py, PyAny>> {
        let Some(schema) = self.fitting(plain, schema) else { return Ok(plain.clone()) };
        if let Ok(dict) = plain.cast::<PyDict>() {
            return self.object(dict, schema);
        }
        if let (Ok(list), Some(items)) = (plain.cast::<PyList>(), schema.get("items")) {
            let converted = PyList::empty(plain.py());
            for item in list.iter() {
                converted.append(self.value(&item, items)?)?;
            }
            return Ok(converted.into_any());
        }
        if let (Ok(text), true) = (plain.cast::<PyString>(), self.python) {
            return python_string(text, schema);
        }
        Ok(plain.clone())
    }

    fn object<'py>(&self, dict: &Bound<'py, PyDict>, schema: &'a Value) -> PyResult<Bound<'py, PyAny>> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(dict.clone().into_any());
        };
        let converted = PyDict::new(dict.py());
        for (key, value) in dict.iter() {
            let name = self.alias(key.extract()?, properties);
            let Some(property) = properties.get(&name) else {
                converted.set_item(key, value)?;
                continue;
            };
            if self.exclude_none && value.is_none() {
                continue;
            }
            let name = if self.by_alias { name } else { snake_case(&name) };
            converted.set_item(name, self.value(&value, property)?)?;
        }
        Ok(converted.into_any())
    }

    /// The specification's name of a member.
    fn alias(&self, name: String, properties: &Map<String, Value>) -> String {
        if !self.from_names || properties.contains_key(&name) {
            return name;
        }
        properties.keys().find(|alias| snake_case(alias) == name).cloned().unwrap_or(name)
    }

    /// Follows references and picks the alternative that describes the value.
    fn fitting(&self, plain: &Bound<'_, PyAny>, schema: &'a Value) -> Option<&'a Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.fitting(plain, self.schema.pointer(reference.strip_prefix('#')?)?);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(alternatives) = schema.get(choice).and_then(Value::as_array) {
                return alternatives.iter().find_map(|alternative| self.fitting(plain, alternative));
            }
        }
        fits(plain, schema).then_some(schema)
    }
}

/// Whether a value has the type and the tags of a schema without alternatives.
fn fits(plain: &Bound<'_, PyAny>, schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    if let Ok(dict) = plain.cast::<PyDict>() {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return kind.is_none_or(|kind| kind == "object");
        };
        return properties.iter().all(|(key, property)| {
            match property.get("const").and_then(Value::as_str) {
                Some(tag) => dict
                    .get_item(key)
                    .ok()
                    .flatten()
                    .is_some_and(|value| value.extract::<String>().is_ok_and(|value| value == tag)),
                None => true,
            }
        });
    }
    match kind {
        Some("string") => plain.is_instance_of::<PyString>(),
        Some("array") => plain.is_instance_of::<PyList>(),
        Some("object") => false,
        Some("null") => plain.is_none(),
        _ => !plain.is_none(),
    }
}

fn python_string<'py>(text: &Bound<'py, PyString>, schema: &Value) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    if schema.get("format").and_then(Value::as_str) == Some("date-time") {
        let parsed = text.to_str()?.parse::<turntree_core::time::Timestamp>();
        return parsed
            .map_or_else(|_| Ok(text.clone().into_any()), |time| crate::time::to_datetime(py, time));
    }
    if schema.get("contentEncoding").and_then(Value::as_str) == Some("base64") {
        let decoded = Binary::from_base64(text.to_str()?).unwrap_or_default();
        return Ok(pyo3::types::PyBytes::new(py, decoded.as_slice()).into_any());
    }
    Ok(text.clone().into_any())
}

/// `toolCallId` as `tool_call_id`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// JSON text with line breaks as in Python's `json.dumps(indent=…)`; the digits of numbers are unchanged.
pub(crate) fn indented(text: &str, indent: usize) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    // Whether the next token starts a new line, and whether a comma precedes it.
    let (mut first, mut after_key) = (true, true);
    for token in Reader::new(text) {
        let closes = matches!(token, Token::ObjectEnd | Token::ArrayEnd);
        depth -= usize::from(closes && depth > 0);
        let opens_line = !(after_key || closes && first);
        if opens_line {
            if !closes && !first {
                out.push(',');
            }
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth * indent));
        }
        (first, after_key) = (false, false);
        match token {
            Token::ObjectStart | Token::ArrayStart => {
                out.push(if token == Token::ObjectStart { '{' } else { '[' });
                depth += 1;
                first = true;
            }
            Token::ObjectEnd => out.push('}'),
            Token::ArrayEnd => out.push(']'),
            Token::Key(key) => {
                out.push_str(key.quoted().as_str());
                out.push_str(": ");
                after_key = true;
            }
            Token::String(string) => out.push_str(string.quoted().as_str()),
            Token::Number(digits) => out.push_str(digits),
            Token::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
            Token::Null => out.push_str("null"),
        }
    }
    out
}

/// Maximum number of characters of one member in a repr.
const SHOWN: usize = 60;

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}

fn members(text: &str) -> Vec<(String, String)> {
    let object: RawObject = serde_json::from_str(text).unwrap_or_default();
    object.iter().map(|(key, value)| (snake_case(key), shortened(value.get()))).collect()
}

/// `UserMessage(id="…", content=[…])`, with long values shortened.
pub(crate) fn repr(class: &str, text: &str) -> String {
    let members: Vec<String> =
        members(text).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{class}({})", members.join(", "))
}

/// An HTML table for notebooks.
pub(crate) fn html(class: &str, text: &str) -> String {
    let escape = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let mut rows = String::new();
    for (key, value) in members(text) {
        rows.extend(["<tr><th>", &escape(&key), "</th><td><code>", &escape(&value), "</code></td></tr>"]);
    }
    format!("<table><caption>{}</caption>{rows}</table>", escape(class))
}

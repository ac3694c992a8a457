//! Messages with numbers from 2^53 on, which tools that store JSON change: JavaScript rounds integers, and a database
//! writes doubles as integers. The JSON of such a message is stored as a text, in which no tool changes a number.

use super::model::{ModelMessage, Object, Value};
use super::write::message_to_json;
use turntree_core::json::eq_doubles;
use turntree_core::json::notation::has_large_numbers;

/// True if a message has such a number.
pub(super) fn of_message(message: &ModelMessage<'_>) -> bool {
    let objects = std::iter::once(&message.members).chain(&message.parts).chain(&message.usage);
    // The values in containers that are still to be searched. Most messages have none.
    let mut inner = Vec::new();
    if objects.flat_map(Object::entries).any(|(_, value)| is_large(value, &mut inner)) {
        return true;
    }
    while let Some(value) = inner.pop() {
        if is_large(value, &mut inner) {
            return true;
        }
    }
    false
}

/// True for JSON with such a number. Adds the values of a container to `inner`.
fn is_large<'v, 'a>(value: &'v Value<'a>, inner: &mut Vec<&'v Value<'a>>) -> bool {
    match value {
        Value::List(elements) => inner.extend(elements),
        Value::Object(object) => inner.extend(object.iter().map(|(_, value)| value)),
        Value::Text(_) | Value::Field => {}
        Value::Raw(_) | Value::Json(_) => {
            let json = value.as_json().unwrap_or_default();
            let has_numbers = !matches!(json.as_bytes().first(), None | Some(b'"' | b'n' | b't' | b'f'));
            return has_numbers && has_large_numbers(json);
        }
    }
    false
}

/// The message of a stored text, if it differs from a decoded message only in the digits of numbers; otherwise an
/// application has changed the actions, and the decoded message is returned.
pub(super) fn restore<'t>(decoded: ModelMessage<'t>, exact: &str) -> ModelMessage<'t> {
    if !eq_doubles(exact, &message_to_json(&decoded)) {
        return decoded;
    }
    match serde_json::from_str::<ModelMessage<'_>>(exact) {
        Ok(message) => owned(message),
        Err(_) => decoded,
    }
}

/// A message without borrowed text.
fn owned(message: ModelMessage<'_>) -> ModelMessage<'static> {
    ModelMessage {
        kind: message.kind,
        members: owned_object(&message.members),
        parts: message.parts.iter().map(owned_object).collect(),
        usage: message.usage.as_ref().map(owned_object),
    }
}

/// An object without borrowed text. A message that was read from text has no lists and no inner objects.
fn owned_object(object: &Object<'_>) -> Object<'static> {
    let mut copy = Object::with_capacity(object.len());
    for (key, value) in object.iter() {
        let value = match value {
            Value::Field => Value::Field,
            value => Value::Json(value.to_json().into_owned().into()),
        };
        copy.push(key.to_owned(), value);
    }
    copy
}

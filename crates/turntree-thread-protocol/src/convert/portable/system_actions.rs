//! System actions that every conversion writes in the same way: their types, their data, and normalized payloads.
//!
//! Spec: UI message stream, §10 to §12.

use crate::action::{Action, SystemAction};
use crate::convert::surrogates::mended;
use crate::roundtrip_metadata::is_private;
use turntree_core::json::canonical;
use turntree_core::json::{RawJson, RawObject};

/// Creates a system action.
pub(in crate::convert) fn system(action_type: &str, timestamp: &str, data: RawJson) -> Action {
    Action::System(SystemAction {
        action_type: action_type.into(),
        timestamp: timestamp.into(),
        data,
        ..SystemAction::default()
    })
}

/// The action type of a stream's data part with this name.
pub(in crate::convert) fn data_action_type(name: &str) -> String {
    match name.strip_prefix("tp-") {
        Some(event) => format!("system.tp.{event}"),
        None => format!("system.{name}"),
    }
}

/// The action type of a stream's data part with this name; `None` for names that are reserved for servers.
pub(in crate::convert) fn data_name(name: &str) -> Option<String> {
    Some(data_action_type(name)).filter(|action_type| !is_private(action_type))
}

/// Converts arguments to an object. A string with the JSON of an object becomes that object, in a form that every tool can
/// read: without lone surrogates, and with `null` for numbers beyond the doubles. Any other value becomes a member.
pub(in crate::convert) fn object_arguments(raw: &RawJson) -> RawJson {
    if raw.is_null() {
        return RawJson::empty_object();
    }
    if raw.is_object() {
        return raw.clone();
    }
    let text = raw.as_string().unwrap_or_else(|| raw.get().to_owned());
    if text.is_empty() {
        return RawJson::empty_object();
    }
    match RawJson::from_embedded(&*mended(&text)) {
        Some(object) if object.is_object() => {
            let changed = canonical::without_numbers_beyond_doubles(object.get());
            changed.and_then(RawJson::from_embedded).unwrap_or(object)
        }
        _ => object(&[("INVALID_JSON", RawJson::from_str_value(&text))]),
    }
}

/// Normalizes an action to the form in a stream: arguments are objects, errors are strings. An error that is not a text
/// becomes one that does not depend on the tool that wrote its JSON.
pub(in crate::convert) fn normalize(action: &mut Action) {
    match action {
        Action::ToolCall(call) if !call.args.is_object() => call.args = object_arguments(&call.args),
        Action::ToolReturn(returned) if returned.status != "success" && !returned.content.is_string() => {
            let content = &returned.content;
            let text = if content.is_null() {
                String::new()
            } else {
                canonical::normalize_with_numbers(content.get())
            };
            returned.content = RawJson::from_str_value(&text);
        }
        _ => {}
    }
}

/// Creates an object from members.
pub(in crate::convert) fn object(members: &[(&str, RawJson)]) -> RawJson {
    let object: RawObject = members.iter().map(|(key, value)| (*key, value.clone())).collect();
    RawJson::from_value(&object).unwrap_or_default()
}

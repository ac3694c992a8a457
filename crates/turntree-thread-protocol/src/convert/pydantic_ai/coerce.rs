//! Coerces values of actions that Pydantic AI would reject. ThreadProtocol allows any arguments and retries, UTC
//! offsets with seconds, deeper nesting and lone surrogates. Histories have none of them, so their values never change.

use std::borrow::Cow;

use super::field_layout::Expected;
use super::model::Value;
use super::read::{is_shallow, without_half_pairs};
use super::validation;
use turntree_core::json::canonical::normalize;
use turntree_core::time::Timestamp;

/// The earliest time of Python.
const FIRST_MOMENT: &str = "0001-01-01T00:00:00Z";

/// A timestamp without seconds in its offset, at or after year 1.
pub(super) fn time(text: &str) -> Expected<'_> {
    let has_long_offset = matches!(text.as_bytes(), [.., b'+' | b'-', _, _, b':', _, _, b':', _, _]);
    if !has_long_offset && !text.starts_with("0000") {
        return Expected::text(text);
    }
    let moment = text.parse::<Timestamp>().map_or_else(|_| text.to_owned(), |moment| moment.to_string());
    let is_early = moment.starts_with("0000") || moment.starts_with('-');
    Expected::Value(Value::Text(if is_early { Cow::Borrowed(FIRST_MOMENT) } else { Cow::Owned(moment) }))
}

/// The arguments of a call: an object, a string or `null`; other JSON becomes a string.
pub(super) fn arguments(json: &str) -> Expected<'_> {
    match json.as_bytes().first() {
        Some(b'{') => returned(json),
        Some(b'"' | b'n') => verbatim(json),
        _ => Expected::text(json),
    }
}

/// The content of a tool return; a string of its JSON if it is nested too deeply.
pub(super) fn returned(json: &str) -> Expected<'_> {
    if is_shallow(json) { verbatim(json) } else { Expected::text(json) }
}

/// The JSON unchanged, except for lone surrogates.
fn verbatim(json: &str) -> Expected<'_> {
    Expected::Value(Value::Json(match without_half_pairs(json) {
        Cow::Borrowed(json) => Cow::Borrowed(json),
        Cow::Owned(replaced) => Cow::Owned(normalize(&replaced)),
    }))
}

/// Feedback for the model: a string or error details; other JSON becomes a string.
pub(super) fn feedback(json: &str) -> Expected<'_> {
    if validation::is_feedback(json) { returned(json) } else { Expected::text(json) }
}

/// The cause of a retry, as a value that Pydantic AI accepts.
pub(super) fn retry(cause: Option<&str>, feedback_json: Option<&str>) -> Expected<'static> {
    Expected::Value(Value::json(match cause {
        Some("validation_error") => VALIDATION_ERROR,
        Some("no_output") => "{\"cause\":\"no_output\",\"attempt\":null,\"max_retries\":null}",
        Some("model_retry") => MODEL_RETRY,
        _ if feedback_json.is_some_and(|feedback_json| feedback_json.starts_with('[')) => VALIDATION_ERROR,
        _ => MODEL_RETRY,
    }))
}

const VALIDATION_ERROR: &str = "{\"cause\":\"validation_error\",\"attempt\":null,\"max_retries\":null}";
const MODEL_RETRY: &str = "{\"cause\":\"model_retry\",\"attempt\":null,\"max_retries\":null}";

//! What actions say, as Pydantic AI reads it. ThreadProtocol takes more than Pydantic does: any arguments, any
//! retry, offsets with seconds, deeper values, half surrogate pairs. Histories have none of that, so for them nothing
//! changes here.

use std::borrow::Cow;

use super::field_layout::Expected;
use super::model::Value;
use super::read::{is_shallow, without_half_pairs};
use super::validation;
use turntree_core::time::Timestamp;

/// The first moment that Python has a time for.
const FIRST_MOMENT: &str = "0001-01-01T00:00:00Z";

/// A time: with no seconds in its offset, and in no year before the first.
pub(super) fn time(text: &str) -> Expected<'_> {
    let has_long_offset = matches!(text.as_bytes(), [.., b'+' | b'-', _, _, b':', _, _, b':', _, _]);
    if !has_long_offset && !text.starts_with("0000") {
        return Expected::text(text);
    }
    let moment = text.parse::<Timestamp>().map_or_else(|_| text.to_owned(), |moment| moment.to_string());
    let is_early = moment.starts_with("0000") || moment.starts_with('-');
    Expected::Value(Value::Text(if is_early { Cow::Borrowed(FIRST_MOMENT) } else { Cow::Owned(moment) }))
}

/// The arguments of a call: an object, a string or nothing; other JSON is told as its text.
pub(super) fn arguments(json: &str) -> Expected<'_> {
    match json.as_bytes().first() {
        Some(b'{') => returned(json),
        Some(b'"' | b'n') => verbatim(json),
        _ => Expected::text(json),
    }
}

/// What a tool gave back; the text of its JSON where Pydantic does not read that deep.
pub(super) fn returned(json: &str) -> Expected<'_> {
    if is_shallow(json) { verbatim(json) } else { Expected::text(json) }
}

/// The JSON itself, but for halves of surrogate pairs.
fn verbatim(json: &str) -> Expected<'_> {
    Expected::Value(Value::Json(without_half_pairs(json)))
}

/// What is fed back to a model: a string or the details of errors; other JSON is told as its text.
pub(super) fn feedback(json: &str) -> Expected<'_> {
    if validation::is_feedback(json) { returned(json) } else { Expected::text(json) }
}

/// Why something was fed back, in a word that Pydantic knows.
pub(super) fn retry(cause: Option<&str>, said: Option<&str>) -> Expected<'static> {
    Expected::Value(Value::json(match cause {
        Some("validation_error") => VALIDATION_ERROR,
        Some("no_output") => "{\"cause\":\"no_output\",\"attempt\":null,\"max_retries\":null}",
        Some("model_retry") => MODEL_RETRY,
        _ if said.is_some_and(|said| said.starts_with('[')) => VALIDATION_ERROR,
        _ => MODEL_RETRY,
    }))
}

const VALIDATION_ERROR: &str = "{\"cause\":\"validation_error\",\"attempt\":null,\"max_retries\":null}";
const MODEL_RETRY: &str = "{\"cause\":\"model_retry\",\"attempt\":null,\"max_retries\":null}";

//! Conditions on several members.

use super::super::model::{Kind, Part};
use super::values::{elements, members, text_of};

/// Parts that are not allowed in a message of this kind.
pub(super) fn placement(part: &Part<'_>, part_kind: &str, kind: &Kind) -> Option<&'static str> {
    let speaks = |who: &str| part.text("speaker").as_deref() == Some(who);
    let has = |key: &str| part.get(key).is_some_and(|value| !value.is_null());
    match (part_kind, kind) {
        ("speech", Kind::Request) if speaks("assistant") => Some(
            "speech of the assistant is only allowed in a response; use the speaker \"user\" in a request",
        ),
        ("speech", Kind::Response) if speaks("user") => Some(
            "speech of the user is only allowed in a request; use the speaker \"assistant\" in a response",
        ),
        ("compaction", Kind::Request) if ["id", "provider_name", "provider_details"].into_iter().any(has) => {
            Some(
                "a compaction with a provider or an id is only allowed in a response; remove these members in a request",
            )
        }
        _ => None,
    }
}

/// A cited document needs a reference.
pub(super) fn document_source(json: &str) -> Option<&'static str> {
    let has_content = members(json).any(|(key, value)| match &*key {
        "document_id" | "title" => text_of(value).is_some_and(|text| !text.is_empty()),
        "excerpts" => elements(value).next().is_some(),
        _ => false,
    });
    (!has_content).then_some("a cited document needs a document_id, a title or excerpts")
}

/// A citation must start before it ends.
pub(super) fn anchor(json: &str) -> Option<&'static str> {
    let index = |name: &str| {
        let (_, value) = members(json).filter(|(key, _)| key == name).last()?;
        let digits = text_of(value);
        match value {
            "true" => Some(1.0),
            "false" => Some(0.0),
            _ => digits.as_deref().unwrap_or(value).trim().parse::<f64>().ok(),
        }
    };
    let (start, end) = (index("start")?, index("end")?);
    (start < 0.0 || start >= end).then_some("a citation needs 0 <= start < end")
}

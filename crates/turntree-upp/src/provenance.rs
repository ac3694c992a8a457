//! Which model made a message. Opaque parts of a message are sent back to that model only.
//!
//! Signatures of thinking, encrypted reasoning, thought signatures and `reasoning_details` are meaningless to any
//! other model, and most vendors refuse requests that contain another model's. When a different model is called, the
//! dialects leave these parts out and send the rest of the message.
//!
//! One model has several names: an alias (`gpt-5`) answers under a dated name (`gpt-5-2025-08-07`), and a gateway may
//! answer under its own name. [`same_model`] compares dated names. For all other names, the message stores the
//! requested model as `requested_model` in the provider's namespace.
//!
//! Spec: UPP-1.2 §4, §14

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::ModelResponse;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::Message;

/// The metadata member with the requested model.
const REQUESTED_MODEL: &str = "requested_model";

/// Substrings that mark opaque parts in a namespace: parts of the names that the dialects use.
const OPAQUE: [&str; 9] = [
    "thinkingSignature",
    "redacted_thinking",
    "redactedContent",
    "\"signature\"",
    "\"signatures\"",
    "thoughtSignature",
    "reasoningEncryptedContent",
    "reasoningItems",
    "reasoning_details",
];

/// Suffixes of model variants at a gateway; the model behind them is the same.
const VARIANTS: [&str; 7] = [":free", ":nitro", ":floor", ":online", ":exacto", ":extended", ":beta"];

/// A model of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelIdentity<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The model's id.
    pub model_id: &'a str,
}

/// The names of the model that made a message, as stored in a provider's namespace.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub struct Provenance<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    requested_model: Option<&'a RawValue>,
}

impl<'a> Provenance<'a> {
    /// Reads the names from a message's metadata.
    pub fn of(message: &'a Message, provider: &str) -> Self {
        let raw = message.metadata.as_ref().and_then(|metadata| metadata.get(provider));
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// The names of the model, the requested one first.
    pub(super) fn names(self) -> impl Iterator<Item = Cow<'a, str>> {
        let text = |raw: &'a RawValue| serde_json::from_str::<Cow<'a, str>>(raw.get()).ok();
        [self.requested_model, self.model].into_iter().flatten().filter_map(text)
    }
}

impl ModelIdentity<'_> {
    /// True if this model made the message. Messages without a name count as made by this model: they were written by
    /// hand or by an implementation that stores no names.
    pub fn made(&self, origin: Provenance<'_>) -> bool {
        let mut names = origin.names().peekable();
        names.peek().is_none() || names.any(|name| same_model(self.model_id, &name))
    }
}

/// True if two names denote the same model: equal except for a vendor prefix, a gateway variant, or a date or `latest`
/// that only one of them has. Two different dates denote two models.
///
/// ```
/// use turntree_upp::provenance::same_model;
///
/// assert!(same_model("gpt-5", "gpt-5-2025-08-07"));
/// assert!(same_model("claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"));
/// assert!(same_model("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"));
/// assert!(!same_model("gpt-5", "gpt-5-mini"));
/// assert!(!same_model("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"));
/// ```
pub fn same_model(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (one, other) = (plain(one), plain(other));
    let ((one, version), (other, other_version)) = (split(&one), split(&other));
    one == other && (version == other_version || version.is_empty() || other_version.is_empty())
}

/// Normalizes a name: no vendor prefix, no variant, lowercase, `-` instead of `.`.
fn plain(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let name = if name.starts_with("ft:") { &name } else { name.rsplit('/').next().unwrap_or_default() };
    let name = VARIANTS.iter().find_map(|variant| name.strip_suffix(variant)).unwrap_or(name);
    name.replace('.', "-")
}

/// Splits a name into base and version; the version is empty if there is none.
fn split(name: &str) -> (&str, &str) {
    if let Some(name) = name.strip_suffix("-latest") {
        return (name, "");
    }
    let length = version_length(name);
    let (base, version) = name.split_at(name.len().saturating_sub(length));
    if base.is_empty() { (name, "") } else { (base, version) }
}

/// The length of the date or version number at the end of a name, including the `-` before it.
fn version_length(name: &str) -> usize {
    let mut last = name.rsplit('-');
    let mut next = || last.next().unwrap_or_default();
    let (day, month, year) = (next(), next(), next());
    let is_number =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    let is_year = |text: &str| is_number(text, 4) && text.starts_with("20");
    let is_month = |text: &str| is_number(text, 2) && text <= "12";
    let is_day = |text: &str| is_number(text, 2) && text <= "31";
    if is_day(day) && is_month(month) && is_year(year) {
        "-2025-01-01".len()
    } else if is_day(day) && is_month(month) {
        "-01-01".len()
    } else if is_year(day) && is_month(month) {
        "-01-2025".len()
    } else if is_number(day, 8) && day.starts_with("20") {
        "-20250101".len()
    } else if is_number(day, 4) && day.get(..2).is_some_and(is_month) && day.get(2..).is_some_and(is_day) {
        "-0101".len()
    } else if is_number(day, 3) && day.starts_with("00") {
        "-001".len()
    } else {
        0
    }
}

/// Stores the requested model on a response with opaque parts, unless the model's own name matches it.
pub(super) fn record_requested_model(response: &mut ModelResponse, producer: ModelIdentity<'_>) {
    let ModelIdentity { provider, model_id } = producer;
    let namespace = response.message.metadata.as_ref().and_then(|metadata| metadata.get(provider));
    let Some(namespace) = namespace.filter(|raw| is_opaque(raw.get())) else { return };
    let origin: Provenance<'_> = serde_json::from_str(namespace.get()).unwrap_or_default();
    if origin.model.is_some() && producer.made(origin) {
        return;
    }
    let Some(mut members) = RawObject::from_raw(namespace) else { return };
    members.insert(REQUESTED_MODEL, RawJson::from_str_value(model_id));
    let message = Arc::make_mut(&mut response.message);
    if let (Some(metadata), Ok(members)) = (&mut message.metadata, RawJson::from_value(&members)) {
        metadata.insert(provider, members);
    }
}

pub(super) fn is_opaque(namespace: &str) -> bool {
    OPAQUE.iter().any(|sign| namespace.contains(sign))
}

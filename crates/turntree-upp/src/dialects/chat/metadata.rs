//! Collects provider metadata from full and streamed responses.
//!
//! Spec: UPP-1.2 §14

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::completion::{ChatMessage, Choice, Completion};
use super::{ChatOptions, Member};
use crate::dialects::common::{BoundedVec, MOST_ITEMS};
use turntree_core::json::{RawJson, RawObject};

/// The members and reasoning details that the host's options select.
#[derive(Debug, Default)]
pub(super) struct MetadataCollector {
    members: Vec<(Member, RawJson)>,
    details: Vec<ReasoningDetail>,
    /// The probabilities of the tokens of the text.
    logprobs: Vec<RawJson>,
}

#[derive(Deserialize, Serialize)]
struct Logprobs<T> {
    content: T,
}

/// One of `reasoning_details`. Its texts are separate because they grow.
#[derive(Debug, Default)]
struct ReasoningDetail {
    kind: String,
    members: RawObject,
    text: Option<String>,
    summary: Option<String>,
}

impl MetadataCollector {
    /// Takes the selected members of a response or chunk.
    pub(super) fn update(
        &mut self,
        options: &ChatOptions,
        reported: &Completion<'_>,
        choice: Option<&Choice<'_>>,
    ) {
        for member in options.metadata_members {
            let of_choice = || choice.and_then(|choice| choice.member(*member));
            if let Some(value) = reported.member(*member).or_else(of_choice) {
                self.member(*member, value);
            }
        }
    }

    /// Takes the probabilities of tokens, which streams send in pieces.
    pub(super) fn logprobs(&mut self, choice: &Choice<'_>) {
        let Some(reported) = choice.logprobs else { return };
        if let Ok(mut piece) = serde_json::from_str::<Logprobs<Vec<RawJson>>>(reported.get()) {
            self.logprobs.append(&mut piece.content);
        }
    }

    /// Appends to lists; replaces all other values.
    fn member(&mut self, member: Member, value: &RawValue) {
        let known = self.members.iter_mut().find(|(known, _)| *known == member);
        // Hosts repeat the member in every chunk.
        if known.as_ref().is_some_and(|(_, known)| !known.is_array() && known.get() == value.get()) {
            return;
        }
        let value = RawJson::from(value);
        match known {
            Some((_, known)) if known.is_array() && value.is_array() => *known = joined(known, &value),
            Some((_, known)) => *known = value,
            None => self.members.push((member, value)),
        }
    }

    /// Takes `reasoning_details`, which streams send in pieces.
    pub(super) fn details(&mut self, message: &ChatMessage<'_>, is_piece: bool) {
        for reported in details(message) {
            let reported = ReasoningDetail::of(reported);
            let has_room = self.details.len() < MOST_ITEMS;
            match self.details.last_mut().filter(|last| is_piece && last.goes_on_with(&reported)) {
                Some(last) => last.grow(reported),
                None if has_room => self.details.push(reported),
                None => {}
            }
        }
    }

    /// Adds the collected values to the metadata.
    pub(super) fn write(self, options: &ChatOptions, metadata: &mut RawObject) {
        if !self.details.is_empty() {
            let details: Vec<RawObject> =
                self.details.into_iter().map(ReasoningDetail::into_object).collect();
            metadata.insert("reasoning_details", RawJson::from_value(&details).unwrap_or_default());
        }
        if !self.logprobs.is_empty() {
            let logprobs = Logprobs { content: &self.logprobs };
            metadata.insert("logprobs", RawJson::from_value(&logprobs).unwrap_or_default());
        }
        for member in options.metadata_members {
            let stored = self.members.iter().find(|(known, _)| known == member);
            if let Some((_, value)) = stored {
                metadata.insert(member.as_str(), value.clone());
            }
        }
    }
}

/// The details of a message; empty if the member is not a list, or too long.
fn details(message: &ChatMessage<'_>) -> BoundedVec<RawObject> {
    message.reasoning_details.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The texts of the details, for hosts without another reasoning member.
pub(super) fn thinking_of_details(message: &ChatMessage<'_>) -> String {
    details(message)
        .into_iter()
        .map(ReasoningDetail::of)
        .filter_map(|detail| detail.text.or(detail.summary))
        .collect()
}

impl ReasoningDetail {
    fn of(mut members: RawObject) -> Self {
        let string = |name: &str| members.get(name).and_then(RawJson::as_string);
        let (kind, text, summary) = (string("type").unwrap_or_default(), string("text"), string("summary"));
        // Placeholders preserve the vendor's order of members.
        for name in ["text", "summary"] {
            if members.get(name).is_some_and(RawJson::is_string) {
                members.insert(name, RawJson::default());
            }
        }
        Self { kind, members, text, summary }
    }

    /// True if `next` continues this detail. Encrypted details are never split.
    fn goes_on_with(&self, next: &Self) -> bool {
        let agrees = |name: &str| match (self.members.get(name), next.members.get(name)) {
            (Some(known), Some(reported)) => known.is_null() || reported.is_null() || known == reported,
            _ => true,
        };
        self.kind == next.kind
            && self.kind != "reasoning.encrypted"
            && agrees("index")
            && agrees("id")
            && agrees("format")
    }

    fn grow(&mut self, next: Self) {
        for (known, reported) in [(&mut self.text, next.text), (&mut self.summary, next.summary)] {
            if let Some(reported) = reported {
                known.get_or_insert_default().push_str(&reported);
            }
        }
        for (name, value) in next.members.iter() {
            if !value.is_null() || self.members.get(name).is_none() {
                self.members.insert(name, value.clone());
            }
        }
    }

    fn into_object(mut self) -> RawObject {
        for (name, message) in [("text", self.text), ("summary", self.summary)] {
            if let Some(message) = message {
                self.members.insert(name, RawJson::from_str_value(&message));
            }
        }
        self.members
    }
}

/// Merges two pieces of a list: items of the same `index` are replaced, equal items are not repeated. The length is
/// limited, since each item is searched in the list.
fn joined(known: &RawJson, reported: &RawJson) -> RawJson {
    #[derive(Deserialize)]
    struct Numbered {
        index: u64,
    }
    let number = |item: &RawJson| item.to::<Numbered>().ok().map(|numbered| numbered.index);
    let mut items: Vec<RawJson> = known.to().unwrap_or_default();
    for item in reported.to::<Vec<RawJson>>().unwrap_or_default() {
        let index = number(&item);
        let place =
            items.iter().position(|known| (index.is_some() && number(known) == index) || *known == item);
        if let Some(known) = place.and_then(|place| items.get_mut(place)) {
            *known = item;
        } else if items.len() < MOST_ITEMS {
            items.push(item);
        }
    }
    RawJson::from_value(&items).unwrap_or_default()
}

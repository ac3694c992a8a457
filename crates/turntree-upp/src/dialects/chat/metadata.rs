//! What of an answer goes into its metadata, whole or piece by piece. UPP-1.2 §14.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::completion::{ChatMessage, Choice, Completion};
use super::{ChatOptions, Member};
use crate::dialects::common::{BoundedVec, MOST_ITEMS};
use turntree_core::json::{RawJson, RawObject};

/// What the host says besides the answer, as far as its data say to keep it.
#[derive(Debug, Default)]
pub(super) struct MetadataCollector {
    members: Vec<(Member, RawJson)>,
    details: Vec<ReasoningDetail>,
}

/// One of `reasoning_details`; its words are apart, since they grow.
#[derive(Debug, Default)]
struct ReasoningDetail {
    kind: String,
    members: RawObject,
    text: Option<String>,
    summary: Option<String>,
}

impl MetadataCollector {
    /// Takes what an answer, or a piece of one, says of itself.
    pub(super) fn learn(
        &mut self,
        options: &ChatOptions,
        told: &Completion<'_>,
        choice: Option<&Choice<'_>>,
    ) {
        for member in options.kept_members {
            let of_choice = || choice.and_then(|choice| choice.member(*member));
            if let Some(value) = told.member(*member).or_else(of_choice) {
                self.member(*member, value);
            }
        }
    }

    /// Lists grow, all else is what was said last.
    fn member(&mut self, member: Member, value: &RawValue) {
        let known = self.members.iter_mut().find(|(known, _)| *known == member);
        // Hosts repeat it in every piece.
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

    /// Takes `reasoning_details`; those of a stream come in pieces.
    pub(super) fn details(&mut self, said: &ChatMessage<'_>, is_piece: bool) {
        for told in details(said) {
            let told = ReasoningDetail::of(told);
            let has_room = self.details.len() < MOST_ITEMS;
            match self.details.last_mut().filter(|last| is_piece && last.goes_on_with(&told)) {
                Some(last) => last.grow(told),
                None if has_room => self.details.push(told),
                None => {}
            }
        }
    }

    /// Adds what was kept to the vendor's facts.
    pub(super) fn write(self, options: &ChatOptions, facts: &mut RawObject) {
        if !self.details.is_empty() {
            let details: Vec<RawObject> =
                self.details.into_iter().map(ReasoningDetail::into_object).collect();
            facts.insert("reasoning_details", RawJson::from_value(&details).unwrap_or_default());
        }
        for member in options.kept_members {
            let kept = self.members.iter().find(|(known, _)| known == member);
            if let Some((_, value)) = kept {
                facts.insert(member.as_str(), value.clone());
            }
        }
    }
}

/// The details that a message has; a list of something else, or of far too many, counts as none.
fn details(said: &ChatMessage<'_>) -> BoundedVec<RawObject> {
    said.reasoning_details.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The words among the details, for hosts that give no reasoning besides.
pub(super) fn thinking_of_details(said: &ChatMessage<'_>) -> String {
    details(said)
        .into_iter()
        .map(ReasoningDetail::of)
        .filter_map(|detail| detail.text.or(detail.summary))
        .collect()
}

impl ReasoningDetail {
    fn of(mut members: RawObject) -> Self {
        let words = |name: &str| members.get(name).and_then(RawJson::as_string);
        let (kind, text, summary) = (words("type").unwrap_or_default(), words("text"), words("summary"));
        // Their places stay, so that the order of members is the vendor's.
        for name in ["text", "summary"] {
            if members.get(name).is_some_and(RawJson::is_string) {
                members.insert(name, RawJson::default());
            }
        }
        Self { kind, members, text, summary }
    }

    /// Whether another is the next piece of this one. What is sealed comes whole.
    fn goes_on_with(&self, next: &Self) -> bool {
        let agrees = |name: &str| match (self.members.get(name), next.members.get(name)) {
            (Some(known), Some(told)) => known.is_null() || told.is_null() || known == told,
            _ => true,
        };
        self.kind == next.kind
            && self.kind != "reasoning.encrypted"
            && agrees("index")
            && agrees("id")
            && agrees("format")
    }

    fn grow(&mut self, next: Self) {
        for (known, told) in [(&mut self.text, next.text), (&mut self.summary, next.summary)] {
            if let Some(told) = told {
                known.get_or_insert_default().push_str(&told);
            }
        }
        for (name, value) in next.members.iter() {
            if !value.is_null() || self.members.get(name).is_none() {
                self.members.insert(name, value.clone());
            }
        }
    }

    fn into_object(mut self) -> RawObject {
        for (name, words) in [("text", self.text), ("summary", self.summary)] {
            if let Some(words) = words {
                self.members.insert(name, RawJson::from_str_value(&words));
            }
        }
        self.members
    }
}

/// Two pieces of a list: what has the same `index` is replaced, what is there already is not said twice.
/// The list stays short, since each piece is looked for in it.
fn joined(known: &RawJson, told: &RawJson) -> RawJson {
    #[derive(Deserialize)]
    struct Numbered {
        index: u64,
    }
    let number = |item: &RawJson| item.to::<Numbered>().ok().map(|numbered| numbered.index);
    let mut items: Vec<RawJson> = known.to().unwrap_or_default();
    for item in told.to::<Vec<RawJson>>().unwrap_or_default() {
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

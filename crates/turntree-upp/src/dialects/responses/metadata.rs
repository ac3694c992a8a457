//! Provider metadata of messages: written by `assembly`, read by `encode`.
//!
//! Spec: UPP-1.2 §14

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::code_execution::CODE_INTERPRETER_CALL;
use super::output_item::FunctionCallItem;
use crate::dialects::borrowed_text::BorrowedText;
use crate::provenance::{ModelIdentity, Provenance};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::Message;

/// The metadata to write.
pub(super) struct ResponseMetadata {
    pub(super) model: Option<String>,
    pub(super) status: Option<String>,
    pub(super) response_id: Option<String>,
    pub(super) function_call_items: Vec<FunctionCallItem>,
    /// The last reasoning item, as JSON in a string; the specification defines this member.
    pub(super) reasoning_encrypted_content: Option<String>,
    /// All reasoning items, if there are several.
    pub(super) reasoning_items: Vec<RawJson>,
    /// The order of the vendor's items, if it differs from one message, then calls.
    pub(super) output_items: Vec<OrderEntry>,
    /// Annotations of the texts: one entry for each text, `None` for texts without any.
    pub(super) annotations: Vec<Option<RawJson>>,
    /// Probabilities of the tokens of the texts: one entry for each text, as above.
    pub(super) logprobs: Vec<Option<RawJson>>,
    pub(super) incomplete_reason: Option<String>,
    pub(super) stored: RawObject,
}

impl Serialize for ResponseMetadata {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn list<M: SerializeMap, T: Serialize>(map: &mut M, key: &str, list: &[T]) -> Result<(), M::Error> {
            if list.is_empty() { Ok(()) } else { map.serialize_entry(key, list) }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &self.model)?;
        map.serialize_entry("status", &self.status)?;
        map.serialize_entry("response_id", &self.response_id)?;
        list(&mut map, "functionCallItems", &self.function_call_items)?;
        if let Some(sealed) = &self.reasoning_encrypted_content {
            map.serialize_entry("reasoningEncryptedContent", sealed)?;
        }
        list(&mut map, "reasoningItems", &self.reasoning_items)?;
        list(&mut map, "outputItems", &self.output_items)?;
        list(&mut map, "annotations", &self.annotations)?;
        list(&mut map, "logprobs", &self.logprobs)?;
        if let Some(reason) = &self.incomplete_reason {
            map.serialize_entry("incomplete_reason", reason)?;
        }
        self.stored.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

/// An entry in the order of items.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OrderEntry {
    /// The message's next `reasoning` or `function_call`.
    Next(&'static str),
    /// The message's next texts, which were one item.
    Message {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<RawJson>,
        texts: usize,
    },
    /// The message's next image: its item without the data, which is in the content.
    Image {
        #[serde(rename = "type")]
        kind: &'static str,
        item: RawJson,
    },
    /// An item as the vendor sent it.
    Verbatim(RawJson),
}

/// The stored metadata. Values that are only sent back are not decoded.
#[derive(Deserialize, Default)]
pub(super) struct StoredMetadata<'a> {
    #[serde(borrow, default, rename = "functionCallItems")]
    calls: Option<Vec<StoredCall<'a>>>,
    #[serde(borrow, default, rename = "reasoningEncryptedContent")]
    last_reasoning: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "reasoningItems")]
    reasoning: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, rename = "outputItems")]
    items: Option<Vec<&'a RawValue>>,
    /// True if the reasoning is another model's.
    #[serde(skip)]
    is_foreign: bool,
}

/// A call as the vendor sent it.
#[derive(Deserialize)]
pub(super) struct StoredCall<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: BorrowedText<'a>,
    /// JSON in a string.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) namespace: Option<&'a RawValue>,
}

/// A stored entry in the order of items.
pub(super) enum StoredOrderEntry<'a> {
    Reasoning,
    Call,
    Message {
        id: Option<&'a RawValue>,
        phase: Option<&'a RawValue>,
        texts: usize,
    },
    Image(&'a RawValue),
    Verbatim {
        item: &'a RawValue,
        /// True for a call of a provider tool, such as `web_search_call`.
        is_call: bool,
        /// True if the message has the code that the vendor ran: when it is encoded, as a text.
        is_shown: bool,
    },
}

impl<'a> StoredMetadata<'a> {
    /// Reads the metadata of a message. Invalid or changed metadata counts as empty.
    pub(super) fn of(message: &'a Message, producer: ModelIdentity<'_>) -> Self {
        let raw = message.metadata.as_ref().and_then(|metadata| metadata.get(producer.provider));
        let read = raw.and_then(|raw| serde_json::from_str::<Self>(raw.get()).ok()).unwrap_or_default();
        let has_reasoning = read.last_reasoning.is_some() || read.reasoning.is_some();
        let is_foreign = has_reasoning && !producer.made(Provenance::of(message, producer.provider));
        Self { is_foreign, ..read }
    }

    /// True if the message has encrypted reasoning of another model. It is omitted, together with the ids of the items
    /// that follow it: the vendor refuses a known item without its reasoning.
    pub(super) const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// The call with this id.
    pub(super) fn call(&self, call_id: &str) -> Option<&StoredCall<'a>> {
        self.calls.as_ref()?.iter().find(|call| call.call_id.as_str() == call_id)
    }

    /// The encrypted reasoning items in order.
    pub(super) fn reasoning(&self) -> Vec<RawObject> {
        let object = |text: &str| serde_json::from_str::<RawObject>(text).ok();
        match (&self.reasoning, self.last_reasoning) {
            (Some(items), _) => items.iter().filter_map(|item| object(item.get())).collect(),
            (None, Some(sealed)) => {
                let text = serde_json::from_str::<BorrowedText<'_>>(sealed.get()).ok();
                text.and_then(|text| object(text.as_str())).into_iter().collect()
            }
            (None, None) => Vec::new(),
        }
    }

    /// The order of items, if it still matches the numbers of each kind in the message.
    pub(super) fn order(
        &self,
        reasoning: usize,
        texts: usize,
        images: usize,
        calls: usize,
    ) -> Option<Vec<StoredOrderEntry<'a>>> {
        let entries: Vec<StoredOrderEntry<'a>> =
            self.items.as_ref()?.iter().map(|raw| entry(raw)).collect::<Option<_>>()?;
        let (mut counts, mut shown) = ((0, 0, 0, 0), 0);
        for entry in &entries {
            match entry {
                StoredOrderEntry::Reasoning => counts.0 += 1,
                StoredOrderEntry::Message { texts, .. } => counts.1 += texts,
                StoredOrderEntry::Image(_) => counts.2 += 1,
                StoredOrderEntry::Call => counts.3 += 1,
                StoredOrderEntry::Verbatim { is_shown, .. } => shown += usize::from(*is_shown),
            }
        }
        let hide = |entry| match entry {
            StoredOrderEntry::Verbatim { item, is_call, .. } => {
                StoredOrderEntry::Verbatim { item, is_call, is_shown: false }
            }
            other => other,
        };
        let wanted = (reasoning, texts, images, calls);
        if (counts.0, counts.1 + shown, counts.2, counts.3) == wanted {
            return Some(entries);
        }
        // Messages of earlier versions do not have code that the vendor ran.
        (counts == wanted).then(|| entries.into_iter().map(hide).collect())
    }
}

fn entry(raw: &RawValue) -> Option<StoredOrderEntry<'_>> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type")]
        kind: BorrowedText<'a>,
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        phase: Option<&'a RawValue>,
        #[serde(default)]
        texts: Option<usize>,
        #[serde(borrow, default, rename = "item")]
        drawn: Option<&'a RawValue>,
    }
    match raw.get() {
        "\"reasoning\"" => return Some(StoredOrderEntry::Reasoning),
        "\"function_call\"" => return Some(StoredOrderEntry::Call),
        _ => {}
    }
    let item: Item<'_> = serde_json::from_str(raw.get()).ok()?;
    Some(match item.kind.as_str() {
        "message" => StoredOrderEntry::Message { id: item.id, phase: item.phase, texts: item.texts? },
        "image" => StoredOrderEntry::Image(item.drawn?),
        kind => StoredOrderEntry::Verbatim {
            item: raw,
            is_call: kind.ends_with("_call"),
            is_shown: kind == CODE_INTERPRETER_CALL,
        },
    })
}

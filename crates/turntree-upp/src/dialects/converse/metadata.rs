//! Provider metadata of messages: written by `assembly`, read by `encode`.
//!
//! Spec: UPP-1.2 §14

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::code_execution;
use crate::provenance::{ModelIdentity, Provenance};
use turntree_core::json::RawJson;
use turntree_core::message::Message;

/// The provider's name, and the namespace of its metadata.
pub const PROVIDER: &str = "bedrock";

/// The metadata to write.
#[derive(Serialize, Default)]
pub(super) struct ResponseMetadata {
    pub(super) stop_reason: Option<String>,
    /// One entry for each reasoning block, `None` for blocks without a signature; present only if there is a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signatures: Option<Vec<Option<String>>>,
    /// The citations of each text block; present only if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) citations: Option<Vec<Option<RawJson>>>,
    /// The id of the call whose input became the structured output.
    #[serde(rename = "jsonResponseId", skip_serializing_if = "Option::is_none")]
    pub(super) json_response_id: Option<String>,
    /// The order of the vendor's blocks, if it differs from reasoning, text, calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<Vec<OrderEntry>>,
    /// What a guardrail and a prompt router report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<RawJson>,
    #[serde(rename = "additionalModelResponseFields", skip_serializing_if = "Option::is_none")]
    pub(super) additional: Option<RawJson>,
}

/// An entry in the order of blocks.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OrderEntry {
    /// The message's next block of this kind: `reasoning`, `text` or `tool_use`.
    Next(&'static str),
    /// A block as the vendor sent it.
    Verbatim(RawJson),
}

/// The stored metadata. Values that are only sent back are not decoded.
#[derive(Deserialize, Default)]
pub(super) struct StoredMetadata<'a> {
    #[serde(borrow, default, rename = "cachePoint")]
    pub(super) cache_point: Option<&'a RawValue>,
    #[serde(borrow, default)]
    signatures: Option<Vec<Option<&'a RawValue>>>,
    #[serde(borrow, default)]
    blocks: Option<Vec<&'a RawValue>>,
}

/// A stored entry in the order of blocks.
pub(super) enum StoredOrderEntry<'a> {
    Reasoning,
    Text,
    ToolUse,
    Verbatim {
        block: &'a RawValue,
        /// True if the message has the code that the vendor ran: when it is encoded, as a text.
        is_shown: bool,
    },
}

impl<'a> StoredMetadata<'a> {
    /// Reads the metadata of a message. Invalid metadata counts as empty, and so does what another model has sealed.
    pub(super) fn of(message: &'a Message, model_id: &str) -> Self {
        let raw = message.metadata.as_ref().and_then(|metadata| metadata.get(PROVIDER));
        let read = raw.and_then(|raw| serde_json::from_str::<Self>(raw.get()).ok()).unwrap_or_default();
        let is_sealed =
            read.signatures.is_some() || read.blocks.iter().flatten().any(|raw| is_reasoning(raw));
        let model = ModelIdentity { provider: PROVIDER, model_id };
        if !is_sealed || model.made(Provenance::of(message, PROVIDER)) {
            return read;
        }
        let blocks = read.blocks.map(|blocks| blocks.into_iter().filter(|raw| !is_reasoning(raw)).collect());
        Self { signatures: None, blocks, ..read }
    }

    /// The signature of the reasoning block at `place`.
    pub(super) fn signature(&self, place: usize) -> Option<&'a RawValue> {
        let signature = self.signatures.as_ref()?.get(place).copied().flatten();
        signature.filter(|raw| raw.get().starts_with('"'))
    }

    /// The order of blocks, if it still matches the numbers of reasoning blocks, texts and calls in the message.
    pub(super) fn order(
        &self,
        reasoning: usize,
        texts: usize,
        calls: usize,
    ) -> Option<Vec<StoredOrderEntry<'a>>> {
        let entries: Vec<StoredOrderEntry<'a>> = self.blocks.as_ref()?.iter().map(|raw| entry(raw)).collect();
        let (mut counts, mut shown) = ((0, 0, 0), 0);
        for entry in &entries {
            match entry {
                StoredOrderEntry::Reasoning => counts.0 += 1,
                StoredOrderEntry::Text => counts.1 += 1,
                StoredOrderEntry::ToolUse => counts.2 += 1,
                StoredOrderEntry::Verbatim { is_shown, .. } => shown += usize::from(*is_shown),
            }
        }
        let wanted = (reasoning, texts, calls);
        if (counts.0, counts.1 + shown, counts.2) == wanted {
            return Some(entries);
        }
        // Messages of earlier versions do not have code that the vendor ran.
        let hide = |entry| match entry {
            StoredOrderEntry::Verbatim { block, .. } => StoredOrderEntry::Verbatim { block, is_shown: false },
            other => other,
        };
        (counts == wanted).then(|| entries.into_iter().map(hide).collect())
    }
}

/// True for reasoning that is stored as a whole block, because the vendor has encrypted it.
fn is_reasoning(raw: &RawValue) -> bool {
    raw.get().starts_with("{\"reasoningContent\"")
}

fn entry(raw: &RawValue) -> StoredOrderEntry<'_> {
    match raw.get() {
        "\"reasoning\"" => StoredOrderEntry::Reasoning,
        "\"text\"" => StoredOrderEntry::Text,
        "\"tool_use\"" => StoredOrderEntry::ToolUse,
        block => StoredOrderEntry::Verbatim { block: raw, is_shown: code_execution::is_result(block) },
    }
}

//! Provider metadata of messages: written by `assembly`, read by `encode`.
//!
//! `functionCallParts` has one entry for each call. `parts` is the order of the vendor's parts. It is stored only if
//! it differs from the default: thoughts, texts, calls, with at most one signature at the end of the last text, which
//! is `thoughtSignature`.
//!
//! Spec: UPP-1.2 §14

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::code_execution::is_code_result;
use crate::dialects::borrowed_text::BorrowedText;
use crate::provenance::{ModelIdentity, Provenance};
use turntree_core::json::RawJson;
use turntree_core::message::{Message, ToolCall};

/// The metadata to write.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseMetadata {
    pub(super) finish_reason: Option<String>,
    pub(super) model: Option<String>,
    #[serde(flatten)]
    pub(super) reported: CandidateMetadata,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) function_call_parts: Vec<FunctionCallMetadata>,
    /// The signature of the last text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<String>,
    /// The id of the call whose arguments became the structured output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) json_response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<Vec<OrderEntry>>,
}

/// Values of the candidate besides its parts, unchanged; of a stream, the last ones.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_message: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety_ratings: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_feedback: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grounding_metadata: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url_context_metadata: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) citation_metadata: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) avg_logprobs: Option<RawJson>,
    /// In a stream, the list of the results of all frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs_result: Option<RawJson>,
}

/// A call as the vendor sent it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCallMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) args: RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<String>,
}

/// An entry in the order of parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OrderEntry {
    /// The message's next block of this kind: `thought`, `text`, `media` or `functionCall`.
    Next(&'static str),
    /// The next block, with the vendor's signatures and the byte offset at which each of them ends.
    Signed {
        #[serde(rename = "type")]
        kind: &'static str,
        signatures: Vec<(usize, String)>,
    },
    /// A part as the vendor sent it.
    Verbatim { part: RawJson },
}

/// The stored metadata. Values that are only sent back are not decoded.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredMetadata<'a> {
    #[serde(borrow, default)]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call_parts: Option<Vec<SignedCall<'a>>>,
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
    /// True if the signatures are another model's.
    #[serde(skip)]
    is_foreign: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedCall<'a> {
    #[serde(borrow, default)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    name: BorrowedText<'a>,
    #[serde(borrow, default)]
    thought_signature: Option<&'a RawValue>,
}

/// Signatures of a block, each with the byte offset at which its range ends.
pub(super) type Signatures<'a> = Vec<(usize, &'a RawValue)>;

/// A stored entry in the order of parts.
pub(super) enum StoredOrderEntry<'a> {
    Thought(Signatures<'a>),
    Text(Signatures<'a>),
    Media(Signatures<'a>),
    Call,
    Verbatim {
        part: &'a RawValue,
        /// True if the message has the output: when it is encoded, as a text.
        is_shown: bool,
    },
}

impl<'a> StoredMetadata<'a> {
    /// Reads the metadata of a message. Invalid or changed metadata counts as empty, and so do signatures of another
    /// model.
    pub(super) fn of(message: &'a Message, producer: ModelIdentity<'_>) -> Self {
        let raw = message.metadata.as_ref().and_then(|metadata| metadata.get(producer.provider));
        let read = raw.and_then(|raw| serde_json::from_str::<Self>(raw.get()).ok()).unwrap_or_default();
        let is_foreign = !producer.made(Provenance::of(message, producer.provider));
        Self { is_foreign, ..read }
    }

    /// True if provider parts must be sent without their signature.
    pub(super) const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// The signature of the last text.
    pub(super) fn text_signature(&self) -> Option<&'a RawValue> {
        self.thought_signature.filter(|signature| !self.is_foreign && signature.get().starts_with('"'))
    }

    /// The signature of the call at `place`: by its id, or by its position if the vendor sent no id.
    pub(super) fn call_signature(&self, place: usize, call: &ToolCall) -> Option<&'a RawValue> {
        let parts = self.function_call_parts.as_deref()?;
        let has_id =
            |part: &&SignedCall<'_>| part.id.as_ref().is_some_and(|id| id.as_str() == call.tool_call_id);
        let part = parts.iter().find(has_id).or_else(|| parts.get(place).filter(|part| part.id.is_none()));
        let part = part.filter(|part| part.name.as_str() == call.tool_name)?;
        part.thought_signature.filter(|signature| !self.is_foreign && signature.get().starts_with('"'))
    }

    /// The order of parts, if it still matches the numbers of reasoning blocks, texts, media and calls in the message.
    pub(super) fn order(&self, counts: [usize; 4]) -> Option<Vec<StoredOrderEntry<'a>>> {
        // Messages of earlier versions have a text for each result with an output.
        self.order_with(counts, is_code_result)
            .or_else(|| self.order_with(counts, |part| output_as_text(part).is_some()))
    }

    fn order_with(
        &self,
        counts: [usize; 4],
        is_shown: impl Fn(&str) -> bool,
    ) -> Option<Vec<StoredOrderEntry<'a>>> {
        let parts = self.parts.as_ref()?.iter();
        let entries: Vec<StoredOrderEntry<'a>> =
            parts.map(|raw| entry(raw, self.is_foreign, &is_shown)).collect::<Option<_>>()?;
        let mut found = [0; 4];
        for entry in &entries {
            let kind = match entry {
                StoredOrderEntry::Thought(_) => 0,
                StoredOrderEntry::Text(_) | StoredOrderEntry::Verbatim { is_shown: true, .. } => 1,
                StoredOrderEntry::Media(_) => 2,
                StoredOrderEntry::Call => 3,
                StoredOrderEntry::Verbatim { is_shown: false, .. } => continue,
            };
            if let Some(count) = found.get_mut(kind) {
                *count += 1;
            }
        }
        (found == counts).then_some(entries)
    }
}

fn entry<'a>(
    raw: &'a RawValue,
    is_foreign: bool,
    is_shown: &impl Fn(&str) -> bool,
) -> Option<StoredOrderEntry<'a>> {
    #[derive(Deserialize)]
    struct PartEntry<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Option<BorrowedText<'a>>,
        #[serde(borrow, default)]
        signatures: Signatures<'a>,
        #[serde(borrow, default)]
        part: Option<&'a RawValue>,
    }
    match raw.get() {
        "\"thought\"" => return Some(StoredOrderEntry::Thought(Vec::new())),
        "\"text\"" => return Some(StoredOrderEntry::Text(Vec::new())),
        "\"media\"" => return Some(StoredOrderEntry::Media(Vec::new())),
        "\"functionCall\"" => return Some(StoredOrderEntry::Call),
        _ => {}
    }
    let place: PartEntry<'_> = serde_json::from_str(raw.get()).ok()?;
    if let Some(part) = place.part.filter(|part| part.get().starts_with('{')) {
        return Some(StoredOrderEntry::Verbatim { part, is_shown: is_shown(part.get()) });
    }
    let signatures = if is_foreign { Vec::new() } else { place.signatures };
    match place.kind?.as_str() {
        "thought" => Some(StoredOrderEntry::Thought(signatures)),
        "text" => Some(StoredOrderEntry::Text(signatures)),
        "media" => Some(StoredOrderEntry::Media(signatures)),
        _ => None,
    }
}

/// The output of code that the vendor ran, as a fenced text (UPP-1.2 §19.4), as earlier versions stored it.
fn output_as_text(part: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Part<'a> {
        #[serde(borrow)]
        code_execution_result: Ran<'a>,
    }
    #[derive(Deserialize)]
    struct Ran<'a> {
        #[serde(borrow)]
        output: BorrowedText<'a>,
    }
    let part: Part<'_> = serde_json::from_str(part).ok()?;
    let output = part.code_execution_result.output;
    let output = output.as_str().strip_suffix('\n').unwrap_or(output.as_str());
    (!output.is_empty()).then(|| format!("```\n{output}\n```"))
}

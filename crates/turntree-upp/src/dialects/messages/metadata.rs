//! Provider metadata of messages: written by `assembly`, read by `encode`.
//!
//! Spec: UPP-1.2 §14

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::code_execution;
use crate::dialects::borrowed_text::BorrowedText;
use crate::provenance::{ModelIdentity, Provenance};
use turntree_core::json::RawJson;
use turntree_core::message::Message;

/// The metadata to write.
#[derive(Serialize, Default)]
pub(super) struct ResponseMetadata {
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) model: Option<String>,
    /// The last signature.
    #[serde(rename = "thinkingSignature", skip_serializing_if = "Option::is_none")]
    pub(super) thinking_signature: Option<String>,
    /// One entry for each reasoning block, `None` for blocks without a signature; present only if there is a
    /// signature.
    #[serde(rename = "thinkingSignatures", skip_serializing_if = "Option::is_none")]
    pub(super) thinking_signatures: Option<Vec<Option<String>>>,
    /// The id of the call whose input became the structured output.
    #[serde(rename = "jsonResponseId", skip_serializing_if = "Option::is_none")]
    pub(super) json_response_id: Option<String>,
    /// The order of the vendor's blocks, if it differs from reasoning, text, calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<Vec<OrderEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<RawJson>,
}

/// An entry in the order of blocks.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OrderEntry {
    /// The message's next block of this kind: `thinking`, `text` or `tool_use`.
    Next(&'static str),
    /// The message's next text, with its citations.
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        citations: RawJson,
    },
    /// The message's next call, with its caller.
    ToolUse {
        #[serde(rename = "type")]
        kind: &'static str,
        caller: RawJson,
    },
    /// A block as the vendor sent it.
    Verbatim(RawJson),
}

/// The stored metadata. Values that are only sent back are not decoded.
#[derive(Deserialize, Default)]
pub(super) struct StoredMetadata<'a> {
    #[serde(borrow, default)]
    pub(super) cache_control: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "thinkingSignature")]
    thinking_signature: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "thinkingSignatures")]
    thinking_signatures: Option<Vec<Option<&'a RawValue>>>,
    #[serde(borrow, default)]
    blocks: Option<Vec<&'a RawValue>>,
}

/// A stored entry in the order of blocks.
pub(super) enum StoredOrderEntry<'a> {
    Thinking,
    Text(Option<&'a RawValue>),
    /// The caller, if it was not the model.
    ToolUse(Option<&'a RawValue>),
    Verbatim {
        block: &'a RawValue,
        /// True if the message has the output: when it is encoded, as a text.
        shown: bool,
    },
}

impl<'a> StoredMetadata<'a> {
    /// Reads the metadata of a message. Invalid or changed metadata counts as empty, and so do thinking blocks of
    /// another model.
    pub(super) fn of(message: &'a Message, producer: ModelIdentity<'_>) -> Self {
        let raw = message.metadata.as_ref().and_then(|metadata| metadata.get(producer.provider));
        let read = raw.and_then(|raw| serde_json::from_str::<Self>(raw.get()).ok()).unwrap_or_default();
        if !read.is_sealed() || producer.made(Provenance::of(message, producer.provider)) {
            return read;
        }
        let is_open = |block: &&RawValue| !is_thinking(block);
        let blocks = read.blocks.map(|blocks| blocks.into_iter().filter(is_open).collect());
        Self { thinking_signature: None, thinking_signatures: None, blocks, ..read }
    }

    /// True if it contains signatures or thinking blocks, which are for one model only.
    fn is_sealed(&self) -> bool {
        self.thinking_signature.is_some()
            || self.thinking_signatures.is_some()
            || self.blocks.iter().flatten().any(|block| is_thinking(block))
    }

    /// The signature of the reasoning block at `place`.
    pub(super) fn signature(&self, place: usize) -> Option<&'a RawValue> {
        let signature = match &self.thinking_signatures {
            Some(signatures) => signatures.get(place).copied().flatten(),
            None => self.thinking_signature,
        };
        signature.filter(|raw| raw.get().starts_with('"'))
    }

    /// The order of blocks, if it still matches the numbers of reasoning blocks, texts and calls in the message.
    pub(super) fn order(
        &self,
        reasoning: usize,
        texts: usize,
        calls: usize,
    ) -> Option<Vec<StoredOrderEntry<'a>>> {
        let wanted = (reasoning, texts, calls);
        let is_code = |kind: &str, _: &str| code_execution::is_result(kind);
        // Messages of earlier versions have a text for each result with an output.
        self.order_with(wanted, is_code)
            .or_else(|| self.order_with(wanted, |kind, block| output_as_text(kind, block).is_some()))
    }

    fn order_with(
        &self,
        wanted: (usize, usize, usize),
        is_shown: impl Fn(&str, &str) -> bool,
    ) -> Option<Vec<StoredOrderEntry<'a>>> {
        let blocks = self.blocks.as_ref()?.iter();
        let entries: Vec<StoredOrderEntry<'a>> =
            blocks.map(|raw| entry(raw, &is_shown)).collect::<Option<_>>()?;
        let mut counts = (0, 0, 0);
        for entry in &entries {
            match entry {
                StoredOrderEntry::Thinking => counts.0 += 1,
                StoredOrderEntry::Text(_) | StoredOrderEntry::Verbatim { shown: true, .. } => counts.1 += 1,
                StoredOrderEntry::ToolUse(_) => counts.2 += 1,
                StoredOrderEntry::Verbatim { shown: false, .. } => {}
            }
        }
        (counts == wanted).then_some(entries)
    }
}

/// True for thinking that is stored as a whole block: hidden or redacted.
fn is_thinking(block: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: BorrowedText<'a>,
    }
    let kind = serde_json::from_str::<Kind<'_>>(block.get());
    kind.is_ok_and(|block| matches!(block.kind.as_str(), "thinking" | "redacted_thinking"))
}

fn entry<'a>(raw: &'a RawValue, is_shown: &impl Fn(&str, &str) -> bool) -> Option<StoredOrderEntry<'a>> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: BorrowedText<'a>,
        #[serde(borrow, default)]
        citations: Option<&'a RawValue>,
        #[serde(borrow, default)]
        caller: Option<&'a RawValue>,
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    match raw.get() {
        "\"thinking\"" => return Some(StoredOrderEntry::Thinking),
        "\"text\"" => return Some(StoredOrderEntry::Text(None)),
        "\"tool_use\"" => return Some(StoredOrderEntry::ToolUse(None)),
        _ => {}
    }
    let block: Block<'_> = serde_json::from_str(raw.get()).ok()?;
    Some(match block.kind.as_str() {
        "text" if block.text.is_none() => StoredOrderEntry::Text(block.citations),
        "tool_use" => StoredOrderEntry::ToolUse(block.caller),
        kind => StoredOrderEntry::Verbatim { block: raw, shown: is_shown(kind, raw.get()) },
    })
}

/// The output of a tool that the vendor ran, as a fenced text (UPP-1.2 §19.1), as earlier versions stored it.
fn output_as_text(kind: &str, block: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        content: Output<'a>,
    }
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow, default)]
        stdout: Option<BorrowedText<'a>>,
        #[serde(borrow, default)]
        content: Option<BorrowedText<'a>>,
    }
    let pick = match kind {
        "bash_code_execution_tool_result" => |output: Output<'_>| output.stdout.map(BorrowedText::owned),
        "text_editor_code_execution_tool_result" => {
            |output: Output<'_>| output.content.map(BorrowedText::owned)
        }
        _ => return None,
    };
    let block: Block<'_> = serde_json::from_str(block).ok()?;
    pick(block.content).filter(|output| !output.is_empty()).map(|output| format!("```\n{output}\n```"))
}

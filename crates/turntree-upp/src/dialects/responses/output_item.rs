//! The items of a response.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::context::DecodeContext;
use crate::dialects::borrowed_text::BorrowedText;
use crate::error::UppError;
use turntree_core::json::{RawJson, RawObject};

/// The separator between the parts of a reasoning item.
pub(super) const REASONING_SEPARATOR: &str = "\n\n";

/// One output item.
#[derive(Debug)]
pub(super) enum OutputItem {
    Message(MessageItem),
    Reasoning {
        /// The summary of the reasoning.
        summary: String,
        /// The reasoning text, if the vendor returns it.
        thoughts: String,
        /// The item to send back, without its type; `None` for an unfinished item.
        sealed: Option<RawJson>,
    },
    Call(FunctionCallItem),
    Image {
        /// The image in base64.
        result: String,
        mime_type: String,
        /// The item without its result.
        rest: RawJson,
    },
    /// A kind of item that UPP does not define.
    Verbatim(RawJson),
}

/// A message item.
#[derive(Debug, Default)]
pub(super) struct MessageItem {
    pub(super) id: Option<RawJson>,
    /// The vendor's phase of the response (`commentary`, `final_answer`).
    pub(super) phase: Option<RawJson>,
    pub(super) parts: Vec<MessagePart>,
}

#[derive(Debug)]
pub(super) struct MessagePart {
    pub(super) text: String,
    pub(super) is_refusal: bool,
    pub(super) annotations: Option<RawJson>,
    /// The probabilities of the tokens.
    pub(super) logprobs: Option<RawJson>,
}

/// A call, in the form of `functionCallItems` (UPP-1.2 §14).
#[derive(Debug, Serialize)]
pub(super) struct FunctionCallItem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<RawJson>,
}

#[derive(Deserialize)]
pub(super) struct ItemKind<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<BorrowedText<'a>>,
}

/// All known members of an item.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(default)]
    id: Option<RawJson>,
    #[serde(default)]
    phase: Option<RawJson>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    name: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    arguments: Option<BorrowedText<'a>>,
    #[serde(default)]
    namespace: Option<RawJson>,
    #[serde(borrow, default)]
    result: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    mime_type: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    output_format: Option<BorrowedText<'a>>,
}

/// A part of a message or of reasoning.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    text: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    refusal: Option<BorrowedText<'a>>,
    #[serde(default)]
    annotations: Option<RawJson>,
    #[serde(default)]
    logprobs: Option<RawJson>,
}

/// The reasoning to send back; absent members are omitted.
#[derive(Serialize)]
struct Sealed<'a> {
    id: &'a Option<RawJson>,
    summary: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<&'a RawValue>,
}

/// The known kinds of items.
const KINDS: [&str; 4] = ["message", "reasoning", "function_call", "image_generation_call"];

/// Reads an item. Items of unknown kinds may have any shape.
pub(super) fn read_item(text: &str, context: &DecodeContext) -> Result<OutputItem, UppError> {
    let verbatim = || {
        let item = RawJson::from_text(text.to_owned()).map_err(|error| context.broken(error))?;
        Ok(OutputItem::Verbatim(item))
    };
    let item: Item<'_> = match serde_json::from_str(text) {
        Ok(item) => item,
        Err(error) => {
            let reported: ItemKind<'_> = serde_json::from_str(text).map_err(|error| context.broken(error))?;
            let is_known = reported.kind.is_some_and(|kind| KINDS.contains(&kind.as_str()));
            return if is_known { Err(context.broken(error)) } else { verbatim() };
        }
    };
    match item.kind.as_ref().map_or("", BorrowedText::as_str) {
        "message" => item.into_message(context),
        "reasoning" => item.into_reasoning(context),
        "function_call" => Ok(OutputItem::Call(item.into_call())),
        "image_generation_call" => item.into_image(text, context),
        _ => verbatim(),
    }
}

fn parts<'a>(raw: Option<&'a RawValue>, context: &DecodeContext) -> Result<Vec<Part<'a>>, UppError> {
    let raw = raw.map_or("null", RawValue::get);
    // Some hosts send a single text as a string instead of a list.
    if raw.starts_with('"') {
        let text = serde_json::from_str(raw).map_err(|error| context.broken(error))?;
        return Ok(vec![Part {
            kind: None,
            text: Some(text),
            refusal: None,
            annotations: None,
            logprobs: None,
        }]);
    }
    let parts: Result<Option<Vec<Part<'a>>>, _> = serde_json::from_str(raw);
    parts.map(Option::unwrap_or_default).map_err(|error| context.broken(error))
}

fn joined(parts: &[Part<'_>]) -> String {
    let texts = parts.iter().filter_map(|part| part.text.as_ref()).map(BorrowedText::as_str);
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    texts.join(REASONING_SEPARATOR)
}

fn is_nonempty_list(raw: &RawJson) -> bool {
    raw.is_array() && raw.get() != "[]"
}

fn is_filled(raw: &&RawValue) -> bool {
    !matches!(raw.get(), "null" | "[]" | "\"\"")
}

impl Item<'_> {
    fn into_message(self, context: &DecodeContext) -> Result<OutputItem, UppError> {
        let parts = parts(self.content, context)?.into_iter().map(|part| {
            let is_refusal = part.kind.as_ref().is_some_and(|kind| kind.as_str() == "refusal");
            let text = if is_refusal { part.refusal } else { part.text };
            MessagePart {
                text: text.map(BorrowedText::owned).unwrap_or_default(),
                is_refusal,
                annotations: part.annotations.filter(is_nonempty_list),
                logprobs: part.logprobs.filter(is_nonempty_list),
            }
        });
        let parts = parts.collect();
        Ok(OutputItem::Message(MessageItem {
            id: self.id,
            phase: self.phase.filter(|phase| !phase.is_null()),
            parts,
        }))
    }

    fn into_reasoning(self, context: &DecodeContext) -> Result<OutputItem, UppError> {
        let empty = RawValue::from_string("[]".to_owned()).map_err(|error| context.broken(error))?;
        let sealed = Sealed {
            id: &self.id,
            summary: self.summary.filter(is_filled).or(Some(&*empty)),
            content: self.content.filter(is_filled),
            encrypted_content: self.encrypted_content.filter(is_filled),
        };
        Ok(OutputItem::Reasoning {
            summary: joined(&parts(self.summary, context)?),
            thoughts: joined(&parts(self.content, context)?),
            sealed: Some(RawJson::from_value(&sealed).map_err(|error| context.broken(error))?),
        })
    }

    fn into_call(self) -> FunctionCallItem {
        let id = self.id.as_ref().and_then(RawJson::as_string);
        let call_id = self.call_id.map(BorrowedText::owned).filter(|call_id| !call_id.is_empty());
        FunctionCallItem {
            call_id: call_id.or_else(|| id.clone()).unwrap_or_default(),
            id,
            name: self.name.map(BorrowedText::owned).unwrap_or_default(),
            arguments: self.arguments.map(BorrowedText::owned).unwrap_or_default(),
            namespace: self.namespace.filter(|namespace| !namespace.is_null()),
        }
    }

    fn into_image(self, text: &str, context: &DecodeContext) -> Result<OutputItem, UppError> {
        let Some(result) = self.result.map(BorrowedText::owned).filter(|result| !result.is_empty()) else {
            let item = RawJson::from_text(text.to_owned()).map_err(|error| context.broken(error))?;
            return Ok(OutputItem::Verbatim(item));
        };
        let mut rest: RawObject = serde_json::from_str(text).map_err(|error| context.broken(error))?;
        rest.remove("result");
        let named = self.output_format.map(|format| format!("image/{}", format.as_str()));
        Ok(OutputItem::Image {
            result,
            mime_type: self
                .mime_type
                .map(BorrowedText::owned)
                .or(named)
                .unwrap_or_else(|| "image/png".to_owned()),
            rest: RawJson::from_value(&rest).map_err(|error| context.broken(error))?,
        })
    }
}

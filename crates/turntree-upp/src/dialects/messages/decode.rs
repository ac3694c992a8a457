//! Reads whole responses.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, Part, Usage, assemble};
use super::{DecodeContext, reported_error};
use crate::dialect::Sources;
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::{if_readable, read_body};
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::RawJson;

/// A response; in a stream, its start.
#[derive(Deserialize)]
pub(super) struct ResponseBody<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    model: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    stop_reason: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    stop_sequence: Option<BorrowedText<'a>>,
    #[serde(default)]
    container: Option<RawJson>,
    #[serde(default, deserialize_with = "if_readable")]
    usage: Option<Usage>,
}

impl ResponseBody<'_> {
    pub(super) fn into_head(self) -> Head {
        Head {
            id: self.id.map(BorrowedText::owned),
            model: self.model.map(BorrowedText::owned),
            stop_reason: self.stop_reason.map(BorrowedText::owned),
            stop_sequence: self.stop_sequence.map(BorrowedText::owned),
            container: self.container.filter(|container| !container.is_null()),
            usage: self.usage.unwrap_or_default(),
        }
    }
}

/// A block of any known kind.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: BorrowedText<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<BorrowedText<'a>>,
    #[serde(default)]
    pub(super) input: Option<RawJson>,
    #[serde(default)]
    pub(super) caller: Option<RawJson>,
    #[serde(default)]
    pub(super) citations: Option<RawJson>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: BorrowedText<'a>,
}

/// Reads a block. Blocks of unknown kinds may have any shape.
pub(super) fn read_block(raw: &RawValue, context: DecodeContext) -> Result<Part, UppError> {
    let kind: Kind<'_> = serde_json::from_str(raw.get()).map_err(|error| context.broken(error))?;
    if !matches!(kind.kind.as_str(), "text" | "thinking" | "tool_use") {
        return Ok(Part::Verbatim {
            kind: kind.kind.owned(),
            block: RawJson::from_text(raw.get().to_owned()).map_err(|error| context.broken(error))?,
        });
    }
    let block: Block<'_> = serde_json::from_str(raw.get()).map_err(|error| context.broken(error))?;
    Ok(block.into_part())
}

impl Block<'_> {
    fn into_part(self) -> Part {
        match self.kind.as_str() {
            "thinking" => Part::Thinking {
                text: self.thinking.map(BorrowedText::owned).unwrap_or_default(),
                signature: self.signature.map(BorrowedText::owned).filter(|signature| !signature.is_empty()),
            },
            "tool_use" => Part::ToolUse {
                id: self.id.map(BorrowedText::owned).unwrap_or_default(),
                name: self.name.map(BorrowedText::owned).unwrap_or_default(),
                input: self.input.filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object),
                caller: self.caller.filter(is_tool),
            },
            _ => Part::Text {
                text: self.text.map(BorrowedText::owned).unwrap_or_default(),
                citations: self.citations.filter(|citations| citations.is_array() && citations.get() != "[]"),
            },
        }
    }
}

/// True if a call was made by a vendor's tool instead of the model.
pub(super) fn is_tool(caller: &RawJson) -> bool {
    serde_json::from_str::<Kind<'_>>(caller.get()).is_ok_and(|caller| caller.kind.as_str() != "direct")
}

/// Reads a whole response.
pub(super) fn decode(
    body: &str,
    context: DecodeContext,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let mut answer: ResponseBody<'_> = read_body(context.provider, body)?;
    if answer.kind.as_ref().is_some_and(|kind| kind.as_str() == "error") {
        return Err(reported_error(context.provider, body));
    }
    let Some(blocks) = answer.content.take() else {
        return Err(context.broken("it has no \"content\""));
    };
    let parts = blocks.into_iter().map(|raw| read_block(raw, context)).collect::<Result<Vec<_>, _>>()?;
    Ok(assemble(parts, answer.into_head(), context, sources))
}

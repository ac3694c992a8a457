//! Reads whole responses.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, Part, Usage, assemble};
use super::image::Image;
use super::{DecodeContext, PROVIDER, broken};
use crate::dialect::Sources;
use crate::dialects::common::{if_readable, read_body};
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::{RawJson, RawObject};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody<'a> {
    #[serde(borrow, default)]
    output: Option<Output<'a>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    usage: Option<Usage>,
    #[serde(default)]
    trace: Option<RawJson>,
    #[serde(default)]
    additional_model_response_fields: Option<RawJson>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow, default)]
    message: Option<Answer<'a>>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
}

/// A block. A block of a kind that UPP does not define has none of these members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tool_use: Option<ToolUse>,
    #[serde(default)]
    reasoning_content: Option<ReasoningContent>,
    #[serde(default)]
    citations_content: Option<CitationsContent>,
    #[serde(default)]
    image: Option<Image>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the vendor's names")]
struct ToolUse {
    #[serde(default)]
    tool_use_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    input: Option<RawJson>,
    /// Present if the vendor runs the tool itself.
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningContent {
    #[serde(default)]
    reasoning_text: Option<ReasoningText>,
}

#[derive(Deserialize)]
struct ReasoningText {
    #[serde(default)]
    text: String,
    #[serde(default)]
    signature: Option<String>,
}

#[derive(Deserialize)]
struct CitationsContent {
    #[serde(default)]
    content: Vec<RawObject>,
    #[serde(default)]
    citations: Option<RawJson>,
}

/// Reads a block. Blocks of unknown kinds may have any shape.
fn read_block(raw: &RawValue) -> Result<Part, UppError> {
    let verbatim = || RawJson::from_text(raw.get().to_owned()).map(Part::Verbatim).map_err(broken);
    let Ok(block) = serde_json::from_str::<Block>(raw.get()) else { return verbatim() };
    Ok(match block {
        Block { text: Some(text), .. } => Part::Text { text, citations: None },
        Block { tool_use: Some(call), .. } if call.kind.is_none() => Part::ToolUse {
            id: call.tool_use_id,
            name: call.name,
            input: call.input.filter(RawJson::is_object).unwrap_or_else(RawJson::empty_object),
        },
        Block { reasoning_content: Some(ReasoningContent { reasoning_text: Some(reasoning) }), .. } => {
            let signature = reasoning.signature.filter(|signature| !signature.is_empty());
            Part::Reasoning { text: reasoning.text, signature }
        }
        Block { citations_content: Some(cited), .. } => {
            let texts = cited.content.iter().filter_map(|part| part.get("text")?.as_string());
            Part::Text { text: texts.collect(), citations: cited.citations.filter(|all| all.get() != "[]") }
        }
        Block { image: Some(image), .. } => match image.into_block() {
            Some(block) => Part::Media(block.into()),
            None => verbatim()?,
        },
        _ => verbatim()?,
    })
}

/// Reads a whole response.
pub(super) fn decode(
    body: &str,
    context: DecodeContext,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let answer: ResponseBody<'_> = read_body(PROVIDER, body)?;
    let message = answer.output.and_then(|output| output.message);
    let Some(message) = message else { return Err(broken("it has no \"output.message\"")) };
    let parts = message.content.into_iter().map(read_block).collect::<Result<Vec<_>, _>>()?;
    let head = Head {
        stop_reason: answer.stop_reason,
        usage: answer.usage.unwrap_or_default(),
        trace: answer.trace.filter(|trace| !trace.is_null()),
        additional: answer.additional_model_response_fields.filter(|fields| !fields.is_null()),
    };
    Ok(assemble(parts, head, context, sources))
}

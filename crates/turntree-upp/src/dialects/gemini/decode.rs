//! Reads whole responses: a whole response is a stream of one frame, so both have one decoder.
//!
//! Spec: UPP-1.2 §11, §19.4

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::Usage;
use super::stream::Decoder;
use super::{DecodeContext, reported_error};
use crate::dialect::Sources;
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::{if_readable, read_body};
use crate::error::UppError;
use crate::request::ModelResponse;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Frame<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(super) usage_metadata: Option<Usage>,
    #[serde(borrow, default)]
    pub(super) model_version: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) response_id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) safety_ratings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) url_context_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) citation_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) avg_logprobs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) logprobs_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Option<BorrowedText<'a>>,
}

/// Reads a whole response.
pub(super) fn decode(
    body: &str,
    context: DecodeContext,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    if body.trim_start().starts_with('[') {
        // A list contains only errors.
        let errors = read_body::<Vec<&RawValue>>(context.provider, body)?;
        return Err(match errors.as_slice() {
            [] => context.broken("an empty list"),
            _ => reported_error(context.provider, body),
        });
    }
    let frame: Frame<'_> = read_body(context.provider, body)?;
    let mut decoder = Decoder::new(context);
    decoder.read(frame, body, &mut Vec::new())?;
    decoder.check_has_response()?;
    Ok(decoder.into_response(sources))
}

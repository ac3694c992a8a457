//! Reads whole responses: a whole response is a stream of one line, so both have one decoder.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::PROVIDER;
use super::stream::{ResponseAccumulator, reported};
use crate::dialect::Sources;
use crate::dialects::common::{BoundedVec, Count, LenientText, read_body};
use crate::error::UppError;
use crate::request::{ModelRequest, ModelResponse};
use turntree_core::json::RawJson;

#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default)]
    pub(super) model: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) created_at: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) message: Option<LineMessage<'a>>,
    #[serde(default)]
    pub(super) done: bool,
    #[serde(borrow, default)]
    pub(super) done_reason: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) total_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) load_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) prompt_eval_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) eval_duration: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) prompt_eval_count: Option<Count>,
    #[serde(default)]
    pub(super) eval_count: Option<Count>,
    #[serde(default)]
    pub(super) logprobs: Option<Vec<RawJson>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct LineMessage<'a> {
    #[serde(borrow, default)]
    pub(super) content: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<BoundedVec<Call<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    /// Sent by newer servers only.
    #[serde(borrow, default)]
    pub(super) id: LenientText<'a>,
    #[serde(borrow)]
    pub(super) function: Function<'a>,
}

#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// The arguments as JSON text. Some models send the object as a string.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => Cow::Borrowed("{}"),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<String>(text).unwrap_or_default().into()
            }
            Some(object) => Cow::Borrowed(object),
        }
    }
}

/// Reads the body of a whole response.
pub(super) fn response(
    body: &str,
    request: &ModelRequest,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let line: Line<'_> = read_body(PROVIDER, body)?;
    let mut run = ResponseAccumulator::new(request.structure.is_some());
    reported(&line, body)?;
    run.line(line, sources.ids, &mut Vec::new());
    if run.is_empty() {
        return Err(UppError::invalid_response(PROVIDER, "the response of ollama has no message"));
    }
    Ok(run.into_response(sources))
}

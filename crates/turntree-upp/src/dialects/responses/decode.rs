//! Reads whole responses.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, Usage, assemble};
use super::context::DecodeContext;
use super::output_item::{OutputItem, read_item};
use crate::dialect::Sources;
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::{if_readable, read_body};
use crate::error::{ErrorCode, UppError};
use crate::request::ModelResponse;
use turntree_core::json::RawObject;

/// A response; in a stream, its last state.
#[derive(Deserialize)]
pub(super) struct ResponseBody<'a> {
    #[serde(borrow, default)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    model: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    pub(super) status: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "if_readable")]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Option<BorrowedText<'a>>,
}

impl<'a> ResponseBody<'a> {
    /// Reads a response. A failed response becomes the vendor's error.
    pub(super) fn read(text: &'a str, context: &DecodeContext) -> Result<Self, UppError> {
        let answer: Self = read_body(&context.provider, text)?;
        let status = answer.status.as_ref().map(BorrowedText::as_str);
        match (status, answer.error) {
            (Some("cancelled"), _) => {
                let message = "the response was cancelled at the vendor";
                Err(UppError::new(ErrorCode::Cancelled, context.provider.as_ref(), message))
            }
            // What explains a text is beside it.
            (_, Some(error)) if !error.get().starts_with('{') => Err(context.reported(text)),
            (_, Some(error)) => Err(context.reported(error.get())),
            (Some("failed"), None) => Err(context.reported(r#"{"code":"failed"}"#)),
            _ => Ok(answer),
        }
    }

    /// The output items, if there are any.
    pub(super) fn items(&mut self, context: &DecodeContext) -> Result<Option<Vec<OutputItem>>, UppError> {
        let Some(items) = self.output.take() else { return Ok(None) };
        items.into_iter().map(|item| read_item(item.get(), context)).collect::<Result<_, _>>().map(Some)
    }

    /// The values of the response as a whole. `text` is its JSON.
    pub(super) fn into_head(self, text: &str, context: &DecodeContext) -> Head {
        let mut stored = RawObject::new();
        if !context.metadata_members.is_empty() {
            let members: RawObject = serde_json::from_str(text).unwrap_or_default();
            let members = members.iter().filter(|(key, _)| context.metadata_members.contains(key));
            stored = members.map(|(key, value)| (key, value.clone())).collect();
        }
        Head {
            id: self.id.map(BorrowedText::owned),
            model: self.model.map(BorrowedText::owned),
            status: self.status.map(BorrowedText::owned),
            incomplete_reason: self
                .incomplete_details
                .and_then(|details| details.reason)
                .map(BorrowedText::owned),
            usage: self.usage.unwrap_or_default(),
            stored,
        }
    }
}

/// Reads a whole response.
pub(super) fn decode(
    body: &str,
    context: &DecodeContext,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let mut answer = ResponseBody::read(body, context)?;
    let Some(items) = answer.items(context)? else {
        return Err(context.broken("it has no \"output\""));
    };
    Ok(assemble(items, answer.into_head(body, context), context, sources))
}

//! Whole answers.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Reading;
use super::answer::{Head, Usage, assemble};
use super::output::{Output, read_item};
use crate::dialect::Sources;
use crate::dialects::common::read_body;
use crate::dialects::text::Text;
use crate::error::{ErrorCode, UppError};
use crate::request::ModelResponse;
use turntree_core::json::RawObject;

/// An answer, or the last state of one in a stream.
#[derive(Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Option<Text<'a>>,
}

impl<'a> Answer<'a> {
    /// Reads an answer; one that failed is the vendor's error.
    pub(super) fn read(text: &'a str, reading: &Reading) -> Result<Self, UppError> {
        let answer: Self = read_body(&reading.provider, text)?;
        let status = answer.status.as_ref().map(Text::as_str);
        match (status, answer.error) {
            (Some("cancelled"), _) => {
                let message = "the response was cancelled at the vendor";
                Err(UppError::new(ErrorCode::Cancelled, reading.provider.as_ref(), message))
            }
            (_, Some(error)) => Err(reading.told(error.get())),
            (Some("failed"), None) => Err(reading.told(r#"{"code":"failed"}"#)),
            _ => Ok(answer),
        }
    }

    /// Its items, if it tells any.
    pub(super) fn items(&mut self, reading: &Reading) -> Result<Option<Vec<Output>>, UppError> {
        let Some(items) = self.output.take() else { return Ok(None) };
        items.into_iter().map(|item| read_item(item.get(), reading)).collect::<Result<_, _>>().map(Some)
    }

    /// What it says of itself as a whole. `text` is what it was read from.
    pub(super) fn into_head(self, text: &str, reading: &Reading) -> Head {
        let mut kept = RawObject::new();
        if !reading.kept_members.is_empty() {
            let members: RawObject = serde_json::from_str(text).unwrap_or_default();
            let members = members.iter().filter(|(key, _)| reading.kept_members.contains(key));
            kept = members.map(|(key, value)| (key, value.clone())).collect();
        }
        Head {
            id: self.id.map(Text::owned),
            model: self.model.map(Text::owned),
            status: self.status.map(Text::owned),
            incomplete_reason: self.incomplete_details.and_then(|details| details.reason).map(Text::owned),
            usage: self.usage.unwrap_or_default(),
            kept,
        }
    }
}

/// Reads a whole answer.
pub(super) fn decode(body: &str, reading: &Reading, sources: Sources<'_>) -> Result<ModelResponse, UppError> {
    let mut answer = Answer::read(body, reading)?;
    let Some(items) = answer.items(reading)? else {
        return Err(reading.broken("it has no \"output\""));
    };
    Ok(assemble(items, answer.into_head(body, reading), reading, sources))
}

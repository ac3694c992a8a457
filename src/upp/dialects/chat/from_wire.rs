//! Whole answers. UPP-1.2 §19.3.

use serde_json::value::RawValue;

use super::wire::{Choice, Completion, Said, Usage};
use crate::core::json::{Extra, RawJson, RawObject};
use crate::message::fold::arguments_of;
use crate::message::{ContentBlock, ToolCall};
use crate::upp::dialect::Sources;
use crate::upp::dialects::common::{Answer, VendorError, data_of, new_call_id, read_body};
use crate::upp::error::UppError;
use crate::upp::request::{ModelRequest, ModelResponse, StopReason};

/// Reads the body of a whole answer.
pub(super) fn response(
    provider: &str,
    body: &str,
    request: &ModelRequest,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let completion: Completion<'_> = read_body(provider, body)?;
    if let Some(error) = vendor_error(provider, completion.error) {
        return Err(error);
    }
    let choice = completion.choices.iter().flatten().find(|choice| choice.is_first());
    let Some(Choice { message: Some(said), finish_reason, .. }) = choice else {
        return Err(UppError::invalid_response(provider, format!("{provider} answered without a choice")));
    };
    let text = said.content.as_str();
    let told = Told {
        model: completion.model.as_str(),
        finish_reason: finish_reason.as_str(),
        system_fingerprint: completion.system_fingerprint.as_str(),
        service_tier: completion.service_tier.as_str(),
        refused: !said.refusal.is_empty(),
    };
    let answer = Answer {
        id: completion.id.as_str().to_owned(),
        content: content(said),
        tool_calls: tool_calls(provider, said, sources)?,
        facts: told.facts(),
        usage: completion.usage.map(Usage::into_usage).unwrap_or_default(),
        stop_reason: told.stop_reason(),
        data: request.structure.is_some().then(|| data_of(text)).flatten(),
    };
    Ok(answer.into_response(provider, sources))
}

/// What the vendor says of itself, empty where it says nothing.
pub(super) struct Told<'a> {
    pub(super) model: &'a str,
    pub(super) finish_reason: &'a str,
    pub(super) system_fingerprint: &'a str,
    pub(super) service_tier: &'a str,
    pub(super) refused: bool,
}

impl Told<'_> {
    pub(super) fn facts(&self) -> RawObject {
        let facts = [
            ("model", self.model),
            ("finish_reason", self.finish_reason),
            ("system_fingerprint", self.system_fingerprint),
            ("service_tier", self.service_tier),
        ];
        let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
        told.map(|(name, value)| (name, RawJson::from_str_value(value))).collect()
    }

    pub(super) fn stop_reason(&self) -> StopReason {
        if self.refused {
            return StopReason::ContentFilter;
        }
        match self.finish_reason {
            "length" => StopReason::MaxTokens,
            "tool_calls" => StopReason::ToolUse,
            "content_filter" => StopReason::ContentFilter,
            _ => StopReason::EndTurn,
        }
    }
}

/// An error where an answer should be.
pub(super) fn vendor_error(provider: &str, error: Option<&RawValue>) -> Option<UppError> {
    let error =
        error.map(RawValue::get).filter(|error| !matches!(*error, "null" | "false" | "{}" | "\"\""))?;
    let wrapped = RawJson::from_text(format!("{{\"error\":{error}}}")).ok()?;
    Some(VendorError::of_json(&wrapped).into_error(provider))
}

/// Reasoning, then text, then a refusal in a block of its own.
fn content(said: &Said<'_>) -> Vec<ContentBlock> {
    let mut content = Vec::new();
    let thinking = said.thinking();
    if !thinking.is_empty() {
        content.push(ContentBlock::reasoning(thinking));
    }
    for text in [&said.content, &said.refusal] {
        if !text.is_empty() {
            content.push(ContentBlock::text(text.as_str()));
        }
    }
    content
}

fn tool_calls(provider: &str, said: &Said<'_>, sources: Sources<'_>) -> Result<Vec<ToolCall>, UppError> {
    let mut calls = Vec::new();
    for call in said.tool_calls.iter().flatten() {
        let Some(function) = call.function.as_ref().filter(|function| !function.name.is_empty()) else {
            continue;
        };
        let arguments = function.arguments().map_err(|error| unreadable_arguments(provider, error))?;
        calls.push(ToolCall {
            tool_call_id: match call.id.as_str() {
                "" => new_call_id(sources.ids),
                id => id.to_owned(),
            },
            tool_name: function.name.as_str().to_owned(),
            arguments: arguments_of(arguments.into_owned()),
            extra: Extra::new(),
        });
    }
    Ok(calls)
}

pub(super) fn unreadable_arguments(provider: &str, error: serde_json::Error) -> UppError {
    UppError::invalid_response(provider, "the arguments of a tool call are neither a text nor an object")
        .with_cause(error)
}

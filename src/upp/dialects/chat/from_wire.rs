//! Whole answers. UPP-1.2 §19.3.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::wire::{Choice, Completion, Said};
use crate::core::json::{Extra, RawJson, RawObject};
use crate::message::fold::arguments_of;
use crate::message::{Body, ContentBlock, Message, TokenUsage, ToolCall};
use crate::upp::dialect::Sources;
use crate::upp::dialects::common::{VendorError, read_body};
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
    let tool_calls = tool_calls(provider, said, sources)?;
    let facts = Facts {
        id: completion.id.as_str(),
        model: completion.model.as_str(),
        finish_reason: finish_reason.as_str(),
        system_fingerprint: completion.system_fingerprint.as_str(),
        service_tier: completion.service_tier.as_str(),
    };
    let text = said.content.as_str();
    let outcome = Outcome {
        content: content(said),
        tool_calls,
        data: request.structure.is_some().then(|| data_of(text)).flatten(),
        refused: !said.refusal.is_empty(),
        usage: completion.usage.map(super::wire::Usage::into_usage).unwrap_or_default(),
    };
    Ok(outcome.into_response(provider, &facts, sources))
}

/// What the vendor says of itself, empty where it says nothing.
pub(super) struct Facts<'a> {
    pub(super) id: &'a str,
    pub(super) model: &'a str,
    pub(super) finish_reason: &'a str,
    pub(super) system_fingerprint: &'a str,
    pub(super) service_tier: &'a str,
}

/// What an answer came to, streamed or not.
pub(super) struct Outcome {
    pub(super) content: Vec<ContentBlock>,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) data: Option<RawJson>,
    pub(super) refused: bool,
    pub(super) usage: TokenUsage,
}

impl Outcome {
    pub(super) fn into_response(
        self,
        provider: &str,
        facts: &Facts<'_>,
        sources: Sources<'_>,
    ) -> ModelResponse {
        let tool_calls = (!self.tool_calls.is_empty()).then_some(self.tool_calls);
        let message = Message {
            id: if facts.id.is_empty() { sources.ids.string() } else { facts.id.to_owned() },
            timestamp: sources.clock.now(),
            metadata: facts.metadata(provider),
            body: Body::Assistant { content: self.content, tool_calls },
            extra: Extra::new(),
        };
        ModelResponse {
            message: Arc::new(message),
            usage: self.usage,
            stop_reason: if self.refused {
                StopReason::ContentFilter
            } else {
                stop_reason(facts.finish_reason)
            },
            data: self.data,
        }
    }
}

impl Facts<'_> {
    fn metadata(&self, provider: &str) -> Option<RawObject> {
        let known: RawObject = [
            ("model", self.model),
            ("finish_reason", self.finish_reason),
            ("system_fingerprint", self.system_fingerprint),
            ("service_tier", self.service_tier),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, RawJson::from_str_value(value)))
        .collect();
        let namespace = RawJson::from_value(&known).ok().filter(|_| !known.is_empty())?;
        Some([(provider, namespace)].into_iter().collect())
    }
}

fn stop_reason(finish_reason: &str) -> StopReason {
    match finish_reason {
        "length" => StopReason::MaxTokens,
        "tool_calls" => StopReason::ToolUse,
        "content_filter" => StopReason::ContentFilter,
        _ => StopReason::EndTurn,
    }
}

/// An error where an answer should be.
pub(super) fn vendor_error(provider: &str, error: Option<&RawValue>) -> Option<UppError> {
    let error =
        error.map(RawValue::get).filter(|error| !matches!(*error, "null" | "false" | "{}" | "\"\""))?;
    let wrapped = RawJson::from_text(format!("{{\"error\":{error}}}")).ok()?;
    Some(VendorError::of_json(&wrapped).into_error(provider))
}

/// The structured answer, if the text is one.
pub(super) fn data_of(text: &str) -> Option<RawJson> {
    RawJson::from_text(text.trim().to_owned()).ok()
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

/// An id for a call that came without one; unique whatever conversation it ends up in.
pub(super) fn new_call_id(ids: &dyn crate::core::ids::IdSource) -> String {
    format!("call_{}", ids.string())
}

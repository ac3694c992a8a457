//! Reads whole responses.
//!
//! Spec: UPP-1.2 §19.3

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ChatOptions;
use super::code_execution;
use super::completion::{ChatMessage, Choice, Completion};
use super::metadata::{MetadataCollector, thinking_of_details};
use crate::dialect::Sources;
use crate::dialects::common::{
    BoundedVec, LenientText, ResponseParts, VendorError, data_of, new_call_id, read_body,
};
use crate::error::UppError;
use crate::request::{ModelRequest, ModelResponse, StopReason};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::content::{Base64Source, ImageBlock, UrlSource};
use turntree_core::message::fold::arguments_of;
use turntree_core::message::{ContentBlock, ImageSource, ToolCall};

/// Reads the body of a whole response.
pub(super) fn response(
    options: &ChatOptions,
    body: &str,
    request: &ModelRequest,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let provider = &*options.endpoint.provider;
    let completion: Completion<'_> = read_body(provider, body)?;
    let choice = completion.choices.iter().flatten().find(|choice| choice.is_first());
    let of_choice = choice.and_then(|choice| choice.error);
    if let Some(error) =
        body_error(provider, completion.error, body).or_else(|| vendor_error(provider, of_choice))
    {
        return Err(error);
    }
    let Some(choice @ Choice { message: Some(received), finish_reason, .. }) = choice else {
        return Err(UppError::invalid_response(
            provider,
            format!("the response of {provider} has no choices"),
        ));
    };
    let mut stored = MetadataCollector::default();
    stored.update(options, &completion, Some(choice));
    stored.logprobs(choice);
    if options.reasoning_details {
        stored.details(received, false);
    }
    let thinking = thinking(options, received);
    let reported = ResponseFields {
        model: completion.model.as_str(),
        finish_reason: finish_reason.as_str(),
        system_fingerprint: completion.system_fingerprint.as_str(),
        service_tier: completion.service_tier.as_str(),
        thinking: &thinking,
        refused: !received.refusal.is_empty(),
    };
    let text = received.content.as_str();
    let answer = ResponseParts {
        id: completion.id.as_str().to_owned(),
        metadata: reported.metadata(options, stored),
        stop_reason: reported.stop_reason(),
        content: content(options, &thinking, received),
        tool_calls: tool_calls(provider, received, sources)?,
        usage: completion.usage.map(|usage| usage.into_usage(options)).unwrap_or_default(),
        data: request.structure.is_some().then(|| data_of(text)).flatten(),
    };
    Ok(answer.into_response(provider, sources))
}

/// The reasoning of a message or delta, from any of the members that hosts use.
pub(super) fn thinking<'s>(options: &ChatOptions, received: &'s ChatMessage<'_>) -> Cow<'s, str> {
    match received.thinking() {
        "" if options.reasoning_details => Cow::Owned(thinking_of_details(received)),
        thinking => Cow::Borrowed(thinking),
    }
}

/// Values of a response for stop reason and metadata; empty if absent.
pub(super) struct ResponseFields<'a> {
    pub(super) model: &'a str,
    pub(super) finish_reason: &'a str,
    pub(super) system_fingerprint: &'a str,
    pub(super) service_tier: &'a str,
    pub(super) thinking: &'a str,
    pub(super) refused: bool,
}

impl ResponseFields<'_> {
    pub(super) fn metadata(&self, options: &ChatOptions, stored: MetadataCollector) -> RawObject {
        let values = [
            (Some("model"), self.model),
            (Some("finish_reason"), self.finish_reason),
            (Some("system_fingerprint"), self.system_fingerprint),
            (Some("service_tier"), self.service_tier),
            (options.reasoning_metadata_member, self.thinking),
        ];
        let present = values.into_iter().filter(|(_, value)| !value.is_empty());
        let present = present.filter_map(|(name, value)| Some((name?, RawJson::from_str_value(value))));
        let mut metadata: RawObject = present.collect();
        stored.write(options, &mut metadata);
        metadata
    }

    pub(super) fn stop_reason(&self) -> StopReason {
        if self.refused {
            return StopReason::ContentFilter;
        }
        match self.finish_reason {
            "length" | "model_length" => StopReason::MaxTokens,
            "tool_calls" => StopReason::ToolUse,
            "content_filter" => StopReason::ContentFilter,
            "error" | "insufficient_system_resource" => StopReason::Error,
            _ => StopReason::EndTurn,
        }
    }
}

/// The error of a successful response, whose explanation may be beside the member `error`.
pub(super) fn body_error(provider: &str, error: Option<&RawValue>, body: &str) -> Option<UppError> {
    error.filter(|error| is_error(error)).map(|_| VendorError::of_body(body).into_error(provider))
}

fn is_error(error: &RawValue) -> bool {
    !matches!(error.get(), "null" | "false" | "{}" | "\"\"")
}

/// The error of a part of a successful response.
pub(super) fn vendor_error(provider: &str, error: Option<&RawValue>) -> Option<UppError> {
    let error = error.filter(|error| is_error(error))?;
    let wrapped = RawJson::from_text(format!("{{\"error\":{error}}}")).ok()?;
    Some(VendorError::of_json(&wrapped).into_error(provider))
}

/// Reasoning, code that the vendor ran, text, refusal (a block of its own), images.
fn content(options: &ChatOptions, thinking: &str, received: &ChatMessage<'_>) -> Vec<ContentBlock> {
    let mut content = Vec::new();
    if !thinking.is_empty() {
        content.push(ContentBlock::reasoning(thinking));
    }
    content.extend(code_execution::blocks(options, received));
    for text in [&received.content, &received.refusal] {
        if !text.is_empty() {
            content.push(ContentBlock::text(text.as_str()));
        }
    }
    content.extend(pictures(received).into_iter().map(ContentBlock::from));
    content
}

/// The images that the model generated, from their data URLs.
pub(super) fn pictures(received: &ChatMessage<'_>) -> Vec<ImageBlock> {
    #[derive(Deserialize, Default)]
    struct Picture<'a> {
        #[serde(borrow)]
        image_url: Link<'a>,
    }
    #[derive(Deserialize, Default)]
    struct Link<'a> {
        #[serde(borrow)]
        url: LenientText<'a>,
    }
    let Some(raw) = received.images else { return Vec::new() };
    let pictures: BoundedVec<Picture<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
    let urls = pictures.iter().map(|picture| picture.image_url.url.as_str());
    urls.filter(|url| !url.is_empty()).map(picture_at).collect()
}

fn picture_at(url: &str) -> ImageBlock {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (mime_type, source) = match data {
        Some((mime_type, data)) => {
            (mime_type, ImageSource::Base64(Base64Source { data: data.to_owned(), extra: Extra::new() }))
        }
        None => ("", ImageSource::Url(UrlSource { url: url.to_owned(), extra: Extra::new() })),
    };
    let mime_type = if mime_type.is_empty() { "image/png" } else { mime_type };
    ImageBlock { source, mime_type: mime_type.to_owned(), width: None, height: None, extra: Extra::new() }
}

fn tool_calls(
    provider: &str,
    received: &ChatMessage<'_>,
    sources: Sources<'_>,
) -> Result<Vec<ToolCall>, UppError> {
    let mut calls = Vec::new();
    for call in received.tool_calls.iter().flatten() {
        let Some(function) = call.function.as_ref().filter(|function| !function.name.is_empty()) else {
            continue;
        };
        let mut arguments = String::new();
        function.arguments_onto(&mut arguments).map_err(|error| unreadable_arguments(provider, error))?;
        calls.push(ToolCall {
            tool_call_id: match call.id.as_str() {
                "" => new_call_id(sources.ids),
                id => id.to_owned(),
            },
            tool_name: function.name.as_str().to_owned(),
            arguments: arguments_of(arguments),
            extra: Extra::new(),
        });
    }
    Ok(calls)
}

pub(super) fn unreadable_arguments(provider: &str, error: serde_json::Error) -> UppError {
    UppError::invalid_response(provider, "the arguments of a tool call are neither a string nor an object")
        .with_cause(error)
}

//! Writes requests, without intermediate JSON values.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::PROVIDER;
use crate::dialects::common::{
    BlockLocation, BodyWriter, MediaBytes, ResultContent, ResultPart, ResultText, system_text,
};
use crate::error::UppError;
use crate::request::ModelRequest;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::content::ContentBlock;
use turntree_core::message::message::History;
use turntree_core::message::{Body, ToolCall, ToolDefinition, ToolResult};

/// Parameters of the request. All others are options of the model.
const REQUEST_PARAMETERS: [&str; 5] = ["format", "keep_alive", "think", "logprobs", "top_logprobs"];

/// Members that parameters cannot set.
const OWN_MEMBERS: [&str; 4] = ["model", "messages", "stream", "tools"];

/// Writes the body of a request.
pub(super) fn body(model_id: &str, request: &ModelRequest, streaming: bool) -> Result<Vec<u8>, UppError> {
    check(&request.messages)?;
    let system = request.system.as_deref().map(|system| system_text(PROVIDER, system)).transpose()?;
    let (of_request, options) = sort(&request.params);

    let mut body = BodyWriter::new(PROVIDER, &of_request);
    body.member("model", model_id)?;
    body.member("messages", &Conversation { system: system.as_deref(), history: &request.messages })?;
    // Always sent: Ollama streams by default.
    body.member("stream", &streaming)?;
    if !options.is_empty() {
        body.member("options", &options)?;
    }
    if !request.tools.is_empty() {
        body.member("tools", &Tools(&request.tools))?;
    }
    if let Some(structure) = &request.structure {
        body.member("format", structure)?;
    }
    Ok(body.finish())
}

/// Splits the parameters into those of the request and the options of the model. Members of `options` stay there.
fn sort(params: &RawObject) -> (RawObject, RawObject) {
    let mut of_request = RawObject::new();
    let mut options = params.get("options").and_then(RawObject::from_raw).unwrap_or_default();
    for (name, value) in params.iter().filter(|(name, _)| !OWN_MEMBERS.contains(name)) {
        if REQUEST_PARAMETERS.contains(&name) {
            of_request.insert(name, value.clone());
        } else if name != "options" {
            options.insert(name, value.clone());
        }
    }
    (of_request, options)
}

/// Rejects unsupported content before anything is written.
fn check(history: &History) -> Result<(), UppError> {
    const REMEDY: &str = "send text, or an image as base64 or bytes: Ollama fetches no URLs";
    for (message_place, message) in history.iter().enumerate() {
        let is_user = matches!(message.body, Body::User { .. });
        for (block_place, block) in message.content().iter().enumerate() {
            let is_known = match block {
                ContentBlock::Text(_) => true,
                ContentBlock::Reasoning(_) => !is_user,
                ContentBlock::Image(image) => is_user && MediaBytes::of_image(&image.source).is_some(),
                _ => false,
            };
            if !is_known {
                let location =
                    BlockLocation { provider: PROVIDER, message: message_place, block: block_place };
                return Err(location.unsupported(message, block, REMEDY));
            }
        }
        for result in message.results() {
            ResultContent::new(result, |part| match part {
                ResultPart::Media(_) => Err("describe it in text, or send images in a user message"),
                ResultPart::Text(_) => Ok(RawJson::default()),
            })
            .map_err(|kind| kind.at(PROVIDER, message_place, message, result))?;
        }
    }
    Ok(())
}

struct Conversation<'a> {
    system: Option<&'a str>,
    history: &'a History,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut messages = serializer.serialize_seq(None)?;
        if let Some(system) = self.system {
            messages.serialize_element(&AssistantMessage::new("system", system.into()))?;
        }
        for message in self.history {
            match &message.body {
                Body::User { content } => messages.serialize_element(&AssistantMessage::of_user(content))?,
                Body::Assistant { content, .. } => {
                    let calls = message.tool_calls();
                    names.extend(calls.iter().map(|call| (&*call.tool_call_id, &*call.tool_name)));
                    messages.serialize_element(&AssistantMessage::of_assistant(content, calls))?;
                }
                Body::ToolResult { results } => {
                    for result in results {
                        messages.serialize_element(&Returned::new(result, &names))?;
                    }
                }
            }
        }
        messages.end()
    }
}

#[derive(Serialize)]
struct AssistantMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<MediaBytes<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

impl<'a> AssistantMessage<'a> {
    fn new(role: &'static str, content: Cow<'a, str>) -> Self {
        Self { role, content, images: Vec::new(), tool_calls: Vec::new() }
    }

    fn of_user(content: &'a [ContentBlock]) -> Self {
        let mut texts: Vec<Cow<'a, str>> = Vec::with_capacity(content.len());
        let mut images = Vec::new();
        for block in content {
            match block {
                ContentBlock::Text(block) => texts.push(block.text.as_str().into()),
                ContentBlock::Image(block) => {
                    images.extend(MediaBytes::of_image(&block.source));
                }
                _ => {}
            }
        }
        Self { images, ..Self::new("user", joined(texts)) }
    }

    fn of_assistant(content: &'a [ContentBlock], calls: &'a [ToolCall]) -> Self {
        let texts = content.iter().filter_map(ContentBlock::as_text).map(Cow::Borrowed).collect();
        let tool_calls = calls.iter().map(Call::new).collect();
        Self { tool_calls, ..Self::new("assistant", without_thoughts(joined(texts))) }
    }
}

fn joined(mut texts: Vec<Cow<'_, str>>) -> Cow<'_, str> {
    match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default(),
        _ => texts.join("\n").into(),
    }
}

/// Models that write their reasoning into the text must not receive old reasoning.
fn without_thoughts(text: Cow<'_, str>) -> Cow<'_, str> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    if !text.contains(OPEN) {
        return text;
    }
    let mut visible = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((_thoughts, after)) = after.split_once(CLOSE) else { break };
        visible.push_str(before);
        rest = after;
    }
    visible.push_str(rest);
    visible.trim().to_owned().into()
}

#[derive(Serialize)]
struct Call<'a> {
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a RawJson,
}

impl<'a> Call<'a> {
    fn new(call: &'a ToolCall) -> Self {
        Self { function: Called { name: &call.tool_name, arguments: &call.arguments } }
    }
}

#[derive(Serialize)]
struct Returned<'a> {
    role: &'static str,
    tool_name: &'a str,
    content: ResultText<'a>,
}

impl<'a> Returned<'a> {
    /// The API requires the tool's name, which is taken from the call.
    fn new(result: &'a ToolResult, names: &HashMap<&'a str, &'a str>) -> Self {
        let id = result.tool_call_id.as_str();
        let tool_name = names.get(id).copied().unwrap_or(id);
        Self { role: "tool", tool_name, content: ResultText(&result.result) }
    }
}

struct Tools<'a>(&'a [ToolDefinition]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a RawJson,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        }))
    }
}

//! Message content as span attributes: the conventions' JSON of messages and parts.
//!
//! Images, audio, video and files are described by media type and size; their data is left out, because it would make
//! spans too large.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::System;
use turntree_core::json::RawJson;
use turntree_core::message::content::{DocumentSource, ImageSource};
use turntree_core::message::{Body, ContentBlock, Message, ToolDefinition};

/// The messages that a model receives.
pub fn input<'a>(messages: impl Iterator<Item = &'a Arc<Message>>) -> String {
    Value::Array(messages.map(|message| json!({ "role": role(message), "parts": parts(message) })).collect())
        .to_string()
}

/// The message that a model returned.
pub fn output(message: &Message, finish_reason: &str) -> String {
    json!([{ "role": role(message), "parts": parts(message), "finish_reason": finish_reason }]).to_string()
}

/// The system prompt.
pub fn system(system: &System) -> String {
    let text = |text: Value| json!({ "type": "text", "content": text });
    let parts = match system {
        System::Text(prompt) => vec![text(json!(prompt))],
        System::Blocks(blocks) => {
            let blocks: Vec<Value> = blocks.to().unwrap_or_default();
            let texts = blocks.iter().map(|block| block.get("text").cloned().unwrap_or_default());
            texts.map(text).collect()
        }
    };
    Value::Array(parts).to_string()
}

/// The definitions of the tools.
pub fn tools(tools: &[ToolDefinition]) -> String {
    let tools = tools.iter().map(|tool| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": parsed(&tool.parameters),
        })
    });
    Value::Array(tools.collect()).to_string()
}

const fn role(message: &Message) -> &'static str {
    match message.body {
        Body::User { .. } => "user",
        Body::Assistant { .. } => "assistant",
        Body::ToolResult { .. } => "tool",
    }
}

fn parts(message: &Message) -> Vec<Value> {
    let content = message.content().iter().map(part);
    let calls = message.tool_calls().iter().map(|call| {
        let arguments = parsed(&call.arguments);
        json!({ "type": "tool_call", "id": call.tool_call_id, "name": call.tool_name, "arguments": arguments })
    });
    let results = message.results().iter().map(|result| {
        let response = parsed(&result.result);
        json!({ "type": "tool_call_response", "id": result.tool_call_id, "response": response })
    });
    content.chain(calls).chain(results).collect()
}

fn part(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(block) => json!({ "type": "text", "content": block.text }),
        ContentBlock::Reasoning(block) => json!({ "type": "reasoning", "content": block.text }),
        ContentBlock::Image(block) => match &block.source {
            ImageSource::Url(source) => uri("image", &block.mime_type, &source.url),
            ImageSource::Bytes(source) => named("image", &block.mime_type, source.data.as_slice().len()),
            ImageSource::Base64(source) => named("image", &block.mime_type, decoded_length(&source.data)),
            ImageSource::Unknown(_) => json!({ "type": "image", "mime_type": block.mime_type }),
        },
        ContentBlock::Document(block) => match &block.source {
            DocumentSource::Url(source) => uri("document", &block.mime_type, &source.url),
            DocumentSource::Text(source) => json!({ "type": "text", "content": source.data }),
            DocumentSource::Base64(source) => {
                named("document", &block.mime_type, decoded_length(&source.data))
            }
            DocumentSource::Unknown(_) => json!({ "type": "document", "mime_type": block.mime_type }),
        },
        ContentBlock::Audio(block) => named("audio", &block.mime_type, block.data.as_slice().len()),
        ContentBlock::Video(block) => named("video", &block.mime_type, block.data.as_slice().len()),
        ContentBlock::Binary(block) => named("binary", &block.mime_type, block.data.as_slice().len()),
        ContentBlock::CodeExecution(block) => json!({
            "type": "code_execution", "code": block.code, "language": block.language, "output": block.output,
        }),
        ContentBlock::Unknown(_) => json!({ "type": "unknown" }),
    }
}

fn uri(modality: &str, mime_type: &str, uri: &str) -> Value {
    json!({ "type": "uri", "modality": modality, "mime_type": mime_type, "uri": uri })
}

/// A part without its data.
fn named(kind: &str, mime_type: &str, bytes: usize) -> Value {
    json!({ "type": kind, "mime_type": mime_type, "bytes": bytes })
}

const fn decoded_length(base64: &str) -> usize {
    base64.len() / 4 * 3
}

/// The parsed JSON, or its text if it is not valid.
fn parsed(raw: &RawJson) -> Value {
    raw.to().unwrap_or_else(|_| Value::String(raw.get().to_owned()))
}

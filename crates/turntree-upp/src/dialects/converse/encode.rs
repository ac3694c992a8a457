//! Writes requests.

use serde::{Deserialize, Serialize};

use super::PROVIDER;
use super::content::{Block, of_user};
use super::metadata::{StoredMetadata, StoredOrderEntry};
use super::tools::write_tools;
use crate::dialects::common::{BlockLocation, BodyWriter};
use crate::error::UppError;
use crate::request::{ModelRequest, System};
use turntree_core::json::RawJson;
use turntree_core::message::{Body, ContentBlock, Message, ToolCall};

/// The parameter with which the settings request a cache.
pub(super) const CACHE_POINT: &str = "cachePoint";

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// Writes the body of a request.
pub(super) fn encode(model_id: &str, request: &ModelRequest) -> Result<Vec<u8>, UppError> {
    let mut body = BodyWriter::new(PROVIDER, &request.params);
    let cache_point = request.params.get(CACHE_POINT).filter(|mark| mark.is_object());
    body.reserve(CACHE_POINT);
    let mut messages = conversation(model_id, request)?;
    let last = messages.iter_mut().rfind(|message| message.role == "user");
    if let (Some(mark), Some(last)) = (cache_point, last) {
        last.content.push(Block::CachePoint(mark.clone()));
    }
    body.member("messages", &messages)?;
    write_system(&mut body, request.system.as_deref(), cache_point)?;
    write_tools(&mut body, model_id, request, cache_point)?;
    Ok(body.finish())
}

/// The messages. Neighbours with the same role are one message, because the vendor requires alternating roles.
fn conversation<'a>(model_id: &str, request: &'a ModelRequest) -> Result<Vec<WireMessage<'a>>, UppError> {
    let mut messages: Vec<WireMessage<'a>> = Vec::new();
    for (place, message) in request.messages.iter().enumerate() {
        let stored = StoredMetadata::of(message, model_id);
        let (role, mut content) = match &message.body {
            Body::User { content } => ("user", user(place, message, content)?),
            Body::Assistant { content, tool_calls } => {
                ("assistant", assistant(&stored, content, tool_calls.as_deref().unwrap_or_default()))
            }
            Body::ToolResult { results } => {
                let results = results.iter().map(|result| {
                    Block::tool_result(result).map_err(|kind| kind.at(PROVIDER, place, message, result))
                });
                ("user", results.collect::<Result<_, _>>()?)
            }
        };
        // The vendor refuses blank texts.
        content.retain(|block| !matches!(block, Block::Text(text) if text.trim().is_empty()));
        if content.is_empty() {
            continue;
        }
        if let Some(mark) = stored.cache_point.and_then(|mark| RawJson::from_value(mark).ok()) {
            content.push(Block::CachePoint(mark));
        }
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.append(&mut content),
            None => messages.push(WireMessage { role, content }),
        }
    }
    Ok(messages)
}

fn user<'a>(
    message_place: usize,
    message: &'a Message,
    content: &'a [ContentBlock],
) -> Result<Vec<Block<'a>>, UppError> {
    let blocks = content.iter().enumerate().map(|(place, block)| {
        // Names of documents are unique in a request.
        of_user(block, message_place.saturating_add(place)).map_err(|remedy| {
            let location = BlockLocation { provider: PROVIDER, message: message_place, block: place };
            location.unsupported(message, block, remedy)
        })
    });
    blocks.collect()
}

/// The blocks of an assistant message: in the vendor's order if it is known and still matches, else reasoning, text,
/// calls. Reasoning without a signature of this model is omitted, since the vendor refuses it.
fn assistant<'a>(
    stored: &StoredMetadata<'a>,
    content: &'a [ContentBlock],
    calls: &'a [ToolCall],
) -> Vec<Block<'a>> {
    let reasoning = content.iter().filter_map(|block| match block {
        ContentBlock::Reasoning(block) => Some(block.text.as_str()),
        _ => None,
    });
    let reasoning: Vec<&str> = reasoning.collect();
    let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
    let mut signed = reasoning
        .iter()
        .enumerate()
        .map(|(place, text)| stored.signature(place).map(|signature| Block::reasoning(text, signature)));
    let order = stored.order(reasoning.len(), texts.len(), calls.len());
    let (mut texts, mut calls) = (texts.into_iter(), calls.iter());
    let Some(order) = order else {
        let texts = texts.map(|text| Block::Text(text.into()));
        return signed.flatten().chain(texts).chain(calls.map(Block::tool_use)).collect();
    };
    let blocks = order.into_iter().filter_map(|entry| match entry {
        StoredOrderEntry::Reasoning => signed.next().flatten(),
        StoredOrderEntry::Text => texts.next().map(|text| Block::Text(text.into())),
        StoredOrderEntry::ToolUse => calls.next().map(Block::tool_use),
        StoredOrderEntry::Verbatim { block, is_shown } => {
            if is_shown {
                texts.next();
            }
            Some(Block::Verbatim(block))
        }
    });
    blocks.collect()
}

/// The system prompt as a list of texts, each with its mark of the cache.
fn write_system(
    body: &mut BodyWriter<'_>,
    system: Option<&System>,
    cache_point: Option<&RawJson>,
) -> Result<(), UppError> {
    #[derive(Deserialize)]
    struct Given {
        text: String,
        #[serde(default, rename = "cachePoint")]
        cache_point: Option<RawJson>,
    }
    let mut blocks: Vec<Block<'_>> = Vec::new();
    match system {
        None => {}
        Some(System::Text(text)) => blocks.push(Block::Text(text.as_str().into())),
        Some(System::Blocks(raw)) => {
            let wrong = || {
                UppError::invalid_request(PROVIDER, "system: each block needs a \"text\" that is a string")
            };
            let given: Vec<RawJson> = raw.to().map_err(|_| wrong())?;
            for block in given {
                let block = match block.as_string() {
                    Some(text) => Given { text, cache_point: None },
                    None => block.to::<Given>().map_err(|_| wrong())?,
                };
                blocks.push(Block::Text(block.text.into()));
                blocks.extend(block.cache_point.map(Block::CachePoint));
            }
        }
    }
    blocks.retain(|block| !matches!(block, Block::Text(text) if text.trim().is_empty()));
    if blocks.is_empty() {
        return Ok(());
    }
    blocks.extend(cache_point.cloned().map(Block::CachePoint));
    body.member("system", &blocks)
}

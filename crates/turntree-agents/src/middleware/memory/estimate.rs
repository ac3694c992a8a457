//! Token counts. They are estimates, because each vendor counts differently:
//!
//! | content | tokens |
//! |---|---|
//! | text | 1 per 4 ASCII characters, 1 per other character |
//! | a message | its content + 4 |
//! | a tool, a tool call | name, description and JSON + 8 |
//! | an image | 1600 |
//! | audio | 32 per second; 1 per 1000 bytes if the duration is unknown |
//! | video | 300 per second; 1 per 500 bytes if the duration is unknown |
//! | a document | text: its tokens; base64: 1 per 40 bytes, at least 1600; URL: 5000 |
//! | other data | 1 per 4 bytes |

use std::collections::HashMap;
use std::sync::Arc;

use turntree_core::message::content::{ContentBlock, DocumentBlock, DocumentSource, raw_as_text};
use turntree_core::message::{Body, Message};
use turntree_upp::{ModelRequest, System, UppError};

const MESSAGE_OVERHEAD: u64 = 4;
const TOOL_OVERHEAD: u64 = 8;
const IMAGE_TOKENS: u64 = 1600;
const URL_DOCUMENT_TOKENS: u64 = 5000;

/// Counts the tokens of texts.
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of a text.
    ///
    /// # Errors
    /// The error of the application's own code. It ends the run.
    fn count(&self, text: &str) -> Result<u64, UppError>;
}

impl<F: Fn(&str) -> u64 + Send + Sync> TokenCounter for F {
    fn count(&self, text: &str) -> Result<u64, UppError> {
        Ok(self(text))
    }
}

fn as_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Estimates the number of tokens of a text.
pub fn tokens_of(text: &str) -> u64 {
    let (ascii, other) = text.chars().fold((0_usize, 0_usize), |(ascii, other), character| {
        if character.is_ascii() { (ascii + 1, other) } else { (ascii, other + 1) }
    });
    as_count(ascii.div_ceil(4) + other)
}

fn count_text(text: &str, counter: Option<&dyn TokenCounter>) -> Result<u64, UppError> {
    match counter {
        _ if text.is_empty() => Ok(0),
        Some(counter) => counter.count(text),
        None => Ok(tokens_of(text)),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a medium")]
fn timed(seconds: Option<f64>, each: f64, bytes: usize, for_bytes: usize) -> u64 {
    match seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
        Some(seconds) => (seconds * each).ceil() as u64,
        None => as_count(bytes.div_ceil(for_bytes)),
    }
}

fn count_document(block: &DocumentBlock, counter: Option<&dyn TokenCounter>) -> Result<u64, UppError> {
    match &block.source {
        DocumentSource::Text(source) => count_text(&source.data, counter),
        // Base64 is a third longer than the encoded data.
        DocumentSource::Base64(source) => Ok(as_count(source.data.len() / 4 * 3 / 40).max(IMAGE_TOKENS)),
        DocumentSource::Url(_) | DocumentSource::Unknown(_) => Ok(URL_DOCUMENT_TOKENS),
    }
}

fn count_block(block: &ContentBlock, counter: Option<&dyn TokenCounter>) -> Result<u64, UppError> {
    match block {
        ContentBlock::Text(block) => count_text(&block.text, counter),
        ContentBlock::Reasoning(block) => count_text(&block.text, counter),
        ContentBlock::Image(_) => Ok(IMAGE_TOKENS),
        ContentBlock::Document(block) => count_document(block, counter),
        ContentBlock::Audio(block) => Ok(timed(block.duration, 32.0, block.data.as_slice().len(), 1000)),
        ContentBlock::Video(block) => Ok(timed(block.duration, 300.0, block.data.as_slice().len(), 500)),
        ContentBlock::Binary(block) => Ok(as_count(block.data.as_slice().len().div_ceil(4))),
        ContentBlock::CodeExecution(block) => count_text(&block.to_markdown(), counter),
        ContentBlock::Unknown(_) => Ok(MESSAGE_OVERHEAD),
    }
}

/// Counts the tokens of a message.
///
/// # Errors
/// Those of the counter.
pub fn count_message(message: &Message, counter: Option<&dyn TokenCounter>) -> Result<u64, UppError> {
    let mut sum = MESSAGE_OVERHEAD;
    for block in message.content() {
        sum = sum.saturating_add(count_block(block, counter)?);
    }
    for call in message.tool_calls() {
        let content =
            count_text(&call.tool_name, counter)?.saturating_add(count_text(call.arguments.get(), counter)?);
        sum = sum.saturating_add(TOOL_OVERHEAD).saturating_add(content);
    }
    if let Body::ToolResult { results } = &message.body {
        for result in results {
            sum = sum
                .saturating_add(MESSAGE_OVERHEAD)
                .saturating_add(count_text(&raw_as_text(&result.result), counter)?);
        }
    }
    Ok(sum)
}

/// Counts the tokens of a request without its messages: system prompt, tools and structure.
///
/// # Errors
/// Those of the counter.
pub fn count_without_messages(
    request: &ModelRequest,
    counter: Option<&dyn TokenCounter>,
) -> Result<u64, UppError> {
    let mut sum = match request.system.as_deref() {
        Some(System::Text(text)) => count_text(text, counter)?,
        Some(System::Blocks(blocks)) => count_text(blocks.get(), counter)?,
        None => 0,
    };
    for tool in request.tools.iter() {
        let texts = [&*tool.name, &*tool.description, tool.parameters.get()];
        for text in texts {
            sum = sum.saturating_add(count_text(text, counter)?);
        }
        sum = sum.saturating_add(TOOL_OVERHEAD);
    }
    if let Some(structure) = &request.structure {
        sum = sum.saturating_add(count_text(structure.get(), counter)?);
    }
    Ok(sum)
}

/// Returns the beginning of a text, with at most `most` tokens.
///
/// # Errors
/// Those of the counter.
pub(super) fn text_within(
    text: &str,
    most: u64,
    counter: Option<&dyn TokenCounter>,
) -> Result<String, UppError> {
    let most = most.saturating_sub(MESSAGE_OVERHEAD);
    let mut left = text;
    while !left.is_empty() && count_text(left, counter)? > most {
        let shorter = left.len() * 3 / 4;
        let end = (0..=shorter).rev().find(|end| left.is_char_boundary(*end)).unwrap_or_default();
        left = left.get(..end).unwrap_or_default();
    }
    Ok(left.to_owned())
}

/// Caches the counts of messages by address. Holds the messages, so that no address is used twice.
#[derive(Default)]
pub(super) struct TokenCountCache(HashMap<usize, (Arc<Message>, u64)>);

impl TokenCountCache {
    pub(super) fn count(
        &mut self,
        message: &Arc<Message>,
        counter: Option<&dyn TokenCounter>,
    ) -> Result<u64, UppError> {
        let address = Arc::as_ptr(message).addr();
        if let Some((_, count)) = self.0.get(&address) {
            return Ok(*count);
        }
        let count = count_message(message, counter)?;
        self.0.insert(address, (Arc::clone(message), count));
        Ok(count)
    }
}

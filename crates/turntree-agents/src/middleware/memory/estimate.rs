//! How many tokens something is. An estimate, for vendors count each in their own way:
//!
//! | what | tokens |
//! |---|---|
//! | text | one for four ASCII characters, one for each other character |
//! | a message | 4 more than what is in it |
//! | a tool, a tool call | 8 more than its name, description and JSON |
//! | a picture | 1600 |
//! | sound | 32 a second; without a length, one for 1000 bytes |
//! | film | 300 a second; without a length, one for 500 bytes |
//! | a document | its text; of another kind one for 40 bytes and at least 1600; 5000 behind a URL |
//! | other data | one for 4 bytes |

use std::collections::HashMap;
use std::sync::Arc;

use turntree_core::message::content::{ContentBlock, DocumentBlock, DocumentSource, raw_as_text};
use turntree_core::message::{Body, Message};
use turntree_upp::{ModelRequest, System, UppError};

const OF_MESSAGE: u64 = 4;
const OF_TOOL: u64 = 8;
const OF_PICTURE: u64 = 1600;
const BEHIND_URL: u64 = 5000;

/// Counts the tokens of texts.
pub trait Counter: Send + Sync {
    /// How many tokens a text is.
    ///
    /// # Errors
    /// What the application's own code failed with; it ends the run.
    fn count(&self, text: &str) -> Result<u64, UppError>;
}

impl<F: Fn(&str) -> u64 + Send + Sync> Counter for F {
    fn count(&self, text: &str) -> Result<u64, UppError> {
        Ok(self(text))
    }
}

fn as_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// How many tokens a text is, by estimate.
pub fn tokens_of(text: &str) -> u64 {
    let (ascii, other) = text.chars().fold((0_usize, 0_usize), |(ascii, other), character| {
        if character.is_ascii() { (ascii + 1, other) } else { (ascii, other + 1) }
    });
    as_count(ascii.div_ceil(4) + other)
}

fn count_text(text: &str, counter: Option<&dyn Counter>) -> Result<u64, UppError> {
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

fn count_document(block: &DocumentBlock, counter: Option<&dyn Counter>) -> Result<u64, UppError> {
    match &block.source {
        DocumentSource::Text(source) => count_text(&source.data, counter),
        // Base64 is a third longer than what it stands for.
        DocumentSource::Base64(source) => Ok(as_count(source.data.len() / 4 * 3 / 40).max(OF_PICTURE)),
        DocumentSource::Url(_) | DocumentSource::Unknown(_) => Ok(BEHIND_URL),
    }
}

fn count_block(block: &ContentBlock, counter: Option<&dyn Counter>) -> Result<u64, UppError> {
    match block {
        ContentBlock::Text(block) => count_text(&block.text, counter),
        ContentBlock::Reasoning(block) => count_text(&block.text, counter),
        ContentBlock::Image(_) => Ok(OF_PICTURE),
        ContentBlock::Document(block) => count_document(block, counter),
        ContentBlock::Audio(block) => Ok(timed(block.duration, 32.0, block.data.as_slice().len(), 1000)),
        ContentBlock::Video(block) => Ok(timed(block.duration, 300.0, block.data.as_slice().len(), 500)),
        ContentBlock::Binary(block) => Ok(as_count(block.data.as_slice().len().div_ceil(4))),
        ContentBlock::Unknown(_) => Ok(OF_MESSAGE),
    }
}

/// How many tokens a message is.
///
/// # Errors
/// Those of the counter.
pub fn count_message(message: &Message, counter: Option<&dyn Counter>) -> Result<u64, UppError> {
    let mut sum = OF_MESSAGE;
    for block in message.content() {
        sum = sum.saturating_add(count_block(block, counter)?);
    }
    for call in message.tool_calls() {
        let said =
            count_text(&call.tool_name, counter)?.saturating_add(count_text(call.arguments.get(), counter)?);
        sum = sum.saturating_add(OF_TOOL).saturating_add(said);
    }
    if let Body::ToolResult { results } = &message.body {
        for result in results {
            sum = sum
                .saturating_add(OF_MESSAGE)
                .saturating_add(count_text(&raw_as_text(&result.result), counter)?);
        }
    }
    Ok(sum)
}

/// How many tokens everything beside the messages is: system prompt, tools, structure.
///
/// # Errors
/// Those of the counter.
pub fn count_apart(request: &ModelRequest, counter: Option<&dyn Counter>) -> Result<u64, UppError> {
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
        sum = sum.saturating_add(OF_TOOL);
    }
    if let Some(structure) = &request.structure {
        sum = sum.saturating_add(count_text(structure.get(), counter)?);
    }
    Ok(sum)
}

/// The beginning of a text that is no more than so many tokens.
///
/// # Errors
/// Those of the counter.
pub(super) fn text_within(text: &str, most: u64, counter: Option<&dyn Counter>) -> Result<String, UppError> {
    let most = most.saturating_sub(OF_MESSAGE);
    let mut left = text;
    while !left.is_empty() && count_text(left, counter)? > most {
        let shorter = left.len() * 3 / 4;
        let end = (0..=shorter).rev().find(|end| left.is_char_boundary(*end)).unwrap_or_default();
        left = left.get(..end).unwrap_or_default();
    }
    Ok(left.to_owned())
}

/// What messages were counted to be. Holds them, so that none takes another's place.
#[derive(Default)]
pub(super) struct Counted(HashMap<usize, (Arc<Message>, u64)>);

impl Counted {
    pub(super) fn count(
        &mut self,
        message: &Arc<Message>,
        counter: Option<&dyn Counter>,
    ) -> Result<u64, UppError> {
        let place = Arc::as_ptr(message).addr();
        if let Some((_, count)) = self.0.get(&place) {
            return Ok(*count);
        }
        let count = count_message(message, counter)?;
        self.0.insert(place, (Arc::clone(message), count));
        Ok(count)
    }
}

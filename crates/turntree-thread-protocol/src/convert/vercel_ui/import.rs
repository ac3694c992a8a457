//! Imports of the Vercel AI SDK: streams, chunks or messages in, a thread out.

use super::message::UiMessage;
use super::options::UiImportOptions;
use super::stream_reader::UiStreamReader;
use super::surrogates::mended;
use super::to_thread::{StreamOutcome, thread_of};
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::{RawJson, check_utf8, parse};
use turntree_core::limits::Limits;

/// Makes a thread of the body of a UI message stream response.
///
/// # Errors
/// [`ThreadError::UiStream`] for what ends the stream in the real client; [`ThreadError::Parse`] for what passes a
/// limit.
pub fn from_ui_stream_bytes(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    reader.push_bytes(bytes)?;
    Ok(reader.thread())
}

/// Makes a thread of the chunks of a UI message stream: a list of them as JSON.
///
/// # Errors
/// As [`from_ui_stream_bytes`], and [`ThreadError::Parse`] for what is no list of JSON values.
pub fn from_ui_chunks_json(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    // Each chunk is held to the limits by itself.
    let all = Limits { bytes: options.limits.bytes, ..Limits::default() };
    let chunks: Vec<RawJson> = parse(&mended(check_utf8(bytes)?), &all)?;
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    for chunk in chunks {
        reader.push_json(chunk.get())?;
    }
    Ok(reader.thread())
}

/// Makes a thread of the messages of a chat.
pub fn from_ui_messages(messages: &[UiMessage], options: &UiImportOptions) -> Thread {
    thread_of(messages, &StreamOutcome::default(), options)
}

/// Reads a list of messages as JSON, as a client posts it.
///
/// # Errors
/// [`ThreadError::Parse`] for bytes that are not UTF-8, not JSON, over a limit, or no list of messages; names the place.
pub fn ui_messages_from_json(bytes: &[u8], limits: &Limits) -> Result<Vec<UiMessage>, ThreadError> {
    let text = check_utf8(bytes)?;
    Ok(parse(&mended(text), limits)?)
}

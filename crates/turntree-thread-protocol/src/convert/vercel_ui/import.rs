//! Imports from the Vercel AI SDK: response bodies, lists of chunks, and messages.

use super::message::UiMessage;
use super::options::UiImportOptions;
use super::stream_reader::UiStreamReader;
use super::surrogates::mended;
use super::to_thread::{StreamOutcome, thread_of};
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::{RawJson, check_utf8, parse};
use turntree_core::limits::Limits;

/// Converts the body of a UI message stream response to a thread.
///
/// # Errors
/// [`ThreadError::UiStream`] for input that the real client rejects; [`ThreadError::Parse`] for input over a
/// limit.
pub fn from_ui_stream_bytes(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    reader.push_bytes(bytes)?;
    Ok(reader.thread())
}

/// Converts a JSON list of UI message stream chunks to a thread.
///
/// # Errors
/// As [`from_ui_stream_bytes`], and [`ThreadError::Parse`] for input that is not a list of JSON values.
pub fn from_ui_chunks_json(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    // The other limits apply to each chunk.
    let all = Limits { bytes: options.limits.bytes, ..Limits::default() };
    let chunks: Vec<RawJson> = parse(&mended(check_utf8(bytes)?), &all)?;
    let mut reader = UiStreamReader::new(Vec::new(), options.clone());
    for chunk in chunks {
        reader.push_json(chunk.get())?;
    }
    Ok(reader.thread())
}

/// Converts the messages of a chat to a thread.
pub fn from_ui_messages(messages: &[UiMessage], options: &UiImportOptions) -> Thread {
    thread_of(messages, &StreamOutcome::default(), options)
}

/// Reads a JSON list of messages, as a client posts it.
///
/// # Errors
/// [`ThreadError::Parse`] for bytes that are not UTF-8, not JSON, over a limit, or not a list of messages. The error
/// has the JSON pointer.
pub fn ui_messages_from_json(bytes: &[u8], limits: &Limits) -> Result<Vec<UiMessage>, ThreadError> {
    let text = check_utf8(bytes)?;
    Ok(parse(&mended(text), limits)?)
}

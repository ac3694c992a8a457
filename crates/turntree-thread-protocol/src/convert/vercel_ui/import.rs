//! Imports from the Vercel AI SDK: response bodies, lists of chunks, and messages.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};

use super::message::UiMessage;
use super::options::UiImportOptions;
use super::stream_reader::UiStreamReader;
use super::to_thread::{EachMessage, StreamOutcome, thread_of};
use crate::convert::surrogates::mended;
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
    Ok(reader.into_thread())
}

/// Converts a JSON list of UI message stream chunks to a thread.
///
/// # Errors
/// As [`from_ui_stream_bytes`], and [`ThreadError::Parse`] for input that is not a list of JSON values.
pub fn from_ui_chunks_json(bytes: &[u8], options: &UiImportOptions) -> Result<Thread, ThreadError> {
    // The other limits apply to each chunk.
    let all = Limits { bytes: options.limits.bytes, ..Limits::default() };
    let text = mended(check_utf8(bytes)?);
    // Not to a list of chunks, which takes several times the memory of the text.
    let _is_list: Vec<IgnoredAny> = parse(&text, &all)?;
    let (mut reader, mut failure) = (UiStreamReader::new(Vec::new(), options.clone()), None);
    let each = EachChunk { reader: &mut reader, failure: &mut failure };
    let read = serde_json::Deserializer::from_str(&text).deserialize_seq(each);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if read.is_err() {
        // Once more, for the place of the error.
        let _chunks: Vec<RawJson> = parse(&text, &all)?;
    }
    Ok(reader.into_thread())
}

/// Reads the chunks of a list one by one.
struct EachChunk<'r> {
    reader: &'r mut UiStreamReader,
    failure: &'r mut Option<ThreadError>,
}

impl<'de> Visitor<'de> for EachChunk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of chunks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(chunk) = list.next_element::<RawJson>()? {
            if let Err(failure) = self.reader.push_json(chunk.get()) {
                *self.failure = Some(failure);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

/// Converts a JSON list of messages to a thread: as [`ui_messages_from_json`] and [`from_ui_messages`], message by message.
///
/// # Errors
/// As [`ui_messages_from_json`].
pub fn from_ui_messages_json(
    bytes: &[u8],
    limits: &Limits,
    options: &UiImportOptions,
) -> Result<Thread, ThreadError> {
    let text = mended(check_utf8(bytes)?);
    if limits.check(&text).is_ok() {
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        let thread = deserializer.deserialize_seq(EachMessage(options));
        if let Ok(thread) = thread.and_then(|thread| deserializer.end().map(|()| thread)) {
            return Ok(thread);
        }
    }
    // Once more, for the place of the error.
    let messages: Vec<UiMessage> = parse(&text, limits)?;
    Ok(from_ui_messages(&messages, options))
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

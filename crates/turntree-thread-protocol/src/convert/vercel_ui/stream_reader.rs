//! Incremental reader of UI message streams.

use super::assembler::Assembler;
use super::chunk::{Chunk, with_known_members};
use super::message::UiMessage;
use super::options::UiImportOptions;
use super::to_thread::{StreamOutcome, thread_of};
use crate::convert::surrogates::mended;
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::{ParseError, ParseErrorKind, RawJson, RawObject, parse};
use turntree_core::limits::Limits;
use turntree_core::sse::{Decoder, SseError};

/// Reads one UI message stream incrementally: bytes or chunks in, the message and the thread so far out.
///
/// The result does not depend on how the bytes are split. After an error the stream is closed, as in the real client;
/// what was read before the error remains available.
#[derive(Debug)]
pub struct UiStreamReader {
    decoder: Decoder,
    assembler: Assembler,
    /// The messages before the stream.
    prior: Vec<UiMessage>,
    outcome: StreamOutcome,
    options: UiImportOptions,
    /// The number of chunks.
    count: u64,
    /// The number of bytes of JSON.
    bytes: usize,
    failed: bool,
    /// The member of the data part at the end of the message, while only errors and aborts follow.
    #[expect(clippy::option_option, reason = "not read, and a part without the member")]
    last_data: Option<Option<String>>,
}

/// The error of a push.
struct PushError(ThreadError);

impl From<SseError> for PushError {
    fn from(error: SseError) -> Self {
        Self(ThreadError::UiStream { chunk: 0, message: error.to_string() })
    }
}

impl UiStreamReader {
    /// Creates a reader. `prior` are the messages before the stream. A stream that starts without a message id, or with
    /// the id of the last message, continues that message.
    pub fn new(prior: Vec<UiMessage>, options: UiImportOptions) -> Self {
        let last = prior.last().filter(|message| message.role == "assistant").cloned();
        Self {
            decoder: Decoder::default(),
            assembler: last.map_or_else(Assembler::default, Assembler::new),
            prior,
            outcome: StreamOutcome::default(),
            options,
            count: 0,
            bytes: 0,
            failed: false,
            last_data: None,
        }
    }

    /// Reads the next bytes of the response body, split anywhere. An event is read when its empty line arrives. Invalid
    /// UTF-8 becomes U+FFFD, as in the real client.
    ///
    /// # Errors
    /// [`ThreadError::UiStream`] or [`ThreadError::Parse`] for input that the real client rejects.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), ThreadError> {
        self.check_open()?;
        let mut decoder = std::mem::take(&mut self.decoder);
        let pushed = decoder.push(bytes, |event| {
            if event.data == "[DONE]" {
                return Ok(());
            }
            self.push_json(&event.data).map_err(PushError)
        });
        self.decoder = decoder;
        pushed.map_err(|PushError(error)| {
            self.failed = true;
            error
        })
    }

    /// Reads the next chunk as JSON.
    ///
    /// # Errors
    /// As [`Self::push_bytes`].
    pub fn push_json(&mut self, text: &str) -> Result<(), ThreadError> {
        self.check_open()?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > self.options.limits.bytes {
            let limit = self.options.limits.bytes;
            return Err(self.refuse(&format!("the stream is longer than the limit of {limit} bytes")));
        }
        let text = mended(text);
        match read_chunk(&text, &self.options.limits) {
            Ok(chunk) => self.push(&chunk),
            Err(error) => {
                self.failed = true;
                Err(self.in_chunk(error))
            }
        }
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    /// As [`Self::push_bytes`].
    pub fn push(&mut self, chunk: &Chunk) -> Result<(), ThreadError> {
        self.check_open()?;
        if !matches!(chunk.kind.as_str(), "error" | "abort") {
            self.last_data = None;
        }
        self.record(chunk);
        if let Err(message) = self.assembler.push(chunk) {
            return Err(self.refuse(&message));
        }
        self.count += 1;
        Ok(())
    }

    /// Records what no message holds: finish reason, errors and aborts.
    fn record(&mut self, chunk: &Chunk) {
        match chunk.kind.as_str() {
            "finish" => self.outcome.finish_reason.clone_from(&chunk.finish_reason),
            "abort" => {
                // Major 5 does not send the reason.
                let is_in_data_part =
                    self.last_data_member("data-tp-abort", "reason").is_some_and(|last_data_member| {
                        chunk.reason.is_none() || last_data_member == chunk.reason
                    });
                if !is_in_data_part {
                    self.outcome.aborts.push(chunk.reason.clone());
                }
            }
            "error" => {
                let text = chunk.error_text.clone().unwrap_or_default();
                if self.last_data_member("data-tp-error", "error_text") == Some(Some(text.clone())) {
                    return;
                }
                let mut open = self.assembler.open_calls();
                let call = match (open.next(), open.next()) {
                    (Some(part), None) => part.tool_call_id.clone(),
                    _ => None,
                };
                self.outcome.errors.push((text, call));
            }
            _ => {}
        }
    }

    /// The member of a data part of this type at the end of the message.
    #[expect(clippy::option_option, reason = "no such part, and a part without the member")]
    fn last_data_member(&mut self, kind: &str, member: &str) -> Option<Option<String>> {
        let last = self.assembler.last_part().filter(|part| part.kind == kind)?;
        let read = || {
            let data = last.data.get().and_then(RawObject::from_raw).unwrap_or_default();
            data.get(member).and_then(RawJson::as_string)
        };
        Some(self.last_data.get_or_insert_with(read).clone())
    }

    /// The number of chunks so far.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The message so far; `None` before the first chunk.
    pub fn message(&mut self) -> Option<&UiMessage> {
        let message = self.assembler.message();
        let is_empty = message.parts.is_empty() && message.id.is_empty() && message.metadata.get().is_none();
        (!is_empty).then_some(message)
    }

    /// The messages so far, including the message of the stream.
    pub fn messages(&mut self) -> Vec<UiMessage> {
        let mut messages = self.prior.clone();
        if let Some(message) = self.message().cloned() {
            let goes_on =
                messages.last().is_some_and(|last| last.role == "assistant" && last.id == message.id);
            if goes_on {
                messages.pop();
            }
            messages.push(message);
        }
        messages
    }

    /// The thread so far.
    pub fn thread(&mut self) -> Thread {
        let messages = self.messages();
        if self.message().is_none() {
            // Errors of a stream without a message are recorded in an empty one.
            let mut messages = messages;
            if self.outcome != StreamOutcome::default() {
                messages.push(UiMessage::assistant(""));
            }
            return thread_of(&messages, &self.outcome, &self.options);
        }
        thread_of(&messages, &self.outcome, &self.options)
    }

    /// The thread so far, without a copy of the messages.
    pub fn into_thread(mut self) -> Thread {
        let has_message = self.message().is_some();
        let Self { assembler, mut prior, outcome, options, .. } = self;
        if has_message {
            let message = assembler.into_message();
            let goes_on = prior.last().is_some_and(|last| last.role == "assistant" && last.id == message.id);
            if goes_on {
                prior.pop();
            }
            prior.push(message);
        } else if outcome != StreamOutcome::default() {
            // Errors of a stream without a message are recorded in an empty one.
            prior.push(UiMessage::assistant(""));
        }
        thread_of(&prior, &outcome, &options)
    }

    fn check_open(&self) -> Result<(), ThreadError> {
        if self.failed {
            let message = "the stream is closed after an error; the thread has what was read before";
            return Err(ThreadError::UiStream { chunk: self.count, message: message.to_owned() });
        }
        Ok(())
    }

    fn refuse(&mut self, message: &str) -> ThreadError {
        self.failed = true;
        ThreadError::UiStream { chunk: self.count, message: message.to_owned() }
    }

    fn in_chunk(&self, error: ParseError) -> ThreadError {
        let index = if error.path.is_empty() { String::new() } else { format!("{}: ", error.pointer()) };
        match error.kind {
            ParseErrorKind::Limit => ThreadError::Parse(error),
            _ => ThreadError::UiStream { chunk: self.count, message: format!("{index}{}", error.message) },
        }
    }
}

/// Reads a chunk. Members of other chunk types that are malformed are ignored.
fn read_chunk(text: &str, limits: &Limits) -> Result<Chunk, ParseError> {
    parse::<Chunk>(text, limits).or_else(|error| match error.kind {
        ParseErrorKind::Limit => Err(error),
        _ => with_known_members(text).and_then(|known| known.to().ok()).ok_or(error),
    })
}

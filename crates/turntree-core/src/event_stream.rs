//! The event streams of Amazon: bytes in, checked messages out. `application/vnd.amazon.eventstream`.
//!
//! A message is a prelude (its length, the length of its headers, and a CRC-32 of both), headers, a payload, and a CRC-32
//! of all of it; numbers are big-endian. The decoder checks both checksums and every length.
//!
//! Spec: <https://smithy.io/2.0/aws/amazon-eventstream.html>

use std::borrow::Cow;

/// Default maximum size of a message: 24 MiB, the largest that the format allows.
pub const DEFAULT_LIMIT: usize = 24 * 1024 * 1024;

/// Maximum capacity of the buffer between messages; a larger buffer is freed after its message.
const KEPT_CAPACITY: usize = 64 * 1024;

/// The lengths and their checksum.
const PRELUDE: usize = 12;

/// A checksum.
const CRC: usize = 4;

/// The errors of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventStreamError {
    /// A message exceeds the limit.
    #[error(
        "a message of the event stream has {length} bytes, the limit is {limit}; ask for a shorter answer"
    )]
    TooLarge {
        /// The length that the message declares.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A checksum is wrong.
    #[error("a message of the event stream has a wrong checksum; send the request again")]
    Checksum,
    /// A length or a header is wrong.
    #[error("a message of the event stream is malformed: {0}; send the request again")]
    Malformed(&'static str),
    /// The decoder was used after an error.
    #[error("the event stream failed earlier and cannot continue; open a new one")]
    Poisoned,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// The headers whose values are texts, in order.
    pub headers: Vec<(&'a str, &'a str)>,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The text of a header; names are case-sensitive.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The name of the event or exception. An error without a name is `error`.
    pub fn name(&self) -> &'a str {
        let named = self.header(":event-type").or_else(|| self.header(":exception-type"));
        named.unwrap_or(if self.header(":message-type") == Some("error") { "error" } else { "" })
    }

    /// The payload as text, with invalid bytes replaced; the message of an error without a payload.
    pub fn text(&self) -> Cow<'a, str> {
        match self.header(":error-message").filter(|_| self.payload.is_empty()) {
            Some(message) => Cow::Borrowed(message),
            None => String::from_utf8_lossy(self.payload),
        }
    }
}

/// Decodes one event stream, independent of the chunking.
///
/// # Cancel safety
/// All methods are synchronous; dropping the decoder loses only the unfinished message.
///
/// ```
/// use turntree_core::event_stream::{Decoder, EventStreamError, encode};
///
/// let bytes = encode(&[(":event-type", "messageStop")], b"{}");
/// let mut decoder = Decoder::default();
/// let mut names = Vec::new();
/// for chunk in bytes.chunks(5) {
///     decoder.push(chunk, |message| {
///         names.push(message.name().to_owned());
///         Ok::<_, EventStreamError>(())
///     })?;
/// }
/// assert_eq!(names, ["messageStop"]);
/// # Ok::<_, EventStreamError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The unfinished message. Empty between messages.
    partial: Vec<u8>,
    is_poisoned: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder that accepts messages of at most `limit` bytes.
    pub const fn with_limit(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), is_poisoned: false }
    }

    /// Decodes the next bytes and calls `visit` for every completed message, in order.
    ///
    /// # Errors
    /// [`EventStreamError`], and whatever `visit` returns. The rest of `bytes` is then lost, so the decoder is poisoned.
    pub fn push<E: From<EventStreamError>>(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.is_poisoned, true) {
            return Err(EventStreamError::Poisoned.into());
        }
        let mut buffer = std::mem::take(&mut self.partial);
        let is_continued = !buffer.is_empty();
        if is_continued {
            buffer.extend_from_slice(bytes);
        }
        let mut rest: &[u8] = if is_continued { &buffer } else { bytes };
        while let Some(length) = self.length_of(rest)? {
            let Some((message, after)) = rest.split_at_checked(length) else { break };
            visit(read(message)?)?;
            rest = after;
        }
        self.partial = rest.to_vec();
        if self.partial.is_empty() && buffer.capacity() <= KEPT_CAPACITY {
            buffer.clear();
            self.partial = buffer;
        }
        self.is_poisoned = false;
        Ok(())
    }

    /// True between messages.
    pub const fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// The length of the message at the start of the bytes; `None` if the prelude is not complete.
    fn length_of(&self, bytes: &[u8]) -> Result<Option<usize>, EventStreamError> {
        let Some((prelude, _)) = bytes.split_at_checked(PRELUDE) else { return Ok(None) };
        let (lengths, checksum) = prelude.split_at(PRELUDE - CRC);
        if number(checksum) != Some(crc32fast::hash(lengths)) {
            return Err(EventStreamError::Checksum);
        }
        let length = length_at(lengths, 0);
        match length {
            length if length > self.limit => Err(EventStreamError::TooLarge { length, limit: self.limit }),
            length if length < PRELUDE + CRC => Err(EventStreamError::Malformed("its length is too small")),
            length => Ok(Some(length)),
        }
    }
}

/// Reads a whole message.
fn read(bytes: &[u8]) -> Result<Message<'_>, EventStreamError> {
    const SHORT: EventStreamError = EventStreamError::Malformed("its headers are longer than it");
    let (content, checksum) = bytes.split_at_checked(bytes.len().saturating_sub(CRC)).ok_or(SHORT)?;
    if number(checksum) != Some(crc32fast::hash(content)) {
        return Err(EventStreamError::Checksum);
    }
    let body = content.get(PRELUDE..).ok_or(SHORT)?;
    let (mut headers, payload) = body.split_at_checked(length_at(bytes, 4)).ok_or(SHORT)?;
    let mut texts = Vec::new();
    while !headers.is_empty() {
        let (name, value, rest) =
            header(headers).ok_or(EventStreamError::Malformed("a header is cut off or not UTF-8"))?;
        texts.extend(value.map(|value| (name, value)));
        headers = rest;
    }
    Ok(Message { headers: texts, payload })
}

/// The first header: its name, its value if it is a text, and what follows.
fn header(bytes: &[u8]) -> Option<(&str, Option<&str>, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let name = std::str::from_utf8(name).ok()?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = match kind {
        0 | 1 => (0, rest),
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 | 8 => (8, rest),
        9 => (16, rest),
        6 | 7 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    let text = if *kind == 7 { Some(std::str::from_utf8(value).ok()?) } else { None };
    Some((name, text, rest))
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

fn length_at(bytes: &[u8], place: usize) -> usize {
    let length = bytes.get(place..).and_then(number).unwrap_or(u32::MAX);
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Writes a message whose headers are texts. Names of more than 255 bytes and values of more than 65 535 are left out.
pub fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        if let (Ok(name_length), Ok(length)) = (u8::try_from(name.len()), u16::try_from(value.len())) {
            head.push(name_length);
            head.extend_from_slice(name.as_bytes());
            head.push(7);
            head.extend_from_slice(&length.to_be_bytes());
            head.extend_from_slice(value.as_bytes());
        }
    }
    let length = PRELUDE + head.len() + payload.len() + CRC;
    let mut bytes = Vec::with_capacity(length);
    for length in [length, head.len()] {
        bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

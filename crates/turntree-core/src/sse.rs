//! Server-sent events: bytes in, complete events out.
//!
//! The decoder does no I/O. It finds the blank line that ends an event, then reads the event's lines. An event that is
//! complete in one pushed slice is not copied; an unfinished rest is. Bytes that are not UTF-8 become U+FFFD, as WHATWG
//! requires, and the event is marked, for formats that require UTF-8.
//!
//! Spec: UPP-1.2 §13.4; WHATWG HTML §9.2

use std::borrow::Cow;
use std::time::Duration;

use memchr::{memchr, memchr2};

/// Default maximum size of an event: 16 MiB, enough for a generated image in base64.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Maximum capacity of the buffer between events; a larger buffer is freed after its event.
const KEPT_CAPACITY: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The errors of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// An event exceeds the limit.
    #[error("an event of the stream is larger than {limit} bytes; raise the limit if the server is trusted")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The decoder was used after an error.
    #[error("the event stream failed earlier and cannot continue; open a new one")]
    Poisoned,
}

/// One complete event. Borrows from the pushed bytes if possible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event<'a> {
    /// The event's name; None if missing or empty, which WHATWG treats as `message`.
    pub event: Option<Cow<'a, str>>,
    /// The data lines, joined by line feeds. Not interpreted: `[DONE]` is ordinary data.
    pub data: Cow<'a, str>,
    /// True if bytes of the data were not UTF-8 and were replaced. The data is then not valid JSON (RFC 8259 §8.1).
    pub is_damaged: bool,
    /// The id of this event; see also [`Decoder::last_event_id`].
    pub id: Option<Cow<'a, str>>,
    /// The reconnection time of this event.
    pub retry: Option<Duration>,
}

impl Event<'_> {
    /// The same event with owned texts.
    pub fn into_owned(self) -> Event<'static> {
        Event {
            event: self.event.map(|text| Cow::Owned(text.into_owned())),
            data: Cow::Owned(self.data.into_owned()),
            is_damaged: self.is_damaged,
            id: self.id.map(|text| Cow::Owned(text.into_owned())),
            retry: self.retry,
        }
    }

    /// Appends the event in the format of an event stream.
    ///
    /// Data may have several lines; a carriage return in it ends a line and is read back as a line feed. Line breaks in the
    /// name and the id would start a new field, so they are written as spaces.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(event) = &self.event {
            encode_field(b"event: ", event.as_bytes(), out);
        }
        if let Some(id) = &self.id {
            encode_field(b"id: ", id.as_bytes(), out);
        }
        if let Some(retry) = self.retry {
            encode_field(b"retry: ", retry.as_millis().to_string().as_bytes(), out);
        }
        let mut rest = Some(self.data.as_bytes());
        while let Some(text) = rest {
            let (line, tail) = split_line(text);
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line);
            out.push(b'\n');
            rest = tail;
        }
        out.push(b'\n');
    }
}

/// Decodes one event stream, independent of the chunking.
///
/// Push byte slices as they arrive; the decoder calls back with every completed event. It buffers at most one unfinished
/// event. CR, LF and CRLF end lines, also if a CRLF is split between two slices. A byte order mark, comments and unknown
/// fields are skipped. An event without data is not reported.
///
/// More lenient than WHATWG in two ways that servers of language models need: a line that begins with `{` or `[` counts
/// as data, and [`Decoder::finish`] reports an event without a final blank line.
///
/// # Cancel safety
/// All methods are synchronous; dropping the decoder loses only the unfinished event.
///
/// ```
/// use turntree_core::sse::{Decoder, SseError};
///
/// let mut decoder = Decoder::default();
/// let mut seen = Vec::new();
/// for chunk in ["event: delta\nda", "ta: {\"text\":\"hi\"}\n", "\n"] {
///     decoder.push(chunk.as_bytes(), |event| {
///         seen.push((event.event.unwrap_or_default().into_owned(), event.data.into_owned()));
///         Ok::<_, SseError>(())
///     })?;
/// }
/// assert_eq!(seen, [("delta".to_owned(), "{\"text\":\"hi\"}".to_owned())]);
/// # Ok::<_, SseError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The unfinished event, from its first byte. Empty between events.
    partial: Vec<u8>,
    /// True if the current line is empty so far, so that a line end ends the event.
    line_is_empty: bool,
    /// True if the last slice ended with CR: a following line feed belongs to it.
    after_carriage_return: bool,
    at_start: bool,
    poisoned: bool,
    last_event_id: String,
    retry: Option<Duration>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder that accepts events of at most `limit` bytes, field names and line ends included.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            partial: Vec::new(),
            line_is_empty: true,
            after_carriage_return: false,
            at_start: true,
            poisoned: false,
            last_event_id: String::new(),
            retry: None,
        }
    }

    /// Decodes the next bytes and calls `visit` for every completed event, in order.
    ///
    /// # Errors
    /// [`SseError::TooLarge`] if an event exceeds the limit, [`SseError::Poisoned`] after an earlier error, and errors of
    /// `visit`. The rest of `bytes` is then lost, so the decoder is poisoned.
    pub fn push<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.poisoned, true) {
            return Err(SseError::Poisoned.into());
        }
        let mut rest = self.join_line_feed(bytes);
        if !self.partial.is_empty() {
            let Some((end, next)) = self.find_end(rest) else {
                self.keep(rest)?;
                self.poisoned = false;
                return Ok(());
            };
            self.keep(rest.get(..end).unwrap_or_default())?;
            self.emit_partial(&mut visit)?;
            rest = rest.get(next..).unwrap_or_default();
        }
        while !rest.is_empty() {
            let Some((end, next)) = self.find_end(rest) else {
                self.keep(rest)?;
                break;
            };
            if end > self.limit {
                return Err(SseError::TooLarge { limit: self.limit }.into());
            }
            self.emit(rest.get(..end).unwrap_or_default(), &mut visit)?;
            rest = rest.get(next..).unwrap_or_default();
        }
        self.poisoned = false;
        Ok(())
    }

    /// Ends the stream and calls `visit` for an event without a final blank line, if there is one.
    ///
    /// WHATWG drops such an event; UPP requires it. Its data may be truncated.
    ///
    /// # Errors
    /// [`SseError::Poisoned`] after an earlier error, and errors of `visit`.
    ///
    /// Spec: UPP-1.2 §13.4
    pub fn finish<E: From<SseError>>(
        &mut self,
        mut visit: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.poisoned, true) {
            return Err(SseError::Poisoned.into());
        }
        self.emit_partial(&mut visit)?;
        self.line_is_empty = true;
        self.after_carriage_return = false;
        self.poisoned = false;
        Ok(())
    }

    /// The last id of the stream, including ids of events without data. A client sends it to reconnect.
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// The last reconnection time of the stream.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Consumes the line feed of a CRLF that was split between two slices. It remains part of an unfinished event, so that
    /// the size of an event does not depend on the chunking.
    fn join_line_feed<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if bytes.is_empty() || !std::mem::take(&mut self.after_carriage_return) {
            return bytes;
        }
        let Some(rest) = bytes.strip_prefix(b"\n") else { return bytes };
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        rest
    }

    /// The offset at which the current event ends in `bytes`, and that at which the next one begins; None if it is incomplete.
    ///
    /// A comment at the beginning counts as an event without data, so that a server can send comments for hours without
    /// filling the buffer.
    fn find_end(&mut self, bytes: &[u8]) -> Option<(usize, usize)> {
        let is_comment = self.partial.first().or(bytes.first()) == Some(&b':');
        let mut line = 0;
        loop {
            let rest = bytes.get(line..).unwrap_or_default();
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.line_is_empty &= rest.is_empty();
                return None;
            };
            let end = line + length;
            let is_return = rest.get(length) == Some(&b'\r');
            self.after_carriage_return = is_return && end + 1 == bytes.len();
            let next = end + 1 + usize::from(is_return && rest.get(length + 1) == Some(&b'\n'));
            let is_blank = length == 0 && self.line_is_empty;
            self.line_is_empty = true;
            if is_blank || is_comment {
                return Some((end, next));
            }
            line = next;
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.partial.len().saturating_add(bytes.len()) > self.limit {
            self.partial = Vec::new();
            return Err(SseError::TooLarge { limit: self.limit });
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn emit_partial<E>(&mut self, visit: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut block = std::mem::take(&mut self.partial);
        let result = self.emit(&block, visit);
        if block.capacity() <= KEPT_CAPACITY {
            block.clear();
            self.partial = block;
        }
        result
    }

    /// Reads the lines of one event and calls `visit` if it has data.
    fn emit<E>(&mut self, block: &[u8], visit: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut block = block;
        if std::mem::take(&mut self.at_start) {
            block = block.strip_prefix(BYTE_ORDER_MARK).unwrap_or(block);
        }
        let mut event = Event::default();
        let mut has_data = false;
        let mut rest = Some(block);
        while let Some(text) = rest {
            let (line, tail) = split_line(text);
            rest = tail;
            has_data |= read_line(line, has_data, &mut event);
        }
        if let Some(id) = &event.id {
            self.last_event_id.clear();
            self.last_event_id.push_str(id);
        }
        self.retry = event.retry.or(self.retry);
        if has_data { visit(event) } else { Ok(()) }
    }
}

/// Reads one line into the event; true if it was data.
fn read_line<'a>(line: &'a [u8], has_data: bool, event: &mut Event<'a>) -> bool {
    let (name, value) = match line.first() {
        None | Some(b':') => return false,
        Some(b'{' | b'[') => (b"data".as_slice(), line),
        Some(_) => split_field(line),
    };
    match name {
        b"data" if has_data => {
            let (text, is_damaged) = decode_data(value);
            let data = event.data.to_mut();
            data.push('\n');
            data.push_str(&text);
            event.is_damaged |= is_damaged;
            return true;
        }
        b"data" => {
            (event.data, event.is_damaged) = decode_data(value);
            return true;
        }
        b"event" => event.event = Some(decode(value)).filter(|name| !name.is_empty()),
        b"id" if memchr(0, value).is_none() => event.id = Some(decode(value)),
        b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
            event.retry = decode(value).parse().ok().map(Duration::from_millis).or(event.retry);
        }
        _ => {}
    }
    false
}

/// The name and the value of a line, without one space after the colon.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = memchr(b':', line).unwrap_or(line.len());
    let (name, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
    let value = value.strip_prefix(b":").unwrap_or(value);
    (name, value.strip_prefix(b" ").unwrap_or(value))
}

/// The first line, and the rest after its line end; None for the last line.
fn split_line(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some((line, tail)) = memchr2(b'\n', b'\r', text).and_then(|end| text.split_at_checked(end)) else {
        return (text, None);
    };
    let after = tail.strip_prefix(b"\r\n").or_else(|| tail.get(1..));
    (line, after)
}

/// Nearly all texts are valid UTF-8, and then nothing is copied.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// The text, and whether bytes in it were replaced.
fn decode_data(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let text = decode(bytes);
    // Only a text with replacements is a copy.
    let is_damaged = matches!(text, Cow::Owned(_));
    (text, is_damaged)
}

fn encode_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend(value.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    out.push(b'\n');
}

//! Newline-delimited JSON: bytes in, complete lines out.
//!
//! The decoder finds the lines and checks that they are UTF-8; it does not parse them. A line that is complete in one
//! pushed slice is not copied; an unfinished rest is.
//!
//! Spec: UPP-1.2 §13.4 (Ollama)

use memchr::memchr;

/// Default maximum size of a line: 16 MiB.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Maximum capacity of the buffer between lines; a larger buffer is freed after its line.
const KEPT_CAPACITY: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The errors of a stream of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NdjsonError {
    /// A line exceeds the limit.
    #[error(
        "line {line} of the stream is larger than {limit} bytes; raise the limit if the server is trusted"
    )]
    TooLarge {
        /// Number of the line, from 1.
        line: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A line is not UTF-8, so it cannot be JSON (RFC 8259 §8.1).
    #[error("line {line} of the stream is not UTF-8; ask the server for application/x-ndjson in UTF-8")]
    NotUtf8 {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The decoder was used after an error.
    #[error("the line stream failed earlier and cannot continue; open a new one")]
    Poisoned,
}

/// Decodes one stream of lines, independent of the chunking.
///
/// LF and CRLF end lines. Blank lines and a byte order mark are skipped.
///
/// # Cancel safety
/// All methods are synchronous; dropping the decoder loses only the unfinished line.
///
/// ```
/// use turntree_core::ndjson::{Decoder, NdjsonError};
///
/// let mut decoder = Decoder::default();
/// let mut lines = Vec::new();
/// let mut keep = |line: &str| {
///     lines.push(line.to_owned());
///     Ok::<_, NdjsonError>(())
/// };
/// decoder.push(b"{\"a\":1}\r\n\n{\"b\"", &mut keep)?;
/// decoder.push(b":2}", &mut keep)?;
/// decoder.finish(&mut keep)?;
/// assert_eq!(lines, ["{\"a\":1}", "{\"b\":2}"]);
/// # Ok::<_, NdjsonError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The unfinished line. Empty between lines.
    partial: Vec<u8>,
    /// Lines ended so far.
    lines: usize,
    poisoned: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder that accepts lines of at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), lines: 0, poisoned: false }
    }

    /// Decodes the next bytes and calls `visit` for every completed line, in order, without its line end.
    ///
    /// # Errors
    /// [`NdjsonError::TooLarge`], [`NdjsonError::NotUtf8`], [`NdjsonError::Poisoned`] after any earlier
    /// error, and whatever `visit` returns. The rest of `bytes` is then lost, so the decoder is poisoned.
    pub fn push<E: From<NdjsonError>>(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.poisoned, true) {
            return Err(NdjsonError::Poisoned.into());
        }
        let mut rest = bytes;
        while let Some((line, tail)) = memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end)) {
            self.check_size(line.len())?;
            if self.partial.is_empty() {
                self.emit(line, &mut visit)?;
            } else {
                self.partial.extend_from_slice(line);
                self.emit_partial(&mut visit)?;
            }
            rest = tail.get(1..).unwrap_or_default();
        }
        self.check_size(rest.len())?;
        self.partial.extend_from_slice(rest);
        self.poisoned = false;
        Ok(())
    }

    /// Ends the stream and calls `visit` for a last line without a line end.
    ///
    /// # Errors
    /// [`NdjsonError::NotUtf8`], [`NdjsonError::Poisoned`] after any earlier error, and whatever `visit`
    /// returns.
    pub fn finish<E: From<NdjsonError>>(
        &mut self,
        mut visit: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::replace(&mut self.poisoned, true) {
            return Err(NdjsonError::Poisoned.into());
        }
        self.emit_partial(&mut visit)?;
        self.poisoned = false;
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), NdjsonError> {
        if self.partial.len().saturating_add(more) > self.limit {
            return Err(NdjsonError::TooLarge { line: self.lines + 1, limit: self.limit });
        }
        Ok(())
    }

    fn emit_partial<E: From<NdjsonError>>(
        &mut self,
        visit: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut line = std::mem::take(&mut self.partial);
        let result = self.emit(&line, visit);
        if line.capacity() <= KEPT_CAPACITY {
            line.clear();
            self.partial = line;
        }
        result
    }

    fn emit<E: From<NdjsonError>>(
        &mut self,
        line: &[u8],
        visit: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.lines += 1;
        let line = if self.lines == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let text = simdutf8::basic::from_utf8(line).map_err(|_| NdjsonError::NotUtf8 { line: self.lines })?;
        visit(text)
    }
}

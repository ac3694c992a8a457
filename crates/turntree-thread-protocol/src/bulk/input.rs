//! Input files: decompression and splitting into batches of whole lines.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memrchr};

use super::error::BulkError;
use super::input_buffer::{InputBuffer, LARGE};

/// The number of bytes per read.
const READ: usize = 256 * 1024;

/// The minimum size of a batch in bytes.
const BATCH: usize = 256 * 1024;

/// Where a document of a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// At the end of its line.
    #[default]
    Lines,
    /// At the end of the file.
    Whole,
    /// At the end of its line if the first line is a complete JSON value; otherwise at the end of the file.
    Auto,
}

/// Opens a file. Gzip (RFC 1952) is detected by its first bytes and decompressed.
///
/// # Errors
/// [`BulkError::Io`] with the file name; also for zstandard, which the caller must decompress.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>, BulkError> {
    let name = path.display().to_string();
    let failed = |error| BulkError::io(name.clone(), error);
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        let message = "is a directory; pass a file";
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, message)));
    }
    let mut first = Vec::new();
    file.by_ref().take(4).read_to_end(&mut first).map_err(failed)?;
    let whole = Cursor::new(first.clone()).chain(file);
    if first.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(Gunzip(MultiGzDecoder::new(BufReader::with_capacity(READ, whole)))));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let message = "is compressed with zstandard; decompress it, or rename it to end in .zst";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    Ok(Box::new(whole))
}

/// The size of a file on disk in bytes; 0 if it is unknown. Reading the file reports the error.
pub fn size_of_file(path: &Path) -> usize {
    path.metadata().map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX))
}

/// Adds a remedy to errors of compressed data.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: io::BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::UnexpectedEof => "the gzip data are cut short; fetch the file again",
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    "the gzip data are damaged; fetch the file again"
                }
                _ => return error,
            };
            io::Error::new(error.kind(), message)
        })
    }
}

/// The input of a job.
#[derive(Debug)]
pub(super) enum Batch {
    /// Whole lines; the last one may have no line end.
    Lines(InputBuffer),
    /// One document.
    Whole(InputBuffer),
    /// A line over the limit. Its content is discarded.
    TooLong { size: usize, limit: usize },
}

impl Batch {
    /// The number of bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lines(bytes) | Self::Whole(bytes) => bytes.len(),
            Self::TooLong { .. } => 0,
        }
    }

    /// The documents of the batch, without blank lines.
    pub(super) fn documents(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, whole) = match self {
            Self::Lines(text) => (&**text, false),
            Self::Whole(text) => (&**text, true),
            Self::TooLong { .. } => (&[][..], true),
        };
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let lines = bytes.split(move |byte| *byte == b'\n' && !whole);
        lines.filter(|line| !line.trim_ascii().is_empty())
    }
}

/// Splits a source into batches.
pub(super) struct Batches<'s> {
    source: &'s mut dyn Read,
    framing: Framing,
    /// The maximum size of a document in bytes.
    limit: usize,
    /// The expected number of remaining bytes.
    left: usize,
    /// Bytes that are not in a batch yet.
    pending: InputBuffer,
    /// The number of bytes of `pending` that have no line end.
    searched: usize,
    /// The number of discarded bytes of a document over the limit.
    discarded: Option<usize>,
    ended: bool,
}

impl<'s> Batches<'s> {
    /// `size` is the expected size of the source in bytes; 0 if it is unknown.
    pub(super) fn new(source: &'s mut dyn Read, framing: Framing, limit: usize, size: usize) -> Self {
        let (left, pending) = (size, InputBuffer::default());
        Self { source, framing, limit, left, pending, searched: 0, discarded: None, ended: false }
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// The errors of the source. After [`io::ErrorKind::Interrupted`], call again; no data is lost.
    pub(super) fn next(&mut self) -> io::Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let most = self.limit.saturating_sub(self.pending.len()).saturating_add(READ);
        let count = self.pending.read(self.source, READ, self.left.min(most))?;
        self.left = self.left.saturating_sub(count);
        self.ended = count == 0;
        Ok(())
    }

    /// A batch, if enough data is available.
    fn ready(&mut self) -> Option<Batch> {
        if self.framing == Framing::Auto {
            self.framing = self.detect_framing()?;
        }
        if !self.ended && self.pending.len() < BATCH {
            return None;
        }
        let unsearched = self.pending.get(self.searched..).unwrap_or_default();
        let line_end = match self.framing {
            Framing::Whole => None,
            // A large document ends at the first line end. Otherwise a batch has as many lines as possible.
            _ if self.discarded.is_some() || self.searched >= LARGE => memchr(b'\n', unsearched),
            _ => memrchr(b'\n', unsearched),
        };
        let end = match line_end {
            Some(position) => self.searched + position + 1,
            None if self.ended => self.pending.len(),
            None => {
                self.searched = self.pending.len();
                self.discard_oversized();
                return None;
            }
        };
        self.searched = 0;
        self.hand_over(end)
    }

    /// Discards the data of a document over the limit.
    fn discard_oversized(&mut self) {
        let size = self.pending.len();
        if let Some(discarded) = &mut self.discarded {
            *discarded += size;
        } else if size > self.limit {
            self.discarded = Some(size);
        } else {
            return;
        }
        self.pending = InputBuffer::default();
        self.searched = 0;
    }

    /// Returns the first `end` bytes of `pending` as a batch.
    fn hand_over(&mut self, end: usize) -> Option<Batch> {
        let rest = self.pending.split_off(end);
        let bytes = std::mem::replace(&mut self.pending, rest);
        if let Some(discarded) = self.discarded.take() {
            return Some(Batch::TooLong { size: discarded + bytes.len(), limit: self.limit });
        }
        match self.framing {
            _ if bytes.is_empty() => None,
            Framing::Whole => Some(Batch::Whole(bytes)),
            _ => Some(Batch::Lines(bytes)),
        }
    }

    /// Detects whether each line is a document; `None` until the first line is complete.
    fn detect_framing(&mut self) -> Option<Framing> {
        let text = self.pending.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&*self.pending);
        let begin = self.pending.len() - text.trim_ascii_start().len();
        let unsearched = self.searched.max(begin);
        let end = memchr(b'\n', self.pending.get(unsearched..).unwrap_or_default());
        if end.is_none() && !self.ended {
            self.searched = self.pending.len();
            // A document with several lines would have a line end earlier.
            return (self.pending.len() >= LARGE).then_some(Framing::Lines);
        }
        self.searched = 0;
        let end = end.map_or(self.pending.len(), |end| unsearched + end);
        let line = self.pending.get(begin..end).unwrap_or_default();
        let whole = line.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        Some(if whole { Framing::Lines } else { Framing::Whole })
    }
}

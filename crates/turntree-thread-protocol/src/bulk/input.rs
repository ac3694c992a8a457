//! Where documents come from: files, compressed or not, cut into batches of whole lines.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memrchr};

use super::error::BulkError;
use super::input_buffer::{InputBuffer, LARGE};

/// How much is asked of a source at once.
const READ: usize = 256 * 1024;

/// Batches are handed over when they are at least this large.
const BATCH: usize = 256 * 1024;

/// Where one document of a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// At the end of its line.
    #[default]
    Lines,
    /// At the end of the file.
    Whole,
    /// By lines if the first one is a whole JSON value, else at the end of the file.
    Auto,
}

/// Opens a file; gzip (RFC 1952) is recognised by its first bytes and taken away.
///
/// # Errors
/// [`BulkError::Io`], naming the file; also for zstandard, which is for the caller to take away.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>, BulkError> {
    let name = path.display().to_string();
    let failed = |error| BulkError::io(name.clone(), error);
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        let message = "is a directory; name a file in it";
        return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, message)));
    }
    let mut first = Vec::new();
    file.by_ref().take(4).read_to_end(&mut first).map_err(failed)?;
    let whole = Cursor::new(first.clone()).chain(file);
    if first.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(Gunzip(MultiGzDecoder::new(BufReader::with_capacity(READ, whole)))));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let message = "is compressed with zstandard; decompress it, or give it a name that ends in .zst";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    Ok(Box::new(whole))
}

/// How many bytes a file holds, compressed or not; 0 where that cannot be told. Whoever reads it says what is wrong.
pub fn size_of_file(path: &Path) -> usize {
    path.metadata().map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX))
}

/// Says what is wrong with compressed data in words.
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

/// What a worker gets.
#[derive(Debug)]
pub(super) enum Batch {
    /// Whole lines; the last one may have no line end.
    Lines(InputBuffer),
    /// One document.
    Whole(InputBuffer),
    /// A line over the limit, of which nothing is kept.
    TooLong { found: usize, limit: usize },
}

impl Batch {
    /// How many bytes it holds.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lines(bytes) | Self::Whole(bytes) => bytes.len(),
            Self::TooLong { .. } => 0,
        }
    }

    /// The documents in it; no blank lines.
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

/// Cuts a source into batches.
pub(super) struct Batches<'s> {
    source: &'s mut dyn Read,
    framing: Framing,
    /// Most bytes of one document.
    limit: usize,
    /// How many bytes the source is likely to have left.
    left: usize,
    /// What was read and not handed over.
    pending: InputBuffer,
    /// Up to where `pending` is known to have no line end.
    searched: usize,
    /// Bytes of a document over the limit that were discarded away so far.
    discarded: Option<usize>,
    ended: bool,
}

impl<'s> Batches<'s> {
    /// `size` is what the source is likely to hold, 0 where nobody knows.
    pub(super) fn new(source: &'s mut dyn Read, framing: Framing, limit: usize, size: usize) -> Self {
        let (left, pending) = (size, InputBuffer::default());
        Self { source, framing, limit, left, pending, searched: 0, discarded: None, ended: false }
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// Those of the source. [`io::ErrorKind::Interrupted`] loses nothing: call again.
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
        let found = self.pending.read(self.source, READ, self.left.min(most))?;
        self.left = self.left.saturating_sub(found);
        self.ended = found == 0;
        Ok(())
    }

    /// A batch, if enough was read for one.
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
            // The first end is where a large document ends; otherwise as many lines as there are.
            _ if self.discarded.is_some() || self.searched >= LARGE => memchr(b'\n', unsearched),
            _ => memrchr(b'\n', unsearched),
        };
        let end = match line_end {
            Some(found) => self.searched + found + 1,
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

    /// Keeps nothing of a document that is over the limit.
    fn discard_oversized(&mut self) {
        let found = self.pending.len();
        if let Some(discarded) = &mut self.discarded {
            *discarded += found;
        } else if found > self.limit {
            self.discarded = Some(found);
        } else {
            return;
        }
        self.pending = InputBuffer::default();
        self.searched = 0;
    }

    /// `pending` up to a place.
    fn hand_over(&mut self, end: usize) -> Option<Batch> {
        let rest = self.pending.split_off(end);
        let bytes = std::mem::replace(&mut self.pending, rest);
        if let Some(discarded) = self.discarded.take() {
            return Some(Batch::TooLong { found: discarded + bytes.len(), limit: self.limit });
        }
        match self.framing {
            _ if bytes.is_empty() => None,
            Framing::Whole => Some(Batch::Whole(bytes)),
            _ => Some(Batch::Lines(bytes)),
        }
    }

    /// Whether documents are lines; `None` until a line was read.
    fn detect_framing(&mut self) -> Option<Framing> {
        let text = self.pending.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&*self.pending);
        let begin = self.pending.len() - text.trim_ascii_start().len();
        let unsearched = self.searched.max(begin);
        let end = memchr(b'\n', self.pending.get(unsearched..).unwrap_or_default());
        if end.is_none() && !self.ended {
            self.searched = self.pending.len();
            // A document with line ends in it has one sooner.
            return (self.pending.len() >= LARGE).then_some(Framing::Lines);
        }
        self.searched = 0;
        let end = end.map_or(self.pending.len(), |end| unsearched + end);
        let line = self.pending.get(begin..end).unwrap_or_default();
        let whole = line.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        Some(if whole { Framing::Lines } else { Framing::Whole })
    }
}

//! Where documents come from: files, compressed or not, cut into batches of whole lines.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memrchr};

use super::error::BulkError;

/// How much is asked of a source at once.
const READ: usize = 256 * 1024;

/// Batches are handed over when they are at least this large.
const BATCH: usize = 256 * 1024;

/// Longer documents are put together from parts of this size.
const PART: usize = 4 << 20;

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
    Lines(Text),
    /// One document.
    Whole(Text),
    /// A line over the limit, of which nothing is kept.
    TooLong { found: usize, limit: usize },
}

impl Batch {
    /// How many bytes it holds.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lines(text) | Self::Whole(text) => text.len(),
            Self::TooLong { .. } => 0,
        }
    }

    /// The documents in it; no blank lines. Of a large one the beginning.
    pub(super) fn beginnings(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, whole) = match self {
            Self::Lines(text) => (text.beginning(), false),
            Self::Whole(text) => (text.beginning(), true),
            Self::TooLong { .. } => (&[][..], true),
        };
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let lines = bytes.split(move |byte| *byte == b'\n' && !whole);
        lines.filter(|line| !line.trim_ascii().is_empty())
    }
}

/// Bytes in the parts in which they were read: who reads them puts them together, and lets go of them where they are.
#[derive(Debug, Default)]
pub(super) struct Text(Vec<Vec<u8>>);

impl Text {
    /// How many bytes.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn beginning(&self) -> &[u8] {
        self.0.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// All of them in one place.
    pub(super) fn joined(mut self) -> Vec<u8> {
        if self.0.len() <= 1 {
            return self.0.pop().unwrap_or_default();
        }
        let mut bytes = Vec::with_capacity(self.len());
        // Each part is let go of when it was copied.
        for part in self.0 {
            bytes.extend_from_slice(&part);
        }
        bytes
    }
}

/// Cuts a source into batches.
pub(super) struct Batches<'s> {
    source: &'s mut dyn Read,
    framing: Framing,
    /// Most bytes of one document.
    limit: usize,
    /// The beginning of a large document. Kept apart from `pending`, whose growth would copy it again and again.
    parts: Vec<Vec<u8>>,
    /// What was read and not handed over.
    pending: Vec<u8>,
    /// Up to where `pending` is known to have no line end.
    searched: usize,
    /// Bytes of a document over the limit that were thrown away so far.
    thrown: Option<usize>,
    ended: bool,
}

impl<'s> Batches<'s> {
    pub(super) fn new(source: &'s mut dyn Read, framing: Framing, limit: usize) -> Self {
        let (parts, pending) = (Vec::new(), Vec::new());
        Self { source, framing, limit, parts, pending, searched: 0, thrown: None, ended: false }
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
        let held = self.pending.len();
        // What goes on after a batch is likely to be large: room for a part of it at once, and not for more.
        let room = if held < BATCH { held + READ } else { PART + READ };
        self.pending.reserve_exact(room.saturating_sub(held));
        self.pending.resize(held + READ, 0);
        let read = self.source.read(self.pending.get_mut(held..).unwrap_or_default());
        self.pending.truncate(held + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        Ok(())
    }

    /// A batch, if enough was read for one.
    fn ready(&mut self) -> Option<Batch> {
        if self.framing == Framing::Auto {
            self.framing = self.told()?;
        }
        if !self.ended && self.pending.len() < BATCH {
            return None;
        }
        let unsearched = self.pending.get(self.searched..).unwrap_or_default();
        let line_end = match self.framing {
            Framing::Whole => None,
            // The first end is where a large document ends; otherwise as many lines as there are.
            _ if self.thrown.is_some() || !self.parts.is_empty() => memchr(b'\n', unsearched),
            _ => memrchr(b'\n', unsearched),
        };
        let end = match line_end {
            Some(found) => self.searched + found + 1,
            None if self.ended => self.pending.len(),
            None => {
                self.searched = self.pending.len();
                self.put_aside();
                return None;
            }
        };
        self.searched = 0;
        self.hand_over(end)
    }

    /// Keeps a part of a large document apart, or throws it away where the document is over the limit.
    fn put_aside(&mut self) {
        if self.pending.len() < PART {
            return;
        }
        let part = std::mem::take(&mut self.pending);
        self.searched = 0;
        let found = self.parts.iter().map(Vec::len).sum::<usize>() + part.len();
        if let Some(thrown) = &mut self.thrown {
            *thrown += part.len();
        } else if found > self.limit {
            self.parts.clear();
            self.thrown = Some(found);
        } else {
            self.parts.push(part);
        }
    }

    /// What was put aside, and `pending` up to a place.
    fn hand_over(&mut self, end: usize) -> Option<Batch> {
        let rest = self.pending.get(end..).unwrap_or_default().to_vec();
        self.pending.truncate(end);
        let last = std::mem::replace(&mut self.pending, rest);
        if let Some(thrown) = self.thrown.take() {
            return Some(Batch::TooLong { found: thrown + last.len(), limit: self.limit });
        }
        let mut text = Text(std::mem::take(&mut self.parts));
        text.0.push(last);
        match self.framing {
            _ if text.len() == 0 => None,
            Framing::Whole => Some(Batch::Whole(text)),
            _ => Some(Batch::Lines(text)),
        }
    }

    /// Whether documents are lines; `None` until a line was read.
    fn told(&mut self) -> Option<Framing> {
        let text = self.pending.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.pending);
        let begin = self.pending.len() - text.trim_ascii_start().len();
        let unsearched = self.searched.max(begin);
        let end = memchr(b'\n', self.pending.get(unsearched..).unwrap_or_default());
        if end.is_none() && !self.ended {
            self.searched = self.pending.len();
            // A document with line ends in it has one sooner.
            return (self.pending.len() >= PART).then_some(Framing::Lines);
        }
        self.searched = 0;
        let end = end.map_or(self.pending.len(), |end| unsearched + end);
        let line = self.pending.get(begin..end).unwrap_or_default();
        let whole = line.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        Some(if whole { Framing::Lines } else { Framing::Whole })
    }
}

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
    Lines(Vec<u8>),
    /// One document.
    Whole(Vec<u8>),
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

    /// The first document in it.
    pub(super) fn first(&self) -> &[u8] {
        match self {
            Self::Lines(bytes) => bytes
                .split(|byte| *byte == b'\n')
                .find(|line| !line.trim_ascii().is_empty())
                .unwrap_or_default(),
            Self::Whole(bytes) => bytes,
            Self::TooLong { .. } => &[],
        }
    }
}

/// Cuts a source into batches.
pub(super) struct Batches<'s> {
    source: &'s mut dyn Read,
    framing: Framing,
    /// Most bytes of one document.
    limit: usize,
    /// What was read and not handed over.
    pending: Vec<u8>,
    /// Up to where `pending` is known to have no line end.
    searched: usize,
    /// Bytes of a line over the limit that were thrown away so far.
    thrown: Option<usize>,
    ended: bool,
}

impl<'s> Batches<'s> {
    pub(super) fn new(source: &'s mut dyn Read, framing: Framing, limit: usize) -> Self {
        Self { source, framing, limit, pending: Vec::new(), searched: 0, thrown: None, ended: false }
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
        let more = READ.max(held / 4);
        if self.pending.capacity() - held < READ {
            // By a quarter, not to twice its size: what is copied from and what is copied to exist side by side.
            self.pending.reserve_exact(more);
        }
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
        if self.thrown.is_some() || self.pending.len() > self.limit {
            if let Some(batch) = self.over_limit() {
                return Some(batch);
            }
            if self.thrown.is_some() {
                return None;
            }
        }
        if self.pending.is_empty() || (!self.ended && self.pending.len() < BATCH) {
            return None;
        }
        if self.ended {
            let rest = std::mem::take(&mut self.pending);
            self.searched = 0;
            return Some(if self.framing == Framing::Whole {
                Batch::Whole(rest)
            } else {
                Batch::Lines(rest)
            });
        }
        if self.framing == Framing::Whole {
            return None;
        }
        let unsearched = self.pending.get(self.searched..).unwrap_or_default();
        let Some(end) = memrchr(b'\n', unsearched).map(|found| self.searched + found + 1) else {
            self.searched = self.pending.len();
            return None;
        };
        let rest = self.pending.get(end..).unwrap_or_default().to_vec();
        self.pending.truncate(end);
        self.searched = 0;
        Some(Batch::Lines(std::mem::replace(&mut self.pending, rest)))
    }

    /// Throws a line away that is over the limit, piece by piece, so that it needs no memory.
    fn over_limit(&mut self) -> Option<Batch> {
        let line_end = if self.framing == Framing::Whole { None } else { memchr(b'\n', &self.pending) };
        if self.thrown.is_none() && line_end.is_some_and(|end| end <= self.limit) {
            return None;
        }
        let gone = line_end.unwrap_or(self.pending.len());
        let found = self.thrown.unwrap_or(0) + gone;
        let keep = line_end.map_or(self.pending.len(), |end| end + 1);
        self.pending = self.pending.get(keep..).unwrap_or_default().to_vec();
        self.searched = 0;
        if line_end.is_some() || self.ended {
            self.thrown = None;
            return Some(Batch::TooLong { found, limit: self.limit });
        }
        self.thrown = Some(found);
        None
    }

    /// Whether documents are lines; `None` until a line was read.
    fn told(&mut self) -> Option<Framing> {
        let text = self.pending.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.pending);
        let begin = self.pending.len() - text.trim_ascii_start().len();
        let unsearched = self.searched.max(begin);
        let end = memchr(b'\n', self.pending.get(unsearched..).unwrap_or_default());
        if end.is_none() && !self.ended {
            self.searched = self.pending.len();
            return (self.pending.len() > self.limit).then_some(Framing::Lines);
        }
        self.searched = 0;
        let end = end.map_or(self.pending.len(), |end| unsearched + end);
        let line = self.pending.get(begin..end).unwrap_or_default();
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        Some(if whole { Framing::Lines } else { Framing::Whole })
    }
}

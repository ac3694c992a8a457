//! Conversion of one document or of one batch, on a worker thread.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memchr;

use super::chunked_bytes::ChunkedBytes;
use super::error::{DocumentIssue, unknown_format};
use super::format::{Format, Settings, json_error};
use super::input::Batch;
use super::input_buffer::InputBuffer;
use crate::{Severity, Thread, ThreadError};
use turntree_core::limits::LimitError;

/// The byte order mark, U+FEFF in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The task of a bulk conversion.
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// Write each document in a format.
    Convert(&'static Format),
    /// Validate each document and write nothing.
    Validate,
}

/// Converts documents. All workers share it.
#[derive(Debug)]
pub struct Converter {
    /// The input format; `None` detects it for each document.
    pub from: Option<&'static Format>,
    /// The task.
    pub task: Task,
    /// The options of each conversion.
    pub settings: Settings,
    /// Whether to compress the output.
    pub gzip: bool,
    /// Whether to store the text of documents that fail.
    pub keeps_text: bool,
}

/// A document that failed.
#[derive(Debug)]
pub(super) struct FailedDocument {
    /// The line in the batch, from 1.
    pub(super) line: u64,
    /// One error, or every issue of a validation.
    pub(super) errors: Vec<DocumentIssue>,
    /// The input, if it is stored.
    pub(super) text: Vec<u8>,
}

/// A part of the output, in order.
#[derive(Debug)]
pub(super) enum BatchItem {
    Written(ChunkedBytes),
    Failed(FailedDocument),
}

/// A converted batch.
#[derive(Debug, Default)]
pub(super) struct ConvertedBatch {
    pub(super) pieces: Vec<BatchItem>,
    /// The number of lines, including blank ones.
    pub(super) lines: u64,
    /// The number of converted documents.
    pub(super) documents: u64,
    /// The number of bytes read.
    pub(super) bytes_in: u64,
    /// The number of bytes written, before compression.
    pub(super) bytes_out: u64,
}

impl Converter {
    /// Converts one document and appends it to `out`. `whole` is true if the document is a file of its own.
    ///
    /// # Errors
    /// One error, or every issue of a validation. Nothing is appended then.
    pub(super) fn document(
        &self,
        document: &[u8],
        whole: bool,
        out: &mut ChunkedBytes,
    ) -> Result<(), Vec<DocumentIssue>> {
        let thread = self.read(document)?;
        self.write(thread, whole, out)
    }

    /// As [`Self::document`], for a file of its own. The input is freed before the output is written, so that they are
    /// never both in memory.
    pub(super) fn owned(
        &self,
        document: InputBuffer,
        out: &mut ChunkedBytes,
    ) -> Result<(), Vec<DocumentIssue>> {
        let text = document.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&document);
        if text.trim_ascii().is_empty() {
            return Err(vec![empty()]);
        }
        let thread = self.read(text)?;
        drop(document);
        self.write(thread, true, out)
    }

    fn read(&self, document: &[u8]) -> Result<Thread, Vec<DocumentIssue>> {
        let format = self.from.or_else(|| self.settings.detect(document)).and_then(|format| format.read);
        let Some(read) = format else {
            let message = unknown_format(json_error(document).as_ref(), &self.settings.readable());
            return Err(vec![DocumentIssue::of_rule("format", String::new(), message)]);
        };
        catch_panic(|| read(document, &self.settings))
    }

    fn write(&self, thread: Thread, whole: bool, out: &mut ChunkedBytes) -> Result<(), Vec<DocumentIssue>> {
        match self.task {
            Task::Convert(format) => {
                let Some(write) = format.write_whole.filter(|_| whole).or(format.write) else {
                    let message = format!("\"{}\" can only be read, not written", format.name);
                    return Err(vec![DocumentIssue::of_rule("format", String::new(), message)]);
                };
                let mark = out.mark();
                let written = catch_panic(|| write(thread, &self.settings, out));
                if written.is_err() {
                    out.truncate_to(mark);
                }
                written
            }
            Task::Validate => {
                let issues = thread.validate();
                if issues.is_empty() {
                    return Ok(());
                }
                Err(issues.into_iter().map(DocumentIssue::of_issue).collect())
            }
        }
    }

    /// Converts a batch, line by line.
    pub(super) fn batch(&self, batch: Batch, stopped: &AtomicBool) -> ConvertedBatch {
        let mut run = BatchRun {
            converter: self,
            whole: false,
            done: ConvertedBatch::default(),
            out: ChunkedBytes::default(),
        };
        match batch {
            Batch::Lines(mut bytes) => {
                run.done.bytes_in = bytes.len() as u64;
                let mut start = 0;
                while start < bytes.len() && !stopped.load(Ordering::Relaxed) {
                    let rest = bytes.get(start..).unwrap_or_default();
                    let length = memchr(b'\n', rest).unwrap_or(rest.len());
                    run.done.lines += 1;
                    let last = start + length + 1 >= bytes.len();
                    run.one(&mut bytes, start, length, last);
                    start += length + 1;
                }
            }
            Batch::Whole(mut bytes) => {
                run.done.bytes_in = bytes.len() as u64;
                let length = bytes.len();
                if bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes).trim_ascii().is_empty() {
                    run.fail(vec![empty()], Vec::new());
                }
                run.whole = true;
                run.one(&mut bytes, 0, length, true);
            }
            Batch::TooLong { size, limit } => {
                run.done.lines = 1;
                run.done.bytes_in = size as u64;
                run.fail(vec![too_long(size, limit)], Vec::new());
            }
        }
        run.finish()
    }
}

/// The issue of a document over the size limit.
pub(super) fn too_long(size: usize, limit: usize) -> DocumentIssue {
    let message = LimitError::Bytes { found: size, limit }.to_string();
    DocumentIssue::of_rule("limit_exceeded", String::new(), message)
}

/// The issue of an empty file.
fn empty() -> DocumentIssue {
    let message = "the file is empty; it must contain one document";
    DocumentIssue::of_rule("json_truncated", String::new(), message.to_owned())
}

/// Converts a panic into an issue of the document, so that the calling thread does not wait forever.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, ThreadError>) -> Result<T, Vec<DocumentIssue>> {
    let Ok(result) = catch_unwind(AssertUnwindSafe(work)) else {
        let message = "turntree failed on this document, which is a bug; please report it with the document";
        return Err(vec![DocumentIssue::of_rule("internal", String::new(), message.to_owned())]);
    };
    result.map_err(|error| match error {
        ThreadError::Invalid { issues } => issues.into_iter().map(DocumentIssue::of_issue).collect(),
        error => vec![DocumentIssue::of_thread_error(&error)],
    })
}

struct BatchRun<'a> {
    converter: &'a Converter,
    /// True if a document is a file of its own.
    whole: bool,
    done: ConvertedBatch,
    out: ChunkedBytes,
}

impl BatchRun<'_> {
    /// Converts the document at `start..start + length`. Frees `bytes` before it writes the last document.
    fn one(&mut self, bytes: &mut InputBuffer, start: usize, length: usize, last: bool) {
        let line = bytes.get(start..start + length).unwrap_or_default();
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        if line.trim_ascii().is_empty() {
            return;
        }
        let original = |line: &[u8]| if self.converter.keeps_text { line.to_vec() } else { Vec::new() };
        let thread = match self.converter.read(line) {
            Ok(thread) => thread,
            Err(errors) => {
                let text = original(line);
                return self.fail(errors, text);
            }
        };
        if last && !self.converter.keeps_text {
            drop(std::mem::take(bytes));
        }
        match self.converter.write(thread, self.whole, &mut self.out) {
            Ok(()) => {
                self.done.documents += 1;
                if matches!(self.converter.task, Task::Convert(_)) {
                    let _infallible = self.out.write_all(b"\n");
                }
            }
            Err(errors) => {
                // A document with warnings only does not fail.
                let bad = errors.iter().any(|error| error.severity == Severity::Error.name());
                self.done.documents += u64::from(!bad);
                let text = original(bytes.get(start..start + length).unwrap_or_default());
                self.fail(errors, text);
            }
        }
    }

    fn fail(&mut self, errors: Vec<DocumentIssue>, text: Vec<u8>) {
        self.settle();
        self.done.pieces.push(BatchItem::Failed(FailedDocument { line: self.done.lines, errors, text }));
    }

    /// Adds the output since the last call as an item.
    fn settle(&mut self) {
        let written = std::mem::take(&mut self.out);
        if written.is_empty() {
            return;
        }
        self.done.bytes_out += written.len() as u64;
        let piece = if self.converter.gzip { compressed(written) } else { written };
        self.done.pieces.push(BatchItem::Written(piece));
    }

    fn finish(mut self) -> ConvertedBatch {
        self.settle();
        self.done
    }
}

/// Compresses bytes as one gzip member; consecutive members form one file. Spec: RFC 1952 §2.2.
pub(super) fn compressed(bytes: ChunkedBytes) -> ChunkedBytes {
    let mut encoder = GzEncoder::new(ChunkedBytes::default(), Compression::default());
    // Each chunk is freed after compression. Writing to memory cannot fail.
    for piece in bytes.into_pieces() {
        let _infallible = encoder.write_all(&piece);
    }
    encoder.finish().unwrap_or_default()
}

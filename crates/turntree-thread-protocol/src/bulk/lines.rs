//! Conversion of one file with many documents.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Instant;

use super::chunked_bytes::ChunkedBytes;
use super::converter::{BatchItem, ConvertedBatch, Converter, FailedDocument, compressed};
use super::engine::{Coordinator, run};
use super::error::{BulkError, DocumentIssue, Report};
use super::format::json_error;
use super::input::{Batch, Batches, Framing};
use super::input_buffer::InputBuffer;
use super::observer::{Observer, OnFailure};
use super::options::Options;
use super::output::OutputFile;

/// Converts every document of a source and writes the results in the order of the source, one per line.
///
/// Blank lines are skipped. Memory is bounded by the largest document and the number of threads.
///
/// # Errors
/// [`BulkError::Document`] if the observer stops at a failed document; [`BulkError::Io`]; [`BulkError::Format`] if the
/// format must be detected and cannot be; [`BulkError::Stopped`] with the observer's error. Output before the error
/// remains written.
pub fn lines(
    source: &mut dyn Read,
    sink: &mut dyn Write,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, BulkError> {
    let began = Instant::now();
    let limit = options.settings.limits().bytes;
    let mut coordinator = LineCoordinator {
        batches: Batches::new(source, options.framing, limit, options.size),
        first: None,
        writer: ResultWriter { options, sink, observer, report: Report::default(), lines: 0, began },
    };
    let mut first = coordinator.next()?;
    if first.is_none() && options.framing == Framing::Whole {
        // A file with one document must not be empty.
        first = Some((Batch::Whole(InputBuffer::default()), 0));
    }
    let mut converter = Converter {
        from: options.from,
        task: options.task,
        settings: options.settings.clone(),
        gzip: options.gzip,
        keeps_text: options.keeps_text,
    };
    if let (None, Some((batch, _))) = (converter.from, &first) {
        converter.from = batch.documents().find_map(|document| converter.settings.detect(document));
        if let (None, Some(document)) = (converter.from, batch.documents().next()) {
            let (name, reason) = (coordinator.writer.name(), json_error(document));
            return Err(BulkError::Format { name, reason, known: converter.settings.readable() });
        }
    }
    // One document needs one thread.
    let alone = matches!(first, Some((Batch::Whole(_), _)));
    coordinator.first = first;
    run(&mut coordinator, if alone { 1 } else { options.threads() }, |batch, stopped| {
        converter.batch(batch, stopped)
    })?;
    coordinator.writer.finish()
}

/// As [`lines`], into a file that appears under its name when it is complete; [`Options::durable`] applies.
///
/// # Errors
/// As [`lines`]; [`BulkError::Exists`] without `overwrite`.
pub fn lines_to_file(
    source: &mut dyn Read,
    path: &Path,
    overwrite: bool,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, BulkError> {
    let mut file = OutputFile::create(path, overwrite)?;
    if options.durable {
        file.sync_behind();
    }
    let options = Options { output: Some(path.display().to_string()), ..options.clone() };
    let report = lines(source, &mut file, &options, observer)?;
    file.finish_with_name(options.durable)?;
    Ok(report)
}

struct LineCoordinator<'a> {
    batches: Batches<'a>,
    /// The batch that was read to detect the format.
    first: Option<(Batch, usize)>,
    writer: ResultWriter<'a>,
}

impl Coordinator for LineCoordinator<'_> {
    type Job = Batch;
    type Done = ConvertedBatch;

    fn next(&mut self) -> Result<Option<(Batch, usize)>, BulkError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            match self.batches.next() {
                Ok(batch) => {
                    return Ok(batch.map(|batch| {
                        let size = batch.len();
                        (batch, size)
                    }));
                }
                // A signal arrived: let the observer handle it.
                Err(error) if error.kind() == ErrorKind::Interrupted => self.writer.tick()?,
                Err(error) => return Err(BulkError::io(self.writer.name(), error)),
            }
        }
    }

    fn take(&mut self, done: ConvertedBatch) -> Result<(), BulkError> {
        self.writer.take(done)
    }

    fn tick(&mut self) -> Result<(), BulkError> {
        self.writer.tick()
    }
}

/// Writes results and updates the report.
struct ResultWriter<'a> {
    options: &'a Options,
    sink: &'a mut dyn Write,
    observer: &'a mut dyn Observer,
    report: Report,
    lines: u64,
    began: Instant,
}

impl ResultWriter<'_> {
    fn name(&self) -> String {
        self.options.name.clone().unwrap_or_else(|| "the input".to_owned())
    }

    fn tick(&mut self) -> Result<(), BulkError> {
        self.report.seconds = self.began.elapsed().as_secs_f64();
        self.observer.tick(&self.report).map_err(BulkError::Stopped)
    }

    fn take(&mut self, done: ConvertedBatch) -> Result<(), BulkError> {
        self.report.bytes_in += done.bytes_in;
        self.report.bytes_out += done.bytes_out;
        self.report.documents += done.documents;
        for piece in done.pieces {
            match piece {
                BatchItem::Written(chunks) => self.write(chunks)?,
                BatchItem::Failed(failure) => self.failed(failure)?,
            }
        }
        self.lines += done.lines;
        Ok(())
    }

    fn write(&mut self, chunks: ChunkedBytes) -> Result<(), BulkError> {
        // Each chunk is freed after writing.
        for piece in chunks.into_pieces() {
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                match self.sink.write(rest) {
                    Ok(0) => return Err(unwritten(self.options, ErrorKind::WriteZero.into())),
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    // A signal arrived: let the observer handle it.
                    Err(error) if error.kind() == ErrorKind::Interrupted => self.tick()?,
                    Err(error) => return Err(unwritten(self.options, error)),
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, failure: FailedDocument) -> Result<(), BulkError> {
        let line = (failure.line > 0).then_some(self.lines + failure.line);
        let bad = failure.errors.iter().any(|error| error.severity == "error");
        self.report.failed += u64::from(bad);
        for error in failure.errors {
            let error = DocumentIssue { path: self.options.name.clone(), line, ..error };
            self.report.list(&error);
            match self.observer.failed(&error, &failure.text).map_err(BulkError::Stopped)? {
                OnFailure::Stop => return Err(BulkError::Document(Box::new(error))),
                OnFailure::Skip => {}
                OnFailure::Replace(bytes) => {
                    let mut chunks = ChunkedBytes::default();
                    self.report.bytes_out += bytes.len() as u64 + 1;
                    chunks.push(bytes);
                    chunks.push(b"\n".to_vec());
                    self.write(if self.options.gzip { compressed(chunks) } else { chunks })?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report, BulkError> {
        self.tick()?;
        self.sink.flush().map_err(|error| unwritten(self.options, error))?;
        Ok(self.report)
    }
}

fn unwritten(options: &Options, error: std::io::Error) -> BulkError {
    BulkError::io(options.output.as_deref().unwrap_or("the output"), error)
}

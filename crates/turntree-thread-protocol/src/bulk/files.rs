//! Conversion of many files with one document each.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::Instant;

use super::chunked_bytes::ChunkedBytes;
use super::converter::{Converter, Task, compressed, too_long};
use super::engine::{Coordinator, run};
use super::error::{BulkError, DocumentIssue, Report};
use super::input::{Batch, Batches, Framing, open, size_of_file};
use super::input_buffer::InputBuffer;
use super::observer::{Observer, OnFailure};
use super::options::Options;
use super::output::{OutputFile, sync_directory};

/// An input file and its output file.
#[derive(Debug, Clone)]
pub struct FilePair {
    /// The input file.
    pub source: PathBuf,
    /// The output file. Missing directories are created. Ignored by validation.
    pub target: PathBuf,
    /// Whether to replace an existing file.
    pub overwrite: bool,
    /// Whether to compress the output with gzip.
    pub gzip: bool,
}

/// Converts every input file to its output file. A file that cannot be read or written counts as a failed document.
///
/// # Errors
/// [`BulkError::Document`] if the observer stops at a failed document; [`BulkError::Stopped`] with the observer's
/// error. Files that were written before remain, and each of them is complete.
pub fn files(
    pairs: &[FilePair],
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, BulkError> {
    let converter = Converter {
        from: options.from,
        task: options.task,
        settings: options.settings.clone(),
        gzip: false,
        keeps_text: false,
    };
    let mut coordinator =
        FileCoordinator { pairs: pairs.iter(), observer, report: Report::default(), began: Instant::now() };
    let threads = options.threads().min(pairs.len());
    run(&mut coordinator, threads, |pair: &FilePair, _stopped| {
        convert_file(pair, &converter, options.durable)
    })?;
    coordinator.tick()?;
    if options.durable && matches!(options.task, Task::Convert(_)) {
        let written = pairs.iter().filter(|pair| pair.target.exists());
        // One sync per directory.
        let places: BTreeMap<_, _> = written.map(|pair| (pair.target.parent(), &pair.target)).collect();
        places.values().try_for_each(|target| sync_directory(target))?;
    }
    Ok(coordinator.report)
}

struct FileCoordinator<'a> {
    pairs: std::slice::Iter<'a, FilePair>,
    observer: &'a mut dyn Observer,
    report: Report,
    began: Instant,
}

/// A converted file.
#[derive(Default)]
struct ConvertedFile {
    bytes_in: u64,
    bytes_out: u64,
    errors: Vec<DocumentIssue>,
}

impl<'a> Coordinator for FileCoordinator<'a> {
    type Job = &'a FilePair;
    type Done = ConvertedFile;

    fn next(&mut self) -> Result<Option<(&'a FilePair, usize)>, BulkError> {
        Ok(self.pairs.next().map(|pair| (pair, size_of_file(&pair.source))))
    }

    fn take(&mut self, done: ConvertedFile) -> Result<(), BulkError> {
        self.report.bytes_in += done.bytes_in;
        self.report.bytes_out += done.bytes_out;
        let bad = done.errors.iter().any(|error| error.severity == "error");
        let count = if bad { &mut self.report.failed } else { &mut self.report.documents };
        *count += 1;
        for error in done.errors {
            self.report.list(&error);
            if self.observer.failed(&error, &[]).map_err(BulkError::Stopped)? == OnFailure::Stop {
                return Err(BulkError::Document(Box::new(error)));
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), BulkError> {
        self.report.seconds = self.began.elapsed().as_secs_f64();
        self.observer.tick(&self.report).map_err(BulkError::Stopped)
    }
}

fn convert_file(pair: &FilePair, converter: &Converter, durable: bool) -> ConvertedFile {
    let mut done = ConvertedFile::default();
    if let Err(errors) = convert(pair, converter, durable, &mut done) {
        let path = pair.source.display().to_string();
        done.errors = errors;
        for error in &mut done.errors {
            error.path = Some(path.clone());
        }
    }
    done
}

fn convert(
    pair: &FilePair,
    converter: &Converter,
    durable: bool,
    done: &mut ConvertedFile,
) -> Result<(), Vec<DocumentIssue>> {
    let source = &pair.source;
    let limit = converter.settings.limits().bytes;
    let mut file = open(source).map_err(|error| source_error(&error))?;
    let mut batches = Batches::new(&mut *file, Framing::Whole, limit, size_of_file(source));
    let batch = loop {
        match batches.next() {
            // Signals are handled on the calling thread.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    let batch = batch.map_err(|error| source_error(&BulkError::io("", error)))?;
    done.bytes_in = batch.as_ref().map_or(0, Batch::len) as u64;
    let mut out = ChunkedBytes::default();
    match batch {
        Some(Batch::TooLong { size, limit }) => return Err(vec![too_long(size, limit)]),
        Some(Batch::Lines(text) | Batch::Whole(text)) => converter.owned(text, &mut out)?,
        None => converter.owned(InputBuffer::default(), &mut out)?,
    }
    if matches!(converter.task, Task::Validate) {
        return Ok(());
    }
    out.push(b"\n".to_vec());
    done.bytes_out = out.len() as u64;
    write(pair, if pair.gzip { compressed(out) } else { out }, durable)
}

fn write(pair: &FilePair, out: ChunkedBytes, durable: bool) -> Result<(), Vec<DocumentIssue>> {
    let failed = |error| target_error(&BulkError::io(pair.target.display().to_string(), error));
    if let Some(parent) = pair.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut target =
        OutputFile::create(&pair.target, pair.overwrite).map_err(|error| target_error(&error))?;
    out.into_pieces().try_for_each(|piece| target.write_all(&piece)).map_err(failed)?;
    target.finish(durable).map_err(|error| target_error(&error))
}

fn source_error(error: &BulkError) -> Vec<DocumentIssue> {
    let message = match error {
        // The issue has the path already.
        BulkError::Io { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    vec![DocumentIssue::of_rule(error.rule(), String::new(), message)]
}

fn target_error(error: &BulkError) -> Vec<DocumentIssue> {
    vec![DocumentIssue::of_rule(error.rule(), String::new(), error.to_string())]
}

//! Many files of one document each.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::chunks::Chunks;
use super::converter::{Converter, Task, compressed};
use super::engine::{Lead, run};
use super::error::{BulkError, DocumentIssue, Report};
use super::input::open;
use super::output::OutputFile;
use super::{Observer, Options, Verdict};

/// A file and what becomes of it.
#[derive(Debug, Clone)]
pub struct FilePair {
    /// The file to read.
    pub source: PathBuf,
    /// The file to write; its directory is made. Not looked at where the task is to validate.
    pub target: PathBuf,
    /// Whether what is there may be replaced.
    pub overwrite: bool,
    /// Whether to write gzip.
    pub gzip: bool,
}

/// Converts every file into another one. A file that cannot be read or written is a document that failed.
///
/// # Errors
/// [`BulkError::Document`] where the observer says to stop; [`BulkError::Stopped`] with what it returned. Files that were
/// written by then stay, and each of them is whole.
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
    let mut lead = Files { pairs: pairs.iter(), observer, report: Report::default(), began: Instant::now() };
    let threads = options.threads().min(pairs.len());
    run(&mut lead, threads, |pair: &FilePair, _stopped| one(pair, &converter))?;
    lead.tick()?;
    Ok(lead.report)
}

struct Files<'a> {
    pairs: std::slice::Iter<'a, FilePair>,
    observer: &'a mut dyn Observer,
    report: Report,
    began: Instant,
}

/// What became of a file.
#[derive(Default)]
struct Done {
    bytes_in: u64,
    bytes_out: u64,
    errors: Vec<DocumentIssue>,
}

impl<'a> Lead for Files<'a> {
    type Job = &'a FilePair;
    type Done = Done;

    fn next(&mut self) -> Result<Option<(&'a FilePair, usize)>, BulkError> {
        // A file that is not there has no size; its worker will say so.
        let size = |path: &Path| {
            path.metadata().map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX))
        };
        Ok(self.pairs.next().map(|pair| (pair, size(&pair.source))))
    }

    fn take(&mut self, done: Done) -> Result<(), BulkError> {
        self.report.bytes_in += done.bytes_in;
        self.report.bytes_out += done.bytes_out;
        let bad = done.errors.iter().any(|error| error.severity == "error");
        let count = if bad { &mut self.report.failed } else { &mut self.report.documents };
        *count += 1;
        for error in done.errors {
            self.report.list(&error);
            if self.observer.failed(&error, &[]).map_err(BulkError::Stopped)? == Verdict::Stop {
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

fn one(pair: &FilePair, converter: &Converter) -> Done {
    let mut done = Done::default();
    if let Err(errors) = convert(pair, converter, &mut done) {
        let path = pair.source.display().to_string();
        done.errors = errors;
        for error in &mut done.errors {
            error.path = Some(path.clone());
        }
    }
    done
}

fn convert(pair: &FilePair, converter: &Converter, done: &mut Done) -> Result<(), Vec<DocumentIssue>> {
    let of_file = |error: BulkError| {
        let rule = error.rule();
        let message = match error {
            // The path stands in front of it already.
            BulkError::Io { source, .. } => source.to_string(),
            error => error.to_string(),
        };
        vec![DocumentIssue::of_rule(rule, String::new(), message)]
    };
    let io = |path: &Path, error| of_file(BulkError::io(path.display().to_string(), error));
    // As large as the file, where it is not compressed: nothing is copied while it is read.
    let size = pair.source.metadata().map_or(0, |found| found.len());
    let limit = converter.settings.limits().bytes;
    let source = open(&pair.source).map_err(of_file)?;
    // One byte more than allowed, so that the reader of the format says that it is too much.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = Vec::with_capacity(usize::try_from(size.min(most)).unwrap_or_default());
    source.take(most).read_to_end(&mut text).map_err(|error| io(&pair.source, error))?;
    done.bytes_in = text.len() as u64;
    let mut out = Chunks::default();
    let document = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    converter.document(document, true, &mut out)?;
    drop(text);
    if matches!(converter.task, Task::Validate) {
        return Ok(());
    }
    out.push(b"\n".to_vec());
    done.bytes_out = out.len() as u64;
    if let Some(parent) = pair.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| io(&pair.target, error))?;
    }
    let out = if pair.gzip { compressed(&out) } else { out };
    let mut target = OutputFile::create(&pair.target, pair.overwrite).map_err(of_file)?;
    out.pieces().try_for_each(|piece| target.write_all(piece)).map_err(|error| io(&pair.target, error))?;
    target.finish().map_err(of_file)
}

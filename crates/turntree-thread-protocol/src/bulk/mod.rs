//! Many documents at once: read, converted on every core, written in order.
//!
//! ```text
//!                 calling thread                 workers (one a job)          calling thread
//! source ── batches ── whole lines, 256 KiB ──►  format::read ─► Thread ─►  ── order ──► sink
//!                                                format::write, gzip
//! ```
//!
//! The calling thread alone touches source, sink and [`Observer`]. It reads no further than [`Options::jobs`] documents
//! that are large, and a few megabytes of small ones, ahead of what it has written: memory does not grow with the file.
//!
//! [`lines`] is one file of many documents, [`files()`] are many files of one document, [`values()`] is a column of a
//! table. [`format`] is the table of formats, and where one more is entered.

mod chunks;
mod converter;
mod engine;
mod error;
mod files;
pub mod format;
mod input;
mod lines;
mod output;
mod text;
mod values;

pub use chunks::Chunks;
pub use converter::{Converter, Task};
pub use error::{BulkError, DocumentIssue, Report, Stop};
pub use files::{FilePair, files};
pub use format::{FORMATS, Format, Settings};
pub use input::{Framing, open, size_of_file};
pub use lines::lines;
pub use output::{OutputFile, sync_directory};
pub use values::{Column, Values, values};

use std::num::NonZeroUsize;

/// How documents go through.
#[derive(Debug, Clone)]
pub struct Options {
    /// The format that comes in; `None` to tell it by the first document.
    pub from: Option<&'static Format>,
    /// What to do with documents.
    pub task: Task,
    /// How each conversion is made.
    pub settings: Settings,
    /// How many threads convert; `None` for one a core.
    pub jobs: Option<NonZeroUsize>,
    /// Where one document of a file ends.
    pub framing: Framing,
    /// Whether what is written is compressed with gzip.
    pub gzip: bool,
    /// Whether [`Observer::failed`] wants the text of documents.
    pub keeps_text: bool,
    /// How many bytes the source is likely to have, which spares memory for a large document; 0 where nobody knows.
    pub size: usize,
    /// What the source is called in errors.
    pub name: Option<String>,
    /// What the sink is called in errors.
    pub output: Option<String>,
    /// Whether files are on the disk before they get their names: a power cut leaves no half ones.
    pub durable: bool,
    /// The number of a column's first row, where it is a part of a longer one.
    pub first_row: u64,
}

impl Options {
    /// Conversion into a format, with the format that comes in told by its content.
    pub fn to(format: &'static Format) -> Self {
        Self::new(Task::Convert(format))
    }

    /// These options for a task.
    pub fn new(task: Task) -> Self {
        Self {
            from: None,
            task,
            settings: Settings::default(),
            jobs: None,
            framing: Framing::Lines,
            gzip: false,
            keeps_text: false,
            size: 0,
            name: None,
            output: None,
            durable: true,
            first_row: 0,
        }
    }

    fn threads(&self) -> usize {
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok());
        jobs.map_or(1, NonZeroUsize::get)
    }
}

/// What to do about a document that could not be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// End with [`BulkError::Document`].
    Stop,
    /// Leave it out and go on.
    Skip,
    /// Write these bytes in its place and go on.
    Replace(Vec<u8>),
}

/// Who watches a conversion. Called on the calling thread only.
pub trait Observer {
    /// Called about twenty times a second.
    ///
    /// # Errors
    /// What it returns ends the conversion.
    fn tick(&mut self, so_far: &Report) -> Result<(), Stop>;

    /// Called for each document that failed, in order. `text` is what was read, where [`Options::keeps_text`] asks for it.
    ///
    /// # Errors
    /// What it returns ends the conversion.
    fn failed(&mut self, error: &DocumentIssue, text: &[u8]) -> Result<Verdict, Stop>;
}

/// An observer that lets nothing pass: the first document that fails ends the conversion.
#[derive(Debug, Clone, Copy, Default)]
pub struct StopAtFirst;

impl Observer for StopAtFirst {
    fn tick(&mut self, _so_far: &Report) -> Result<(), Stop> {
        Ok(())
    }

    fn failed(&mut self, _error: &DocumentIssue, _text: &[u8]) -> Result<Verdict, Stop> {
        Ok(Verdict::Stop)
    }
}

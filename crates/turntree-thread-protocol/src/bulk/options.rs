//! Options of bulk conversion.

use std::num::NonZeroUsize;

use super::converter::Task;
use super::format::{Format, Settings};
use super::input::Framing;

/// Options of a bulk conversion.
#[derive(Debug, Clone)]
pub struct Options {
    /// The input format; `None` detects it from the first document.
    pub from: Option<&'static Format>,
    /// The task.
    pub task: Task,
    /// The options of each conversion.
    pub settings: Settings,
    /// The number of worker threads; `None` for one per core.
    pub jobs: Option<NonZeroUsize>,
    /// Where a document of a file ends.
    pub framing: Framing,
    /// Whether to compress the output with gzip.
    pub gzip: bool,
    /// Whether [`Observer::failed`](super::Observer::failed) receives the text of the document.
    pub keeps_text: bool,
    /// The expected size of the source in bytes, which saves memory for large documents; 0 if it is unknown.
    pub size: usize,
    /// The name of the source in errors.
    pub name: Option<String>,
    /// The name of the sink in errors.
    pub output: Option<String>,
    /// Whether to sync output files to disk before they get their names, so that a power failure leaves no partial
    /// files.
    pub durable: bool,
    /// The number of the first row, for a column that is part of a longer one.
    pub first_row: u64,
}

impl Options {
    /// Options of a conversion to a format. The input format is detected.
    pub fn to(format: &'static Format) -> Self {
        Self::new(Task::Convert(format))
    }

    /// Default options for a task.
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

    pub(super) fn threads(&self) -> usize {
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok());
        jobs.map_or(1, NonZeroUsize::get)
    }
}

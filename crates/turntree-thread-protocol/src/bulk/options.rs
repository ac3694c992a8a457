//! Options of bulk conversion.

use std::num::NonZeroUsize;

use super::converter::Task;
use super::format::{Format, Settings};
use super::input::Framing;

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
    /// Whether [`Observer::failed`](super::Observer::failed) wants the text of documents.
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

    pub(super) fn threads(&self) -> usize {
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok());
        jobs.map_or(1, NonZeroUsize::get)
    }
}

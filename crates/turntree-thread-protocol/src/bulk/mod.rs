//! Bulk conversion: many documents, converted on all cores, written in order.
//!
//! ```text
//!                 calling thread                 workers (one per job)        calling thread
//! source ── batches ── whole lines, 256 KiB ──►  format::read ─► Thread ─►  ── order ──► sink
//!                                                format::write, gzip
//! ```
//!
//! Only the calling thread uses the source, the sink and the [`Observer`]. It reads at most [`Options::jobs`] large
//! documents, or a few megabytes of small ones, ahead of the output, so memory does not grow with the file.
//!
//! [`lines()`] converts one file with many documents, [`files()`] many files with one document each, [`values()`] a
//! column of a table. The module [`mod@format`] is the table of formats; add new formats there.

mod chunked_bytes;
mod converter;
mod engine;
mod error;
mod files;
pub mod format;
mod input;
mod input_buffer;
mod lines;
mod observer;
mod options;
mod output;
mod values;

pub use chunked_bytes::ChunkedBytes;
pub use converter::{Converter, Task};
pub use error::{BulkError, DocumentIssue, ObserverError, Report};
pub use files::{FilePair, files};
pub use format::{FORMATS, Format, Settings};
pub use input::{Framing, open, size_of_file};
pub use lines::{lines, lines_to_file};
pub use observer::{Observer, OnFailure, StopAtFirst};
pub use options::Options;
pub use output::{OutputFile, sync_directory};
pub use values::{BorrowedColumn, InputColumn, Offsets, OutputColumn, values};

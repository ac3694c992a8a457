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
pub use lines::lines;
pub use observer::{Observer, OnFailure, StopAtFirst};
pub use options::Options;
pub use output::{OutputFile, sync_directory};
pub use values::{InputColumn, OutputColumn, values};

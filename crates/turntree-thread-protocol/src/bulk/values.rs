//! Conversion of a column of a table: one document per row, or null.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::chunked_bytes::ChunkedBytes;
use super::converter::Converter;
use super::engine::{Coordinator, run};
use super::error::{BulkError, DocumentIssue, Report};
use super::format::json_error;
use super::observer::{Observer, OnFailure};
use super::options::Options;

/// The number of bytes per batch.
const BATCH: usize = 256 * 1024;

/// An input column.
pub trait InputColumn: Sync {
    /// The number of rows.
    fn len(&self) -> usize;

    /// True if there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document of a row; `None` for null.
    fn get(&self, row: usize) -> Option<&[u8]>;
}

impl InputColumn for &[Option<Vec<u8>>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        <[_]>::get(self, row)?.as_deref()
    }
}

/// Offsets of an Arrow column.
#[derive(Debug, Clone, Copy)]
pub enum Offsets<'a> {
    /// Offsets of the types string and binary.
    Small(&'a [i32]),
    /// Offsets of the types large string and large binary.
    Large(&'a [i64]),
}

/// An input column in Arrow's binary layouts, in the memory of another library.
#[derive(Debug, Clone, Copy)]
pub struct BorrowedColumn<'a> {
    /// The number of rows.
    pub rows: usize,
    /// The index of the first row in the buffers.
    pub first: usize,
    /// One bit per row, least significant bit first: 0 for null. `None` if no row is null.
    pub validity: Option<&'a [u8]>,
    /// The offset of each row in `data`, and the end of the last row.
    pub offsets: Offsets<'a>,
    /// All documents, concatenated.
    pub data: &'a [u8],
}

impl InputColumn for BorrowedColumn<'_> {
    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        let index = self.first + row;
        if let Some(bits) = self.validity
            && bits.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) == 0)
        {
            return None;
        }
        let (start, end) = match self.offsets {
            Offsets::Small(offsets) => (i64::from(*offsets.get(index)?), i64::from(*offsets.get(index + 1)?)),
            Offsets::Large(offsets) => (*offsets.get(index)?, *offsets.get(index + 1)?),
        };
        // Decreasing offsets give an empty text, which no format accepts.
        Some(self.data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?).unwrap_or_default())
    }
}

/// An output column in Arrow's large binary layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputColumn {
    /// The offset of each row in `data`, and the end of the last row.
    pub offsets: Vec<i64>,
    /// All documents, concatenated.
    pub data: Vec<u8>,
    /// One bit per row, least significant bit first: 1 for a document, 0 for null.
    pub validity: Vec<u8>,
    /// The number of null rows.
    pub nulls: usize,
}

impl OutputColumn {
    fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, data: Vec::new(), validity: Vec::with_capacity(rows / 8 + 1), nulls: 0 }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offsets of the types string and binary; `None` if `data` has more than 2 GiB.
    pub fn small_offsets(&self) -> Option<Vec<i32>> {
        self.offsets.iter().map(|end| i32::try_from(*end).ok()).collect()
    }

    /// Ends a row at the end of `data`.
    fn end_row(&mut self, valid: bool) {
        let row = self.len();
        if row.is_multiple_of(8) {
            self.validity.push(0);
        }
        if let (true, Some(byte)) = (valid, self.validity.last_mut()) {
            *byte |= 1 << (row % 8);
        }
        self.nulls += usize::from(!valid);
        self.offsets.push(i64::try_from(self.data.len()).unwrap_or(i64::MAX));
    }
}

/// Converts every row of a column, in order. Null rows remain null; failed rows that the observer skips become null.
///
/// # Errors
/// As [`lines`](super::lines()), with rows instead of lines.
pub fn values(
    column: &dyn InputColumn,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(OutputColumn, Report), BulkError> {
    let mut converter = Converter {
        from: options.from,
        task: options.task,
        settings: options.settings.clone(),
        gzip: false,
        keeps_text: false,
    };
    if converter.from.is_none() {
        let first = (0..column.len()).find_map(|row| column.get(row));
        converter.from = first.and_then(|document| converter.settings.detect(document));
        if let (None, Some(document)) = (converter.from, first) {
            let name = options.name.clone().unwrap_or_else(|| "the column".to_owned());
            return Err(BulkError::Format {
                name,
                reason: json_error(document),
                known: converter.settings.readable(),
            });
        }
    }
    let mut coordinator = RowCoordinator {
        column,
        next: 0,
        first_row: options.first_row,
        observer,
        written: OutputColumn::with_capacity(column.len()),
        report: Report::default(),
        began: Instant::now(),
    };
    let total: usize = (0..column.len()).filter_map(|row| column.get(row)).map(<[u8]>::len).sum();
    let threads = options.threads().min(total / BATCH + 1);
    run(&mut coordinator, threads, |rows, stopped| convert(column, rows, &converter, stopped))?;
    coordinator.tick()?;
    Ok((coordinator.written, coordinator.report))
}

struct RowCoordinator<'a> {
    column: &'a dyn InputColumn,
    next: usize,
    first_row: u64,
    observer: &'a mut dyn Observer,
    written: OutputColumn,
    report: Report,
    began: Instant,
}

/// Converted rows: the length of each document, null, or its errors.
struct ConvertedRows {
    rows: Vec<Result<Option<usize>, Vec<DocumentIssue>>>,
    out: ChunkedBytes,
    bytes_in: u64,
}

impl Coordinator for RowCoordinator<'_> {
    type Job = Range<usize>;
    type Done = ConvertedRows;

    fn next(&mut self) -> Result<Option<(Range<usize>, usize)>, BulkError> {
        let (first, mut size) = (self.next, 0);
        while self.next < self.column.len() && size < BATCH {
            // Null rows count too, so that a batch of nulls ends.
            size += self.column.get(self.next).map_or(0, <[u8]>::len) + 16;
            self.next += 1;
        }
        Ok((first < self.next).then_some((first..self.next, size)))
    }

    fn take(&mut self, done: ConvertedRows) -> Result<(), BulkError> {
        self.report.bytes_in += done.bytes_in;
        self.report.bytes_out += done.out.len() as u64;
        let mut start = self.written.data.len();
        for piece in done.out.pieces() {
            self.written.data.extend_from_slice(piece);
        }
        let data_end = self.written.data.len();
        for row in done.rows {
            match row {
                Ok(Some(length)) => {
                    start += length;
                    self.report.documents += 1;
                    self.end_row(start, true);
                }
                Ok(None) => self.end_row(start, false),
                Err(errors) => {
                    self.report.failed += 1;
                    self.failed(errors)?;
                    self.end_row(start, false);
                }
            }
        }
        debug_assert_eq!(start, data_end, "the rows must cover all written bytes");
        Ok(())
    }

    fn tick(&mut self) -> Result<(), BulkError> {
        self.report.seconds = self.began.elapsed().as_secs_f64();
        self.observer.tick(&self.report).map_err(BulkError::Stopped)
    }
}

impl RowCoordinator<'_> {
    fn end_row(&mut self, end: usize, valid: bool) {
        self.written.end_row(valid);
        if let Some(last) = self.written.offsets.last_mut() {
            *last = i64::try_from(end).unwrap_or(i64::MAX);
        }
    }

    fn failed(&mut self, errors: Vec<DocumentIssue>) -> Result<(), BulkError> {
        let row = Some(self.first_row + self.written.len() as u64);
        for error in errors {
            let error = DocumentIssue { row, ..error };
            self.report.list(&error);
            if self.observer.failed(&error, &[]).map_err(BulkError::Stopped)? == OnFailure::Stop {
                return Err(BulkError::Document(Box::new(error)));
            }
        }
        Ok(())
    }
}

fn convert(
    column: &dyn InputColumn,
    rows: Range<usize>,
    converter: &Converter,
    stopped: &AtomicBool,
) -> ConvertedRows {
    let mut done =
        ConvertedRows { rows: Vec::with_capacity(rows.len()), out: ChunkedBytes::default(), bytes_in: 0 };
    let mut length = 0;
    for row in rows {
        let Some(document) = column.get(row) else {
            done.rows.push(Ok(None));
            continue;
        };
        if stopped.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        done.bytes_in += document.len() as u64;
        done.rows.push(converter.document(document, false, &mut done.out).map(|()| {
            let before = std::mem::replace(&mut length, done.out.len());
            Some(length - before)
        }));
    }
    done
}

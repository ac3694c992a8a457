//! Finds the records of a log file, and what a crash has left at its end.

use super::record::{self, END_SIZE, Record};

/// The content of a log file.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    /// The records, as far as they can be read.
    pub(super) records: Vec<Record<'a>>,
    /// The size of these records.
    pub(super) size: usize,
    /// What follows them.
    pub(super) rest: Rest,
}

/// What follows the last record that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// A part of a record that was being written when the process or the system stopped. It was never acknowledged.
    Torn,
    /// A record that was written as a whole and has changed since.
    Damaged(&'static str),
}

/// Reads all records.
pub(super) fn scan(bytes: &[u8]) -> Scan<'_> {
    let (mut records, mut size) = (Vec::new(), 0);
    loop {
        let rest = bytes.get(size..).unwrap_or_default();
        if rest.is_empty() {
            return Scan { records, size, rest: Rest::Nothing };
        }
        match record::read(rest) {
            Ok(record) => {
                size += record.size;
                records.push(record);
            }
            Err(reason) => {
                let rest = if was_complete(rest) { Rest::Damaged(reason) } else { Rest::Torn };
                return Scan { records, size, rest };
            }
        }
    }
}

/// Whether the unreadable record at the start of `bytes` was written as a whole once: an end line follows it.
///
/// A torn record has no end line. The system may have made the file longer before it wrote the data; then the data is
/// zeros.
fn was_complete(bytes: &[u8]) -> bool {
    let is_end = |newline: usize| {
        let end = newline + 1;
        let line = end.checked_sub(END_SIZE).and_then(|start| bytes.get(start..end));
        let Some((size, _)) = line.and_then(record::parse_end) else { return false };
        // It is the end of the unreadable record, or that of a later one that can be read. An entry may contain other
        // texts that look like an end line.
        let start = end.checked_sub(size);
        start == Some(0)
            || start
                .and_then(|start| bytes.get(start..end))
                .is_some_and(|record| record::read(record).is_ok())
    };
    if memchr::memchr_iter(b'\n', bytes).any(is_end) {
        return true;
    }
    // All bytes are there, but the end line was changed.
    let header = memchr::memchr(b'\n', bytes).and_then(|end| bytes.split_at_checked(end + 1));
    let header =
        header.and_then(|(line, _)| Some((line.len(), serde_json::from_slice::<record::Header>(line).ok()?)));
    let Some((line, header)) = header else { return false };
    let size = line.saturating_add(header.length).saturating_add(1 + END_SIZE);
    let end = bytes.get(size.saturating_sub(END_SIZE)..size);
    end.is_some_and(|end| !end.contains(&0))
}

/// Reads the last record of a file whose end is `bytes`. `None` if it cannot be read, or if it is longer than `bytes`.
pub(super) fn last(bytes: &[u8]) -> Option<Record<'_>> {
    let size = last_size(bytes)?;
    let record = bytes.get(bytes.len().checked_sub(size)?..)?;
    record::read(record).ok().filter(|record| record.size == size)
}

/// The size of the last record of a file whose end is `bytes`.
pub(super) fn last_size(bytes: &[u8]) -> Option<usize> {
    let end = bytes.get(bytes.len().checked_sub(END_SIZE)?..)?;
    record::parse_end(end).map(|(size, _)| size)
}

//! The format of a record in a log file.
//!
//! ```text
//! {"revision":1,"length":5,"digest":"…","fence":null,"info":{"id":"…",…}}   JSON on one line, ends with "\n"
//! entry                                                                     `length` bytes, then "\n"
//! 0000000312 2f7c01d0a8b14c55                                               the end line, 28 bytes with "\n"
//! ```
//!
//! The end line contains the size of the record in bytes, with the end line, as ten decimal digits, and the first 16
//! digits of the SHA-256 of everything before the end line. The size gives the last record of a file without reading the
//! others; its header has the session's state and head. `digest` is that of [`Digest::of_entry`].

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::engine::{Entry, Head, SessionInfo};

/// The size of the end line.
pub const END_SIZE: usize = 28;

/// The number of digits of the size in the end line.
const SIZE_DIGITS: usize = 10;

/// The number of digits of the checksum in the end line.
const CHECKSUM_DIGITS: usize = 16;

/// The first line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The number of entries that were ever appended to the session, with this one.
    pub revision: u64,
    /// The size of the entry in bytes.
    pub length: usize,
    /// The digest of the entry.
    #[serde(with = "hex")]
    pub digest: Digest,
    /// The newest fencing token that has appended to the session.
    pub fence: Option<u64>,
    /// The state of the session after the entry.
    pub info: SessionInfo,
}

impl Header {
    /// The head of a log whose last record has this header.
    pub fn head(&self) -> Head {
        Head { revision: self.revision, digest: self.digest }
    }
}

/// A record in the bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// The first line.
    pub header: Header,
    /// The entry.
    pub data: &'a [u8],
    /// The size of the whole record in bytes.
    pub size: usize,
}

/// Appends a record to `bytes`.
///
/// # Errors
/// The record is larger than 10 GB or cannot be written as JSON.
pub fn write(
    bytes: &mut Vec<u8>,
    entry: &Entry,
    revision: u64,
    fence: Option<u64>,
    info: &SessionInfo,
) -> Result<(), serde_json::Error> {
    let header =
        Header { revision, length: entry.data.len(), digest: entry.digest, fence, info: info.clone() };
    let start = bytes.len();
    serde_json::to_writer(&mut *bytes, &header)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&entry.data);
    bytes.push(b'\n');
    let content = bytes.get(start..).unwrap_or_default();
    let end = format!("{:0SIZE_DIGITS$} {}\n", content.len() + END_SIZE, checksum(content));
    if end.len() != END_SIZE {
        return Err(serde::ser::Error::custom("an entry is larger than 10 GB"));
    }
    bytes.extend_from_slice(end.as_bytes());
    Ok(())
}

/// Reads the record at the start of `bytes`.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Record<'_>, &'static str> {
    let line = memchr::memchr(b'\n', bytes).and_then(|end| bytes.split_at_checked(end + 1));
    let (line, rest) = line.ok_or("its first line has no end")?;
    let header: Header = serde_json::from_slice(line).map_err(|_| "its first line is not a header")?;
    let data = rest.get(..header.length).ok_or("it is cut off")?;
    let content_size = line.len().saturating_add(header.length).saturating_add(1);
    let content = bytes.get(..content_size).ok_or("it is cut off")?;
    let end = bytes.get(content_size..).unwrap_or_default();
    let end = end.get(..END_SIZE).ok_or("it is cut off")?;
    let size = content_size + END_SIZE;
    match parse_end(end) {
        Some((found, sum)) if found == size && sum == checksum(content) => Ok(Record { header, data, size }),
        Some(_) => Err("its checksum does not match"),
        None => Err("its last line is not an end line"),
    }
}

/// Reads an end line: the size of the record and the checksum.
pub fn parse_end(line: &[u8]) -> Option<(usize, &str)> {
    let (size, checksum) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let is_number = size.len() == SIZE_DIGITS && size.bytes().all(|digit| digit.is_ascii_digit());
    let is_checksum =
        checksum.len() == CHECKSUM_DIGITS && checksum.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_number && is_checksum).then_some(())?;
    Some((size.parse().ok()?, checksum))
}

fn checksum(content: &[u8]) -> String {
    let mut text = Digest(Sha256::digest(content).into()).to_string();
    text.truncate(CHECKSUM_DIGITS);
    text
}

mod hex {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::digest::Digest;

    pub(super) fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Digest::from_hex(&text).ok_or_else(|| D::Error::custom("expected 64 hexadecimal digits"))
    }
}

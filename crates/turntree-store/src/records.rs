//! The port of records: small documents of protocol servers, with compare-and-swap, a log for each, and expiry.
//!
//! A record has a key in a collection and a version that grows by one with each write. A write of several records is done
//! as a whole or not at all. Engines do not know what records contain.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use turntree_core::time::Timestamp;

use crate::engine::EngineFuture;

/// Names a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The collection: the application's name for records of one kind.
    pub collection: Arc<str>,
    /// The key in the collection: 1 to 512 printable characters.
    pub key: Arc<str>,
}

impl RecordId {
    /// Names a record.
    pub fn new(collection: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Self {
        Self { collection: collection.into(), key: key.into() }
    }
}

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The number of writes: 1 for a new record.
    pub version: u64,
    /// The content.
    pub data: Bytes,
    /// From when on the record counts as absent; `None` if it is kept.
    pub expires_at: Option<Timestamp>,
}

/// One record of a [`RecordWrite`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPut {
    /// The record.
    pub id: RecordId,
    /// The version that is stored; `None` if the record must be absent or expired.
    pub expected: Option<u64>,
    /// The new content.
    pub data: Bytes,
    /// From when on the record counts as absent.
    pub expires_at: Option<Timestamp>,
    /// An entry for the log of the record. Its number is the new version.
    pub entry: Option<Bytes>,
}

/// A write of one or more records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// The records. No two have the same id.
    pub puts: Vec<RecordPut>,
    /// The time of the write.
    pub now: Timestamp,
}

/// An entry of the log of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordEntry {
    /// The version that the record had after the write.
    pub version: u64,
    /// The content.
    pub data: Bytes,
}

/// Stores records.
///
/// # Cancel safety
/// Any future may be dropped at any point. The operation is then done as a whole or not at all.
///
/// # Errors
/// As for [`crate::Engine`].
pub trait Records: Send + Sync + fmt::Debug {
    /// Reads a record; `None` if it is absent. Expired records are returned until they are deleted.
    fn record(&self, id: &RecordId) -> EngineFuture<'_, Option<Record>>;

    /// Writes records, all of them or none. Returns false if one of them does not have the expected version.
    fn write_records(&self, write: RecordWrite) -> EngineFuture<'_, bool>;

    /// Reads the log of a record after a version, oldest first, at most `limit` entries.
    fn record_entries(&self, id: &RecordId, after: u64, limit: usize) -> EngineFuture<'_, Vec<RecordEntry>>;

    /// Deletes at most `limit` expired records of a collection with their logs. Returns how many.
    fn delete_expired(&self, collection: &str, now: Timestamp, limit: usize) -> EngineFuture<'_, u64>;
}

impl Record {
    /// True if the record counts as absent.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at.microseconds() <= now.microseconds())
    }
}

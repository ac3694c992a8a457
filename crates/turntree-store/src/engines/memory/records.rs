//! Records in memory.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use turntree_core::time::Timestamp;

use super::MemoryEngine;
use crate::engine::EngineFuture;
use crate::records::{Record, RecordEntry, RecordId, RecordWrite, Records};

/// The records, and the index of those that expire.
#[derive(Default)]
pub(super) struct Stored {
    records: BTreeMap<RecordId, Document>,
    /// Collection, time in microseconds, record.
    expiring: BTreeSet<(String, i64, RecordId)>,
}

struct Document {
    record: Record,
    entries: Vec<(u64, Bytes)>,
}

fn expiry(id: &RecordId, expires_at: Option<Timestamp>) -> Option<(String, i64, RecordId)> {
    Some((id.collection.to_string(), expires_at?.microseconds(), id.clone()))
}

impl Stored {
    fn is_expected(&self, id: &RecordId, expected: Option<u64>, now: Timestamp) -> bool {
        let found = self.records.get(id).map(|document| &document.record);
        match expected {
            Some(version) => found.is_some_and(|record| record.version == version),
            None => found.is_none_or(|record| record.is_expired(now)),
        }
    }

    fn write(&mut self, write: RecordWrite) -> bool {
        if !write.puts.iter().all(|put| self.is_expected(&put.id, put.expected, write.now)) {
            return false;
        }
        for put in write.puts {
            if put.expected.is_none() {
                self.remove(&put.id);
            }
            let version = put.expected.unwrap_or_default() + 1;
            let record = Record { version, data: put.data, expires_at: put.expires_at };
            let old = self.records.get(&put.id).and_then(|old| expiry(&put.id, old.record.expires_at));
            if let Some(old) = old {
                self.expiring.remove(&old);
            }
            self.expiring.extend(expiry(&put.id, put.expires_at));
            let document = self
                .records
                .entry(put.id)
                .or_insert_with(|| Document { record: record.clone(), entries: Vec::new() });
            document.record = record;
            document.entries.extend(put.entry.map(|entry| (version, entry)));
        }
        true
    }

    fn remove(&mut self, id: &RecordId) {
        if let Some(old) = self.records.remove(id)
            && let Some(old) = expiry(id, old.record.expires_at)
        {
            self.expiring.remove(&old);
        }
    }

    fn delete_expired(&mut self, collection: &str, now: Timestamp, limit: usize) -> u64 {
        let first = (collection.to_owned(), i64::MIN, RecordId::new("", ""));
        let expired: Vec<RecordId> = self
            .expiring
            .range(first..)
            .take_while(|(name, time, _)| name == collection && *time <= now.microseconds())
            .take(limit)
            .map(|(_, _, id)| id.clone())
            .collect();
        for id in &expired {
            self.remove(id);
        }
        expired.len() as u64
    }
}

impl Records for MemoryEngine {
    fn record(&self, id: &RecordId) -> EngineFuture<'_, Option<Record>> {
        let found =
            self.state().map(|state| state.stored.records.get(id).map(|document| document.record.clone()));
        Box::pin(std::future::ready(found))
    }

    fn write_records(&self, write: RecordWrite) -> EngineFuture<'_, bool> {
        Box::pin(async move { Ok(self.state()?.stored.write(write)) })
    }

    fn record_entries(&self, id: &RecordId, after: u64, limit: usize) -> EngineFuture<'_, Vec<RecordEntry>> {
        let found = self.state().map(|state| {
            let entries = state.stored.records.get(id).into_iter().flat_map(|document| &document.entries);
            let entries = entries.filter(|(version, _)| *version > after).take(limit);
            entries.map(|(version, data)| RecordEntry { version: *version, data: data.clone() }).collect()
        });
        Box::pin(std::future::ready(found))
    }

    fn delete_expired(&self, collection: &str, now: Timestamp, limit: usize) -> EngineFuture<'_, u64> {
        let deleted = self.state().map(|mut state| state.stored.delete_expired(collection, now, limit));
        Box::pin(std::future::ready(deleted))
    }
}

//! Encrypts whole logs, also those of an import.

use std::sync::Arc;

use bytes::Bytes;

use super::Heads;
use super::keys::{self, Key, Place};
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{Blob, Entry, Head, Log, Replace};
use crate::error::StoreError;

/// The keys of a store. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Keyring {
    /// The name of the store, for messages.
    pub(super) store: Arc<str>,
    /// The first one writes, all of them read.
    pub(super) keys: Arc<[Key]>,
}

impl Keyring {
    /// The key that encrypts.
    pub(super) fn first(&self) -> Result<&Key, StoreError> {
        self.keys.first().ok_or_else(|| StoreError::Invalid("keys: expected at least one key".to_owned()))
    }

    pub(super) fn seal(&self, place: Place<'_>, data: &[u8]) -> Result<Bytes, StoreError> {
        let sealed = self.first()?.seal(place, data);
        sealed.map(Bytes::from).ok_or_else(|| StoreError::Failed {
            store: Arc::clone(&self.store),
            reason: "a record cannot be encrypted: the system has no random numbers".to_owned(),
        })
    }

    pub(super) fn seal_blobs(&self, session: &str, blobs: Vec<Blob>) -> Result<Vec<Blob>, StoreError> {
        let seal = |blob: Blob| {
            let address = self.first()?.address(session, blob.address).unwrap_or_default();
            let data = self.seal(Place::Blob { session, address }, &blob.data)?;
            Ok(Blob { address, data })
        };
        blobs.into_iter().map(seal).collect()
    }

    /// Decrypts the entries of a log.
    pub(super) fn open_entries(&self, session: &str, log: &Log) -> Result<Vec<Entry>, String> {
        let count = u64::try_from(log.entries.len()).unwrap_or(u64::MAX);
        let first =
            log.revision.checked_sub(count).ok_or("its revision is less than its number of entries")?;
        let mut previous = Digest::default();
        let mut entries = Vec::with_capacity(log.entries.len());
        for (before, entry) in (first..).zip(&log.entries) {
            let revision = before.saturating_add(1);
            let place = Place::Entry { session, revision, previous };
            let data = Bytes::from(keys::open(&self.keys, place, &entry.data)?);
            previous = Digest::of_entry(previous, session, &data);
            entries.push(Entry { digest: previous, data });
        }
        Ok(entries)
    }

    /// Encrypts a log that takes the place of the one with the head `inner` in the inner engine.
    pub(super) fn seal_log(&self, log: Replace, inner: Option<Head>) -> Result<(Replace, Heads), StoreError> {
        log.validate()?;
        let Replace { entries, revision, blobs, info, .. } = log;
        let id = Arc::clone(&info.id);
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let mut previous = Digest::default();
        let mut digest = Digest::default();
        let mut sealed = Vec::with_capacity(entries.len());
        for (before, entry) in (revision.saturating_sub(count)..).zip(entries) {
            let place = Place::Entry { session: &id, revision: before.saturating_add(1), previous };
            let data = self.seal(place, &entry.data)?;
            previous = Digest::of_entry(previous, &id, &entry.data);
            digest = Digest::of_entry(digest, &id, &data);
            sealed.push(Entry { digest, data });
        }
        let blobs = self.seal_blobs(&id, blobs)?;
        let heads = Heads { inner: Head { revision, digest }, outer: Head { revision, digest: previous } };
        Ok((Replace { expected: inner, entries: sealed, revision, blobs, info }, heads))
    }
}

/// Encrypts the sessions of a batch when they are read.
#[derive(Debug)]
pub(super) struct SealedBatch {
    pub(super) keyring: Keyring,
    pub(super) batch: Box<dyn Batch>,
}

impl Batch for SealedBatch {
    fn rewind(&mut self) -> Result<(), StoreError> {
        self.batch.rewind()
    }

    fn next_log(&mut self) -> Result<Option<Replace>, StoreError> {
        let Some(log) = self.batch.next_log()? else { return Ok(None) };
        Ok(Some(self.keyring.seal_log(log, None)?.0))
    }
}

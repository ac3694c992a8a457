//! Encrypts logs before another engine stores them.
//!
//! Entries and blobs are encrypted and authenticated with AES-256-GCM; see [`keys`]. A record is bound to its session, its
//! revision and, through the digest, to all entries before it: records that were changed, swapped or moved to another
//! session are refused. The inner engine stores digests of the encrypted records.
//!
//! Of the runs of a queue, the inputs, turns and errors are encrypted; see [`queue`].
//!
//! What stays readable: the ids of sessions and agents, times, status and counts ([`SessionInfo`](crate::engine::SessionInfo)), the number and the sizes
//! of records, and the ids of keys. Not detected: a log that is replaced by an older state of the same log, or deleted.

mod keys;
mod queue;
mod sealing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use turntree_core::computation::offloaded;
use turntree_core::runtime::TaskError;

pub(crate) use self::keys::SEALED;
use self::keys::{Key, Place};
use self::sealing::{Keyring, SealedBatch};
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Blob, Engine, EngineFuture, Entry, Head, Log, Replace, SessionPage, SessionQuery, StoreIssue,
};
use crate::error::StoreError;
use crate::queue::Queue;
use crate::record;
use crate::walk::all_sessions;

pub use self::keys::{KEY_LENGTH, MAX_KEY_ID};

/// The number of heads that are remembered. More are read again from the inner engine.
const MAX_HEADS: usize = 4096;

/// How often a rotation repeats the change of a session that other writers change at the same time.
const MAX_ATTEMPTS: usize = 20;

/// Encrypts what another engine stores.
#[derive(Debug)]
pub struct EncryptedEngine {
    inner: Arc<dyn Engine>,
    keyring: Keyring,
    heads: Mutex<HashMap<Arc<str>, Heads>>,
}

/// The heads of a log: of the encrypted entries, and of the entries. A pair is valid for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heads {
    inner: Head,
    outer: Head,
}

impl EncryptedEngine {
    /// Encrypts with the first of these keys, each with its id. The others decrypt older records.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if there are no keys, a key has not 32 bytes, or an id is empty, too long or given twice.
    pub fn new(inner: Arc<dyn Engine>, keys: &[(&str, &[u8])]) -> Result<Self, StoreError> {
        if keys.is_empty() {
            return Err(StoreError::Invalid("keys: expected at least one key".to_owned()));
        }
        let keys = keys.iter().map(|(id, bytes)| Key::new(id, bytes)).collect::<Result<Vec<_>, _>>()?;
        for (index, key) in keys.iter().enumerate() {
            if keys.iter().take(index).any(|other| other.id == key.id) {
                return Err(StoreError::Invalid(format!("keys: the id {:?} is given twice", key.id)));
            }
        }
        let store = format!("encrypted {}", inner.name()).into();
        Ok(Self { inner, keyring: Keyring { store, keys: keys.into() }, heads: Mutex::default() })
    }

    /// Encrypts all sessions with the first key that have entries of other keys, one session at a time. Returns how many it
    /// has changed. It can be repeated after a failure, and skips the sessions that are done.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a session that cannot be decrypted; [`StoreError::Conflict`] for one that other writers
    /// change all the time; those of the engine.
    pub async fn rotate(&self) -> Result<u64, StoreError> {
        let mut changed = 0;
        for info in all_sessions(&*self.inner, SessionQuery::default()).await? {
            let mut attempts = 0;
            changed += loop {
                attempts += 1;
                match self.rotate_session(&info.id).await {
                    Ok(is_changed) => break u64::from(is_changed),
                    Err(StoreError::Conflict { .. }) if attempts < MAX_ATTEMPTS => {}
                    Err(error) => return Err(error),
                }
            };
        }
        self.rotate_runs().await?;
        Ok(changed)
    }

    async fn rotate_session(&self, id: &str) -> Result<bool, StoreError> {
        let Some(log) = self.inner.read(id).await? else { return Ok(false) };
        let first = self.keyring.first()?;
        let is_done =
            |entry: &Entry| keys::key_id(&entry.data).is_some_and(|(written, _)| *written == *first.id);
        if log.entries.iter().all(is_done) {
            return Ok(false);
        }
        let (log, heads) = self.open_log(id, log).await?;
        let corrupt = |reason| self.corrupt(id, reason);
        let mut addresses = Vec::new();
        for entry in &log.entries {
            addresses.extend(record::addresses(&entry.data).map_err(corrupt)?);
        }
        addresses.sort_unstable();
        addresses.dedup();
        let found = self.blobs(id, addresses.clone()).await?;
        if found.iter().any(Option::is_none) && self.inner.head(id).await? != Some(heads.inner) {
            return Err(StoreError::Conflict { session: id.into(), deleted: false });
        }
        let blob = |(address, data): (Digest, Option<Bytes>)| {
            let data = data.ok_or_else(|| corrupt(format!("blob {address} is missing")))?;
            Ok(Blob { address, data })
        };
        let blobs = addresses.into_iter().zip(found).map(blob).collect::<Result<_, StoreError>>()?;
        let revision = log.revision.saturating_add(1);
        let (entries, info) = (log.entries, log.info);
        self.replace(Replace { expected: Some(heads.outer), entries, revision, blobs, info }).await?;
        Ok(true)
    }

    fn corrupt(&self, session: &str, reason: String) -> StoreError {
        StoreError::Corrupt { store: self.name(), session: session.into(), reason }
    }

    fn heads(&self) -> MutexGuard<'_, HashMap<Arc<str>, Heads>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, session: &str, heads: Heads) {
        let mut known = self.heads();
        if known.len() >= MAX_HEADS && !known.contains_key(session) {
            known.clear();
        }
        known.insert(session.into(), heads);
    }

    /// Decrypts a log, and returns its heads.
    async fn open_log(&self, session: &str, log: Log) -> Result<(Log, Heads), StoreError> {
        let inner = log.head().ok_or_else(|| self.corrupt(session, "its log is empty".to_owned()))?;
        let (keyring, id): (_, Arc<str>) = (self.keyring.clone(), session.into());
        let bytes = record::size_of(&log.entries);
        let opened = offloaded(bytes, move || (keyring.open_entries(&id, &log), log)).await;
        let failed = |error: TaskError| StoreError::Failed { store: self.name(), reason: error.to_string() };
        let (entries, log) = opened.map_err(failed)?;
        let entries = entries.map_err(|reason| self.corrupt(session, reason))?;
        let log = Log { entries, ..log };
        let heads = Heads { inner, outer: log.head().unwrap_or(inner) };
        self.remember(session, heads);
        Ok((log, heads))
    }

    /// Returns the inner head of a log whose head is `outer`. If the log has another head, returns one that conflicts.
    async fn inner_head(&self, session: &str, outer: Head) -> Result<Head, StoreError> {
        let known = self.heads().get(session).copied();
        if let Some(known) = known.filter(|known| known.outer == outer) {
            return Ok(known.inner);
        }
        let Some(log) = self.inner.read(session).await? else { return Ok(outer) };
        let (_, heads) = self.open_log(session, log).await?;
        Ok(if heads.outer == outer { heads.inner } else { outer })
    }

    async fn append_sealed(&self, append: Append) -> Result<(), StoreError> {
        let Append { expected, entry, blobs, info, fence } = append;
        let id = Arc::clone(&info.id);
        let inner = match expected {
            Some(outer) => Some(self.inner_head(&id, outer).await?),
            None => None,
        };
        let revision = expected.map_or(0, |head| head.revision).saturating_add(1);
        let previous = expected.map(|head| head.digest).unwrap_or_default();
        let data = self.keyring.seal(Place::Entry { session: &id, revision, previous }, &entry.data)?;
        let digest = Digest::of_entry(inner.map(|head| head.digest).unwrap_or_default(), &id, &data);
        let blobs = self.keyring.seal_blobs(&id, blobs)?;
        let heads =
            Heads { inner: Head { revision, digest }, outer: Head { revision, digest: entry.digest } };
        let entry = Entry { digest, data };
        self.inner.append(Append { expected: inner, entry, blobs, info, fence }).await?;
        self.remember(&id, heads);
        Ok(())
    }

    async fn replace_sealed(&self, replace: Replace) -> Result<(), StoreError> {
        replace.validate()?;
        let id = Arc::clone(&replace.info.id);
        let inner = match replace.expected {
            Some(outer) => Some(self.inner_head(&id, outer).await?),
            None => None,
        };
        let (sealed, heads) = self.keyring.seal_log(replace, inner)?;
        self.inner.replace(sealed).await?;
        self.remember(&id, heads);
        Ok(())
    }

    async fn open_blobs(&self, session: &str, wanted: &[Digest]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut found: Vec<Option<Bytes>> = vec![None; wanted.len()];
        for key in &*self.keyring.keys {
            let missing: Vec<usize> =
                (0..).zip(&found).filter(|(_, data)| data.is_none()).map(|(i, _)| i).collect();
            if missing.is_empty() {
                break;
            }
            let address = |index: &usize| key.address(session, *wanted.get(*index)?);
            let addresses: Vec<Digest> = missing.iter().map(|i| address(i).unwrap_or_default()).collect();
            let sealed = self.inner.blobs(session, addresses.clone()).await?;
            for ((index, address), data) in missing.into_iter().zip(addresses).zip(sealed) {
                let (Some(data), Some(slot)) = (data, found.get_mut(index)) else { continue };
                let opened = keys::open(&self.keyring.keys, Place::Blob { session, address }, &data);
                *slot = Some(opened.map_err(|reason| self.corrupt(session, reason))?.into());
            }
        }
        Ok(found)
    }
}

impl Engine for EncryptedEngine {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.keyring.store)
    }

    fn schema(&self) -> Option<u64> {
        self.inner.schema()
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        Box::pin(self.append_sealed(append))
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        Box::pin(self.replace_sealed(replace))
    }

    fn create_all(&self, batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        self.inner.create_all(Box::new(SealedBatch { keyring: self.keyring.clone(), batch }))
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        let id = session.to_owned();
        Box::pin(async move {
            let Some(log) = self.inner.read(&id).await? else { return Ok(None) };
            Ok(Some(self.open_log(&id, log).await?.0))
        })
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        let id = session.to_owned();
        Box::pin(async move { self.open_blobs(&id, &addresses).await })
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        let id = session.to_owned();
        Box::pin(async move {
            let Some(inner) = self.inner.head(&id).await? else { return Ok(None) };
            let known = self.heads().get(&*id).copied();
            if let Some(known) = known.filter(|known| known.inner == inner) {
                return Ok(Some(known.outer));
            }
            let Some(log) = self.inner.read(&id).await? else { return Ok(None) };
            Ok(Some(self.open_log(&id, log).await?.1.outer))
        })
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        self.inner.delete(session)
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        self.inner.sessions(query)
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        self.inner.check()
    }

    fn queue(&self) -> Option<&dyn Queue> {
        self.inner.queue().map(|_| self as &dyn Queue)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.inner.close()
    }
}

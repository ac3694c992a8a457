//! Saves sessions as logs of entries, through an engine.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::digest::Digest;
use crate::engine::{Append, Engine, Entry, Head, Log, Replace, SessionInfo, SessionStatus};
use crate::error::StoreError;
use crate::progress::Progress;
use crate::record;
use turntree_agents::session::journal::{Journal, PreparedEntry};
use turntree_agents::session::{LoadedSession, SavedSnapshot, SavedState, SessionSnapshot, SessionStore};
use turntree_core::computation::offloaded;
use turntree_core::persistence::PersistenceError;
use turntree_core::runtime::TaskError;

/// Stores sessions in an engine. A save appends one entry with what is new; a save without changes appends nothing.
///
/// Cloning returns another handle to the same store.
#[derive(Debug, Clone)]
pub struct JournalStore {
    engine: Arc<dyn Engine>,
    /// The fencing token of the lease under which this handle writes.
    fence: Option<u64>,
    /// What counts how far a long operation is.
    progress: Option<Arc<Progress>>,
}

/// How often a log is read that other writers replace at the same time.
const MAX_READS: usize = 20;

/// What the store remembers of a session.
#[derive(Debug, Default)]
struct Saved {
    journal: Journal,
    head: Option<Head>,
    /// The size of the log in bytes.
    bytes: u64,
    /// An entry that may or may not be in the log, and the head that it leads to.
    pending: Option<Box<Pending>>,
}

#[derive(Debug)]
struct Pending {
    entry: PreparedEntry,
    head: Head,
    bytes: u64,
}

/// A log that was read.
#[derive(Debug)]
pub struct ReadLog {
    /// What the entries contain.
    pub journal: Journal,
    /// The end of the log.
    pub head: Head,
    /// The state of the session as lists show it.
    pub info: SessionInfo,
    /// The number of entries.
    pub entries: usize,
}

impl JournalStore {
    /// Stores sessions in this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, fence: None, progress: None }
    }

    /// Returns a handle whose saves fail if a newer fencing token was issued for the session.
    #[must_use]
    pub fn with_fence(&self, fence: u64) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// Returns a handle that counts how far its reads, exports and imports are.
    #[must_use]
    pub fn with_progress(&self, progress: Arc<Progress>) -> Self {
        Self { progress: Some(progress), ..self.clone() }
    }

    pub(crate) fn without_progress(&self) -> Self {
        Self { progress: None, ..self.clone() }
    }

    pub(crate) const fn progress(&self) -> Option<&Arc<Progress>> {
        self.progress.as_ref()
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Reads and verifies the log of a session; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if an entry was changed, moved or lost; those of the engine.
    pub async fn read_log(&self, id: &str) -> Result<Option<ReadLog>, StoreError> {
        let Some((info, head, texts)) = self.read_texts(id).await? else { return Ok(None) };
        let corrupt =
            |reason: String| StoreError::Corrupt { store: self.engine.name(), session: id.into(), reason };
        let entries = texts.len();
        let bytes = texts.iter().map(String::len).sum();
        let progress = self.progress.clone();
        let read = move || {
            let counted = texts.iter().map(String::as_str).inspect(|_| {
                if let Some(progress) = &progress {
                    progress.add(1);
                }
            });
            Journal::read(counted).map_err(|error| error.to_string())
        };
        let journal = offloaded(bytes, read).await.map_err(|error| self.failed(&error))?.map_err(corrupt)?;
        match journal.snapshot() {
            Some(snapshot) if *snapshot.id == *id => Ok(Some(ReadLog { journal, head, info, entries })),
            Some(snapshot) => Err(corrupt(format!("its entries are those of session \"{}\"", snapshot.id))),
            None => Err(corrupt("its log is empty".to_owned())),
        }
    }

    /// Returns the entries of a session's log as JSON texts, oldest first; `None` if there is no such session.
    ///
    /// # Errors
    /// As for [`Self::read_log`].
    pub async fn entries(&self, id: &str) -> Result<Option<Vec<String>>, StoreError> {
        Ok(self.info_and_entries(id).await?.map(|(_, entries)| entries))
    }

    /// Returns the state of a session as lists show it, with the entries.
    pub(crate) async fn info_and_entries(
        &self,
        id: &str,
    ) -> Result<Option<(SessionInfo, Vec<String>)>, StoreError> {
        Ok(self.read_texts(id).await?.map(|(info, _, entries)| (info, entries)))
    }

    fn failed(&self, error: &TaskError) -> StoreError {
        StoreError::Failed { store: self.engine.name(), reason: error.to_string() }
    }

    /// Reads and verifies a log: its state as lists show it, its head and the texts of its entries. The blobs are read after the log: if it was
    /// replaced in between, by pruning or with another key, both are read again.
    async fn read_texts(&self, id: &str) -> Result<Option<(SessionInfo, Head, Vec<String>)>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(log) = self.engine.read(id).await? else { return Ok(None) };
            if let Some(progress) = &self.progress {
                progress.begin(log.entries.len() as u64);
            }
            let session: Arc<str> = id.into();
            let bytes = record::size_of(&log.entries);
            let work = move || (verify(&session, &log), log);
            let (verified, log) = offloaded(bytes, work).await.map_err(|error| self.failed(&error))?;
            let store = self.engine.name();
            let head =
                verified.map_err(|reason| StoreError::Corrupt { store, session: id.into(), reason })?;
            match record::decode_all(&*self.engine, id, log.entries).await {
                Err(StoreError::Corrupt { .. })
                    if attempts < MAX_READS && self.engine.head(id).await? != Some(head) => {}
                decoded => return Ok(Some((log.info, head, decoded?))),
            }
        }
    }

    /// Replaces the log of a session by one entry with its whole state.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the log has another head than `expected`; those of the engine.
    pub async fn replace_log(
        &self,
        snapshot: SessionSnapshot,
        expected: Option<Head>,
    ) -> Result<(), StoreError> {
        let bytes = snapshot.size_hint();
        let log = offloaded(bytes, move || log_of(snapshot, expected)).await;
        self.engine.replace(log.map_err(|error| self.failed(&error))??).await
    }

    /// Finds out whether an entry of a save that failed or was cancelled is in the log.
    async fn settle_pending(&self, id: &Arc<str>, saved: &mut Saved) -> Result<(), StoreError> {
        let Some(pending) = saved.pending.take() else { return Ok(()) };
        match self.engine.head(id).await {
            Ok(Some(found)) if found == pending.head => saved.commit(*pending),
            Ok(found) if found == saved.head => {}
            Ok(found) => {
                return Err(StoreError::Conflict { session: Arc::clone(id), deleted: found.is_none() });
            }
            Err(error) => {
                saved.pending = Some(pending);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn save_state(&self, snapshot: SessionSnapshot, saved: &mut Saved) -> Result<(), StoreError> {
        let id = Arc::clone(&snapshot.id);
        let conflict = |deleted| StoreError::Conflict { session: Arc::clone(&id), deleted };
        self.settle_pending(&id, saved).await?;
        let prepared = match saved.head {
            // The first entry has the whole session; the journal is empty.
            None => {
                let bytes = snapshot.size_hint();
                let prepared = offloaded(bytes, move || Journal::default().prepare(snapshot)).await;
                prepared.map_err(|error| self.failed(&error))?
            }
            Some(_) => saved.journal.prepare(snapshot),
        };
        let prepared = prepared.map_err(|error| StoreError::Invalid(error.to_string()))?;
        if saved.head.is_some() && prepared.is_empty() {
            let found = self.engine.head(&id).await?;
            return if found == saved.head { Ok(()) } else { Err(conflict(found.is_none())) };
        }
        let bytes = prepared.text().len();
        let encoded = offloaded(bytes, move || (record::encode(prepared.text()), prepared)).await;
        let (encoded, prepared) = encoded.map_err(|error| self.failed(&error))?;
        let previous = saved.head.map(|head| head.digest).unwrap_or_default();
        let digest = Digest::of_entry(previous, &id, &encoded.entry);
        let bytes = saved.bytes.saturating_add(encoded.bytes);
        let append = Append {
            expected: saved.head,
            entry: Entry { digest, data: encoded.entry },
            blobs: encoded.blobs,
            info: info_of(prepared.snapshot(), prepared.turns(), bytes),
            fence: self.fence,
        };
        let revision = saved.head.map_or(1, |head| head.revision.saturating_add(1));
        saved.pending = Some(Box::new(Pending { entry: prepared, head: Head { revision, digest }, bytes }));
        match self.engine.append(append).await {
            Ok(()) => {
                if let Some(pending) = saved.pending.take() {
                    saved.commit(*pending);
                }
                Ok(())
            }
            Err(error) => {
                let is_certain = matches!(
                    error,
                    StoreError::Conflict { .. }
                        | StoreError::Fenced { .. }
                        | StoreError::Full { .. }
                        | StoreError::ReadOnly { .. }
                );
                if is_certain {
                    saved.pending = None;
                }
                Err(error)
            }
        }
    }
}

impl Saved {
    fn commit(&mut self, pending: Pending) {
        self.journal.commit(pending.entry);
        self.head = Some(pending.head);
        self.bytes = pending.bytes;
    }
}

/// Checks the digests of all entries, and returns the head.
fn verify(id: &str, log: &Log) -> Result<Head, String> {
    let mut digest = Digest::default();
    for (index, entry) in log.entries.iter().enumerate() {
        digest = Digest::of_entry(digest, id, &entry.data);
        if digest != entry.digest {
            return Err(format!(
                "entry {index} of {} was changed, moved or damaged: its digest does not match",
                log.entries.len()
            ));
        }
    }
    log.head().ok_or_else(|| "its log is empty".to_owned())
}

/// The log of a session with one entry: its whole state.
pub(crate) fn log_of(snapshot: SessionSnapshot, expected: Option<Head>) -> Result<Replace, StoreError> {
    let (id, journal) = (Arc::clone(&snapshot.id), Journal::default());
    let prepared = journal.prepare(snapshot).map_err(|error| StoreError::Invalid(error.to_string()))?;
    let encoded = record::encode(prepared.text());
    let digest = Digest::of_entry(Digest::default(), &id, &encoded.entry);
    let revision = expected.map_or(1, |head| head.revision.saturating_add(1));
    let info = info_of(prepared.snapshot(), prepared.turns(), encoded.bytes);
    let entries = vec![Entry { digest, data: encoded.entry }];
    Ok(Replace { expected, entries, revision, blobs: encoded.blobs, info })
}

/// What lists show of a session whose log has `bytes` bytes.
pub(crate) fn info_of(snapshot: &SessionSnapshot, turns: u64, bytes: u64) -> SessionInfo {
    let status = match &snapshot.unfinished {
        Some(unfinished) if unfinished.is_waiting() => SessionStatus::Waiting,
        Some(unfinished) if unfinished.state().is_some() => SessionStatus::Unfinished,
        _ => SessionStatus::Idle,
    };
    SessionInfo {
        id: Arc::clone(&snapshot.id),
        agent: Arc::clone(&snapshot.agent_id),
        status,
        turns,
        nodes: u64::try_from(snapshot.tree.node_count()).unwrap_or(u64::MAX),
        updated_at: snapshot.updated_at,
        bytes,
    }
}

impl SessionStore for JournalStore {
    fn save<'a>(
        &'a self,
        snapshot: SessionSnapshot,
        saved: &'a mut Option<SavedState>,
    ) -> BoxFuture<'a, Result<(), PersistenceError>> {
        Box::pin(async move {
            // A session that was loaded from another kind of store is new here.
            let is_known = saved.as_ref().is_some_and(|saved| saved.is::<Saved>());
            if !is_known {
                *saved = Some(Box::new(Saved::default()));
            }
            let saved = saved.as_mut().and_then(|saved| saved.downcast_mut::<Saved>());
            match saved {
                Some(saved) => Ok(self.save_state(snapshot, saved).await?),
                None => Ok(()),
            }
        })
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<LoadedSession>, PersistenceError>> {
        Box::pin(async move {
            let Some(ReadLog { journal, head, info, .. }) = self.read_log(id).await? else { return Ok(None) };
            let Some(snapshot) = journal.snapshot().cloned() else { return Ok(None) };
            let saved = Saved { journal, head: Some(head), bytes: info.bytes, pending: None };
            Ok(Some(LoadedSession { snapshot, saved: Some(Box::new(saved)) }))
        })
    }

    fn saved_snapshot(&self, saved: &SavedState) -> SavedSnapshot {
        let snapshot = saved.downcast_ref::<Saved>().and_then(|saved| saved.journal.snapshot().cloned());
        Box::new(move || snapshot)
    }
}

//! Stores logs in the memory of the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Blob, Engine, EngineFuture, Entry, Head, Log, Replace, SessionInfo, SessionPage, SessionQuery,
    StoreIssue,
};
use crate::error::StoreError;
use crate::page::Pager;
use crate::preconditions::{check_fence, check_head};
use crate::queue::Queue;
use crate::records::Records;
use turntree_core::runtime::{TaskError, spawn_blocking};

mod queue;
mod records;

use self::queue::Runs;
use self::records::Stored;

const NAME: &str = "memory store";

/// A store in memory. Clones of the `Arc` share it; the data is gone when the last one is dropped.
#[derive(Default)]
pub struct MemoryEngine {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    sessions: BTreeMap<Arc<str>, Session>,
    runs: Runs,
    stored: Stored,
}

struct Session {
    revision: u64,
    entries: Vec<Entry>,
    blobs: HashMap<Digest, Bytes>,
    info: SessionInfo,
    fence: Option<u64>,
}

impl Session {
    fn new(log: Replace, fence: Option<u64>) -> Self {
        let Replace { entries, revision, blobs, info, .. } = log;
        let mut session = Self { revision, entries, blobs: HashMap::new(), info, fence };
        session.add_blobs(blobs);
        session
    }

    fn head(&self) -> Option<Head> {
        self.entries.last().map(|last| Head { revision: self.revision, digest: last.digest })
    }

    fn add_blobs(&mut self, blobs: Vec<Blob>) {
        for blob in blobs {
            self.blobs.entry(blob.address).or_insert(blob.data);
        }
    }
}

impl MemoryEngine {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // No operation panics between two changes that belong together.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed { Err(StoreError::Closed { store: NAME.into() }) } else { Ok(state) }
    }

    fn append_now(&self, append: Append) -> Result<(), StoreError> {
        let mut state = self.state()?;
        let id = Arc::clone(&append.info.id);
        let stored = state.sessions.get(&id);
        check_fence(&id, append.fence, stored.and_then(|session| session.fence))?;
        let head = stored.and_then(Session::head);
        check_head(&id, append.expected, head)?;
        let session = state.sessions.entry(id).or_insert_with(|| Session {
            revision: 0,
            entries: Vec::new(),
            blobs: HashMap::new(),
            info: append.info.clone(),
            fence: None,
        });
        session.revision += 1;
        session.entries.push(append.entry);
        session.add_blobs(append.blobs);
        session.info = append.info;
        session.fence = append.fence.or(session.fence);
        Ok(())
    }

    fn replace_now(&self, replace: Replace) -> Result<(), StoreError> {
        replace.validate()?;
        let mut state = self.state()?;
        let id = Arc::clone(&replace.info.id);
        let stored = state.sessions.get(&id);
        let fence = stored.and_then(|session| session.fence);
        check_head(&id, replace.expected, stored.and_then(Session::head))?;
        state.sessions.insert(id, Session::new(replace, fence));
        Ok(())
    }

    /// Creates sessions, all or none.
    fn create_now(&self, logs: Vec<Replace>) -> Result<(), StoreError> {
        let mut state = self.state()?;
        if let Some(log) = logs.iter().find(|log| state.sessions.contains_key(&log.info.id)) {
            return Err(StoreError::Exists { store: NAME.into(), session: Arc::clone(&log.info.id) });
        }
        for log in logs {
            state.sessions.insert(Arc::clone(&log.info.id), Session::new(log, None));
        }
        Ok(())
    }

    fn sessions_now(&self, query: &SessionQuery) -> Result<SessionPage, StoreError> {
        let pager = Pager::new(query)?;
        let state = self.state()?;
        Ok(pager.page(state.sessions.values().map(|session| &session.info)))
    }
}

/// Reads a batch. Blocks.
fn read_all(mut batch: Box<dyn Batch>) -> Result<Vec<Replace>, StoreError> {
    let mut logs = Vec::new();
    while let Some(log) = batch.next_log()? {
        log.validate()?;
        logs.push(log);
    }
    Ok(logs)
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryEngine").finish_non_exhaustive()
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> Arc<str> {
        NAME.into()
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.append_now(append) })
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.replace_now(replace) })
    }

    fn create_all(&self, batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let read = spawn_blocking(move || read_all(batch)).await;
            let failed =
                |error: TaskError| StoreError::Failed { store: NAME.into(), reason: error.to_string() };
            self.create_now(read.map_err(failed)??)
        })
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        let id = session.to_owned();
        Box::pin(async move {
            let state = self.state()?;
            Ok(state.sessions.get(&*id).map(|session| Log {
                revision: session.revision,
                entries: session.entries.clone(),
                info: session.info.clone(),
            }))
        })
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        let id = session.to_owned();
        Box::pin(async move {
            let state = self.state()?;
            let blobs = state.sessions.get(&*id).map(|session| &session.blobs);
            Ok(addresses.iter().map(|address| blobs.and_then(|blobs| blobs.get(address).cloned())).collect())
        })
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        let id = session.to_owned();
        Box::pin(async move { Ok(self.state()?.sessions.get(&*id).and_then(Session::head)) })
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        let id = session.to_owned();
        Box::pin(async move { Ok(self.state()?.sessions.remove(&*id).is_some()) })
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        Box::pin(async move { self.sessions_now(&query) })
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        Box::pin(async move { self.state().map(|_| Vec::new()) })
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_closed = true;
            state.sessions.clear();
            state.runs = Runs::default();
            state.stored = Stored::default();
            Ok(())
        })
    }
}

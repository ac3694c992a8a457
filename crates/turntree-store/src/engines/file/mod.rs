//! Stores each log in a file of its own.
//!
//! ```text
//! folder/
//!   turntree-store.json            {"format":"turntree-file-store","version":1}
//!   locks/3f                       locked while a session is read or written; the first byte of the id's SHA-256
//!   sessions/s-NAME/log            the records of a session
//!   sessions/s-NAME/blobs/ADDRESS  a blob
//!   trash/                         deleted sessions, until their files are removed
//!   imports/ID/s-NAME/             sessions of an import, until all of them are there
//!   turntree-import.json           which import is complete, until its sessions are moved
//! ```
//!
//! | module | content |
//! |---|---|
//! | `folder` | creates and recognizes the folder; names, locks, errors |
//! | `record` | the format of a record; see [`record`] |
//! | `scan` | finds the records of a log, and what follows a crash |
//! | `sessions` | the operations |
//! | `list` | the list of sessions |
//! | `import` | sessions that are created together |
//!
//! An append writes one record and waits for the disk once. Several processes may use one folder. Network file systems
//! must support locks and atomic renames.

mod folder;
mod import;
mod list;
pub mod record;
mod scan;
mod sessions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{Mutex, RwLock, Semaphore};
use turntree_core::runtime::{PerProcess, spawn_blocking};

use self::folder::Folder;
use self::sessions::Sessions;
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Engine, EngineFuture, Head, Log, Replace, SessionPage, SessionQuery, StoreIssue,
};
use crate::error::StoreError;

/// The number of threads that one store uses at the same time. They wait for the disk.
const THREADS: usize = 4;

/// The number of queues in which the writers of a process wait.
const QUEUES: usize = 32;

/// A store in a folder, with one log file for each session.
///
/// All I/O runs on the blocking threads of [`turntree_core::runtime`].
///
/// # Example
///
/// ```no_run
/// use turntree_store::engines::file::FileEngine;
///
/// let engine = FileEngine::open("sessions")?;
/// # Ok::<_, turntree_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct FileEngine {
    sessions: Arc<Sessions>,
    is_closed: AtomicBool,
    /// A fork has none of the threads that hold these.
    queues: PerProcess<Queues>,
}

#[derive(Debug)]
struct Queues {
    /// Shared by the operations that run; exclusive for `close`.
    gate: Arc<RwLock<()>>,
    threads: Arc<Semaphore>,
    /// Writers of a process wait here in order, because the locks of files have no order.
    writers: [Arc<Mutex<()>>; QUEUES],
}

impl Queues {
    fn new() -> Self {
        Self {
            gate: Arc::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
            writers: std::array::from_fn(|_| Arc::default()),
        }
    }
}

impl FileEngine {
    /// A store in the folder at `path`. A missing folder is created by the first write.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the folder above does not exist, or if `path` is a file. Whether the folder is a store is
    /// found out at the first operation.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let sessions = Arc::new(Sessions::new(Folder::new(path.as_ref())?));
        Ok(Self { sessions, is_closed: AtomicBool::new(false), queues: PerProcess::new() })
    }

    fn queues(&self) -> Result<&Queues, StoreError> {
        self.queues.get_or_try_create(|| Ok(Queues::new()))
    }

    /// Runs an operation on another thread. Operations that write one session run one after the other.
    async fn run<T: Send + 'static>(
        &self,
        writes: Option<&str>,
        work: impl FnOnce(&Sessions) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let queues = self.queues()?;
        let gate = Arc::clone(&queues.gate).read_owned().await;
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(StoreError::Closed { store: self.name() });
        }
        let queue = writes.and_then(|id| queues.writers.get(usize::from(folder::shard(id)) % QUEUES));
        let turn = match queue {
            Some(queue) => Some(Arc::clone(queue).lock_owned().await),
            None => None,
        };
        let thread = Arc::clone(&queues.threads).acquire_owned().await;
        let sessions = Arc::clone(&self.sessions);
        let task = spawn_blocking(move || {
            let result = work(&sessions);
            // They are held until the work is done, also if the future is dropped.
            drop((gate, turn, thread));
            result
        });
        task.await
            .unwrap_or_else(|error| Err(StoreError::Failed { store: self.name(), reason: error.to_string() }))
    }
}

impl Engine for FileEngine {
    fn name(&self) -> Arc<str> {
        self.sessions.name()
    }

    fn schema(&self) -> Option<u64> {
        Some(folder::VERSION)
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        let id = Arc::clone(&append.info.id);
        Box::pin(async move { self.run(Some(&id), move |sessions| sessions.append(&append)).await })
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        let id = Arc::clone(&replace.info.id);
        Box::pin(async move {
            replace.validate()?;
            self.run(Some(&id), move |sessions| sessions.replace(&replace)).await
        })
    }

    fn create_all(&self, mut batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        Box::pin(self.run(None, move |sessions| sessions.create_all(&mut *batch)))
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        let id: Arc<str> = session.into();
        Box::pin(self.run(None, move |sessions| sessions.read(&id)))
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        let id: Arc<str> = session.into();
        Box::pin(self.run(None, move |sessions| sessions.blobs(&id, &addresses)))
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        let id: Arc<str> = session.into();
        Box::pin(self.run(None, move |sessions| sessions.head(&id)))
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        let id: Arc<str> = session.into();
        Box::pin(async move {
            let session = Arc::clone(&id);
            self.run(Some(&id), move |sessions| sessions.delete(&session)).await
        })
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        Box::pin(self.run(None, move |sessions| list::sessions(sessions, &query)))
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        Box::pin(self.run(None, list::check))
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            // Operations that came earlier hold the gate; later ones wait behind this and find the store closed.
            let _gate = self.queues()?.gate.write().await;
            self.is_closed.store(true, Ordering::SeqCst);
            Ok(())
        })
    }
}

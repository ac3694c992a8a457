//! Stores logs in one SQLite file.
//!
//! | module | content |
//! |---|---|
//! | [`database`] | the thread that owns the connection; group commit; forks |
//! | `open`, `options` | opens or creates the file; settings of connections |
//! | `schema` | tables and migrations |
//! | `busy` | the wait for a lock of another process, and the breaks that leave it to others |
//! | `log`, `list`, `check` | the statements of the operations |
//! | `queue`, `uptime` | the statements of the queue; the clock of its leases |
//! | `records` | the statements of records |
//! | `failure` | SQLite's errors as errors of stores |
//!
//! Several processes may have one file open. A file must not be on a network file system, and the process must not open
//! it with another SQLite library at the same time: closing the other one's file would release the locks of this one.

mod busy;
mod check;
pub mod database;
mod failure;
#[cfg(unix)]
mod fork;
mod list;
mod log;
mod open;
mod options;
mod queue;
mod records;
mod schema;
#[cfg(target_os = "linux")]
mod shared_locks;
mod uptime;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use turntree_core::runtime;
use turntree_core::time::Timestamp;

use self::database::Database;
pub use self::failure::Failure;
pub use self::options::SqliteOptions;
pub use self::schema::Schema;
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Engine, EngineFuture, Head, Log, Replace, SessionPage, SessionQuery, StoreIssue,
};
use crate::error::StoreError;
use crate::queue::{Claim, Claimed, Finish, NewRun, Queue, Run, RunPage, RunQuery, RunTexts, microseconds};
use crate::records::{Record, RecordEntry, RecordId, RecordWrite, Records};

/// A store in one SQLite file, in WAL mode.
///
/// The file is opened at the first operation, on a thread of the engine. After a fork the child opens it again.
///
/// # Example
///
/// ```no_run
/// use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};
///
/// let engine = SqliteEngine::open("sessions.db", SqliteOptions::default())?;
/// # Ok::<_, turntree_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct SqliteEngine {
    database: Arc<Database>,
}

impl SqliteEngine {
    /// A store in the file at `path`.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the folder does not exist, if the path is a folder, or if the file does not exist and
    /// `create` is false. Whether the file is a store is found out at the first operation.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        Ok(Self { database: Arc::new(Database::open(path.as_ref(), options, &schema::SESSIONS)?) })
    }

    /// The database, for other tables in the same file.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }
}

impl Engine for SqliteEngine {
    fn name(&self) -> Arc<str> {
        self.database.name()
    }

    fn schema(&self) -> Option<u64> {
        Some(schema::SESSIONS.newest_version())
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        let session = Arc::clone(&append.info.id);
        Box::pin(self.database.write(Some(session), move |connection| log::append(connection, &append)))
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        let session = Arc::clone(&replace.info.id);
        Box::pin(async move {
            replace.validate()?;
            self.database.erase(Some(session), move |connection| log::replace(connection, &replace)).await
        })
    }

    fn create_all(&self, mut batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        let store = self.name();
        let create = move |connection: &Connection| log::create_all(connection, &mut *batch, &store);
        Box::pin(self.database.write(None, create))
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        let session: Arc<str> = session.into();
        let id = Arc::clone(&session);
        Box::pin(self.database.read(Some(session), move |connection| log::read(connection, &id)))
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        let session: Arc<str> = session.into();
        let id = Arc::clone(&session);
        Box::pin(self.database.read(Some(session), move |connection| log::blobs(connection, &id, &addresses)))
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        let session: Arc<str> = session.into();
        let id = Arc::clone(&session);
        Box::pin(self.database.read(Some(session), move |connection| log::head(connection, &id)))
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        let session: Arc<str> = session.into();
        let id = Arc::clone(&session);
        Box::pin(self.database.erase(Some(session), move |connection| log::delete(connection, &id)))
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        Box::pin(self.database.read(None, move |connection| list::sessions(connection, &query)))
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        Box::pin(self.database.read(None, check::check))
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.database.close())
    }
}

impl Records for SqliteEngine {
    fn record(&self, id: &RecordId) -> EngineFuture<'_, Option<Record>> {
        let id = id.clone();
        Box::pin(self.database.read(None, move |connection| records::record(connection, &id)))
    }

    fn write_records(&self, write: RecordWrite) -> EngineFuture<'_, bool> {
        Box::pin(self.database.write(None, move |connection| records::write(connection, &write)))
    }

    fn record_entries(&self, id: &RecordId, after: u64, limit: usize) -> EngineFuture<'_, Vec<RecordEntry>> {
        let id = id.clone();
        let read = move |connection: &Connection| records::entries(connection, &id, after, limit);
        Box::pin(self.database.read(None, read))
    }

    fn delete_expired(&self, collection: &str, now: Timestamp, limit: usize) -> EngineFuture<'_, u64> {
        let collection = collection.to_owned();
        let delete =
            move |connection: &Connection| records::delete_expired(connection, &collection, now, limit);
        Box::pin(self.database.write(None, delete))
    }
}

/// How often an idle worker looks for runs: SQLite does not notify other processes.
const POLL: Duration = Duration::from_millis(250);

impl Queue for SqliteEngine {
    fn enqueue(&self, run: NewRun) -> EngineFuture<'_, ()> {
        Box::pin(self.database.write(None, move |connection| queue::enqueue(connection, &run)))
    }

    fn resume(&self, session: &str) -> EngineFuture<'_, Option<Arc<str>>> {
        let session = session.to_owned();
        Box::pin(self.database.write(None, move |connection| queue::resume(connection, &session)))
    }

    fn run(&self, id: &str) -> EngineFuture<'_, Option<Run>> {
        let id = id.to_owned();
        Box::pin(self.database.read(None, move |connection| queue::run(connection, &id)))
    }

    fn runs(&self, query: RunQuery) -> EngineFuture<'_, RunPage> {
        Box::pin(self.database.read(None, move |connection| queue::runs(connection, &query)))
    }

    fn prune_runs(&self, before: Timestamp) -> EngineFuture<'_, u64> {
        Box::pin(self.database.erase(None, move |connection| queue::prune(connection, before)))
    }

    fn rewrite(&self, id: &str, from: RunTexts, to: RunTexts) -> EngineFuture<'_, bool> {
        let id = id.to_owned();
        Box::pin(self.database.erase(None, move |connection| queue::rewrite(connection, &id, &from, &to)))
    }

    fn claim(&self, claim: Claim) -> EngineFuture<'_, Option<Claimed>> {
        Box::pin(async move {
            let query = claim.clone();
            let look = self.database.read(None, move |connection| queue::is_available(connection, &query));
            if !look.await? {
                return Ok(None);
            }
            self.database.write(None, move |connection| queue::claim(connection, &claim)).await
        })
    }

    fn heartbeat(&self, session: &str, token: u64, lease: Duration) -> EngineFuture<'_, bool> {
        let (session, lease) = (session.to_owned(), microseconds(lease));
        Box::pin(
            self.database.write(None, move |connection| queue::heartbeat(connection, &session, token, lease)),
        )
    }

    fn finish(&self, finish: Finish) -> EngineFuture<'_, ()> {
        Box::pin(self.database.write(None, move |connection| queue::finish(connection, &finish)))
    }

    fn wait(&self, timeout: Duration) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            runtime::sleep(timeout.min(POLL)).await;
            Ok(())
        })
    }
}

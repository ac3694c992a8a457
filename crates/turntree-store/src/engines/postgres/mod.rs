//! Stores logs in PostgreSQL: many processes on many machines.
//!
//! | file | content |
//! |---|---|
//! | `url` | the URL of a database |
//! | `connection` | statements on a connection, also behind a pooler |
//! | `pool` | connections, TLS, reconnecting |
//! | `schema` | the tables and their versions |
//! | `statements` | the SQL |
//! | `log` | reads and writes of one session |
//! | `import` | sessions that are created together |
//! | `queue`, `queue_statements` | the queue of runs |
//! | `records` | reads and writes of records, with their SQL |
//! | `listener` | notifications of new runs |
//! | `list` | the list of sessions; the check |
//! | `error` | errors of PostgreSQL as errors of stores |

mod connection;
mod error;
mod import;
mod list;
mod listener;
mod log;
mod pool;
mod queue;
mod queue_statements;
mod records;
mod schema;
mod statements;
mod url;

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use turntree_core::time::Timestamp;

use self::listener::Listener;
use self::pool::Pool;
use self::queue_statements::QueueStatements;
use self::records::RecordStatements;
use self::statements::Statements;
use super::network::{Failure, Operations, twice};
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{
    Append, Engine, EngineFuture, Head, Log, Replace, SessionPage, SessionQuery, StoreIssue, Synchronous,
    TIMEOUT,
};
use crate::error::StoreError;
use crate::queue::{Claim, Claimed, Finish, NewRun, Queue, Run, RunPage, RunQuery, RunTexts};
use crate::records::{Record, RecordEntry, RecordId, RecordWrite, Records};

/// The settings of a [`PostgresEngine`].
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The largest number of connections of this process, 8 by default. They are made when they are needed.
    pub max_connections: usize,
    /// How long an operation waits for a connection to the server, 10 s by default and 60 s at most. The option
    /// `connect_timeout` of the URL has precedence.
    pub connect_timeout: Duration,
    /// When a write is durable: by default when it is acknowledged.
    pub synchronous: Synchronous,
    /// The schema of the tables, which is created if it does not exist. By default that of the URL's option `schema`, or
    /// else the first schema of the search path.
    pub schema: Option<String>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            max_connections: 8,
            connect_timeout: Duration::from_secs(10),
            synchronous: Synchronous::Full,
            schema: None,
        }
    }
}

/// A store in a PostgreSQL database.
///
/// All of its I/O runs on the runtime of [`turntree_core::runtime`]; futures may be polled on any thread. After a fork,
/// the child has connections of its own.
#[derive(Debug)]
pub struct PostgresEngine {
    operations: Operations,
    database: Arc<Database>,
}

/// The pool and the statements. Each operation on the runtime shares it.
struct Database {
    pool: Pool,
    statements: Statements,
    queue: QueueStatements,
    records: RecordStatements,
    listener: Listener,
}

impl PostgresEngine {
    /// Makes a store of `postgresql://user:password@host:port/database?sslmode=verify-full`. The first operation connects
    /// and creates the tables.
    ///
    /// The options of the URL are those of libpq (`sslmode`, `sslrootcert`, `connect_timeout`, `options`,
    /// `target_session_attrs` and others), `schema` and `pooler`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the URL or an option is invalid; its message contains no part of the URL.
    pub fn connect(url: &str, mut options: PostgresOptions) -> Result<Self, StoreError> {
        let mut target = url::parse(url)?;
        if let Some(schema) = options.schema.take() {
            url::check_schema(&schema)?;
            target.schema = Some(schema);
        }
        options.connect_timeout = options.connect_timeout.min(TIMEOUT);
        let qualifier = schema::qualifier(target.schema.as_deref());
        Ok(Self {
            operations: Operations::new(Arc::clone(&target.name)),
            database: Arc::new(Database {
                pool: Pool::new(target, options),
                statements: Statements::new(&qualifier),
                queue: QueueStatements::new(&qualifier),
                records: RecordStatements::new(&qualifier),
                listener: Listener::default(),
            }),
        })
    }

    fn run<T, F>(&self, operation: impl FnOnce(Arc<Database>) -> F) -> EngineFuture<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let operation = operation(Arc::clone(&self.database));
        self.operations.run(async move { operation.await.map_err(StoreError::from) })
    }
}

/// Whether no row has this text: PostgreSQL stores all characters but this one.
fn cannot_be_stored(text: &str) -> bool {
    text.contains('\0')
}

impl Engine for PostgresEngine {
    fn name(&self) -> Arc<str> {
        Arc::clone(self.database.pool.name())
    }

    fn schema(&self) -> Option<u64> {
        Some(schema::VERSION.unsigned_abs())
    }

    fn append(&self, append: Append) -> EngineFuture<'_, ()> {
        self.run(|database| async move { database.append(append).await })
    }

    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()> {
        self.run(|database| async move { database.replace(replace).await })
    }

    fn create_all(&self, batch: Box<dyn Batch>) -> EngineFuture<'_, ()> {
        let database = Arc::clone(&self.database);
        self.operations.run_long(async move { database.create_all(batch).await.map_err(StoreError::from) })
    }

    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>> {
        if cannot_be_stored(session) {
            return Box::pin(ready(Ok(None)));
        }
        let session = session.to_owned();
        self.run(|database| async move { twice(|| database.read(&session)).await })
    }

    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>> {
        if cannot_be_stored(session) {
            return Box::pin(ready(Ok(vec![None; addresses.len()])));
        }
        let session = session.to_owned();
        self.run(|database| async move { twice(|| database.blobs(&session, &addresses)).await })
    }

    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>> {
        if cannot_be_stored(session) {
            return Box::pin(ready(Ok(None)));
        }
        let session = session.to_owned();
        self.run(|database| async move { twice(|| database.head(&session)).await })
    }

    fn delete(&self, session: &str) -> EngineFuture<'_, bool> {
        if cannot_be_stored(session) {
            return Box::pin(ready(Ok(false)));
        }
        let session = session.to_owned();
        self.run(|database| async move { database.delete(&session).await })
    }

    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage> {
        if query.agent.as_deref().is_some_and(cannot_be_stored) {
            return Box::pin(ready(Ok(SessionPage::default())));
        }
        self.run(|database| async move { twice(|| database.sessions(&query)).await })
    }

    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>> {
        self.run(|database| async move { twice(|| database.check()).await })
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.operations.close().await;
            self.database.listener.close();
            self.database.pool.close();
            Ok(())
        })
    }
}

impl Queue for PostgresEngine {
    fn enqueue(&self, run: NewRun) -> EngineFuture<'_, ()> {
        // An id is added once, so the operation may be repeated.
        self.run(|database| async move { twice(|| database.enqueue(&run)).await })
    }

    fn resume(&self, session: &str) -> EngineFuture<'_, Option<Arc<str>>> {
        let session = session.to_owned();
        self.run(|database| async move { database.resume(&session).await })
    }

    fn run(&self, id: &str) -> EngineFuture<'_, Option<Run>> {
        if cannot_be_stored(id) {
            return Box::pin(ready(Ok(None)));
        }
        let id = id.to_owned();
        self.run(|database| async move { twice(|| database.find_run(&id)).await })
    }

    fn runs(&self, query: RunQuery) -> EngineFuture<'_, RunPage> {
        if query.session.as_deref().is_some_and(cannot_be_stored) {
            return Box::pin(ready(Ok(RunPage::default())));
        }
        self.run(|database| async move { twice(|| database.runs(&query)).await })
    }

    fn prune_runs(&self, before: Timestamp) -> EngineFuture<'_, u64> {
        self.run(move |database| async move { database.prune_runs(before).await })
    }

    fn rewrite(&self, id: &str, from: RunTexts, to: RunTexts) -> EngineFuture<'_, bool> {
        let id = id.to_owned();
        self.run(|database| async move { database.rewrite(&id, &from, &to).await })
    }

    fn claim(&self, claim: Claim) -> EngineFuture<'_, Option<Claimed>> {
        self.run(|database| async move { database.claim(&claim).await })
    }

    fn heartbeat(&self, session: &str, token: u64, lease: Duration) -> EngineFuture<'_, bool> {
        let session = session.to_owned();
        self.run(|database| async move { twice(|| database.heartbeat(&session, token, lease)).await })
    }

    fn finish(&self, finish: Finish) -> EngineFuture<'_, ()> {
        self.run(|database| async move { database.finish(&finish).await })
    }

    fn wait(&self, timeout: Duration) -> EngineFuture<'_, ()> {
        self.run(move |database| async move { database.wait(timeout).await })
    }
}

impl Records for PostgresEngine {
    fn record(&self, id: &RecordId) -> EngineFuture<'_, Option<Record>> {
        let id = id.clone();
        self.run(|database| async move { twice(|| database.record(&id)).await })
    }

    fn write_records(&self, write: RecordWrite) -> EngineFuture<'_, bool> {
        self.run(|database| async move { database.write_records(&write).await })
    }

    fn record_entries(&self, id: &RecordId, after: u64, limit: usize) -> EngineFuture<'_, Vec<RecordEntry>> {
        let id = id.clone();
        self.run(move |database| async move { twice(|| database.record_entries(&id, after, limit)).await })
    }

    fn delete_expired(&self, collection: &str, now: Timestamp, limit: usize) -> EngineFuture<'_, u64> {
        let collection = collection.to_owned();
        self.run(move |database| async move { database.delete_expired(&collection, now, limit).await })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("pool", &self.pool).finish_non_exhaustive()
    }
}

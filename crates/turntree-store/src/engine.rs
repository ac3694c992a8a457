//! The port of the engines: one append-only log for each session, with compare-and-swap on its head.
//!
//! Engines do not know what entries contain. They store bytes, in order, all or nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::digest::Digest;
use crate::error::StoreError;
use crate::queue::Queue;
use crate::records::Records;
use turntree_core::time::Timestamp;

/// The result of an operation of an engine.
pub type EngineFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The end of a session's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of entries that were ever appended. It grows by one with each entry, also after [`Engine::replace`].
    pub revision: u64,
    /// The digest of the last entry; see [`Digest::of_entry`].
    pub digest: Digest,
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The digest; see [`Digest::of_entry`].
    pub digest: Digest,
    /// The content. Opaque for engines.
    pub data: Bytes,
}

/// Data that entries refer to by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The address. The same address in the same session always has the same data.
    pub address: Digest,
    /// The content. Opaque for engines.
    pub data: Bytes,
}

/// What a list of sessions shows of a session. The writer of an entry computes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The id: 1 to 200 printable characters.
    pub id: Arc<str>,
    /// The id of the agent that the session was created with.
    pub agent: Arc<str>,
    /// Whether the session has a run to resume.
    pub status: SessionStatus,
    /// The number of turns that users started: the user messages of the tree.
    pub turns: u64,
    /// The number of nodes of the tree.
    pub nodes: u64,
    /// When the session last changed.
    pub updated_at: Timestamp,
    /// The size of all entries and blobs, in bytes.
    pub bytes: u64,
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// There is no run to resume.
    Idle,
    /// There is a run to resume.
    Unfinished,
    /// There is a run whose calls wait for a decision.
    Waiting,
}

impl SessionStatus {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Unfinished, Self::Waiting];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Unfinished => "unfinished",
            Self::Waiting => "waiting",
        }
    }
}

/// One entry to append.
#[derive(Debug, Clone)]
pub struct Append {
    /// The head that the log must have; `None` if the session must not exist.
    pub expected: Option<Head>,
    /// The entry. Its digest continues that of `expected`.
    pub entry: Entry,
    /// Blobs of the entry. A blob that the session has already is not stored again.
    pub blobs: Vec<Blob>,
    /// The state of the session after the entry; names the session.
    pub info: SessionInfo,
    /// The fencing token of the writer's lease: the append fails with [`StoreError::Fenced`] if a newer token was
    /// issued for the session or has appended to it. This is checked before the head.
    pub fence: Option<u64>,
}

/// A log that takes the place of another one: after pruning, a change of the encryption key, or an import.
#[derive(Debug, Clone)]
pub struct Replace {
    /// The head that the log must have; `None` if the session must not exist.
    pub expected: Option<Head>,
    /// All entries, oldest first; at least one.
    pub entries: Vec<Entry>,
    /// The revision of the last entry. Greater than that of `expected`.
    pub revision: u64,
    /// All blobs. Other blobs of the session are removed.
    pub blobs: Vec<Blob>,
    /// The state of the session.
    pub info: SessionInfo,
}

/// The log of a session.
#[derive(Debug, Clone)]
pub struct Log {
    /// The revision of the last entry.
    pub revision: u64,
    /// All entries, oldest first.
    pub entries: Vec<Entry>,
    /// The state of the session.
    pub info: SessionInfo,
}

impl Log {
    /// Returns the head; `None` if there are no entries, which is damage.
    pub fn head(&self) -> Option<Head> {
        self.entries.last().map(|last| Head { revision: self.revision, digest: last.digest })
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions with this status.
    pub status: Option<SessionStatus>,
    /// Only sessions that changed after this time.
    pub updated_after: Option<Timestamp>,
    /// Only sessions that did not change after this time.
    pub updated_before: Option<Timestamp>,
    /// The largest number of sessions of a page; at least 1.
    pub limit: usize,
    /// The position after which the page starts: [`SessionPage::next`] of the page before it.
    pub after: Option<String>,
}

/// A page of sessions, the most recently updated first, those with the same time by id.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// The position of the next page; `None` if this is the last one.
    pub next: Option<String>,
}

/// When a write of a database is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is acknowledged: it survives a power failure.
    #[default]
    Full,
    /// Soon after it is acknowledged. A crash of the process loses nothing; a crash of the machine or of the database
    /// server may lose the last writes: whole writes, and with each one all that followed it.
    Normal,
}

/// A defect that [`Engine::check`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreIssue {
    /// The damaged session; `None` if the defect is of the whole store.
    pub session: Option<Arc<str>>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for StoreIssue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.session {
            Some(session) => write!(formatter, "session \"{session}\": {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

/// The longest time that an operation of a store waits for a lock, a connection or an answer.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Stores the logs of sessions.
///
/// # Cancel safety
/// Any future may be dropped at any point. The operation is then done as a whole or not at all.
///
/// # Errors
/// Every operation can fail with [`StoreError::Unavailable`], [`StoreError::Closed`] and [`StoreError::Failed`]. When the
/// future of a write fails with `Unavailable`, [`Engine::head`] says whether the write was done.
pub trait Engine: Send + Sync + fmt::Debug + 'static {
    /// Returns a name for messages, such as `SQLite store "sessions.db"`; never with a password.
    fn name(&self) -> Arc<str>;

    /// Returns the version of the layout in which data is stored; `None` if it is stored in memory only.
    fn schema(&self) -> Option<u64> {
        None
    }

    /// Appends an entry. When the future has returned, the entry is as durable as the engine is configured to be.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the log has another head; [`StoreError::Fenced`]; [`StoreError::Full`];
    /// [`StoreError::ReadOnly`].
    fn append(&self, append: Append) -> EngineFuture<'_, ()>;

    /// Replaces the whole log of a session in one step. What it replaces is removed from the storage medium as far as
    /// the engine can do so.
    ///
    /// # Errors
    /// As for [`Self::append`], and [`StoreError::Invalid`]; see [`Replace::validate`].
    fn replace(&self, replace: Replace) -> EngineFuture<'_, ()>;

    /// Creates sessions, all or none, also if the process is killed. Each is in the batch once.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if one of the sessions exists; those of the batch; as for [`Self::append`].
    fn create_all(&self, batch: Box<dyn Batch>) -> EngineFuture<'_, ()>;

    /// Reads the log of a session; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    fn read(&self, session: &str) -> EngineFuture<'_, Option<Log>>;

    /// Reads blobs of a session, in the order of the addresses; `None` for each that is missing.
    fn blobs(&self, session: &str, addresses: Vec<Digest>) -> EngineFuture<'_, Vec<Option<Bytes>>>;

    /// Reads the head of a session's log; `None` if there is no such session.
    fn head(&self, session: &str) -> EngineFuture<'_, Option<Head>>;

    /// Deletes a session and all its data. Returns false if there was none.
    fn delete(&self, session: &str) -> EngineFuture<'_, bool>;

    /// Lists sessions. A session that does not change while pages are read is in exactly one of them. A session that
    /// changes moves to the front of the list.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if `limit` is zero or `after` is not the position of a page.
    fn sessions(&self, query: SessionQuery) -> EngineFuture<'_, SessionPage>;

    /// Finds defects of the engine's own data: its schema, files, indexes and counters. The contents of logs are checked by
    /// the caller.
    fn check(&self) -> EngineFuture<'_, Vec<StoreIssue>>;

    /// Returns the queue of runs; `None` if the engine has none.
    fn queue(&self) -> Option<&dyn Queue> {
        None
    }

    /// Returns the records of protocol servers; `None` if the engine stores none.
    fn records(&self) -> Option<&dyn Records> {
        None
    }

    /// Closes the store after the operations that have started. A closed store fails with [`StoreError::Closed`].
    fn close(&self) -> EngineFuture<'_, ()>;
}

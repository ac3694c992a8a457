//! Stores sessions, their logs, and the responses to requests with an idempotency key.
//!
//! Each action is one transaction of the engine: the session with compare-and-swap, an entry of its log, and the response.
//! The key of a session is a digest of its id: who reads the database cannot use the sessions, and a look-up takes the
//! same time for every wrong id.
//!
//! `approvals` stores the calls that wait for a person, and the decisions.

mod approvals;
mod records;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turntree_core::time::Timestamp;
use turntree_store::records::{RecordId, RecordPut, RecordWrite};
use turntree_store::{Engine, Records, StoreError};

pub(crate) use self::approvals::approval_id;
pub use self::approvals::{ApprovalDecision, PendingApproval, UsedApproval};
use self::records::digest;
pub use self::records::{ActionEntry, ChangedKey, StoredResponse, StoredSession};

/// The collection of sessions.
const SESSIONS: &str = "uaip.session";

/// The collection of responses.
const RESPONSES: &str = "uaip.response";

/// How many expired records are deleted in one transaction.
const SWEEP_BATCH: usize = 500;

/// Sessions in an engine of `turntree-store`.
#[derive(Clone)]
pub struct SessionStore {
    engine: Arc<dyn Engine>,
}

/// What one action writes.
#[derive(Debug)]
pub struct Commit {
    /// The id of the session.
    pub session_id: String,
    /// The session after the action. `record_version` is the version that is stored now, 0 for a new session.
    pub session: StoredSession,
    /// The entry of the log.
    pub entry: ActionEntry,
    /// The response, with its key, of a request that may be sent again.
    pub response: Option<(ResponseKey, StoredResponse)>,
    /// The decision of a person that the action has used up.
    pub approval: Option<UsedApproval>,
}

/// Names the response to a request that may be sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseKey(String);

impl ResponseKey {
    /// The key of a request of a session.
    pub fn of_session(session_id: &str, key: &str) -> Self {
        Self(digest(&["session", session_id, key]))
    }

    /// The key of a request that creates a session.
    pub fn of_principal(principal: Option<&str>, key: &str) -> Self {
        let kind = if principal.is_some() { "principal" } else { "anyone" };
        Self(digest(&[kind, principal.unwrap_or_default(), key]))
    }
}

impl SessionStore {
    /// Uses an engine.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the engine stores no records.
    pub fn new(engine: Arc<dyn Engine>) -> Result<Self, StoreError> {
        if engine.records().is_some() {
            return Ok(Self { engine });
        }
        let name = engine.name();
        Err(StoreError::Invalid(format!(
            "{name} cannot store sessions of workflows; use the memory store, SQLite or PostgreSQL"
        )))
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        let closed = || StoreError::Closed { store: self.engine.name() };
        self.engine.records().ok_or_else(closed)
    }

    fn read_json<T: DeserializeOwned>(&self, key: &str, data: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(data).map_err(|error| StoreError::Corrupt {
            store: self.engine.name(),
            session: key.get(..8).unwrap_or_default().into(),
            reason: error.to_string(),
        })
    }

    fn write_json<T: Serialize>(value: &T) -> Result<Bytes, StoreError> {
        let text = serde_json::to_vec(value);
        text.map(Bytes::from)
            .map_err(|error| StoreError::Invalid(format!("a session cannot be written: {error}")))
    }

    /// Reads a session; `None` if there is none, or if it has expired.
    ///
    /// # Errors
    /// Those of the engine; [`StoreError::Corrupt`].
    pub async fn session(
        &self,
        session_id: &str,
        now: Timestamp,
    ) -> Result<Option<StoredSession>, StoreError> {
        let id = session_record(session_id);
        let found = self.records()?.record(&id).await?.filter(|record| !record.is_expired(now));
        let Some(record) = found else { return Ok(None) };
        let mut session: StoredSession = self.read_json(&id.key, &record.data)?;
        session.record_version = record.version;
        Ok(Some(session))
    }

    /// Reads the response of an earlier request with the same key.
    ///
    /// # Errors
    /// Those of the engine; [`StoreError::Corrupt`].
    pub async fn response(
        &self,
        key: &ResponseKey,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let id = RecordId::new(RESPONSES, key.0.as_str());
        let found = self.records()?.record(&id).await?.filter(|record| !record.is_expired(now));
        found.map(|record| self.read_json(&id.key, &record.data)).transpose()
    }

    /// Writes what an action has changed, as a whole or not at all. Returns false if the session has another version
    /// than it was read with, or if the response exists already.
    ///
    /// # Errors
    /// Those of the engine. After [`StoreError::Unavailable`] it is not known whether the write was done.
    pub async fn commit(&self, commit: Commit, now: Timestamp) -> Result<bool, StoreError> {
        let version = commit.session.record_version;
        let mut puts = vec![RecordPut {
            id: session_record(&commit.session_id),
            expected: (version > 0).then_some(version),
            data: Self::write_json(&commit.session)?,
            expires_at: Some(commit.session.expires_at),
            entry: Some(Self::write_json(&commit.entry)?),
        }];
        if let Some((key, response)) = commit.response {
            puts.push(RecordPut {
                id: RecordId::new(RESPONSES, key.0),
                expected: None,
                expires_at: Some(response.expires_at),
                data: Self::write_json(&response)?,
                entry: None,
            });
        }
        puts.extend(commit.approval.map(|used| used.removal(now)));
        self.records()?.write_records(RecordWrite { puts, now }).await
    }

    /// Reads the log of a session: the actions that have run, oldest first, after an entry's number.
    ///
    /// # Errors
    /// Those of the engine; [`StoreError::Corrupt`].
    pub async fn history(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ActionEntry>, StoreError> {
        let id = session_record(session_id);
        let entries = self.records()?.record_entries(&id, after, limit).await?;
        let entries = entries.into_iter().map(|entry| {
            let read = self.read_json::<ActionEntry>(&id.key, &entry.data);
            read.map(|action| ActionEntry { number: entry.version, ..action })
        });
        entries.collect()
    }

    /// Deletes expired sessions with their logs, and expired responses. Returns how many.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn sweep(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut all = 0;
        for collection in [SESSIONS, RESPONSES, approvals::DECISIONS, approvals::PENDING] {
            loop {
                let deleted = self.records()?.delete_expired(collection, now, SWEEP_BATCH).await?;
                all += deleted;
                if deleted < SWEEP_BATCH as u64 {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Returns an error if the engine cannot be used now.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.records()?.record(&RecordId::new(SESSIONS, "check")).await.map(drop)
    }
}

impl fmt::Debug for SessionStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SessionStore").field(&self.engine.name()).finish()
    }
}

fn session_record(session_id: &str) -> RecordId {
    RecordId::new(SESSIONS, digest(&["session", session_id]))
}

/// The digest of a body or of arguments.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    records::hex(bytes)
}

/// The digest of the arguments of an action, for its log.
pub(crate) fn digest_of_value(value: &Value) -> String {
    records::hex(value.to_string().as_bytes())
}

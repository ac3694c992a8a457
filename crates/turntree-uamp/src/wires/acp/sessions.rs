//! The list of a principal's sessions, as records of an engine.
//!
//! The conversation itself is a session of the store. Its record has what the protocol shows in addition: the working
//! directory and the title. The log of a record for each principal and agent lists the sessions in the order of their
//! beginning.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use turntree_core::time::Timestamp;
use turntree_server::Principal;
use turntree_store::digest::Digest;
use turntree_store::records::{RecordId, RecordPut, RecordWrite};
use turntree_store::{Engine, Records};

use super::json_rpc::RpcError;

/// The collection of sessions.
const SESSIONS: &str = "acp.session";

/// The collection of lists.
const INDEX: &str = "acp.index";

/// How many of the newest sessions can be listed.
const MAX_LISTED: usize = 1_000;

/// How many sessions a page has.
const PAGE: usize = 50;

/// How often a write is tried again after another one was faster.
const MAX_ATTEMPTS: usize = 20;

/// What the protocol shows of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    /// The id.
    pub(super) id: String,
    /// The working directory.
    pub(super) cwd: String,
    /// The first line of the first prompt.
    pub(super) title: Option<String>,
    /// When the last prompt began.
    pub(super) updated_at: Timestamp,
}

/// A page of sessions, the newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Page {
    pub(super) sessions: Vec<SessionRecord>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// The sessions of one agent, as one principal sees them.
#[derive(Debug, Clone)]
pub(super) struct SessionIndex {
    engine: Arc<dyn Engine>,
    scope: String,
}

impl SessionIndex {
    pub(super) fn new(engine: Arc<dyn Engine>, agent: &str, principal: Option<&Principal>) -> Self {
        let scope = match principal {
            None => format!("anyone {agent}"),
            Some(principal) => format!("principal {agent} {}", principal.id()),
        };
        Self { engine, scope }
    }

    fn records(&self) -> Result<&dyn Records, RpcError> {
        self.engine.records().ok_or_else(|| failed(&"the engine stores no records"))
    }

    /// Keys are hexadecimal, because the ids of principals have no limit.
    fn session(&self, id: &str) -> RecordId {
        let key = Digest::of(format!("{}\n{id}", self.scope).as_bytes());
        RecordId::new(SESSIONS, key.to_string())
    }

    fn index(&self) -> RecordId {
        RecordId::new(INDEX, Digest::of(self.scope.as_bytes()).to_string())
    }

    async fn read(&self, id: &str) -> Result<Option<(SessionRecord, u64)>, RpcError> {
        let found = self.records()?.record(&self.session(id)).await.map_err(|error| failed(&error))?;
        let Some(record) = found else { return Ok(None) };
        let session = serde_json::from_slice(&record.data).map_err(|error| failed(&error))?;
        Ok(Some((session, record.version)))
    }

    /// The session with this id, if it has begun over this protocol.
    pub(super) async fn find(&self, id: &str) -> Result<Option<SessionRecord>, RpcError> {
        Ok(self.read(id).await?.map(|(session, _)| session))
    }

    /// Adds a session, and lists it.
    pub(super) async fn add(&self, session: &SessionRecord) -> Result<(), RpcError> {
        let index = self.index();
        for _ in 0..MAX_ATTEMPTS {
            let head = self.records()?.record(&index).await.map_err(|error| failed(&error))?;
            let listed = RecordPut {
                id: index.clone(),
                expected: head.map(|head| head.version),
                data: Bytes::from_static(b"null"),
                expires_at: None,
                entry: Some(Bytes::from(session.id.clone())),
            };
            if self.write(vec![self.put(session, None)?, listed], session.updated_at).await? {
                return Ok(());
            }
        }
        Err(failed(&"the list of sessions is changed by many others at the same time"))
    }

    /// Changes a session that is listed. Does nothing for others.
    pub(super) async fn change(
        &self,
        id: &str,
        now: Timestamp,
        change: impl Fn(&mut SessionRecord) + Send + Sync,
    ) -> Result<(), RpcError> {
        for _ in 0..MAX_ATTEMPTS {
            let Some((mut session, version)) = self.read(id).await? else { return Ok(()) };
            change(&mut session);
            if self.write(vec![self.put(&session, Some(version))?], now).await? {
                return Ok(());
            }
        }
        Err(failed(&"the session is changed by many others at the same time"))
    }

    /// A page of the sessions with this working directory, or of all.
    pub(super) async fn list(&self, cwd: Option<&str>, cursor: Option<&str>) -> Result<Page, RpcError> {
        let before = cursor.map(|text| {
            text.parse::<u64>()
                .map_err(|_| RpcError::invalid_params("cursor: expected the nextCursor of an earlier answer"))
        });
        let before = before.transpose()?.unwrap_or(u64::MAX);
        let (records, index) = (self.records()?, self.index());
        let Some(head) = records.record(&index).await.map_err(|error| failed(&error))? else {
            return Ok(Page::default());
        };
        let after = head.version.saturating_sub(MAX_LISTED as u64);
        let entries = records.record_entries(&index, after, MAX_LISTED).await;
        let entries = entries.map_err(|error| failed(&error))?;
        let mut page = Page::default();
        let mut last = None;
        for entry in entries.iter().rev().filter(|entry| entry.version < before) {
            if page.sessions.len() == PAGE {
                page.next = last;
                break;
            }
            last = Some(entry.version.to_string());
            let found = self.find(&String::from_utf8_lossy(&entry.data)).await?;
            let selected = found.filter(|session| cwd.is_none_or(|cwd| session.cwd == cwd));
            page.sessions.extend(selected);
        }
        Ok(page)
    }

    fn put(&self, session: &SessionRecord, expected: Option<u64>) -> Result<RecordPut, RpcError> {
        let data = serde_json::to_vec(session).map(Bytes::from).map_err(|error| failed(&error))?;
        Ok(RecordPut { id: self.session(&session.id), expected, data, expires_at: None, entry: None })
    }

    async fn write(&self, puts: Vec<RecordPut>, now: Timestamp) -> Result<bool, RpcError> {
        let written = self.records()?.write_records(RecordWrite { puts, now }).await;
        written.map_err(|error| failed(&error))
    }
}

/// The store failed. The reason is for the operator only.
fn failed(error: &dyn std::fmt::Display) -> RpcError {
    log::error!("ACP: the list of sessions failed: {error}");
    RpcError::internal("the list of sessions failed; try again later")
}

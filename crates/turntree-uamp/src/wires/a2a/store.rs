//! Tasks and their webhooks as records of an engine.
//!
//! A task belongs to the principal that created it. The log of the record of a principal lists its tasks.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use turntree_core::time::Timestamp;
use turntree_server::Principal;
use turntree_store::records::{RecordId, RecordPut, RecordWrite};
use turntree_store::{Engine, Records};

use super::error::A2aError;
use super::model::{PushConfig, Task};

/// How long a task is kept after its last change: 7 days.
const RETENTION_MICROSECONDS: i64 = 7 * 24 * 3_600 * 1_000_000;

/// How many of a principal's newest tasks a list has at most.
pub(super) const MAX_LISTED: usize = 1_000;

/// How often a write is tried again after another one was faster.
const MAX_ATTEMPTS: usize = 20;

/// How many tasks are read at the same time for a list.
const READS: usize = 16;

/// The largest number of webhooks of a task.
const MAX_CONFIGS: usize = 16;

/// A task as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredTask {
    /// The principal; `None` on servers without authentication.
    pub(super) owner: Option<String>,
    /// The agent.
    pub(super) agent: String,
    /// The task.
    pub(super) task: Task,
    /// When the server that works on it last wrote it, in microseconds since 1970.
    pub(super) alive_at: i64,
}

/// The tasks of one agent, as one principal sees them.
#[derive(Debug, Clone)]
pub(super) struct TaskStore {
    engine: Arc<dyn Engine>,
    agent: Arc<str>,
    owner: Option<Arc<str>>,
}

impl TaskStore {
    pub(super) fn new(engine: Arc<dyn Engine>, agent: Arc<str>, principal: Option<&Principal>) -> Self {
        Self { engine, agent, owner: principal.map(|principal| principal.id().into()) }
    }

    /// The key of what belongs to the principal and the agent together.
    pub(super) fn scope(&self) -> String {
        match &self.owner {
            None => format!("anyone {}", self.agent),
            Some(owner) => format!("principal {} {}", self.agent, owner),
        }
    }

    fn records(&self) -> Result<&dyn Records, A2aError> {
        self.engine.records().ok_or_else(|| A2aError::store(&"the engine stores no records"))
    }

    /// A task with its version.
    pub(super) async fn load(&self, id: &str, now: Timestamp) -> Result<Option<(StoredTask, u64)>, A2aError> {
        if !is_task_id(id) {
            return Ok(None);
        }
        let found: Option<(StoredTask, u64)> = self.read(&task_record(id), now).await?;
        Ok(found.filter(|(stored, _)| {
            stored.owner.as_deref() == self.owner.as_deref() && *stored.agent == *self.agent
        }))
    }

    /// Stores a new task, and lists it. Returns its version.
    pub(super) async fn create(&self, task: &Task, now: Timestamp) -> Result<u64, A2aError> {
        let index = self.index();
        for _ in 0..MAX_ATTEMPTS {
            let head = self.records()?.record(&index).await.map_err(|error| A2aError::store(&error))?;
            let expected = head.filter(|record| !record.is_expired(now)).map(|record| record.version);
            let entry = Some(Bytes::from(task.id.clone()));
            let listed = RecordPut {
                id: index.clone(),
                expected,
                data: Bytes::from_static(b"null"),
                expires_at: Some(expiry(now)),
                entry,
            };
            let puts = vec![self.put(task, None, now)?, listed];
            if self.write(puts, now).await? {
                return Ok(1);
            }
        }
        Err(A2aError::store(&"the list of tasks is changed by many others at the same time"))
    }

    /// Stores a task. Returns false if it was changed since `version`.
    pub(super) async fn update(&self, task: &Task, version: u64, now: Timestamp) -> Result<bool, A2aError> {
        let put = self.put(task, Some(version), now)?;
        self.write(vec![put], now).await
    }

    /// The newest tasks.
    pub(super) async fn list(&self, now: Timestamp) -> Result<Vec<StoredTask>, A2aError> {
        let index = self.index();
        let records = self.records()?;
        let head = records.record(&index).await.map_err(|error| A2aError::store(&error))?;
        let Some(head) = head.filter(|record| !record.is_expired(now)) else { return Ok(Vec::new()) };
        let after = head.version.saturating_sub(MAX_LISTED as u64);
        let entries = records.record_entries(&index, after, MAX_LISTED).await;
        let entries = entries.map_err(|error| A2aError::store(&error))?;
        let ids: Vec<String> =
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect();
        let mut tasks = Vec::with_capacity(ids.len());
        for some in ids.chunks(READS) {
            let found = try_join_all(some.iter().map(|id| self.load(id, now))).await?;
            tasks.extend(found.into_iter().flatten().map(|(stored, _)| stored));
        }
        Ok(tasks)
    }

    /// The webhooks of a task.
    pub(super) async fn configs(&self, task_id: &str, now: Timestamp) -> Result<Vec<PushConfig>, A2aError> {
        let found: Option<(Vec<PushConfig>, u64)> = self.read(&push_record(task_id), now).await?;
        Ok(found.map(|(configs, _)| configs).unwrap_or_default())
    }

    /// Changes the webhooks of a task.
    pub(super) async fn change_configs(
        &self,
        task_id: &str,
        now: Timestamp,
        change: impl Fn(&mut Vec<PushConfig>) + Send + Sync,
    ) -> Result<(), A2aError> {
        let id = push_record(task_id);
        for _ in 0..MAX_ATTEMPTS {
            let found: Option<(Vec<PushConfig>, u64)> = self.read(&id, now).await?;
            let (mut configs, expected) =
                found.map_or_else(|| (Vec::new(), None), |(list, version)| (list, Some(version)));
            change(&mut configs);
            if configs.len() > MAX_CONFIGS {
                let message = format!("a task has at most {MAX_CONFIGS} webhooks; delete one first");
                return Err(A2aError::invalid(message));
            }
            let data = to_json(&configs)?;
            let put =
                RecordPut { id: id.clone(), expected, data, expires_at: Some(expiry(now)), entry: None };
            if self.write(vec![put], now).await? {
                return Ok(());
            }
        }
        Err(A2aError::store(&"the webhooks are changed by many others at the same time"))
    }

    /// Deletes some of what has expired.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), A2aError> {
        for collection in [TASKS, PUSH, INDEX] {
            let deleted = self.records()?.delete_expired(collection, now, 500).await;
            deleted.map_err(|error| A2aError::store(&error))?;
        }
        Ok(())
    }

    async fn read<T: DeserializeOwned>(
        &self,
        id: &RecordId,
        now: Timestamp,
    ) -> Result<Option<(T, u64)>, A2aError> {
        let found = self.records()?.record(id).await.map_err(|error| A2aError::store(&error))?;
        let Some(record) = found.filter(|record| !record.is_expired(now)) else { return Ok(None) };
        let value = serde_json::from_slice(&record.data).map_err(|error| A2aError::store(&error))?;
        Ok(Some((value, record.version)))
    }

    async fn write(&self, puts: Vec<RecordPut>, now: Timestamp) -> Result<bool, A2aError> {
        let written = self.records()?.write_records(RecordWrite { puts, now }).await;
        written.map_err(|error| A2aError::store(&error))
    }

    fn put(&self, task: &Task, expected: Option<u64>, now: Timestamp) -> Result<RecordPut, A2aError> {
        let stored = StoredTask {
            owner: self.owner.as_deref().map(str::to_owned),
            agent: self.agent.to_string(),
            task: task.clone(),
            alive_at: now.microseconds(),
        };
        let data = to_json(&stored)?;
        Ok(RecordPut {
            id: task_record(&task.id),
            expected,
            data,
            expires_at: Some(expiry(now)),
            entry: None,
        })
    }

    /// The record whose log lists the tasks. Its key is hexadecimal, because the ids of principals have no limit.
    fn index(&self) -> RecordId {
        let digest = turntree_store::digest::Digest::of(self.scope().as_bytes());
        RecordId::new(INDEX, digest.to_string())
    }
}

/// The collection of tasks.
const TASKS: &str = "a2a.task";

/// The collection of webhooks, by task.
const PUSH: &str = "a2a.push";

/// The collection of lists.
const INDEX: &str = "a2a.index";

fn task_record(id: &str) -> RecordId {
    RecordId::new(TASKS, id)
}

fn push_record(task_id: &str) -> RecordId {
    RecordId::new(PUSH, task_id)
}

fn expiry(now: Timestamp) -> Timestamp {
    Timestamp::from_microseconds(now.microseconds().saturating_add(RETENTION_MICROSECONDS))
}

fn to_json<T: Serialize>(value: &T) -> Result<Bytes, A2aError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| A2aError::store(&error))
}

/// Whether the server can have made an id.
fn is_task_id(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

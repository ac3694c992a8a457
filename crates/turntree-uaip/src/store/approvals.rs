//! Calls of tasks that wait for the decision of a person, and the decisions.
//!
//! The calls that wait are one record for each workflow. A decision is a record of its own: the action that uses it removes
//! it in its transaction.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turntree_core::time::Timestamp;
use turntree_store::StoreError;
use turntree_store::records::{RecordId, RecordPut, RecordWrite};

use super::SessionStore;
use super::records::digest;

/// The collection of decisions, by the id of the call.
pub(super) const DECISIONS: &str = "uaip.approval";

/// The collection of calls that wait, by workflow.
pub(super) const PENDING: &str = "uaip.approvals";

/// Maximum number of calls of a workflow that wait. Above it the oldest are forgotten: the agent then asks again.
const MAX_PENDING: usize = 1_000;

/// Maximum size of the arguments of the calls of a workflow that wait, in bytes of JSON.
const MAX_PENDING_BYTES: usize = 4 * 1024 * 1024;

/// How often a write is tried again after another one was faster.
const MAX_ATTEMPTS: usize = 50;

/// Length of an id, in hexadecimal digits.
const ID_LENGTH: usize = 32;

/// What a person has decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// The call may be made once.
    Granted,
    /// The call is denied.
    Denied {
        /// Why, for the agent; may be empty.
        reason: String,
    },
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// The id, which agents see too.
    pub id: String,
    /// The task.
    pub task: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// From when on it is forgotten: its session expires.
    pub expires_at: Timestamp,
}

/// A stored decision that an action uses up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedApproval {
    id: RecordId,
    version: u64,
}

impl UsedApproval {
    /// The write that removes the decision.
    pub(super) fn removal(self, now: Timestamp) -> RecordPut {
        let data = Bytes::from_static(b"null");
        RecordPut { id: self.id, expected: Some(self.version), data, expires_at: Some(now), entry: None }
    }
}

/// The calls of a workflow that wait, as they are stored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PendingCalls {
    calls: Vec<PendingApproval>,
}

impl PendingCalls {
    fn add(&mut self, call: PendingApproval) {
        self.calls.push(call);
        let size = |call: &PendingApproval| Value::Object(call.arguments.clone()).to_string().len();
        let mut bytes: usize = self.calls.iter().map(size).sum();
        // The newest call stays, whatever its size.
        while self.calls.len() > 1 && (self.calls.len() > MAX_PENDING || bytes > MAX_PENDING_BYTES) {
            bytes = bytes.saturating_sub(size(&self.calls.remove(0)));
        }
    }

    fn put(&self, id: RecordId, expected: Option<u64>, now: Timestamp) -> Result<RecordPut, StoreError> {
        let last = self.calls.iter().map(|call| call.expires_at).max();
        let data = SessionStore::write_json(self)?;
        Ok(RecordPut { id, expected, data, expires_at: Some(last.unwrap_or(now)), entry: None })
    }
}

/// The id of a call: it depends on the session, the task and the arguments.
pub(crate) fn approval_id(session_id: &str, task: &str, args: &Map<String, Value>) -> String {
    let mut sorted = Value::Object(args.clone());
    sorted.sort_all_objects();
    let mut id = digest(&["approval", session_id, task, &sorted.to_string()]);
    id.truncate(ID_LENGTH);
    id
}

fn conflict(store: &SessionStore) -> StoreError {
    let name = store.engine.name();
    StoreError::Invalid(format!(
        "{name}: the approvals are changed by many others at the same time; try again"
    ))
}

impl SessionStore {
    async fn pending_calls(
        &self,
        id: &RecordId,
        now: Timestamp,
    ) -> Result<(PendingCalls, Option<u64>), StoreError> {
        let found = self.records()?.record(id).await?.filter(|record| !record.is_expired(now));
        let Some(record) = found else { return Ok((PendingCalls::default(), None)) };
        let mut pending: PendingCalls = self.read_json(&id.key, &record.data)?;
        pending.calls.retain(|call| call.expires_at > now);
        Ok((pending, Some(record.version)))
    }

    /// Reads the calls of a workflow that wait for a decision, oldest first.
    ///
    /// # Errors
    /// Those of the engine; [`StoreError::Corrupt`].
    pub async fn pending_approvals(
        &self,
        workflow: &str,
        now: Timestamp,
    ) -> Result<Vec<PendingApproval>, StoreError> {
        Ok(self.pending_calls(&pending_record(workflow), now).await?.0.calls)
    }

    /// Adds a call that waits. No effect if it waits already.
    pub(crate) async fn add_pending(
        &self,
        workflow: &str,
        call: PendingApproval,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let id = pending_record(workflow);
        for _ in 0..MAX_ATTEMPTS {
            let (mut pending, version) = self.pending_calls(&id, now).await?;
            if pending.calls.iter().any(|other| other.id == call.id) {
                return Ok(());
            }
            pending.add(call.clone());
            let puts = vec![pending.put(id.clone(), version, now)?];
            if self.records()?.write_records(RecordWrite { puts, now }).await? {
                return Ok(());
            }
        }
        Err(conflict(self))
    }

    /// Stores a decision about a call that waits. Returns false if no call with this id waits.
    ///
    /// # Errors
    /// Those of the engine; [`StoreError::Corrupt`].
    pub async fn decide(
        &self,
        workflow: &str,
        id: &str,
        decision: &ApprovalDecision,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let index = pending_record(workflow);
        for _ in 0..MAX_ATTEMPTS {
            let (mut pending, version) = self.pending_calls(&index, now).await?;
            let Some(place) = pending.calls.iter().position(|call| call.id == id) else { return Ok(false) };
            let call = pending.calls.remove(place);
            let record = decision_record(id);
            let earlier = self.records()?.record(&record).await?.filter(|found| !found.is_expired(now));
            let put = RecordPut {
                id: record,
                expected: earlier.map(|found| found.version),
                data: Self::write_json(decision)?,
                expires_at: Some(call.expires_at),
                entry: None,
            };
            let puts = vec![pending.put(index.clone(), version, now)?, put];
            if self.records()?.write_records(RecordWrite { puts, now }).await? {
                return Ok(true);
            }
        }
        Err(conflict(self))
    }

    /// Reads the decision about a call that was not used.
    pub(crate) async fn decision(
        &self,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<(UsedApproval, ApprovalDecision)>, StoreError> {
        let id = decision_record(id);
        let found = self.records()?.record(&id).await?.filter(|record| !record.is_expired(now));
        let Some(record) = found else { return Ok(None) };
        let decision = self.read_json(&id.key, &record.data)?;
        Ok(Some((UsedApproval { id, version: record.version }, decision)))
    }
}

fn pending_record(workflow: &str) -> RecordId {
    RecordId::new(PENDING, digest(&["workflow", workflow]))
}

fn decision_record(id: &str) -> RecordId {
    RecordId::new(DECISIONS, id)
}

//! What is stored, as JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use turntree_core::time::Timestamp;

use crate::engine::Session;
use crate::state::State;

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSession {
    /// The session.
    pub session: Session,
    /// Who has created it; others do not find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// From when on it counts as absent.
    pub expires_at: Timestamp,
    /// The version of the record. It also counts actions that have failed.
    #[serde(skip)]
    pub record_version: u64,
}

/// The response to a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResponse {
    /// The digest of the request's body.
    pub request: String,
    /// Who has sent the request; others do not get the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// From when on the key may be used again.
    pub expires_at: Timestamp,
}

/// An action that has run, in the log of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    /// The number in the log, from 1.
    #[serde(skip)]
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The action: `initialize`, `method_call`, …
    pub action: String,
    /// The stage before the action.
    pub stage: String,
    /// The task, or the stage that was entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The digest of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// The status in the response: `ok`, `task_error`, …
    pub outcome: String,
    /// The version of the session after the action.
    pub state_version: u64,
    /// The changes of the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangedKey>,
}

/// A key of the state that an action has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedKey {
    /// The stage whose own store has changed; `None` for the store of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Arc<str>>,
    /// The key.
    pub key: Arc<str>,
    /// The new value.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub value: Option<Arc<Value>>,
}

/// An optional value whose `null` is a value: the member is missing for `None`.
mod present {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::Value;

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Arc<Value>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Value>>, D::Error> {
        Value::deserialize(deserializer).map(|value| Some(Arc::new(value)))
    }
}

impl ActionEntry {
    /// An action that has not ended.
    pub(crate) fn new(at: Timestamp, action: &str, stage: &str) -> Self {
        Self {
            number: 0,
            at,
            principal: None,
            action: action.to_owned(),
            stage: stage.to_owned(),
            target: None,
            args: None,
            outcome: "ok".to_owned(),
            state_version: 0,
            changes: Vec::new(),
        }
    }
}

impl ChangedKey {
    /// All changes between two sessions.
    pub(crate) fn between(before: &Session, after: &Session) -> Vec<Self> {
        let empty = State::default();
        let own = after.stages.iter().flat_map(|(stage, state)| {
            let changes = state.changes_since(before.stages.get(stage).unwrap_or(&empty));
            changes.into_iter().map(|change| (Some(Arc::clone(stage)), change))
        });
        let shared = after.state.changes_since(&before.state).into_iter().map(|change| (None, change));
        shared
            .chain(own)
            .map(|(stage, change)| Self { stage, key: change.key, value: change.value })
            .collect()
    }
}

/// A digest of texts, in hexadecimal. The length of each text is a part of it.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{:x}", hasher.finalize())
}

/// The SHA-256 of bytes, in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

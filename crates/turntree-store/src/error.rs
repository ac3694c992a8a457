//! The errors of stores.

use std::sync::Arc;

use crate::engine::StoreIssue;
use turntree_core::persistence::{PersistenceError, PersistenceErrorKind};

/// Why an operation of a store failed. `store` names the engine with its file or host, never with a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer has changed or deleted the session since it was loaded or saved.
    #[error("{} by another writer since it was loaded or saved here", if *.deleted { "it was deleted" } else { "it was changed" })]
    Conflict {
        /// The id of the session.
        session: Arc<str>,
        /// True if the store no longer has the session.
        deleted: bool,
    },
    /// The lease of the session has expired or was taken over.
    #[error(
        "its lease has expired and another worker has taken it over; this worker's changes were not saved"
    )]
    Fenced {
        /// The id of the session.
        session: Arc<str>,
    },
    /// Stored data cannot be read.
    #[error("session \"{session}\" cannot be read from {store}: {reason}")]
    Corrupt {
        /// The engine.
        store: Arc<str>,
        /// The id of the session.
        session: Arc<str>,
        /// What is damaged.
        reason: String,
    },
    /// A newer version of turntree has written the store.
    #[error(
        "{store} has schema version {found}; this version of turntree reads versions up to {supported}: install a \
         newer version of turntree"
    )]
    NewerSchema {
        /// The engine.
        store: Arc<str>,
        /// The version of the stored schema.
        found: u64,
        /// The newest version that is supported.
        supported: u64,
    },
    /// The disk or the quota is full. Nothing was stored.
    #[error("{store} is full: no space left: {reason}; free some space and save again")]
    Full {
        /// The engine.
        store: Arc<str>,
        /// The message of the system or the database.
        reason: String,
    },
    /// The store cannot be written.
    #[error("{store} is read-only: {reason}")]
    ReadOnly {
        /// The engine.
        store: Arc<str>,
        /// The message of the system or the database.
        reason: String,
    },
    /// The store cannot be reached, did not answer in time, or lost the connection. Whether a write was done is not known.
    #[error("{store} cannot be reached: {reason}")]
    Unavailable {
        /// The engine.
        store: Arc<str>,
        /// What happened.
        reason: String,
    },
    /// A session that is imported exists already.
    #[error(
        "{store} has the session \"{session}\" already; delete it, or import into another store; nothing was imported"
    )]
    Exists {
        /// The engine.
        store: Arc<str>,
        /// The id of the session.
        session: Arc<str>,
    },
    /// The file of an export cannot be read or written.
    #[error("{path}: {reason}")]
    ExportFile {
        /// The path.
        path: String,
        /// The message of the system.
        reason: String,
    },
    /// The file of an export is complete but for the sessions that cannot be read.
    #[error("{path} has {exported} sessions, but not what is damaged: {}; `check` names all defects", listed(.damaged))]
    Incomplete {
        /// The path.
        path: String,
        /// The number of sessions in the file.
        exported: u64,
        /// The defects.
        damaged: Vec<StoreIssue>,
    },
    /// The file of an export is damaged, or is something else.
    #[error("{path}, line {line}: {reason}; nothing was imported")]
    ExportLine {
        /// The path.
        path: String,
        /// The number of the line, from 1.
        line: u64,
        /// The rule that is broken.
        reason: String,
    },
    /// An argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The store was closed.
    #[error("{store} is closed; open it again")]
    Closed {
        /// The engine.
        store: Arc<str>,
    },
    /// The engine failed in another way.
    #[error("{store} failed: {reason}")]
    Failed {
        /// The engine.
        store: Arc<str>,
        /// What happened.
        reason: String,
    },
}

/// The largest number of defects in a message.
const MAX_LISTED: usize = 20;

fn listed(issues: &[StoreIssue]) -> String {
    let mut texts: Vec<String> = issues.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    if let Some(more) = issues.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        texts.push(format!("and {more} more"));
    }
    texts.join("; ")
}

impl From<StoreError> for PersistenceError {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Conflict { deleted: true, .. } => PersistenceErrorKind::Deleted,
            StoreError::Conflict { .. } | StoreError::Fenced { .. } => PersistenceErrorKind::Conflict,
            StoreError::Corrupt { .. } | StoreError::NewerSchema { .. } => PersistenceErrorKind::Corrupt,
            _ => PersistenceErrorKind::Other,
        };
        Self { kind, ..Self::new(error.to_string()) }
    }
}

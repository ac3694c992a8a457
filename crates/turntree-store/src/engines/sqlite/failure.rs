//! SQLite's errors as errors of stores.

use std::sync::Arc;

use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMSIZE};

use crate::error::StoreError;

/// Why a job on a connection failed.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The job refused to work. It has changed nothing; the transaction goes on with other jobs.
    Refused(StoreError),
    /// Stored data is not what the job's statements have written. The text says how.
    Damaged(String),
    /// SQLite failed. The transaction is rolled back.
    Sqlite(SqliteFailure),
}

/// An error of SQLite.
#[derive(Debug, Clone)]
pub struct SqliteFailure {
    code: Option<ErrorCode>,
    extended_code: i32,
    message: String,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error() {
            Some(sqlite) => Self {
                code: Some(sqlite.code),
                extended_code: sqlite.extended_code,
                message: error.to_string(),
            },
            // A value of another type than the schema says.
            None => Self { code: None, extended_code: 0, message: error.to_string() },
        }
    }
}

impl Failure {
    /// The error of the store named `store`. `session` is the session that the job was about.
    pub(super) fn into_error(self, store: &Arc<str>, session: Option<&Arc<str>>) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Damaged(reason) => damaged(store, session, reason),
            Self::Sqlite(failure) => failure.into_error(store, session),
        }
    }
}

impl SqliteFailure {
    /// Whether another connection holds a lock.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the disk is full.
    pub(super) fn is_full(&self) -> bool {
        self.code == Some(ErrorCode::DiskFull)
    }

    /// Whether the file could not be opened.
    pub(super) fn is_not_opened(&self) -> bool {
        self.code == Some(ErrorCode::CannotOpen)
    }

    /// Whether the file or its folder cannot be written.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self.code, Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied))
    }

    /// Whether the connection should be opened again before it is used again.
    pub(super) fn is_of_connection(&self) -> bool {
        !self.is_busy() && !self.is_full()
    }

    /// Whether stored data is damaged.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self.code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None)
    }

    /// The message of SQLite.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    fn into_error(self, store: &Arc<str>, session: Option<&Arc<str>>) -> StoreError {
        if self.code != Some(ErrorCode::NotADatabase) && self.is_damage() {
            return damaged(store, session, self.message);
        }
        let is_read_only = self.is_read_only();
        let store = Arc::clone(store);
        let reason = self.message;
        let is_no_space_for_index = [SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHMMAP].contains(&self.extended_code);
        match self.code {
            Some(ErrorCode::DiskFull) => StoreError::Full { store, reason },
            // The index of the write-ahead log could not grow.
            Some(ErrorCode::SystemIoFailure) if is_no_space_for_index => StoreError::Full { store, reason },
            _ if is_read_only => StoreError::ReadOnly { store, reason },
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed,
            ) => {
                let reason = format!("another connection held the lock for too long ({reason})");
                StoreError::Unavailable { store, reason }
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::OperationInterrupted) => {
                StoreError::Unavailable { store, reason }
            }
            Some(ErrorCode::TooBig) => {
                StoreError::Invalid(format!("{store}: an entry is too large: {reason}"))
            }
            Some(ErrorCode::NotADatabase) => {
                let reason = "the file is not a SQLite database, or its first page is damaged".to_owned();
                StoreError::Failed { store, reason }
            }
            _ => StoreError::Failed { store, reason },
        }
    }
}

fn damaged(store: &Arc<str>, session: Option<&Arc<str>>, reason: String) -> StoreError {
    let store = Arc::clone(store);
    match session {
        Some(session) => StoreError::Corrupt { store, session: Arc::clone(session), reason },
        None => StoreError::Failed { store, reason },
    }
}

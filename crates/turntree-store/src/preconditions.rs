//! What every engine checks before a write.

use std::sync::Arc;

use crate::engine::{Head, Replace};
use crate::error::StoreError;

/// Compares the head that a writer expects with the stored one.
///
/// # Errors
/// [`StoreError::Conflict`] if they differ.
pub fn check_head(
    session: &Arc<str>,
    expected: Option<Head>,
    stored: Option<Head>,
) -> Result<(), StoreError> {
    if expected == stored {
        return Ok(());
    }
    Err(StoreError::Conflict { session: Arc::clone(session), deleted: stored.is_none() })
}

/// Compares a writer's fencing token with the newest one of the session. A writer without a token is not fenced.
///
/// # Errors
/// [`StoreError::Fenced`] if the newest token is newer.
pub fn check_fence(session: &Arc<str>, token: Option<u64>, newest: Option<u64>) -> Result<(), StoreError> {
    match (token, newest) {
        (Some(token), Some(newest)) if token < newest => {
            Err(StoreError::Fenced { session: Arc::clone(session) })
        }
        _ => Ok(()),
    }
}

impl Replace {
    /// Checks the numbers of entries and revisions.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if there are no entries, or if the revision is not greater than the expected one or is
    /// less than the number of entries.
    pub fn validate(&self) -> Result<(), StoreError> {
        let id = &self.info.id;
        let before = self.expected.map_or(0, |head| head.revision);
        if self.entries.is_empty() {
            return Err(StoreError::Invalid(format!("session \"{id}\": a log needs at least one entry")));
        }
        let count = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        if self.revision <= before || self.revision < count {
            return Err(StoreError::Invalid(format!(
                "session \"{id}\": revision {} cannot follow revision {before} with {count} entries",
                self.revision
            )));
        }
        Ok(())
    }
}

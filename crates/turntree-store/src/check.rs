//! Finds defects of a store: those of the engine, and sessions that cannot be read.

use crate::engine::{SessionInfo, SessionQuery, StoreIssue};
use crate::error::StoreError;
use crate::journal_store::{JournalStore, ReadLog, info_of};
use crate::walk::all_sessions;

impl JournalStore {
    /// Finds defects: the engine's check, and for each session the digests of all entries, the blobs, the numbers that
    /// entries refer to, and what lists show of it. Only one session is in memory at a time.
    ///
    /// # Errors
    /// The store cannot be reached or opened. Damaged sessions are not an error, but in the result.
    pub async fn check(&self) -> Result<Vec<StoreIssue>, StoreError> {
        let engine = self.engine();
        let mut issues = engine.check().await?;
        let sessions = match all_sessions(&**engine, SessionQuery::default()).await {
            Ok(sessions) => sessions,
            // The engine's own check has named the defect of the list, in other words.
            Err(error) if !issues.is_empty() => {
                issues.push(StoreIssue {
                    session: None,
                    message: format!("sessions cannot be listed: {error}"),
                });
                return Ok(issues);
            }
            Err(error) => return Err(error),
        };
        for info in sessions {
            let issue = self.check_session(&info).await?;
            issues.extend(issue.filter(|issue| !issues.contains(issue)));
        }
        Ok(issues)
    }

    async fn check_session(&self, listed: &SessionInfo) -> Result<Option<StoreIssue>, StoreError> {
        let message = match self.read_log(&listed.id).await {
            Ok(Some(read)) => difference(&read),
            // It was deleted after it was listed.
            Ok(None) => None,
            Err(StoreError::Corrupt { reason, .. } | StoreError::Failed { reason, .. }) => Some(reason),
            Err(error) => return Err(error),
        };
        Ok(message.map(|message| StoreIssue { session: Some(listed.id.clone()), message }))
    }
}

/// Says in what the state that lists show differs from the log.
fn difference(read: &ReadLog) -> Option<String> {
    let snapshot = read.journal.snapshot()?;
    let listed = &read.info;
    let found = info_of(snapshot, read.journal.turns(), listed.bytes);
    let differs = |name: &str, listed: &str, found: &str| {
        (listed != found).then(|| format!("lists show {name} {listed}, but its log has {found}"))
    };
    differs("the agent", &listed.agent, &found.agent)
        .or_else(|| differs("the number of turns", &listed.turns.to_string(), &found.turns.to_string()))
        .or_else(|| differs("the number of nodes", &listed.nodes.to_string(), &found.nodes.to_string()))
}

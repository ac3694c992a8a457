//! The list of sessions, and the check of the tables.

use std::sync::Arc;

use turntree_core::time::Timestamp;

use super::Database;
use super::connection::{Connection, Parameter};
use crate::engine::{SessionPage, SessionQuery, SessionStatus, StoreIssue};
use crate::engines::network::Failure;
use crate::page::Pager;

impl Database {
    pub(super) async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, Failure> {
        let pager = Pager::new(query)?;
        let mut lease = self.pool.get().await?;
        let result = self.sessions_on(lease.connection(), query, &pager).await;
        lease.end(result)
    }

    async fn sessions_on(
        &self,
        connection: &mut Connection,
        query: &SessionQuery,
        pager: &Pager<'_>,
    ) -> Result<SessionPage, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let first = query.updated_after.map_or(i64::MIN, |time| time.microseconds().saturating_add(1));
        let last = query.updated_before.map_or(i64::MAX, Timestamp::microseconds);
        let (time, id) =
            pager.after().map_or((i64::MAX, ""), |after| (after.updated_at.0.microseconds(), &*after.id));
        let last = last.min(time);
        let status = query.status.map(SessionStatus::as_str);
        // One more tells whether another page follows.
        let limit = i64::try_from(query.limit.saturating_add(1)).unwrap_or(i64::MAX);
        let parameters: [&dyn Parameter; 7] = [&first, &last, &time, &id, &query.agent, &status, &limit];
        let rows = connection.query(&self.statements.sessions, &parameters).await.map_err(failure)?;
        let has_more = rows.len() > query.limit;
        let mut sessions = Vec::with_capacity(rows.len().min(query.limit));
        for row in rows.iter().take(query.limit) {
            sessions.push(self.info_of(row.try_get(0).map_err(failure)?, row, 1)?);
        }
        Ok(pager.finish(sessions, has_more))
    }

    pub(super) async fn check(&self) -> Result<Vec<StoreIssue>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.check_on(lease.connection()).await;
        lease.end(result)
    }

    async fn check_on(&self, connection: &mut Connection) -> Result<Vec<StoreIssue>, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let mut issues = Vec::new();
        for row in connection.query(&self.statements.check_indexes, &[]).await.map_err(failure)? {
            let index: String = row.try_get(0).map_err(failure)?;
            issues.push(StoreIssue {
                session: None,
                message: format!("the index {index} is not valid; run REINDEX"),
            });
        }
        for row in connection.query(&self.statements.check_orphans, &[]).await.map_err(failure)? {
            let kind: &str = row.try_get(0).map_err(failure)?;
            let count: i64 = row.try_get(1).map_err(failure)?;
            if count > 0 {
                issues.push(StoreIssue {
                    session: None,
                    message: format!("{count} {kind} belong to no session"),
                });
            }
        }
        for row in connection.query(&self.statements.check_logs, &[]).await.map_err(failure)? {
            let id: &str = row.try_get(0).map_err(failure)?;
            let revision: i64 = row.try_get(1).map_err(failure)?;
            let entries: Option<i64> = row.try_get(2).map_err(failure)?;
            let first: Option<i64> = row.try_get(3).map_err(failure)?;
            let last: Option<i64> = row.try_get(4).map_err(failure)?;
            let message = match (entries, first, last) {
                (Some(entries), Some(first), Some(last))
                    if last == revision && last - first + 1 == entries =>
                {
                    format!("the digest of entry {revision} is not that of the session's head")
                }
                (Some(entries), Some(first), Some(last)) => {
                    format!(
                        "the log ends at entry {revision}, but has {entries} entries from {first} to {last}"
                    )
                }
                _ => "the log has no entries".to_owned(),
            };
            issues.push(StoreIssue { session: Some(Arc::from(id)), message });
        }
        Ok(issues)
    }
}

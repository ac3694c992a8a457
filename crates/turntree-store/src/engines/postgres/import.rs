//! Sessions that are created together, in one transaction.

use std::sync::Arc;

use tokio::time::timeout;

use super::Database;
use super::connection::{Connection, Transaction};
use super::log::Columns;
use crate::batch::{Batch, next_log};
use crate::engine::{Replace, TIMEOUT};
use crate::engines::network::Failure;
use crate::error::StoreError;

impl Database {
    /// Creates sessions, all or none. Each step has a limit of time, and not the whole.
    pub(super) async fn create_all(&self, batch: Box<dyn Batch>) -> Result<(), Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.create_all_on(lease.connection(), batch).await;
        lease.end(result)
    }

    async fn create_all_on(
        &self,
        connection: &mut Connection,
        mut batch: Box<dyn Batch>,
    ) -> Result<(), Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let transaction = connection.transaction().await.map_err(failure)?;
        loop {
            let (rest, log) = next_log(batch, self.pool.name()).await?;
            batch = rest;
            let Some(log) = log else { break };
            let inserted = timeout(TIMEOUT, self.insert_log(&transaction, &log)).await;
            inserted.map_err(|_| self.no_answer())??;
        }
        timeout(TIMEOUT, transaction.commit()).await.map_err(|_| self.no_answer())?.map_err(failure)
    }

    /// Inserts a new session.
    pub(super) async fn insert_log(
        &self,
        transaction: &Transaction<'_>,
        log: &Replace,
    ) -> Result<(), Failure> {
        log.validate()?;
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let digest = log.entries.last().map(|last| last.digest).unwrap_or_default();
        let columns = Columns::new(&log.info, log.revision, &digest)?;
        let (id, agent) = (&*log.info.id, &*log.info.agent);
        let inserted =
            transaction.query_opt(&self.statements.insert_session, &columns.parameters(&id, &agent)).await;
        let row = inserted.map_err(failure)?;
        let exists =
            || StoreError::Exists { store: Arc::clone(self.pool.name()), session: Arc::clone(&log.info.id) };
        let key: i64 = row.ok_or_else(exists)?.try_get(0).map_err(failure)?;
        let count = i64::try_from(log.entries.len()).unwrap_or(i64::MAX);
        self.insert_entries(transaction, key, columns.revision - count + 1, &log.entries).await?;
        self.insert_blobs(transaction, key, &log.blobs).await
    }

    /// The server is still busy with a statement: the connection is of no use.
    fn no_answer(&self) -> Failure {
        let reason = format!("no answer within {} s", TIMEOUT.as_secs());
        let error = StoreError::Unavailable { store: Arc::clone(self.pool.name()), reason };
        Failure { error, is_lost: true }
    }
}

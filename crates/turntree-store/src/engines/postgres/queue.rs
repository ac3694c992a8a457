//! Runs and leases.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Error, Row};
use turntree_core::time::Timestamp;

use super::Database;
use super::connection::{Connection, Parameter};
use super::log::integer;
use crate::engines::network::Failure;
use crate::error::StoreError;
use crate::queue::{
    Claim, Claimed, Finish, NewRun, Run, RunPage, RunQuery, RunStatus, RunTexts, microseconds,
};

impl Database {
    pub(super) async fn enqueue(&self, run: &NewRun) -> Result<(), Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.enqueue_on(lease.connection(), run).await;
        lease.end(result)
    }

    async fn enqueue_on(&self, connection: &mut Connection, run: &NewRun) -> Result<(), Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let not_before = run.not_before.map(Timestamp::microseconds);
        let transaction = connection.transaction().await.map_err(failure)?;
        let (id, session) = (&*run.id, &*run.session);
        transaction
            .execute(
                &self.queue.enqueue,
                &[&id, &session, &run.input, &run.agent, &run.priority, &not_before],
            )
            .await
            .map_err(failure)?;
        transaction.execute(&self.queue.notify, &[]).await.map_err(failure)?;
        transaction.commit().await.map_err(failure)
    }

    pub(super) async fn resume(&self, session: &str) -> Result<Option<Arc<str>>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.resume_on(lease.connection(), session).await;
        lease.end(result)
    }

    async fn resume_on(
        &self,
        connection: &mut Connection,
        session: &str,
    ) -> Result<Option<Arc<str>>, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let transaction = connection.transaction().await.map_err(failure)?;
        let row = transaction.query_opt(&self.queue.resume, &[&session]).await.map_err(failure)?;
        let id: Option<String> = row.map(|row| row.try_get(0)).transpose().map_err(failure)?;
        if id.is_some() {
            transaction.execute(&self.queue.notify, &[]).await.map_err(failure)?;
        }
        transaction.commit().await.map_err(failure)?;
        Ok(id.map(Arc::from))
    }

    pub(super) async fn find_run(&self, id: &str) -> Result<Option<Run>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.find_run_on(lease.connection(), id).await;
        lease.end(result)
    }

    async fn find_run_on(&self, connection: &mut Connection, id: &str) -> Result<Option<Run>, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let row = connection.query_opt(&self.queue.run, &[&id]).await.map_err(failure)?;
        row.map(|row| run_of(&row)).transpose().map_err(failure)
    }

    pub(super) async fn runs(&self, query: &RunQuery) -> Result<RunPage, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.runs_on(lease.connection(), query).await;
        lease.end(result)
    }

    async fn runs_on(&self, connection: &mut Connection, query: &RunQuery) -> Result<RunPage, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let (below, status) = (query.below()?, query.status.map(RunStatus::as_str));
        let rows = connection
            .query(&self.queue.runs, &[&below, &status, &query.session, &query.rows()])
            .await
            .map_err(failure)?;
        let found = rows.iter().map(|row| Ok((row.try_get(11)?, run_of(row)?)));
        Ok(query.page(found.collect::<Result<_, Error>>().map_err(failure)?))
    }

    pub(super) async fn prune_runs(&self, before: Timestamp) -> Result<u64, Failure> {
        let mut lease = self.pool.get().await?;
        let removed = lease.connection().execute(&self.queue.prune, &[&before.microseconds()]).await;
        lease.end(removed.map_err(|error| self.pool.failure(&error)))
    }

    pub(super) async fn rewrite(&self, id: &str, from: &RunTexts, to: &RunTexts) -> Result<bool, Failure> {
        let mut lease = self.pool.get().await?;
        let values: [&dyn Parameter; 7] =
            [&id, &to.input, &to.error, &to.turn, &from.input, &from.error, &from.turn];
        let changed = lease.connection().execute(&self.queue.rewrite, &values).await;
        Ok(lease.end(changed.map_err(|error| self.pool.failure(&error)))? == 1)
    }

    pub(super) async fn claim(&self, claim: &Claim) -> Result<Option<Claimed>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.claim_on(lease.connection(), claim).await;
        lease.end(result)
    }

    async fn claim_on(&self, connection: &mut Connection, claim: &Claim) -> Result<Option<Claimed>, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let sql = &self.queue;
        loop {
            let transaction = connection.transaction().await.map_err(failure)?;
            let row = transaction.query_opt(&sql.next, &[&claim.agents]).await.map_err(failure)?;
            let Some(row) = row else { return Ok(None) };
            let id: String = row.try_get(0).map_err(failure)?;
            let session: String = row.try_get(1).map_err(failure)?;
            let was_started: bool = row.try_get(2).map_err(failure)?;
            let expires_in = microseconds(claim.lease);
            let lease = transaction.query_opt(&sql.lease, &[&session, &claim.worker, &expires_in]).await;
            let Some(lease) = lease.map_err(failure)? else {
                // Another worker was faster.
                transaction.rollback().await.map_err(failure)?;
                continue;
            };
            let token: i64 = lease.try_get(0).map_err(failure)?;
            transaction.execute(&sql.fence, &[&session, &token]).await.map_err(failure)?;
            let run = transaction.query_one(&sql.start, &[&id]).await.map_err(failure)?;
            let run = run_of(&run).map_err(failure)?;
            transaction.commit().await.map_err(failure)?;
            return Ok(Some(Claimed { run, token: token.unsigned_abs(), was_started }));
        }
    }

    pub(super) async fn heartbeat(
        &self,
        session: &str,
        token: u64,
        duration: Duration,
    ) -> Result<bool, Failure> {
        let token = integer(token)?;
        let mut lease = self.pool.get().await?;
        let values = (session, token, microseconds(duration));
        let changed = lease
            .connection()
            .execute(&self.queue.heartbeat, &[&values.0, &values.1, &values.2])
            .await
            .map_err(|error| self.pool.failure(&error));
        Ok(lease.end(changed)? == 1)
    }

    pub(super) async fn finish(&self, finish: &Finish) -> Result<(), Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.finish_on(lease.connection(), finish).await;
        lease.end(result)
    }

    async fn finish_on(&self, connection: &mut Connection, finish: &Finish) -> Result<(), Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let (sql, change) = (&self.queue, finish.outcome.change());
        let (id, session, token) = (&*finish.run, &*finish.session, integer(finish.token)?);
        let error = change.error.map(|error| error.replace('\0', "\u{fffd}"));
        let transaction = connection.transaction().await.map_err(failure)?;
        // The order of locks is that of a claim.
        transaction.query_opt(&sql.lock, &[&id]).await.map_err(failure)?;
        if transaction.execute(&sql.release, &[&session, &token]).await.map_err(failure)? == 0 {
            return Err(StoreError::Fenced { session: Arc::clone(&finish.session) }.into());
        }
        let (status, is_active) = (change.status.as_str(), change.status.is_active());
        transaction
            .execute(
                &sql.finish,
                &[
                    &id,
                    &status,
                    &is_active,
                    &change.turn,
                    &error,
                    &change.factor,
                    &change.failures,
                    &change.attempts,
                    &change.delay,
                    &change.seen,
                ],
            )
            .await
            .map_err(failure)?;
        // The next run of the session.
        transaction.execute(&sql.notify, &[]).await.map_err(failure)?;
        transaction.commit().await.map_err(failure)
    }

    pub(super) async fn wait(&self, timeout: Duration) -> Result<(), Failure> {
        self.listener.wait(&self.pool, timeout).await;
        Ok(())
    }
}

fn run_of(row: &Row) -> Result<Run, Error> {
    let text = |index: usize| row.try_get::<_, &str>(index).map(Arc::<str>::from);
    let count = |index: usize| row.try_get::<_, i32>(index).map(i32::unsigned_abs);
    // The table has a check: other names do not occur.
    let status = RunStatus::from_name(row.try_get(4)?).unwrap_or(RunStatus::Failed);
    Ok(Run {
        id: text(0)?,
        session: text(1)?,
        input: row.try_get(2)?,
        agent: row.try_get(3)?,
        status,
        attempts: count(5)?,
        failures: count(6)?,
        error: row.try_get(7)?,
        turn: row.try_get(8)?,
        created_at: Timestamp::from_microseconds(row.try_get(9)?),
        updated_at: Timestamp::from_microseconds(row.try_get(10)?),
    })
}

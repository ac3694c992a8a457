//! The statements of the queue.

use std::sync::Arc;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use turntree_core::time::{Clock as _, SystemClock, Timestamp};

use super::failure::Failure;
use super::uptime;
use crate::error::StoreError;
use crate::queue::{
    Claim, Claimed, Finish, NewRun, Run, RunPage, RunQuery, RunStatus, RunTexts, microseconds,
};

/// The columns of a [`Run`]; see [`run_of`].
const RUN: &str = "run.id, run.session, run.input, run.agent, run.status, run.attempts, run.failures, run.error, run.turn, \
     run.created_at, run.updated_at";

/// The next run. A clock that was set back would delay a new attempt: then `updated_at` is in the future. `is_started` comes first: such a run has left its state in the session.
const NEXT: &str = "
    FROM runs AS run
    LEFT JOIN leases AS lease ON lease.session = run.session
    LEFT JOIN sessions AS session ON session.id = run.session
    WHERE run.is_active AND run.not_before <= :now
        AND (run.retry_at <= :now OR run.updated_at > :now)
        AND (run.status <> 'waiting' OR (session.status <> 'waiting' AND session.updated_at <> run.seen))
        AND (lease.session IS NULL OR lease.expires <= :uptime OR lease.boot IS NOT :boot)
        AND (run.agent IS NULL OR run.agent IN (SELECT value FROM json_each(:agents)))
        AND NOT EXISTS (
            SELECT 1 FROM runs AS earlier
            WHERE earlier.is_active AND earlier.session = run.session AND earlier.not_before <= :now
                AND (-earlier.is_started, earlier.number) < (-run.is_started, run.number)
        )
    ORDER BY run.priority DESC, run.number
    LIMIT 1";

impl FromSql for RunStatus {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

fn now() -> i64 {
    SystemClock.now().microseconds()
}

pub(super) fn enqueue(connection: &Connection, run: &NewRun) -> Result<(), Failure> {
    let now = now();
    // Not the time now: the clock may be set back.
    let not_before = run.not_before.map_or(0, Timestamp::microseconds);
    connection
        .prepare_cached(
            "INSERT INTO runs (id, session, input, agent, priority, not_before, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![&*run.id, &*run.session, run.input, run.agent, run.priority, not_before, now])?;
    Ok(())
}

pub(super) fn resume(connection: &Connection, session: &str) -> Result<Option<Arc<str>>, Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE runs SET status = 'queued', retry_at = 0, updated_at = ?2 \
         WHERE is_active AND session = ?1 AND status = 'waiting' RETURNING id",
    )?;
    let mut rows = statement.query(params![session, now()])?;
    // All rows: a statement that is not read to its end does not do all its work.
    let mut id = None;
    while let Some(row) = rows.next()? {
        id = Some(row.get(0)?);
    }
    Ok(id)
}

pub(super) fn run(connection: &Connection, id: &str) -> Result<Option<Run>, Failure> {
    let mut statement = connection.prepare_cached(&format!("SELECT {RUN} FROM runs AS run WHERE id = ?1"))?;
    Ok(statement.query_row([id], run_of).optional()?)
}

pub(super) fn runs(connection: &Connection, query: &RunQuery) -> Result<RunPage, Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RUN}, run.number FROM runs AS run \
         WHERE run.number < :below AND (:status IS NULL OR run.status = :status) \
         AND (:session IS NULL OR run.session = :session) ORDER BY run.number DESC LIMIT :rows"
    ))?;
    let values = named_params! {
        ":below": query.below()?,
        ":status": query.status.map(RunStatus::as_str),
        ":session": query.session,
        ":rows": query.rows(),
    };
    let rows = statement.query_map(values, |row| Ok((row.get(11)?, run_of(row)?)))?;
    Ok(query.page(rows.collect::<Result<_, _>>()?))
}

pub(super) fn prune(connection: &Connection, before: Timestamp) -> Result<u64, Failure> {
    let mut statement =
        connection.prepare_cached("DELETE FROM runs WHERE NOT is_active AND updated_at <= ?1")?;
    let removed = statement.execute([before.microseconds()])?;
    Ok(u64::try_from(removed).unwrap_or_default())
}

pub(super) fn rewrite(
    connection: &Connection,
    id: &str,
    from: &RunTexts,
    to: &RunTexts,
) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE runs SET input = ?2, error = ?3, turn = ?4 \
         WHERE id = ?1 AND input IS ?5 AND error IS ?6 AND turn IS ?7",
    )?;
    let values = params![id, to.input, to.error, to.turn, from.input, from.error, from.turn];
    Ok(statement.execute(values)? == 1)
}

/// Whether there is a run to claim. Reads only: workers that have nothing to do do not wait for the writers' lock.
pub(super) fn is_available(connection: &Connection, claim: &Claim) -> Result<bool, Failure> {
    Ok(next(connection, claim)?.is_some())
}

/// The next run, and whether it was started.
fn next(connection: &Connection, claim: &Claim) -> Result<Option<(Run, bool)>, Failure> {
    let (agents, uptime) = (serde_json::to_string(&claim.agents).unwrap_or_default(), uptime::now());
    let mut statement = connection.prepare_cached(&format!("SELECT {RUN}, run.is_started {NEXT}"))?;
    Ok(statement
        .query_row(
            named_params! {
                ":now": now(),
                ":uptime": uptime.microseconds,
                ":boot": uptime.boot,
                ":agents": agents,
            },
            |row| Ok((run_of(row)?, row.get(11)?)),
        )
        .optional()?)
}

pub(super) fn claim(connection: &Connection, claim: &Claim) -> Result<Option<Claimed>, Failure> {
    let Some((mut run, was_started)) = next(connection, claim)? else { return Ok(None) };
    let now = now();
    // A fence without a lease: the session was imported together with it.
    let mut statement = connection.prepare_cached(
        "INSERT INTO leases (session, token, worker, expires, boot) VALUES (\
             ?1, 1 + coalesce((SELECT fence FROM sessions WHERE id = ?1), 0), ?2, ?3, ?4) \
         ON CONFLICT (session) DO UPDATE \
         SET token = max(token + 1, excluded.token), worker = ?2, expires = ?3, boot = ?4 RETURNING token",
    )?;
    let uptime = uptime::now();
    let expires = uptime.microseconds.saturating_add(microseconds(claim.lease));
    let values = params![&*run.session, claim.worker, expires, uptime.boot];
    let token: u64 = statement.query_row(values, |row| row.get(0))?;
    connection
        .prepare_cached("UPDATE sessions SET fence = ?2 WHERE id = ?1")?
        .execute(params![&*run.session, token])?;
    run.status = RunStatus::Running;
    run.attempts = run.attempts.saturating_add(1);
    connection
        .prepare_cached(
            "UPDATE runs SET status = 'running', is_started = 1, attempts = ?2, updated_at = ?3 WHERE id = ?1",
        )?
        .execute(params![&*run.id, run.attempts, now])?;
    Ok(Some(Claimed { run, token, was_started }))
}

pub(super) fn heartbeat(
    connection: &Connection,
    session: &str,
    token: u64,
    expires_in: i64,
) -> Result<bool, Failure> {
    let uptime = uptime::now();
    let expires = uptime.microseconds.saturating_add(expires_in);
    let mut statement = connection.prepare_cached(
        "UPDATE leases SET expires = ?3, boot = ?4 WHERE session = ?1 AND token = ?2 AND worker IS NOT NULL",
    )?;
    Ok(statement.execute(params![session, token, expires, uptime.boot])? == 1)
}

pub(super) fn finish(connection: &Connection, finish: &Finish) -> Result<(), Failure> {
    let released = connection
        .prepare_cached(
            "UPDATE leases SET worker = NULL, expires = 0 WHERE session = ?1 AND token = ?2 AND worker IS NOT NULL",
        )?
        .execute(params![&*finish.session, finish.token])?;
    if released == 0 {
        return Err(StoreError::Fenced { session: Arc::clone(&finish.session) }.into());
    }
    let (now, change) = (now(), finish.outcome.change());
    connection
        .prepare_cached(
            "UPDATE runs SET status = :status, is_active = :is_active, turn = :turn, \
                 error = CASE WHEN :status = 'done' THEN NULL ELSE coalesce(:error, error) END, \
                 failures = failures * :factor + :failures, attempts = max(attempts * :factor + :attempts, 0), \
                 retry_at = :retry_at, seen = :seen, updated_at = :now \
             WHERE id = :id",
        )?
        .execute(named_params! {
            ":id": &*finish.run,
            ":status": change.status.as_str(),
            ":is_active": change.status.is_active(),
            ":turn": change.turn,
            ":error": change.error,
            ":factor": change.factor,
            ":failures": change.failures,
            ":attempts": change.attempts,
            ":retry_at": now.saturating_add(change.delay),
            ":seen": change.seen,
            ":now": now,
        })?;
    Ok(())
}

/// Reads the columns of [`RUN`].
fn run_of(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        session: row.get(1)?,
        input: row.get(2)?,
        agent: row.get(3)?,
        status: row.get(4)?,
        attempts: row.get(5)?,
        failures: row.get(6)?,
        error: row.get(7)?,
        turn: row.get(8)?,
        created_at: Timestamp::from_microseconds(row.get(9)?),
        updated_at: Timestamp::from_microseconds(row.get(10)?),
    })
}

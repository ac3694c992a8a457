//! The statements of one session's log.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use turntree_core::time::Timestamp;

use super::failure::Failure;
use crate::batch::Batch;
use crate::digest::Digest;
use crate::engine::{Append, Blob, Entry, Head, Log, Replace, SessionInfo, SessionStatus};
use crate::error::StoreError;
use crate::preconditions::{check_fence, check_head};

/// The number of bits of a key that are the revision.
const REVISION_BITS: u32 = 32;

/// The greatest revision.
const MAX_REVISION: u64 = (1 << REVISION_BITS) - 1;

/// The columns of a [`SessionInfo`]; see [`info_of`].
pub(super) const INFO: &str = "id, agent, status, turns, nodes, updated_at, bytes";

impl ToSql for Digest {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for Digest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_slice(value.as_blob()?).ok_or(FromSqlError::InvalidType)
    }
}

impl FromSql for SessionStatus {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(FromSqlError::InvalidType)
    }
}

/// A session's row.
struct Session {
    number: i64,
    fence: Option<u64>,
}

/// The key of an entry.
fn key(number: i64, revision: u64) -> Result<i64, Failure> {
    i64::try_from(revision.min(MAX_REVISION))
        .ok()
        .zip(number.checked_mul(1 << REVISION_BITS))
        .and_then(|(revision, start)| start.checked_add(revision))
        .filter(|_| revision <= MAX_REVISION)
        .ok_or_else(|| {
            let text = format!("revision {revision} is too large; a SQLite store has {MAX_REVISION} at most");
            Failure::Refused(StoreError::Invalid(text))
        })
}

/// The first and the last possible key of a session.
fn keys(number: i64) -> Result<(i64, i64), Failure> {
    Ok((key(number, 0)?, key(number, MAX_REVISION)?))
}

/// The revision of a key.
fn revision(key: i64) -> u64 {
    key.cast_unsigned() & MAX_REVISION
}

fn find(connection: &Connection, id: &str) -> Result<Option<Session>, Failure> {
    let mut statement = connection.prepare_cached("SELECT number, fence FROM sessions WHERE id = ?1")?;
    let session = |row: &Row<'_>| Ok(Session { number: row.get(0)?, fence: row.get(1)? });
    Ok(statement.query_row([id], session).optional()?)
}

fn last(connection: &Connection, number: i64) -> Result<Option<Head>, Failure> {
    let (first, last) = keys(number)?;
    let mut statement = connection.prepare_cached(
        "SELECT key, digest FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1",
    )?;
    let head = |row: &Row<'_>| Ok(Head { revision: revision(row.get(0)?), digest: row.get(1)? });
    Ok(statement.query_row([first, last], head).optional()?)
}

pub(super) fn head(connection: &Connection, id: &str) -> Result<Option<Head>, Failure> {
    match find(connection, id)? {
        Some(session) => last(connection, session.number),
        None => Ok(None),
    }
}

pub(super) fn append(connection: &Connection, append: &Append) -> Result<(), Failure> {
    let id = &append.info.id;
    let session = find(connection, id)?;
    check_fence(id, append.fence, session.as_ref().and_then(|session| session.fence))?;
    let stored = match &session {
        Some(session) => last(connection, session.number)?,
        None => None,
    };
    check_head(id, append.expected, stored)?;
    let fence = append.fence.or(session.as_ref().and_then(|session| session.fence));
    let revision = append.expected.map_or(0, |head| head.revision).saturating_add(1);
    let number = session.map(|session| session.number);
    // Before the first change.
    key(number.unwrap_or_default(), revision)?;
    let number = put_session(connection, number, &append.info, fence)?;
    put_entry(connection, key(number, revision)?, &append.entry)?;
    put_blobs(connection, number, &append.blobs)
}

pub(super) fn replace(connection: &Connection, replace: &Replace) -> Result<(), Failure> {
    let id = &replace.info.id;
    let session = find(connection, id)?;
    let stored = match &session {
        Some(session) => last(connection, session.number)?,
        None => None,
    };
    check_head(id, replace.expected, stored)?;
    let fence = session.as_ref().and_then(|session| session.fence);
    let number = session.map(|session| session.number);
    key(number.unwrap_or_default(), replace.revision)?;
    if let Some(number) = number {
        delete_log(connection, number)?;
    }
    let number = put_session(connection, number, &replace.info, fence)?;
    let count = u64::try_from(replace.entries.len()).unwrap_or(u64::MAX);
    let first = replace.revision.saturating_sub(count).saturating_add(1);
    for (revision, entry) in (first..).zip(&replace.entries) {
        put_entry(connection, key(number, revision)?, entry)?;
    }
    put_blobs(connection, number, &replace.blobs)
}

/// Creates sessions. Changes nothing if one of them cannot be created: other jobs may share the transaction.
pub(super) fn create_all(
    connection: &Connection,
    batch: &mut dyn Batch,
    store: &Arc<str>,
) -> Result<(), Failure> {
    batch.rewind()?;
    connection.execute_batch("SAVEPOINT batch")?;
    let created = create_each(connection, batch, store);
    if created.is_err() {
        connection.execute_batch("ROLLBACK TO batch")?;
    }
    connection.execute_batch("RELEASE batch")?;
    created
}

fn create_each(connection: &Connection, batch: &mut dyn Batch, store: &Arc<str>) -> Result<(), Failure> {
    while let Some(log) = batch.next_log()? {
        log.validate()?;
        replace(connection, &log).map_err(|failure| match failure {
            Failure::Refused(StoreError::Conflict { session, .. }) => {
                StoreError::Exists { store: Arc::clone(store), session }.into()
            }
            failure => failure,
        })?;
    }
    Ok(())
}

pub(super) fn delete(connection: &Connection, id: &str) -> Result<bool, Failure> {
    let Some(session) = find(connection, id)? else { return Ok(false) };
    delete_log(connection, session.number)?;
    connection.prepare_cached("DELETE FROM sessions WHERE number = ?1")?.execute([session.number])?;
    Ok(true)
}

/// Deletes entries and blobs.
fn delete_log(connection: &Connection, number: i64) -> Result<(), Failure> {
    let (first, last) = keys(number)?;
    connection.prepare_cached("DELETE FROM entries WHERE key BETWEEN ?1 AND ?2")?.execute([first, last])?;
    connection.prepare_cached("DELETE FROM blobs WHERE session = ?1")?.execute([number])?;
    Ok(())
}

/// Writes the row of a session and returns its number.
fn put_session(
    connection: &Connection,
    number: Option<i64>,
    info: &SessionInfo,
    fence: Option<u64>,
) -> Result<i64, Failure> {
    let values = params![
        &*info.id,
        &*info.agent,
        info.status.as_str(),
        info.turns,
        info.nodes,
        info.updated_at.microseconds(),
        info.bytes,
        fence,
        number,
    ];
    if let Some(number) = number {
        let mut statement = connection.prepare_cached(
            "UPDATE sessions SET id = ?1, agent = ?2, status = ?3, turns = ?4, nodes = ?5, updated_at = ?6, bytes = ?7, \
             fence = ?8 WHERE number = ?9",
        )?;
        statement.execute(values)?;
        return Ok(number);
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, agent, status, turns, nodes, updated_at, bytes, fence, number) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    Ok(statement.insert(values)?)
}

fn put_entry(connection: &Connection, key: i64, entry: &Entry) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("INSERT INTO entries (key, digest, data) VALUES (?1, ?2, ?3)")?;
    statement.execute(params![key, entry.digest, &*entry.data])?;
    Ok(())
}

fn put_blobs(connection: &Connection, number: i64, blobs: &[Blob]) -> Result<(), Failure> {
    for blob in blobs {
        let mut statement = connection.prepare_cached(
            "INSERT INTO blobs (session, address, data) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?;
        statement.execute(params![number, blob.address, &*blob.data])?;
    }
    Ok(())
}

pub(super) fn read(connection: &Connection, id: &str) -> Result<Option<Log>, Failure> {
    let Some(Session { number, .. }) = find(connection, id)? else { return Ok(None) };
    let info = connection
        .prepare_cached(&format!("SELECT {INFO} FROM sessions WHERE number = ?1"))?
        .query_row([number], info_of)?;
    let (first, last) = keys(number)?;
    let mut statement = connection
        .prepare_cached("SELECT key, digest, data FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key")?;
    let mut rows = statement.query([first, last])?;
    let (mut entries, mut newest) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let revision = revision(row.get(0)?);
        if newest.is_some_and(|newest: u64| newest.saturating_add(1) != revision) {
            return Err(Failure::Damaged(format!("the entry before revision {revision} is missing")));
        }
        newest = Some(revision);
        let data = Bytes::copy_from_slice(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?);
        entries.push(Entry { digest: row.get(1)?, data });
    }
    match newest {
        Some(revision) => Ok(Some(Log { revision, entries, info })),
        None => Err(Failure::Damaged("it has no entries".to_owned())),
    }
}

pub(super) fn blobs(
    connection: &Connection,
    id: &str,
    addresses: &[Digest],
) -> Result<Vec<Option<Bytes>>, Failure> {
    let Some(Session { number, .. }) = find(connection, id)? else { return Ok(vec![None; addresses.len()]) };
    let mut statement =
        connection.prepare_cached("SELECT data FROM blobs WHERE session = ?1 AND address = ?2")?;
    let mut read = |address: &Digest| -> Result<Option<Bytes>, Failure> {
        let data =
            statement.query_row(params![number, address], |row| row.get::<_, Vec<u8>>(0)).optional()?;
        Ok(data.map(Bytes::from))
    };
    addresses.iter().map(&mut read).collect()
}

/// Reads the columns of [`INFO`].
pub(super) fn info_of(row: &Row<'_>) -> rusqlite::Result<SessionInfo> {
    let text = |index: usize| -> rusqlite::Result<Arc<str>> { Ok(row.get_ref(index)?.as_str()?.into()) };
    Ok(SessionInfo {
        id: text(0)?,
        agent: text(1)?,
        status: row.get(2)?,
        turns: row.get(3)?,
        nodes: row.get(4)?,
        updated_at: Timestamp::from_microseconds(row.get(5)?),
        bytes: row.get(6)?,
    })
}

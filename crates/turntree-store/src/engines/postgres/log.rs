//! Reads and writes of one session.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use tokio_postgres::Row;
use turntree_core::time::Timestamp;

use super::Database;
use super::connection::{Connection, Parameter, Transaction};
use crate::digest::Digest;
use crate::engine::{Append, Blob, Entry, Head, Log, Replace, SessionInfo, SessionStatus};
use crate::engines::network::Failure;
use crate::error::StoreError;
use crate::preconditions::{check_fence, check_head};

/// The entries or blobs of one statement have at most this size in all, unless there is only one.
const BATCH_BYTES: usize = 4 << 20;

/// The largest number of entries or blobs of one statement.
const BATCH_ROWS: usize = 1000;

/// The columns of a session that a write sets, in the order of the statements.
pub(super) struct Columns<'a> {
    info: &'a SessionInfo,
    status: &'static str,
    turns: i64,
    nodes: i64,
    bytes: i64,
    updated_at: i64,
    pub(super) revision: i64,
    digest: &'a [u8],
}

impl<'a> Columns<'a> {
    pub(super) fn new(info: &'a SessionInfo, revision: u64, digest: &'a Digest) -> Result<Self, StoreError> {
        for text in [&info.id, &info.agent] {
            if text.contains('\0') {
                return Err(StoreError::Invalid(format!(
                    "session \"{}\": PostgreSQL cannot store texts with a zero character",
                    info.id.escape_debug()
                )));
            }
        }
        Ok(Self {
            info,
            status: info.status.as_str(),
            turns: integer(info.turns)?,
            nodes: integer(info.nodes)?,
            bytes: integer(info.bytes)?,
            updated_at: info.updated_at.microseconds(),
            // No log is that long: a head with such a revision is not the stored one.
            revision: i64::try_from(revision).unwrap_or(i64::MAX),
            digest: &digest.0,
        })
    }

    /// The first nine parameters.
    pub(super) fn parameters<'p>(&'p self, id: &'p &'p str, agent: &'p &'p str) -> [&'p dyn Parameter; 9] {
        [
            id,
            agent,
            &self.status,
            &self.turns,
            &self.nodes,
            &self.bytes,
            &self.updated_at,
            &self.revision,
            &self.digest,
        ]
    }
}

impl Database {
    pub(super) async fn append(&self, append: Append) -> Result<(), Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.append_on(lease.connection(), &append).await;
        lease.end(result)
    }

    async fn append_on(&self, connection: &mut Connection, append: &Append) -> Result<(), Failure> {
        let revision = append.expected.map_or(0, |head| head.revision).saturating_add(1);
        let columns = Columns::new(&append.info, revision, &append.entry.digest)?;
        let (id, agent) = (&*columns.info.id, &*columns.info.agent);
        let fence = append.fence.map(integer).transpose()?;
        let data = &*append.entry.data;
        let addresses: Vec<&[u8]> = append.blobs.iter().map(|blob| blob.address.0.as_slice()).collect();
        let blobs: Vec<&[u8]> = append.blobs.iter().map(|blob| &*blob.data).collect();
        let expected = append.expected.map(|head| head.digest);
        let expected = expected.as_ref().map(|digest| digest.0.as_slice());
        let mut parameters: Vec<&dyn Parameter> = columns.parameters(&id, &agent).to_vec();
        parameters.extend([&fence as &dyn Parameter, &data, &addresses, &blobs]);
        let sql = if append.expected.is_some() {
            parameters.push(&expected);
            &self.statements.append
        } else {
            &self.statements.create
        };
        let row = connection.query_one(sql, &parameters).await;
        let written: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| self.pool.failure(&error))?;
        if written == 1 { Ok(()) } else { Err(self.refused(connection, append).await?.into()) }
    }

    /// Finds out why an append has written nothing.
    async fn refused(&self, connection: &mut Connection, append: &Append) -> Result<StoreError, Failure> {
        let id = &append.info.id;
        let row = connection.query_opt(&self.statements.state, &[&&**id]).await;
        let row = row.map_err(|error| self.pool.failure(&error))?;
        let stored = row.as_ref().map(|row| self.head_of(id, row)).transpose()?;
        let fence: Option<i64> = match &row {
            Some(row) => row.try_get(2).map_err(|error| self.pool.failure(&error))?,
            None => None,
        };
        let checked = check_fence(id, append.fence, fence.map(i64::unsigned_abs))
            .and_then(|()| check_head(id, append.expected, stored));
        // The log may have become again what was expected: another writer has changed it all the same.
        Ok(checked
            .err()
            .unwrap_or(StoreError::Conflict { session: Arc::clone(id), deleted: stored.is_none() }))
    }

    pub(super) async fn replace(&self, replace: Replace) -> Result<(), Failure> {
        replace.validate()?;
        let mut lease = self.pool.get().await?;
        let result = self.replace_on(lease.connection(), &replace).await;
        lease.end(result)
    }

    async fn replace_on(&self, connection: &mut Connection, replace: &Replace) -> Result<(), Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let sql = &self.statements;
        let digest = replace.entries.last().map(|last| last.digest).unwrap_or_default();
        let columns = Columns::new(&replace.info, replace.revision, &digest)?;
        let (id, agent) = (&*columns.info.id, &*columns.info.agent);
        let parameters = columns.parameters(&id, &agent);
        let transaction = connection.transaction().await.map_err(failure)?;
        let row = transaction.query_opt(&sql.lock, &[&id]).await.map_err(failure)?;
        let stored = row.as_ref().map(|row| self.head_of(&replace.info.id, row)).transpose()?;
        check_head(&replace.info.id, replace.expected, stored)?;
        let key: i64 = if let Some(row) = row {
            let key = row.try_get(2).map_err(failure)?;
            transaction.execute(&sql.clear_entries, &[&key]).await.map_err(failure)?;
            transaction.execute(&sql.clear_blobs, &[&key]).await.map_err(failure)?;
            transaction.execute(&sql.replace, &parameters).await.map_err(failure)?;
            key
        } else {
            let inserted = transaction.query_opt(&sql.insert_session, &parameters).await.map_err(failure)?;
            let session = || Arc::clone(&replace.info.id);
            let row = inserted.ok_or_else(|| StoreError::Conflict { session: session(), deleted: false })?;
            row.try_get(0).map_err(failure)?
        };
        let count = i64::try_from(replace.entries.len()).unwrap_or(i64::MAX);
        self.insert_entries(&transaction, key, columns.revision - count + 1, &replace.entries).await?;
        self.insert_blobs(&transaction, key, &replace.blobs).await?;
        transaction.commit().await.map_err(failure)
    }

    pub(super) async fn insert_entries(
        &self,
        transaction: &Transaction<'_>,
        key: i64,
        mut revision: i64,
        entries: &[Entry],
    ) -> Result<(), Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let sql = &self.statements.insert_entries;
        for batch in batches(entries, |entry| entry.data.len()) {
            let digests: Vec<&[u8]> = batch.iter().map(|entry| entry.digest.0.as_slice()).collect();
            let data: Vec<&[u8]> = batch.iter().map(|entry| &*entry.data).collect();
            transaction.execute(sql, &[&key, &revision, &digests, &data]).await.map_err(failure)?;
            revision += i64::try_from(batch.len()).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    pub(super) async fn insert_blobs(
        &self,
        transaction: &Transaction<'_>,
        key: i64,
        blobs: &[Blob],
    ) -> Result<(), Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let sql = &self.statements.insert_blobs;
        for batch in batches(blobs, |blob| blob.data.len()) {
            let addresses: Vec<&[u8]> = batch.iter().map(|blob| blob.address.0.as_slice()).collect();
            let data: Vec<&[u8]> = batch.iter().map(|blob| &*blob.data).collect();
            transaction.execute(sql, &[&key, &addresses, &data]).await.map_err(failure)?;
        }
        Ok(())
    }

    pub(super) async fn read(&self, session: &str) -> Result<Option<Log>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.read_on(lease.connection(), session).await;
        lease.end(result)
    }

    async fn read_on(&self, connection: &mut Connection, session: &str) -> Result<Option<Log>, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let rows = connection.stream(&self.statements.read, &[&session]).await.map_err(failure)?;
        let mut rows = std::pin::pin!(rows);
        let mut entries = Vec::new();
        let mut last = None;
        let mut is_empty = true;
        let mut previous: Option<i64> = None;
        // Row by row: the whole log is in memory once.
        while let Some(row) = rows.try_next().await.map_err(failure)? {
            is_empty = false;
            let revision: Option<i64> = row.try_get(0).map_err(failure)?;
            let Some(revision) = revision else { break };
            if let Some(previous) = previous.filter(|previous| previous + 1 != revision) {
                return Err(self.corrupt(session, format!("entry {} is missing", previous + 1)).into());
            }
            previous = Some(revision);
            let digest = self.digest(session, row.try_get(1).map_err(failure)?)?;
            let data = Bytes::copy_from_slice(row.try_get(2).map_err(failure)?);
            entries.push(Entry { digest, data });
            let end: i64 = row.try_get(3).map_err(failure)?;
            last = (end == revision).then_some(row);
        }
        if is_empty {
            return Ok(None);
        }
        let Some(row) = last else {
            return Err(self.corrupt(session, "the last entry is missing".to_owned()).into());
        };
        let info = self.info_of(session, &row, 4)?;
        let revision: i64 = row.try_get(3).map_err(failure)?;
        Ok(Some(Log { revision: self.unsigned(session, revision)?, entries, info }))
    }

    pub(super) async fn blobs(
        &self,
        session: &str,
        addresses: &[Digest],
    ) -> Result<Vec<Option<Bytes>>, Failure> {
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let mut lease = self.pool.get().await?;
        let result = self.blobs_on(lease.connection(), session, addresses).await;
        lease.end(result)
    }

    async fn blobs_on(
        &self,
        connection: &mut Connection,
        session: &str,
        addresses: &[Digest],
    ) -> Result<Vec<Option<Bytes>>, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let wanted: Vec<&[u8]> = addresses.iter().map(|address| address.0.as_slice()).collect();
        let rows = connection.stream(&self.statements.blobs, &[&session, &wanted]).await.map_err(failure)?;
        let mut rows = std::pin::pin!(rows);
        let mut found: HashMap<Digest, Bytes> = HashMap::with_capacity(addresses.len());
        while let Some(row) = rows.try_next().await.map_err(failure)? {
            let address = self.digest(session, row.try_get(0).map_err(failure)?)?;
            found.insert(address, Bytes::copy_from_slice(row.try_get(1).map_err(failure)?));
        }
        Ok(addresses.iter().map(|address| found.get(address).cloned()).collect())
    }

    pub(super) async fn head(&self, session: &str) -> Result<Option<Head>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.head_on(lease.connection(), session).await;
        lease.end(result)
    }

    async fn head_on(&self, connection: &mut Connection, session: &str) -> Result<Option<Head>, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let row = connection.query_opt(&self.statements.state, &[&session]).await.map_err(failure)?;
        row.map(|row| self.head_of(session, &row)).transpose()
    }

    pub(super) async fn delete(&self, session: &str) -> Result<bool, Failure> {
        let mut lease = self.pool.get().await?;
        let deleted = lease.connection().execute(&self.statements.delete, &[&session]).await;
        let deleted = deleted.map(|rows| rows > 0).map_err(|error| self.pool.failure(&error));
        lease.end(deleted)
    }

    /// Reads the columns `revision` and `digest`, the first two.
    fn head_of(&self, session: &str, row: &Row) -> Result<Head, Failure> {
        let revision = row.try_get(0).map_err(|error| self.pool.failure(&error))?;
        let digest = row.try_get(1).map_err(|error| self.pool.failure(&error))?;
        Ok(Head { revision: self.unsigned(session, revision)?, digest: self.digest(session, digest)? })
    }

    /// Reads the columns from `agent` to `updated_at`; `first` is the number of the first one.
    pub(super) fn info_of(&self, session: &str, row: &Row, first: usize) -> Result<SessionInfo, Failure> {
        let failure = |error: tokio_postgres::Error| self.pool.failure(&error);
        let name: &str = row.try_get(first + 1).map_err(failure)?;
        let status = SessionStatus::ALL.into_iter().find(|status| status.as_str() == name);
        let status = status.ok_or_else(|| self.corrupt(session, "its status is unknown".to_owned()))?;
        let number = |column| {
            let number: i64 = row.try_get(first + column).map_err(failure)?;
            self.unsigned(session, number).map_err(Failure::from)
        };
        Ok(SessionInfo {
            id: session.into(),
            agent: row.try_get::<_, &str>(first).map_err(failure)?.into(),
            status,
            turns: number(2)?,
            nodes: number(3)?,
            bytes: number(4)?,
            updated_at: Timestamp::from_microseconds(row.try_get(first + 5).map_err(failure)?),
        })
    }

    fn digest(&self, session: &str, bytes: &[u8]) -> Result<Digest, StoreError> {
        Digest::from_slice(bytes).ok_or_else(|| self.corrupt(session, "a digest has not 32 bytes".to_owned()))
    }

    fn unsigned(&self, session: &str, number: i64) -> Result<u64, StoreError> {
        u64::try_from(number).map_err(|_| self.corrupt(session, "a number is negative".to_owned()))
    }

    fn corrupt(&self, session: &str, reason: String) -> StoreError {
        StoreError::Corrupt { store: Arc::clone(self.pool.name()), session: session.into(), reason }
    }
}

pub(super) fn integer(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Invalid(format!("{number} is too large for PostgreSQL")))
}

/// Splits a slice into parts of a limited size and number of items.
fn batches<T>(mut items: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    while !items.is_empty() {
        let mut total = 0;
        let fitting = items.iter().take(BATCH_ROWS).take_while(|item| {
            total += size(item);
            total <= BATCH_BYTES
        });
        let (batch, rest) = items.split_at(fitting.count().max(1));
        batches.push(batch);
        items = rest;
    }
    batches
}

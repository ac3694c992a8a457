//! Records.

use bytes::Bytes;
use tokio_postgres::{Error, Row};
use turntree_core::time::Timestamp;

use super::Database;
use super::connection::{Connection, Parameter, Transaction};
use super::log::integer;
use crate::engines::network::Failure;
use crate::records::{Record, RecordEntry, RecordId, RecordPut, RecordWrite};

/// The statements of records, with the names of the tables.
#[derive(Debug)]
pub(super) struct RecordStatements {
    record: String,
    update: String,
    insert: String,
    clear: String,
    entry: String,
    entries: String,
    delete_expired: String,
}

impl RecordStatements {
    /// The statements for tables with this qualifier.
    pub(super) fn new(qualifier: &str) -> Self {
        let with = |sql: &str| sql.replace("{p}", qualifier);
        Self {
            record: with(
                "SELECT version, data, expires_at FROM {p}turntree_records WHERE collection = $1 AND key = $2",
            ),
            update: with(
                "UPDATE {p}turntree_records SET version = version + 1, data = $4, expires_at = $5 \
                 WHERE collection = $1 AND key = $2 AND version = $3 RETURNING number",
            ),
            // An expired record counts as absent.
            insert: with(
                "INSERT INTO {p}turntree_records AS record (collection, key, version, data, expires_at) \
                 VALUES ($1, $2, 1, $3, $4) ON CONFLICT (collection, key) DO UPDATE \
                 SET version = 1, data = excluded.data, expires_at = excluded.expires_at \
                 WHERE record.expires_at <= $5 RETURNING number",
            ),
            clear: with("DELETE FROM {p}turntree_record_entries WHERE record = $1"),
            entry: with("INSERT INTO {p}turntree_record_entries (record, version, data) VALUES ($1, $2, $3)"),
            entries: with(
                "SELECT entry.version, entry.data FROM {p}turntree_record_entries AS entry \
                 JOIN {p}turntree_records AS record ON record.number = entry.record \
                 WHERE record.collection = $1 AND record.key = $2 AND entry.version > $3 \
                 ORDER BY entry.version LIMIT $4",
            ),
            delete_expired: with(
                "DELETE FROM {p}turntree_records WHERE number IN (SELECT number FROM {p}turntree_records \
                 WHERE collection = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED)",
            ),
        }
    }
}

fn microseconds(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::microseconds)
}

impl Database {
    pub(super) async fn record(&self, id: &RecordId) -> Result<Option<Record>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.record_on(lease.connection(), id).await;
        lease.end(result)
    }

    async fn record_on(&self, connection: &mut Connection, id: &RecordId) -> Result<Option<Record>, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let row = connection.query_opt(&self.records.record, &[&&*id.collection, &&*id.key]).await;
        row.map_err(failure)?.map(|row| record_of(&row)).transpose().map_err(failure)
    }

    pub(super) async fn write_records(&self, write: &RecordWrite) -> Result<bool, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.write_records_on(lease.connection(), write).await;
        lease.end(result)
    }

    async fn write_records_on(
        &self,
        connection: &mut Connection,
        write: &RecordWrite,
    ) -> Result<bool, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let transaction = connection.transaction().await.map_err(failure)?;
        // All writers lock rows in this order, so that they do not wait for each other in a circle.
        let mut puts: Vec<&RecordPut> = write.puts.iter().collect();
        puts.sort_by(|left, right| left.id.cmp(&right.id));
        for put in puts {
            if !self.put_on(&transaction, put, write.now).await? {
                transaction.rollback().await.map_err(failure)?;
                return Ok(false);
            }
        }
        transaction.commit().await.map_err(failure)?;
        Ok(true)
    }

    /// Writes one record. Returns false if it does not have the expected version.
    async fn put_on(
        &self,
        transaction: &Transaction<'_>,
        put: &RecordPut,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let (sql, expires_at) = (&self.records, microseconds(put.expires_at));
        let (collection, key, data) = (&*put.id.collection, &*put.id.key, &*put.data);
        let (row, version) = if let Some(expected) = put.expected {
            let expected = integer(expected)?;
            let values = (collection, key, expected, data, expires_at);
            let values: [&dyn Parameter; 5] = [&values.0, &values.1, &values.2, &values.3, &values.4];
            (transaction.query_opt(&sql.update, &values).await, expected.saturating_add(1))
        } else {
            let values = (collection, key, data, expires_at, now.microseconds());
            let values: [&dyn Parameter; 5] = [&values.0, &values.1, &values.2, &values.3, &values.4];
            (transaction.query_opt(&sql.insert, &values).await, 1)
        };
        let row = row.map_err(failure)?;
        let Some(row) = row else { return Ok(false) };
        let number: i64 = row.try_get(0).map_err(failure)?;
        if put.expected.is_none() {
            transaction.execute(&sql.clear, &[&number]).await.map_err(failure)?;
        }
        if let Some(entry) = &put.entry {
            transaction.execute(&sql.entry, &[&number, &version, &&**entry]).await.map_err(failure)?;
        }
        Ok(true)
    }

    pub(super) async fn record_entries(
        &self,
        id: &RecordId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RecordEntry>, Failure> {
        let mut lease = self.pool.get().await?;
        let result = self.record_entries_on(lease.connection(), id, after, limit).await;
        lease.end(result)
    }

    async fn record_entries_on(
        &self,
        connection: &mut Connection,
        id: &RecordId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RecordEntry>, Failure> {
        let failure = |error: Error| self.pool.failure(&error);
        let (after, limit) = (integer(after)?, limit_of(limit));
        let parameters: [&dyn Parameter; 4] = [&&*id.collection, &&*id.key, &after, &limit];
        let rows = connection.query(&self.records.entries, &parameters).await;
        let entries = rows.map_err(failure)?.iter().map(entry_of).collect::<Result<_, _>>();
        entries.map_err(failure)
    }

    pub(super) async fn delete_expired(
        &self,
        collection: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<u64, Failure> {
        let mut lease = self.pool.get().await?;
        let values = (collection, now.microseconds(), limit_of(limit));
        let deleted = lease
            .connection()
            .execute(&self.records.delete_expired, &[&values.0, &values.1, &values.2])
            .await
            .map_err(|error| self.pool.failure(&error));
        lease.end(deleted)
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn record_of(row: &Row) -> Result<Record, Error> {
    let expires_at: Option<i64> = row.try_get(2)?;
    Ok(Record {
        version: row.try_get::<_, i64>(0)?.unsigned_abs(),
        data: Bytes::from(row.try_get::<_, Vec<u8>>(1)?),
        expires_at: expires_at.map(Timestamp::from_microseconds),
    })
}

fn entry_of(row: &Row) -> Result<RecordEntry, Error> {
    Ok(RecordEntry {
        version: row.try_get::<_, i64>(0)?.unsigned_abs(),
        data: Bytes::from(row.try_get::<_, Vec<u8>>(1)?),
    })
}

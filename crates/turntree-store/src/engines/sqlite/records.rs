//! The statements of records.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use turntree_core::time::Timestamp;

use super::failure::Failure;
use crate::records::{Record, RecordEntry, RecordId, RecordPut, RecordWrite};

/// A stored row: its number, its version and when it expires.
type Found = (i64, u64, Option<i64>);

fn find(connection: &Connection, id: &RecordId) -> Result<Option<Found>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT number, version, expires_at FROM records WHERE collection = ?1 AND key = ?2",
    )?;
    let row =
        statement.query_row([&id.collection, &id.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    Ok(row.optional()?)
}

fn is_expected(found: Option<&Found>, put: &RecordPut, now: Timestamp) -> bool {
    match (put.expected, found) {
        (Some(expected), Some((_, version, _))) => expected == *version,
        (Some(_), None) => false,
        (None, found) => found.is_none_or(|(_, _, expires_at)| {
            expires_at.is_some_and(|expires_at| expires_at <= now.microseconds())
        }),
    }
}

pub(super) fn record(connection: &Connection, id: &RecordId) -> Result<Option<Record>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT version, data, expires_at FROM records WHERE collection = ?1 AND key = ?2")?;
    let row = statement.query_row([&id.collection, &id.key], |row| {
        let expires_at: Option<i64> = row.get(2)?;
        Ok(Record {
            version: row.get(0)?,
            data: Bytes::from(row.get::<_, Vec<u8>>(1)?),
            expires_at: expires_at.map(Timestamp::from_microseconds),
        })
    });
    Ok(row.optional()?)
}

/// All records are checked before one is written: a job that returns has changed everything or nothing.
pub(super) fn write(connection: &Connection, write: &RecordWrite) -> Result<bool, Failure> {
    let mut found = Vec::with_capacity(write.puts.len());
    for put in &write.puts {
        let row = find(connection, &put.id)?;
        if !is_expected(row.as_ref(), put, write.now) {
            return Ok(false);
        }
        found.push(row);
    }
    for (put, row) in write.puts.iter().zip(found) {
        let expires_at = put.expires_at.map(Timestamp::microseconds);
        let version = put.expected.unwrap_or_default() + 1;
        let number = match (row, put.expected) {
            (Some((number, ..)), Some(_)) => {
                connection
                    .prepare_cached(
                        "UPDATE records SET version = ?2, data = ?3, expires_at = ?4 WHERE number = ?1",
                    )?
                    .execute(params![number, version, &*put.data, expires_at])?;
                number
            }
            (expired, _) => {
                if let Some((number, ..)) = expired {
                    delete(connection, number)?;
                }
                connection
                    .prepare_cached(
                        "INSERT INTO records (collection, key, version, data, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![&*put.id.collection, &*put.id.key, version, &*put.data, expires_at])?;
                connection.last_insert_rowid()
            }
        };
        if let Some(entry) = &put.entry {
            connection
                .prepare_cached("INSERT INTO record_entries (record, version, data) VALUES (?1, ?2, ?3)")?
                .execute(params![number, version, &**entry])?;
        }
    }
    Ok(true)
}

fn delete(connection: &Connection, number: i64) -> Result<(), Failure> {
    connection.prepare_cached("DELETE FROM record_entries WHERE record = ?1")?.execute([number])?;
    connection.prepare_cached("DELETE FROM records WHERE number = ?1")?.execute([number])?;
    Ok(())
}

pub(super) fn entries(
    connection: &Connection,
    id: &RecordId,
    after: u64,
    limit: usize,
) -> Result<Vec<RecordEntry>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT entry.version, entry.data FROM record_entries AS entry \
         JOIN records AS record ON record.number = entry.record \
         WHERE record.collection = ?1 AND record.key = ?2 AND entry.version > ?3 ORDER BY entry.version LIMIT ?4",
    )?;
    let rows = statement.query_map(params![&*id.collection, &*id.key, after, limit], |row| {
        Ok(RecordEntry { version: row.get(0)?, data: Bytes::from(row.get::<_, Vec<u8>>(1)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn delete_expired(
    connection: &Connection,
    collection: &str,
    now: Timestamp,
    limit: usize,
) -> Result<u64, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT number FROM records WHERE collection = ?1 AND expires_at <= ?2 ORDER BY expires_at LIMIT ?3",
    )?;
    let numbers: Vec<i64> = statement
        .query_map(params![collection, now.microseconds(), limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for number in &numbers {
        delete(connection, *number)?;
    }
    Ok(numbers.len() as u64)
}

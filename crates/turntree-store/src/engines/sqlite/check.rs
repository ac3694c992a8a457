//! Finds defects of the file.

use std::sync::Arc;

use rusqlite::Connection;

use super::failure::{Failure, SqliteFailure};
use super::log;
use crate::engine::StoreIssue;

/// The largest number of defects that SQLite lists.
const MAX_DEFECTS: u32 = 100;

/// Checks pages, indexes, references and counters. If pages are damaged, reads every session to find those that are
/// affected.
pub(super) fn check(connection: &Connection) -> Result<Vec<StoreIssue>, Failure> {
    let mut issues = Vec::new();
    note(&mut issues, pages(connection))?;
    let has_damage = !issues.is_empty();
    note(&mut issues, references(connection))?;
    note(&mut issues, counters(connection))?;
    if has_damage {
        note(&mut issues, sessions(connection))?;
    }
    Ok(issues)
}

/// Adds defects. An error that says that data is damaged is a defect too.
fn note(issues: &mut Vec<StoreIssue>, found: Result<Vec<StoreIssue>, Failure>) -> Result<(), Failure> {
    match found {
        Ok(found) => issues.extend(found),
        Err(Failure::Sqlite(failure)) if failure.is_damage() => {
            issues.push(whole(failure.message().to_owned()))
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

fn whole(message: String) -> StoreIssue {
    StoreIssue { session: None, message }
}

fn pages(connection: &Connection) -> Result<Vec<StoreIssue>, Failure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_DEFECTS})"))?;
    let messages = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(messages.into_iter().filter(|message| message != "ok").map(whole).collect())
}

fn references(connection: &Connection) -> Result<Vec<StoreIssue>, Failure> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let rows = statement.query_map([], |row| {
        let (table, row): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(whole(format!("row {} of the table \"{table}\" has no session", row.unwrap_or_default())))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The revisions of each session have no gaps, and each session has entries.
fn counters(connection: &Connection) -> Result<Vec<StoreIssue>, Failure> {
    let mut statement = connection.prepare(
        "WITH logs AS (SELECT key >> 32 AS number, count(*) AS entries, max(key) - min(key) + 1 AS revisions \
         FROM entries GROUP BY key >> 32) \
         SELECT sessions.id, logs.entries, logs.revisions, coalesce(logs.number, sessions.number) \
         FROM sessions FULL JOIN logs ON sessions.number = logs.number \
         WHERE sessions.id IS NULL OR logs.number IS NULL OR logs.entries <> logs.revisions",
    )?;
    let rows = statement.query_map([], |row| {
        let session: Option<String> = row.get(0)?;
        let (entries, revisions): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let number: i64 = row.get(3)?;
        let message = match (&session, entries.zip(revisions)) {
            (None, _) => format!("entries belong to session number {number}, which does not exist"),
            (Some(_), None) => "the session has no entries".to_owned(),
            (Some(_), Some((entries, revisions))) => {
                format!("{} of {revisions} entries are missing", revisions - entries)
            }
        };
        Ok(StoreIssue { session: session.map(Arc::from), message })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads all sessions and returns those that cannot be read.
fn sessions(connection: &Connection) -> Result<Vec<StoreIssue>, Failure> {
    let mut statement = connection.prepare("SELECT id FROM sessions")?;
    let ids = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut issues = Vec::new();
    for id in ids {
        let message = match log::read(connection, &id) {
            Ok(_) => continue,
            Err(Failure::Sqlite(failure)) => SqliteFailure::message(&failure).to_owned(),
            Err(Failure::Damaged(reason)) => reason,
            Err(Failure::Refused(error)) => error.to_string(),
        };
        issues.push(StoreIssue { session: Some(id.into()), message });
    }
    Ok(issues)
}

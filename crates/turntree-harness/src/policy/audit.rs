//! The append-only record of decisions. Each entry has the hash of the one before it.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use turntree_store::engines::sqlite::Failure;

use super::action::Action;
use super::decision::Decision;
use crate::error::HarnessError;
use crate::state::{State, hex};

/// The hash before the first entry.
const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An entry of the audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub number: i64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The session.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The harness.
    pub harness: String,
    /// The tool.
    pub tool: String,
    /// The facts of the action.
    pub facts: Value,
    /// The outcome.
    pub outcome: String,
    /// The findings.
    pub rules: Value,
    /// Its hash.
    pub hash: String,
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

/// Adds a decision.
pub(crate) fn append(
    state: &State,
    at: i64,
    action: &Action,
    decision: &Decision,
) -> Result<(), HarnessError> {
    let mut facts = action.facts().to_string();
    if super::rules::secrets::scan(&facts).is_some() {
        facts = json!({"kind": action.tool(), "cwd": action.cwd, "hidden": "the action has a secret"})
            .to_string();
    }
    let action_hash = hash(&[&facts]);
    let full = decision.to_json();
    let part = |key: &str| full.get(key).cloned().unwrap_or_default().to_string();
    let (rules, shadow) = (part("rules"), part("shadow"));
    let outcome = decision.outcome.as_str();
    let latency = i64::try_from(decision.latency_us).unwrap_or(i64::MAX);
    let who =
        [action.session.clone(), action.agent.clone(), action.harness.clone(), action.tool().to_owned()];
    state.write(move |connection| {
        let previous = last_hash(connection)?;
        let [session, agent, harness, tool] = &who;
        let own = hash(&[&previous, &at.to_string(), session, agent, harness, tool, &facts, outcome, &rules, &shadow]);
        let mut statement = connection.prepare_cached(
            "INSERT INTO policy_event (at, session, agent, harness, tool, action_hash, facts, outcome, rules, shadow, \
             latency_us, previous_hash, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        statement.execute(rusqlite::params![
            at, session, agent, harness, tool, action_hash, facts, outcome, rules, shadow, latency, previous, own
        ])?;
        Ok(())
    })
}

fn last_hash(connection: &Connection) -> Result<String, Failure> {
    // Not that of the newest entry: a new one must not close the gap that a removed one has left.
    let mut statement = connection.prepare_cached("SELECT hash FROM audit_head")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?.unwrap_or_else(|| START.to_owned()))
}

/// The newest entries, newest first.
///
/// # Errors
/// The errors of the state file.
pub fn entries(state: &State, limit: u32) -> Result<Vec<Entry>, HarnessError> {
    state.read(move |connection| {
        let mut statement = connection.prepare_cached(
            "SELECT number, at, session, agent, harness, tool, facts, outcome, rules, hash FROM policy_event \
             ORDER BY number DESC LIMIT ?1",
        )?;
        let entries = statement.query_map([limit], |row| {
            let json = |index| -> rusqlite::Result<Value> {
                Ok(serde_json::from_str(&row.get::<_, String>(index)?).unwrap_or(Value::Null))
            };
            Ok(Entry {
                number: row.get(0)?,
                at: row.get(1)?,
                session: row.get(2)?,
                agent: row.get(3)?,
                harness: row.get(4)?,
                tool: row.get(5)?,
                facts: json(6)?,
                outcome: row.get(7)?,
                rules: json(8)?,
                hash: row.get(9)?,
            })
        })?;
        Ok(entries.collect::<Result<_, _>>()?)
    })
}

/// Checks the chain and returns the number of entries.
///
/// # Errors
/// [`HarnessError::IntegrityViolation`] with the number of the first entry that does not fit.
pub fn verify(state: &State) -> Result<u64, HarnessError> {
    let broken = state.read(|connection| {
        let mut statement = connection.prepare(
            "SELECT number, at, session, agent, harness, tool, facts, outcome, rules, shadow, previous_hash, hash \
             FROM policy_event ORDER BY number",
        )?;
        let mut rows = statement.query([])?;
        let (mut previous, mut count, mut newest) = (START.to_owned(), 0_u64, 0_i64);
        while let Some(row) = rows.next()? {
            let text = |index| row.get::<_, String>(index);
            let at: i64 = row.get(1)?;
            let texts = [text(2)?, text(3)?, text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?];
            let mut parts = vec![previous.clone(), at.to_string()];
            parts.extend(texts);
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let own = text(11)?;
            if text(10)? != previous || hash(&parts) != own {
                return Ok(Err(row.get::<_, i64>(0)?));
            }
            previous = own;
            count += 1;
            newest = row.get(0)?;
        }
        if last_hash(connection)? != previous {
            return Ok(Err(newest + 1));
        }
        Ok(Ok(count))
    })?;
    broken.map_err(|number| {
        HarnessError::IntegrityViolation(format!(
            "the audit was changed: entry {number} was removed or does not fit the one before it; compare state.db with a backup"
        ))
    })
}
